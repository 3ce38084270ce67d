//! Strategies: the built-in ones by what describes them, and those of Ruby's by what is sent to Ruby and answered there.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_machines::SlotRange;
use lease_machines_id::{
    AcquireError, Acquired, CallOptions, EnvironmentVariable, Fixed, Guarded, HostIdentifiers, LeaseHandle,
    Left, PoolLease, RenewError, Renewed, Strategy,
};
use lease_machines_os::PerProcess;
use magnus::{Error, RArray, RString, Ruby, Symbol, Value, prelude::*};
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};

use super::inbox::{Call, Message, Wanted};
use crate::store::{Store, name, text};
use crate::{errors, time};

/// What a start was told to use. Its asking can be ended from outside, where nobody waits for the start any more.
#[derive(Clone)]
pub(super) struct Chosen {
    strategy: Arc<dyn Strategy>,
    given_up: Arc<AtomicBool>,
}

impl Chosen {
    pub(super) fn new(strategy: Box<dyn Strategy>) -> Self {
        Self { strategy: Arc::from(strategy), given_up: Arc::default() }
    }

    /// Nothing is asked for any more.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl Strategy for Chosen {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(AcquireError::Misconfigured("the start was interrupted".to_owned()));
        }
        self.strategy.acquire(lease_duration, options)
    }

    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        self.strategy.renew(lease, lease_duration, options)
    }

    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        self.strategy.release(lease, options);
    }

    fn withdraw(&self, options: &CallOptions) {
        self.strategy.withdraw(options);
    }

    fn deterministic(&self) -> bool {
        self.strategy.deterministic()
    }

    fn cool_down(&self) -> Option<Duration> {
        self.strategy.cool_down()
    }

    fn left(&self, options: &CallOptions) -> Option<Left> {
        self.strategy.left(options)
    }
}

/// From `[kind, …]`, as `lib/` describes one. `most` is the greatest machine ID that can be used.
pub(super) fn described(
    ruby: &Ruby,
    description: RArray,
    most: u16,
    sender: &UnboundedSender<Message>,
) -> Result<Box<dyn Strategy>, Error> {
    if let Some(strategy) = written_down(ruby, description)? {
        return Ok(Box::new(Once(strategy)));
    }
    let kind: Symbol = description.entry(0)?;
    match &*kind.name()? {
        "guarded" => {
            let inner = description.entry(1)?;
            let strategy = match written_down(ruby, inner)? {
                Some(strategy) => strategy,
                None => described(ruby, inner, most, sender)?,
            };
            let identity = text(ruby, "identity", description.entry(3)?)?;
            Ok(Box::new(Guarded::new(strategy, pool(ruby, description.entry(2)?)?.0, identity)))
        }
        "pool" => match pool(ruby, description)? {
            (pool, last) if last <= u32::from(most) => Ok(Box::new(pool)),
            (_, last) => {
                let why = format!(
                    "the pool has numbers up to {last}, and no layout has room for more than {most}: name a range"
                );
                Err(errors::argument(ruby, why))
            }
        },
        _ => Ok(Box::new(OfRuby {
            sender: sender.downgrade(),
            deterministic: description.entry::<Value>(1)?.to_bool(),
            leases: AtomicU64::new(0),
        })),
    }
}

/// One whose machine ID nobody hands out.
fn written_down(ruby: &Ruby, description: RArray) -> Result<Option<Box<dyn Strategy>>, Error> {
    let what: Symbol = description.entry(0)?;
    let strategy: Box<dyn Strategy> = match &*what.name()? {
        "fixed" => Box::new(Fixed(description.entry(1)?)),
        "environment_variable" => {
            let (name, value): (String, Option<String>) = (description.entry(1)?, description.entry(2)?);
            let found = EnvironmentVariable::machine_id(&name, value.as_deref());
            Box::new(Fixed(
                found.map_err(|error| errors::not_started(ruby, kind(&error), &error.to_string()))?,
            ))
        }
        "host_identifiers" => {
            let (own, ids): (Vec<String>, Vec<(String, u16)>) =
                (description.entry(1)?, description.entry(2)?);
            let strategy = HostIdentifiers::new(own, ids);
            Box::new(strategy.map_err(|error| errors::argument(ruby, error.to_string()))?)
        }
        _ => return Ok(None),
    };
    Ok(Some(strategy))
}

/// `[:pool, store, pool, size, [first, last], cool_down, identity, exclusive_identity, label,
/// process_proof]`, with the greatest number that it has.
fn pool(ruby: &Ruby, description: RArray) -> Result<(PoolLease, u32), Error> {
    let store: &Store = description.entry(1)?;
    let size: u32 = description.entry(3)?;
    let mut greatest = size.saturating_sub(1);
    let mut pool = PoolLease::on_loan(store.lender(ruby)?, name(ruby, description.entry(2)?)?, size)
        .with_cool_down(time::from_ruby(ruby, "cool_down", description.entry(5)?)?);
    let range: Option<(u16, u16)> = description.entry(4)?;
    if let Some(range) = range.and_then(|(first, last)| SlotRange::new(first, last)) {
        pool = pool.with_range(range);
        greatest = greatest.min(range.last().into());
    }
    let of = |at, what| {
        let given: Option<RString> = description.entry(at)?;
        given.map(|given| text(ruby, what, given)).transpose()
    };
    if let Some(identity) = of(6, "identity")? {
        pool = pool.with_identity(identity);
    }
    if let Some(identity) = of(7, "exclusive_identity")? {
        pool = pool.with_exclusive_identity(identity);
    }
    if let Some(label) = of(8, "label")? {
        pool = pool.with_label(label);
    }
    if description.entry::<bool>(9)? {
        pool = pool.with_process_proof();
    }
    Ok((pool, greatest))
}

