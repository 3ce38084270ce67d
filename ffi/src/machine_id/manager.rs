//! `LeaseMachines::MachineId`

use std::sync::Arc;
use std::time::Duration;

use lease_machines_id::{
    CallOptions, Counter, Id64, IdError, Manager, Options, Reason, StartError, Strategy,
};
use magnus::{Error, RArray, RClass, Ruby, Symbol, TryConvert, Value, method, prelude::*, typed_data::Obj};

use super::factory::{self, Factory};
use super::inbox::{Inbox, Message, start_reason};
use super::layout::Layout;
use super::strategy::{Chosen, described};
use crate::process::{self, Own};
use crate::{build, errors, time, wait};

#[magnus::wrap(class = "LeaseMachines::MachineId", free_immediately, size)]
pub(crate) struct MachineId {
    /// What most ask for.
    counter: Arc<Counter<Id64>>,
    manager: Own<Arc<Manager>>,
}

/// What is not taken back by then ends with its lease.
const WITHDRAWAL: Duration = Duration::from_secs(5);

/// Where nobody waits for a start any more, it asks for nothing more either, and what it may have been granted without an
/// answer is taken back.
struct Waiting {
    strategy: Own<Chosen>,
    /// It has started, or failed and taken back what there was.
    is_answered: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // In a child, what is asked for is the parent's.
        let Some(strategy) = self.strategy.take().filter(|_| !self.is_answered) else { return };
        strategy.give_up();
        process::detach_blocking(move || strategy.withdraw(&CallOptions::new(WITHDRAWAL)));
    }
}

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    class.singleton_class()?.define_private_method("_start", method!(start, 8))?;
    class.define_method("next_id", method!(next_id, 0))?;
    class.define_method("next_batch", method!(next_batch, 1))?;
    class.define_method("machine_id", method!(machine_id, 0))?;
    class.define_private_method("_factory", method!(a_factory, 3))?;
    class.define_method("report_lost", method!(report_lost, 0))?;
    class.define_method("stop", method!(stop, 0))
}

#[expect(clippy::too_many_arguments, reason = "the wrapper's keywords, by position")]
fn start(
    ruby: &Ruby,
    class: RClass,
    strategy: RArray,
    inbox: Obj<Inbox>,
    lease_duration: Value,
    renew_interval: Value,
    acquire_timeout: Value,
    max_clock_skew: Value,
    clock_patience: Value,
    layouts: RArray,
) -> Result<Obj<MachineId>, Error> {
    let mut options = Options::new()
        .lease_duration(time::from_ruby(ruby, "lease_duration", lease_duration)?)
        .renew_interval(time::from_ruby(ruby, "renew_interval", renew_interval)?)
        .max_clock_skew(time::from_ruby(ruby, "max_clock_skew", max_clock_skew)?)
        .clock_patience(time::from_ruby(ruby, "clock_patience", clock_patience)?)
        .acquire_timeout(if acquire_timeout.is_nil() {
            None
        } else {
            Some(time::from_ruby(ruby, "acquire_timeout", acquire_timeout)?)
        });
    let mut widths = Vec::new();
    for layout in layouts {
        let layout = <&Layout>::try_convert(layout)?;
        if widths.contains(&layout.bits()) {
            let why = format!("layouts must be of different widths, found two of {} bits", layout.bits());
            return Err(errors::argument(ruby, why));
        }
        widths.push(layout.bits());
        options = layout.apply(options);
    }
    let Some(sender) = inbox.take_sender() else {
        return Err(errors::argument(ruby, "the inbox was used before".to_owned()));
    };
    let strategy = Chosen::new(described(ruby, strategy, options.max_machine_id(), &sender)?);
    let mut waiting = Waiting { strategy: Own::new(strategy.clone()), is_answered: false };
    // The only sender that lasts: a manager lets go of its listener when it has ended, and has told of it.
    let listener = move |notice| {
        let _ = sender.send(Message::Notice(notice));
    };
    let answer = wait::for_work(ruby, move || Manager::start_with(strategy, options, listener))?;
    waiting.is_answered = true;
    let manager = match answer {
        Ok(manager) => manager,
        Err(StartError::Options(error)) => return Err(errors::argument(ruby, error.to_string())),
        Err(error) => return Err(errors::not_started(ruby, start_reason(&error), &error.to_string())),
    };
    let counter = Arc::new(manager.counter());
    Ok(ruby.obj_wrap_as(MachineId { counter, manager: Own::new(Arc::new(manager)) }, class))
}

fn next_id(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let this = match build::wrapped::<MachineId>(this) {
        Some(this) => this,
        None => <&MachineId>::try_convert(this)?,
    };
    factory::one(ruby, &this.counter)
}

fn next_batch(ruby: &Ruby, this: &MachineId, count: Value) -> Result<RArray, Error> {
    factory::many(ruby, &this.counter, count)
}

fn machine_id(this: &MachineId) -> Option<u16> {
    this.manager.get()?.machine_id()
}

fn a_factory(
    ruby: &Ruby,
    this: Obj<MachineId>,
    kind: Symbol,
    bits: Value,
    key: Value,
) -> Result<Obj<Factory>, Error> {
    let Some(manager) = this.manager.get() else {
        return Err(errors::id(ruby, IdError::Disabled(Reason::Forked)));
    };
    let factory = ruby.obj_wrap(factory::of(ruby, manager, kind, bits, key)?);
    // What makes IDs keeps what keeps the machine ID. Without an @ it is nobody else's to see.
    factory.ivar_set("machine_id", this)?;
    Ok(factory)
}

fn report_lost(this: &MachineId) {
    if let Some(manager) = this.manager.get() {
        manager.report_lost();
    }
}

/// Who calls it while it stops waits as well. It stops also where nobody waits any more.
fn stop(ruby: &Ruby, this: &MachineId) -> Result<(), Error> {
    let Some(manager) = this.manager.get().map(Arc::clone) else { return Ok(()) };
    wait::for_work(ruby, move || manager.stop())
}
