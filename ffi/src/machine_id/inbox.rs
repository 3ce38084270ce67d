//! What a manager's threads want of Ruby: calls of a strategy that is written in Ruby, and notices. A thread of Ruby's
//! takes them out, one after the other.

use std::sync::Arc;
use std::sync::Mutex as Plain;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use lease_machines_id::{Notice, Reason, StartError};
use magnus::{Error, IntoValue, RArray, RClass, Ruby, Symbol, Value, method, prelude::*, typed_data::Obj};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::strategy::{Reply, kind};
use crate::process::Own;
use crate::{errors, numbers, time, wait};

/// One thing that is wanted.
pub(super) enum Message {
    Call(Call),
    Notice(Notice),
    /// A lease that nobody will ask for any more.
    Forget(u64),
}

/// A call of a strategy. Leases have numbers: the one that it is about, and the one that is to be kept from it.
pub(super) enum Wanted {
    Acquire { to: u64, lease_duration: Duration, limit: Duration },
    Renew { from: u64, to: u64, lease_duration: Duration, limit: Duration },
    Release { from: u64, limit: Duration, last_used: Option<Duration> },
}

/// It is answered once. One that is dropped without an answer is unanswered.
#[magnus::wrap(class = "LeaseMachines::MachineId::Call", free_immediately, size)]
pub(crate) struct Call {
    wanted: Wanted,
    reply: Plain<Own<SyncSender<Reply>>>,
}

#[magnus::wrap(class = "LeaseMachines::MachineId::Inbox", free_immediately, size)]
pub(crate) struct Inbox {
    /// Taken by the start, for the manager's listener: the inbox ends when the manager does, whoever still has that.
    sender: Plain<Own<UnboundedSender<Message>>>,
    receiver: Own<Arc<Mutex<UnboundedReceiver<Message>>>>,
}

pub(crate) fn define(_: &Ruby, machine_id: RClass) -> Result<(), Error> {
    let class: RClass = machine_id.const_get("Inbox")?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", method!(new, 0))?;
    class.define_method("take", method!(take, 0))?;
    class.define_method("close", method!(close, 0))?;
    class.define_method("refuse", method!(refuse, 0))?;
    let class: RClass = machine_id.const_get("Call")?;
    class.undef_default_alloc_func();
    class.define_method("wanted", method!(wanted, 0))?;
    class.define_method("acquired", method!(acquired, 2))?;
    class.define_method("renewed", method!(renewed, 1))?;
    class.define_method("released", method!(released, 0))?;
    class.define_method("failed", method!(failed, 2))
}

impl Inbox {
    pub(super) fn take_sender(&self) -> Option<UnboundedSender<Message>> {
        self.sender.lock().ok()?.take()
    }
}

impl Call {
    pub(super) fn new(wanted: Wanted, reply: SyncSender<Reply>) -> Self {
        Self { wanted, reply: Plain::new(Own::new(reply)) }
    }

    /// Whether this was the answer.
    fn answer(&self, reply: Reply) -> bool {
        let sender = self.reply.lock().ok().and_then(|mut reply| reply.take());
        sender.is_some_and(|sender| sender.send(reply).is_ok())
    }
}

fn new(ruby: &Ruby, class: RClass) -> Obj<Inbox> {
    let (sender, receiver) = unbounded_channel();
    let receiver = Own::new(Arc::new(Mutex::new(receiver)));
    let inbox = Inbox { sender: Plain::new(Own::new(sender)), receiver };
    ruby.obj_wrap_as(inbox, class)
}

/// The next message, waited for: a Call, the number of a lease to forget, a notice as an Array, or nil at the end.
fn take(ruby: &Ruby, this: &Inbox) -> Result<Value, Error> {
    let Some(receiver) = this.receiver.get().map(Arc::clone) else { return Ok(ruby.qnil().as_value()) };
    match wait::for_answer(ruby, async move { receiver.lock().await.recv().await })? {
        None => Ok(ruby.qnil().as_value()),
        Some(Message::Call(call)) => Ok(ruby.obj_wrap(call).as_value()),
        Some(Message::Forget(number)) => Ok(ruby.integer_from_u64(number).as_value()),
        Some(Message::Notice(notice)) => Ok(notice_of(ruby, &notice).as_value()),
    }
}

/// Where the start failed before it took the sender.
fn close(this: &Inbox) {
    drop(this.take_sender());
}

/// Where nobody takes anything out any more: whoever waits for an answer, or asks later, is told at once that there is none.
fn refuse(this: &Inbox) {
    if let Some(mut receiver) = this.receiver.get().and_then(|receiver| receiver.try_lock().ok()) {
        receiver.close();
        while receiver.try_recv().is_ok() {}
    }
}

