//! Strategies: the built-in ones by what describes them, and those of Ruby's by what is sent to Ruby and answered there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use lease_machines::SlotRange;
use lease_machines_id::{
    AcquireError, Acquired, CallOptions, EnvironmentVariable, Fixed, Guarded, HostIdentifiers, LeaseHandle,
    Left, PoolLease, RenewError, Renewed, Strategy,
};
use magnus::{Error, RArray, RString, Ruby, Symbol, Value, prelude::*};
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};

use super::inbox::{Call, Message, Wanted};
use crate::store::{Store, name, text};
use crate::{errors, numbers, time};

/// What a start was told to use. Its asking can be ended from outside, where nobody waits for the start any more.
pub(super) struct Chosen {
    strategy: Box<dyn Strategy>,
    given_up: Arc<AtomicBool>,
}

impl Chosen {
    pub(super) fn new(strategy: Box<dyn Strategy>) -> (Self, Arc<AtomicBool>) {
        let given_up = Arc::new(AtomicBool::new(false));
        (Self { strategy, given_up: Arc::clone(&given_up) }, given_up)
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

    fn deterministic(&self) -> bool {
        self.strategy.deterministic()
    }

    fn left(&self, options: &CallOptions) -> Option<Left> {
        self.strategy.left(options)
    }
}

/// From `[kind, …]`, as `lib/` describes one.
pub(super) fn described(
    ruby: &Ruby,
    description: RArray,
    sender: &UnboundedSender<Message>,
) -> Result<Box<dyn Strategy>, Error> {
    let kind: Symbol = description.entry(0)?;
    match &*kind.name()? {
        "fixed" => Ok(Box::new(Fixed(description.entry(1)?))),
        "environment_variable" => Ok(Box::new(EnvironmentVariable::new(description.entry::<String>(1)?))),
        "host_identifiers" => {
            let (own, ids): (Vec<String>, Vec<(String, u16)>) =
                (description.entry(1)?, description.entry(2)?);
            match HostIdentifiers::new(own, ids) {
                Ok(strategy) => Ok(Box::new(strategy)),
                Err(error) => Err(errors::argument(ruby, error.to_string())),
            }
        }
        "guarded" => {
            let strategy = described(ruby, description.entry(1)?, sender)?;
            let identity = text(ruby, "identity", description.entry(3)?)?;
            Ok(Box::new(Guarded::new(strategy, pool(ruby, description.entry(2)?)?, identity)))
        }
        "pool" => Ok(Box::new(pool(ruby, description)?)),
        _ => Ok(Box::new(OfRuby {
            sender: sender.clone(),
            deterministic: description.entry::<Value>(1)?.to_bool(),
            leases: AtomicU64::new(0),
        })),
    }
}

/// `[:pool, store, pool, size, range, cool_down, identity, exclusive_identity, label]`
fn pool(ruby: &Ruby, description: RArray) -> Result<PoolLease, Error> {
    let store: &Store = description.entry(1)?;
    let size = numbers::count(ruby, "size", description.entry(3)?)?;
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let mut pool = PoolLease::on_loan(store.lender(ruby)?, name(ruby, description.entry(2)?)?, size)
        .with_cool_down(time::from_ruby(ruby, "cool_down", description.entry(5)?)?);
    if let Some((first, last)) = description.entry::<Option<(Value, Value)>>(4)? {
        let (first, last) = (numbers::count(ruby, "range", first)?, numbers::count(ruby, "range", last)?);
        let range = u16::try_from(first).ok().zip(u16::try_from(last).ok());
        let range = range.and_then(|(first, last)| SlotRange::new(first, last));
        let wrong = || errors::argument(ruby, format!("range must lie in 0..65535, not be {first}..{last}"));
        pool = pool.with_range(range.ok_or_else(wrong)?);
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
    Ok(pool)
}

/// Its calls are sent to a thread of Ruby's: those of a manager's own cannot call Ruby.
struct OfRuby {
    sender: UnboundedSender<Message>,
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
    Failed(Failure),
}

pub(super) enum Failure {
    Exhausted(String),
    Unreachable(String),
    Refused(String),
    Misconfigured(String),
    Lost(String),
}

const NOBODY: &str = "the thread that asks it has ended";

impl OfRuby {
    /// For as long as it takes: the manager waits no longer than it wants to, and gives back what is granted later.
    fn ask(&self, wanted: Wanted) -> Option<Reply> {
        let (reply, answer): (SyncSender<Reply>, _) = sync_channel(1);
        self.sender.send(Message::Call(Call::new(wanted, reply))).ok()?;
        answer.recv().ok()
    }

    /// A lease that Ruby is going to know by this number.
    fn number(&self) -> u64 {
        self.leases.fetch_add(1, Ordering::Relaxed)
    }

    fn handle(&self, number: u64) -> LeaseHandle {
        LeaseHandle::new(Numbered { number, sender: self.sender.downgrade() })
    }
}

impl Strategy for OfRuby {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        let number = self.number();
        let (machine_id, ttl) =
            match self.ask(Wanted::Acquire { to: number, lease_duration, limit: options.limit }) {
                Some(Reply::Acquired(machine_id, ttl)) => (machine_id, ttl),
                Some(Reply::Failed(failure)) => return Err(failure.of_acquire()),
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
            Some(Reply::Failed(Failure::Lost(why))) => Err(RenewError::Lost(why)),
            Some(Reply::Failed(failure)) => Err(RenewError::Retry(failure.said())),
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

impl Failure {
    pub(super) fn named(kind: &str, said: String) -> Self {
        match kind {
            "exhausted" => Self::Exhausted(said),
            "refused" => Self::Refused(said),
            "misconfigured" => Self::Misconfigured(said),
            "lost" => Self::Lost(said),
            _ => Self::Unreachable(said),
        }
    }

    fn of_acquire(self) -> AcquireError {
        match self {
            Self::Exhausted(why) => AcquireError::Exhausted(why),
            Self::Refused(why) => AcquireError::Refused(why),
            Self::Misconfigured(why) => AcquireError::Misconfigured(why),
            Self::Unreachable(why) | Self::Lost(why) => AcquireError::Unreachable(why),
        }
    }

    fn said(self) -> String {
        match self {
            Self::Exhausted(why)
            | Self::Unreachable(why)
            | Self::Refused(why)
            | Self::Misconfigured(why)
            | Self::Lost(why) => why,
        }
    }
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