/// The machine IDs that are written down and in use. A child begins with none.
static IN_USE: PerProcess<Mutex<BTreeSet<u16>>> = PerProcess::new();

/// A strategy whose machine ID nobody hands out. That another process has it, too, only whoever wrote it down can know; that
/// this one uses it twice, which would make each ID twice, is seen here.
struct Once(Box<dyn Strategy>);

/// A machine ID in use, until it is given back or forgotten.
struct InUse {
    machine_id: u16,
    is_over: AtomicBool,
}

impl InUse {
    fn begin(machine_id: u16) -> Option<Self> {
        in_use().insert(machine_id).then(|| Self { machine_id, is_over: AtomicBool::new(false) })
    }

    fn end(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            in_use().remove(&self.machine_id);
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.end();
    }
}

fn in_use() -> MutexGuard<'static, BTreeSet<u16>> {
    let Ok(in_use) = IN_USE.get_or_try_init(|| Ok::<_, Infallible>(Mutex::default()));
    in_use.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strategy for Once {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        let granted = self.0.acquire(lease_duration, options)?;
        let machine_id = granted.machine_id;
        match InUse::begin(machine_id) {
            Some(in_use) => Ok(Acquired::new(machine_id, LeaseHandle::new(in_use), granted.ttl)),
            None => Err(AcquireError::Conflict(format!(
                "machine ID {machine_id} is in use in this process already, by a MachineId that was not stopped"
            ))),
        }
    }

    fn release(&self, lease: &LeaseHandle, _options: &CallOptions) {
        if let Some(in_use) = lease.get::<InUse>() {
            in_use.end();
        }
    }
}

/// Its calls are sent to a thread of Ruby's: those of a manager's own cannot call Ruby.
///
/// It keeps nobody waiting for calls: a manager that has ended is there for as long as Ruby has it, and asks for nothing more.
/// What ends with its asking, and not before, is its listener, which has the sender.
struct OfRuby {
    sender: WeakUnboundedSender<Message>,
    deterministic: bool,
    leases: AtomicU64,
}

/// A lease as Ruby has it, by its number there. When the last of the manager's copies is gone, Ruby forgets it.
struct Numbered {
    number: u64,
    sender: WeakUnboundedSender<Message>,
}

impl Drop for Numbered {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.upgrade() {
            let _ = sender.send(Message::Forget(self.number));
        }
    }
}

/// What Ruby answers.
pub(super) enum Reply {
    Acquired(u16, Duration),
    Renewed(Duration),
    Released,
    /// By the name of its kind. What none is named for is *unreachable*.
    Failed(String, String),
}

const NOBODY: &str = "the thread that asks it has ended";

impl OfRuby {
    /// For as long as it takes: the manager waits no longer than it wants to, and gives back what is granted later.
    fn ask(&self, wanted: Wanted) -> Option<Reply> {
        let (reply, answer): (SyncSender<Reply>, _) = sync_channel(1);
        self.sender.upgrade()?.send(Message::Call(Call::new(wanted, reply))).ok()?;
        answer.recv().ok()
    }

    /// A lease that Ruby is going to know by this number.
    fn number(&self) -> u64 {
        self.leases.fetch_add(1, Ordering::Relaxed)
    }

    fn handle(&self, number: u64) -> LeaseHandle {
        LeaseHandle::new(Numbered { number, sender: self.sender.clone() })
    }
}

impl Strategy for OfRuby {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        let number = self.number();
        let (machine_id, ttl) =
            match self.ask(Wanted::Acquire { to: number, lease_duration, limit: options.limit }) {
                Some(Reply::Acquired(machine_id, ttl)) => (machine_id, ttl),
                Some(Reply::Failed(kind, why)) => {
                    return Err(match kind.as_str() {
                        "exhausted" => AcquireError::Exhausted(why),
                        "refused" => AcquireError::Refused(why),
                        "misconfigured" => AcquireError::Misconfigured(why),
                        _ => AcquireError::Unreachable(why),
                    });
                }
                _ => return Err(AcquireError::Unreachable(NOBODY.to_owned())),
            };
        Ok(Acquired::new(machine_id, self.handle(number), ttl))
    }

    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        let (from, number) = (numbered(lease), self.number());
        match self.ask(Wanted::Renew { from, to: number, lease_duration, limit: options.limit }) {
            Some(Reply::Renewed(ttl)) => Ok(Renewed::new(self.handle(number), ttl)),
            Some(Reply::Failed(kind, why)) if kind == "lost" => Err(RenewError::Lost(why)),
            Some(Reply::Failed(_, why)) => Err(RenewError::Retry(why)),
            _ => Err(RenewError::Retry(NOBODY.to_owned())),
        }
    }

    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        let (from, limit, last_used) = (numbered(lease), options.limit, options.last_used);
        let _ = self.ask(Wanted::Release { from, limit, last_used });
    }

    fn deterministic(&self) -> bool {
        self.deterministic
    }
}

fn numbered(lease: &LeaseHandle) -> u64 {
    // Its leases are all of this kind; no number is that large.
    lease.get::<Numbered>().map_or(u64::MAX, |lease| lease.number)
}

/// For an error that says which of its kinds it is.
pub(super) fn kind(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::Exhausted(_) => "exhausted",
        AcquireError::Busy(_) => "busy",
        AcquireError::Conflict(_) => "conflict",
        AcquireError::Unreachable(_) => "unreachable",
        AcquireError::Refused(_) => "refused",
        _ => "misconfigured",
    }
}