/// `[name, from, to, lease_duration, limit, last_used]`
fn wanted(ruby: &Ruby, this: &Call) -> RArray {
    let nil = ruby.qnil().as_value();
    let number = |number: u64| ruby.integer_from_u64(number).as_value();
    let seconds = |span: Duration| ruby.float_from_f64(time::to_seconds(span)).as_value();
    let name = |name: &str| ruby.to_symbol(name).as_value();
    ruby.ary_new_from_values(&match this.wanted {
        Wanted::Acquire { to, lease_duration, limit } => {
            [name("acquire"), nil, number(to), seconds(lease_duration), seconds(limit), nil]
        }
        Wanted::Renew { from, to, lease_duration, limit } => {
            [name("renew"), number(from), number(to), seconds(lease_duration), seconds(limit), nil]
        }
        Wanted::Release { from, limit, last_used } => {
            [name("release"), number(from), nil, nil, seconds(limit), last_used.map_or(nil, seconds)]
        }
    })
}

fn acquired(ruby: &Ruby, this: &Call, machine_id: Value, ttl: Value) -> Result<(), Error> {
    let found = numbers::count(ruby, "machine_id", machine_id)?;
    let machine_id = u16::try_from(found)
        .map_err(|_| errors::range(ruby, format!("machine_id must be in 0..65535, not {found}")))?;
    this.answer(Reply::Acquired(machine_id, time::from_ruby(ruby, "ttl", ttl)?));
    Ok(())
}

fn renewed(ruby: &Ruby, this: &Call, ttl: Value) -> Result<(), Error> {
    this.answer(Reply::Renewed(time::from_ruby(ruby, "ttl", ttl)?));
    Ok(())
}

fn released(this: &Call) {
    this.answer(Reply::Released);
}

fn failed(this: &Call, kind: Symbol, said: String) -> Result<bool, Error> {
    Ok(this.answer(Reply::Failed(kind.name()?.into_owned(), said)))
}

/// `[name, machine_id, ttl, reason, message]`
fn notice_of(ruby: &Ruby, notice: &Notice) -> RArray {
    let (name, machine_id, ttl, reason, message) = match notice {
        Notice::Acquired { machine_id, ttl } => ("acquired", Some(*machine_id), Some(*ttl), None, None),
        Notice::NotAcquired { why } => {
            ("not_acquired", None, None, Some(start_reason(why)), Some(why.to_string()))
        }
        Notice::Renewed { machine_id, ttl } => ("renewed", Some(*machine_id), Some(*ttl), None, None),
        Notice::NotRenewed { machine_id, why } => {
            ("not_renewed", Some(*machine_id), None, Some("retry"), Some(why.clone()))
        }
        Notice::Lost { machine_id, reason, why } => {
            ("lost", Some(*machine_id), None, Some(disabled_reason(*reason)), Some(why.clone()))
        }
        Notice::Conflict { why } => ("conflict", None, None, Some("conflict"), Some(why.clone())),
        Notice::Released { machine_id } => ("released", Some(*machine_id), None, None, None),
        Notice::RunsShort { left } => (
            "runs_short",
            None,
            None,
            None,
            Some(format!("of {} machine IDs {} are left", left.of, left.free)),
        ),
        Notice::TimeRunsOut { bits, left } => (
            "time_runs_out",
            None,
            Some(*left),
            None,
            Some(format!("the time of IDs of {bits} bits runs out")),
        ),
        _ => ("other", None, None, None, Some(format!("{notice:?}"))),
    };
    ruby.ary_new_from_values(&[
        ruby.to_symbol(name).as_value(),
        machine_id.into_value_with(ruby),
        ttl.map(time::to_seconds).into_value_with(ruby),
        reason.map(|reason| ruby.to_symbol(reason)).into_value_with(ruby),
        message.into_value_with(ruby),
    ])
}

pub(super) fn start_reason(error: &StartError) -> &'static str {
    match error {
        StartError::Acquire(error) => kind(error),
        StartError::IllegalTtl(_) => "illegal_ttl",
        StartError::ClockSkew { .. } => "clock_skew",
        StartError::NoThread(_) => "resources",
        StartError::Stopped => "stopped",
        _ => "other",
    }
}

/// The Symbol of why a factory is off.
pub(crate) fn disabled_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Expired => "expired",
        Reason::Forked => "forked",
        Reason::Lost => "lost",
        Reason::IllegalTtl => "illegal_ttl",
        Reason::Signalled => "signalled",
        Reason::Stopped => "stopped",
        Reason::MachineIdTooLarge => "machine_id_too_large",
        _ => "other",
    }
}
