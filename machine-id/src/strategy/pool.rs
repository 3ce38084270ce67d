//! The machine IDs of a store's pool.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_machines::{OwnerId, Rejection, SlotRange};
use lease_machines_os::Process;
use lease_machines_store::{
    Claimed, ErrorKind, PoolClaim, Rejected, ResourceName, SlotLease, SlotRef, SlotRenewed, Store,
    StoreError, Unclaimed, Undecided, VacatedHow, fresh_owner, give_back_unheard,
};
use pollster::block_on;

use super::left_behind::{labelled, left_behind};
use crate::{AcquireError, Acquired, CallOptions, LeaseHandle, Left, RenewError, Renewed, Strategy};

/// A store that is lent for one call.
pub type Lent = Box<dyn Deref<Target = dyn Store>>;

/// A machine ID from a pool on a store, which no other holder has: the number of a slot.
///
/// It is the same on each engine: SQLite for the processes of one machine, PostgreSQL, MySQL or MariaDB, Redis or
/// Valkey, or etcd for those of many. (etcd tells no time: there the store's clock is this machine's own, and the store refuses
/// one that is behind what it has seen.)
///
/// ```
/// use std::sync::Arc;
/// use std::time::SystemTime;
/// use lease_machines_id::{Id64, Manager, Options, PoolLease};
/// use lease_machines_store::{MemoryStore, ResourceName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A program says `lease_machines_store::open("postgres://app@db/app")?`.
/// let store = Arc::new(MemoryStore::new()?);
/// # let origin = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600);
/// # store.advance(SystemTime::now().duration_since(origin)?); // its calendar begins with 2026
/// let pool = PoolLease::new(store, ResourceName::new("order-ids")?, 512).with_exclusive_identity("orders-3");
/// let manager = Manager::start(pool, Options::new())?;
/// assert_eq!(manager.machine_id(), Some(0));
/// assert!(manager.counter::<Id64>().next().is_ok());
/// manager.stop();
/// # Ok(())
/// # }
/// ```
///
/// # Promises
///
/// - **Each hold is a stranger to every other.** It has an owner of its own, drawn when it is asked for; an answer that was
///   lost is asked for again by the same owner, so that a slot granted unheard is not lost until it expires; whoever gives up
///   takes it back. Two calls at a time never share an owner: what one gives back is not the other's.
/// - **ID time is reserved** with each grant and renewal, by the store's clock, and what was not used is given back with the
///   release.
/// - **A store that cannot be asked ends nothing.** Only its own *no* does, and a new epoch.
pub struct PoolLease {
    store: Box<dyn Fn() -> Result<Lent, StoreError> + Send + Sync>,
    /// What all claims have in common. Owner, attempt and ttl are each claim's own.
    common: PoolClaim,
    /// Whether a claim says which process it is, and takes over what those that are gone have left behind.
    process_proof: bool,
    claimants: Mutex<Vec<Claimant>>,
}

/// An owner that may hold a slot unheard.
struct Claimant {
    owner: OwnerId,
    attempts: u64,
    /// Its last claim has been answered, by no more than an error. Until then no other claim is to share it.
    is_idle: bool,
}

impl PoolLease {
    /// Any slot of a pool of this many, from 1 to 65,536. Whoever comes first makes the pool; later ones may name fewer, and
    /// then get numbers below.
    ///
    /// The factories' layouts must have room for the numbers: the default ones have for 512.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, pool: ResourceName, size: u32) -> Self {
        Self::on_loan(move || Ok(Box::new(Arc::clone(&store))), pool, size)
    }

    /// The same, of a store that is not kept open: each call borrows it, and gives it back when it is answered. A lease that is
    /// renewed every half an hour need not keep a file open in a process that forks.
    #[must_use]
    pub fn on_loan(
        store: impl Fn() -> Result<Lent, StoreError> + Send + Sync + 'static,
        pool: ResourceName,
        size: u32,
    ) -> Self {
        let common = PoolClaim::new(pool, size, OwnerId::new(0), Duration::ZERO).with_id_time();
        Self { store: Box::new(store), common, process_proof: false, claimants: Mutex::default() }
    }

    /// The same, within this part of the pool: data centres that share one have one each.
    #[must_use]
    pub const fn with_range(mut self, range: SlotRange) -> Self {
        self.common.range = range;
        self
    }

    /// The same, of slots that have rested for this long since another identity held them: 30 s unless told otherwise. With less
    /// than [`Options::max_clock_skew`](crate::Options::max_clock_skew) a manager does not start.
    #[must_use]
    pub const fn with_cool_down(mut self, cool_down: Duration) -> Self {
        self.common.cool_down = cool_down;
        self
    }

    /// The same, under a name that survives restarts: its last slot is its own again, if it is free. Several may share one.
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<String>) -> Self {
        self.common.identity = Some(identity.into());
        self
    }

    /// The same, under a name that nobody else goes by at the same time, as a pod of a StatefulSet: its last slot is its own
    /// again also where it is still held, for that is what a crash left behind. If two go by it after all, the second takes the
    /// slot from the first, which stops at its next renewal: their reserved times are apart even then.
    #[must_use]
    pub fn with_exclusive_identity(mut self, identity: impl Into<String>) -> Self {
        self.common.identity = Some(identity.into());
        self.common.exclusive_identity = true;
        self
    }

    /// The same, taking back at once what a process of its [identity](Self::with_identity) on this machine has left behind that
    /// was killed: a worker of several with one name, that is started again, has its slot and leaves no other one blocked until
    /// the dead one's lease is over.
    ///
    /// For that the process which claims is written down at the end of the label, and a claim looks through the pool first: one
    /// request more. A live slot is taken over only with [proof](Process::is_gone) that the process which claimed it has ended,
    /// and only from the very lease that was seen. Without proof it is as if this had not been said: on another machine or after
    /// a restart of it, in another container (with a PID namespace of its own), or where the system does not tell (elsewhere than
    /// on Linux). Two containers, or machines, that were cloned while they ran must not share an identity in this way.
    ///
    /// As with an exclusive identity, the stamps of the new life begin above all that the first could have used: factories that
    /// sort make no ID until the clock has come that far. Whoever has said nothing of an identity, or that it is exclusive, has no
    /// use for this, and it changes nothing.
    #[must_use]
    pub const fn with_process_proof(mut self) -> Self {
        self.process_proof = true;
        self
    }

    /// The same, shown with this to people who ask who has the slot.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.common.label = Some(label.into());
        self
    }

    /// Claims a slot of this range, by an owner whose last claim was not answered, or by a new one.
    pub(super) fn claim(
        &self,
        range: SlotRange,
        ttl: Duration,
    ) -> Result<Result<Acquired, Unclaimed>, AcquireError> {
        let store = (self.store)().map_err(|error| refusal(&error))?;
        let (owner, attempt) = self.claimant().map_err(|error| refusal(&error))?;
        let mut claim = self.common.clone().with_attempt(attempt).with_range(range);
        (claim.owner, claim.ttl) = (owner, ttl);
        self.prove(&**store, &mut claim);
        let answer = match attempt {
            1 => store.claim_slot(claim),
            _ => store.reclaim_slot(claim),
        };
        let answer = block_on(answer);
        let may_hold = match &answer {
            Ok(Claimed::Granted(_)) => false,
            // By its own word this one has nothing. What an earlier one was granted, or may still be, that does not undo.
            Ok(_) => attempt > 1,
            // The owner's requests come to nothing, and it holds nothing.
            Err(error) if error.kind() == ErrorKind::Superseded => false,
            Err(error) => attempt > 1 || error.undecided() == Undecided::Unknown,
        };
        self.answered(owner, may_hold);
        match answer {
            Ok(Claimed::Granted(grant)) => Ok(Ok(self.acquired(owner, &grant))),
            Ok(Claimed::Rejected(why)) => {
                if why == Unclaimed::Invalid(Rejection::Occupied) {
                    // What it was granted unheard lies in another range.
                    self.answered(owner, false);
                    self.take_back(&**store, owner, true);
                }
                Ok(Err(why))
            }
            Ok(other) => Err(AcquireError::Refused(format!("an answer of a later version: {other:?}"))),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// Writes this process into the claim, and the lease of one that is gone, where there is one.
    ///
    /// The process is the one that claims, and not the one that made the strategy: that may have forked it, and be gone itself.
    fn prove(&self, store: &dyn Store, claim: &mut PoolClaim) {
        if !self.process_proof || claim.identity.is_none() || claim.exclusive_identity {
            return;
        }
        let Some(process) = Process::current() else { return };
        claim.label = Some(labelled(claim.label.as_deref(), &process));
        // A store that cannot be looked at has nothing to take over; what is the matter with it, the claim will be told.
        if let Ok(seen) = block_on(store.slots(claim.pool.clone())) {
            claim.gone = left_behind(&seen, claim, Process::is_gone);
        }
    }

    fn acquired(&self, owner: OwnerId, grant: &SlotLease) -> Acquired {
        let held = SlotRef::new(self.common.pool.clone(), grant.slot, owner, grant.token, Some(grant.epoch));
        Acquired::new(grant.slot, LeaseHandle::new(held), grant.ttl)
            .with_window(grant.window)
            .with_store_clock(Some(grant.wall))
    }

    /// Whether somebody else holds what could not be claimed, or has just left it.
    pub(super) fn is_held(&self, why: Unclaimed) -> bool {
        let rests = |wait: Duration| wait > self.common.cool_down;
        matches!(why, Unclaimed::Exhausted { next_chance } if next_chance.is_none_or(rests))
    }

    pub(super) fn rejection(&self, why: Unclaimed) -> AcquireError {
        let pool = &self.common.pool;
        match why {
            // An owner that holds one already has been taken back.
            Unclaimed::Busy | Unclaimed::Invalid(Rejection::Occupied) => {
                AcquireError::Busy(format!("pool {pool}: {why}"))
            }
            Unclaimed::Exhausted { next_chance: Some(wait) } => AcquireError::Exhausted(format!(
                "pool {pool}: {why}; the next may come free in {} s",
                wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
            )),
            Unclaimed::Exhausted { next_chance: None } => {
                AcquireError::Exhausted(format!("pool {pool}: {why}"))
            }
            _ => AcquireError::Misconfigured(format!("pool {pool}: {why}")),
        }
    }

    fn lost(&self, slot: u16, rejected: &Rejected) -> String {
        let Rejected { reason, occupant, vacated, .. } = rejected;
        let mut why = format!("slot {slot} of pool {}: {reason}", self.common.pool);
        if let Some(holder) = occupant {
            let name = holder.label.as_ref().or(holder.identity.as_ref());
            why += &match name {
                Some(name) => format!("; {name:?} has it under token {}", holder.token),
                None => format!("; another has it under token {}", holder.token),
            };
        } else if let Some(vacated) = vacated {
            why += match vacated.how {
                VacatedHow::Released => "; it was released",
                VacatedHow::Revoked => "; it was revoked",
                VacatedHow::Withdrawn => "; it was withdrawn",
                _ => "",
            };
        }
        why
    }

    /// Who claims next, and how often it has by then.
    fn claimant(&self) -> Result<(OwnerId, u64), StoreError> {
        let mut claimants = self.claimants();
        if let Some(idle) = claimants.iter_mut().find(|claimant| claimant.is_idle) {
            idle.is_idle = false;
            idle.attempts = idle.attempts.saturating_add(1);
            return Ok((idle.owner, idle.attempts));
        }
        let owner = fresh_owner()?;
        claimants.push(Claimant { owner, attempts: 1, is_idle: false });
        Ok((owner, 1))
    }

    fn answered(&self, owner: OwnerId, may_hold: bool) {
        let mut claimants = self.claimants();
        claimants.retain(|claimant| may_hold || claimant.owner != owner);
        // There is none where it was withdrawn meanwhile.
        if let Some(claimant) = claimants.iter_mut().find(|claimant| claimant.owner == owner) {
            claimant.is_idle = true;
        }
    }

    /// As well as it can: what is not taken back expires. With `unheard` no answer can come any more: nobody has made an ID
    /// under what this owner was granted, and the time that was reserved is given back as well.
    fn take_back(&self, store: &dyn Store, owner: OwnerId, unheard: bool) {
        if unheard {
            let _ = block_on(give_back_unheard(store, self.common.pool.clone(), owner));
        }
        let _ = block_on(store.withdraw_slot(self.common.pool.clone(), owner));
    }

    fn claimants(&self) -> MutexGuard<'_, Vec<Claimant>> {
        self.claimants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a store's error means to somebody who claims.
fn refusal(error: &StoreError) -> AcquireError {
    let why = error.to_string();
    match (error.undecided(), error.kind()) {
        (Undecided::NotDone, ErrorKind::Busy | ErrorKind::Superseded) => AcquireError::Busy(why),
        (Undecided::NotDone | Undecided::Unknown, _) => AcquireError::Unreachable(why),
        (
            Undecided::Refused,
            ErrorKind::Configuration
            | ErrorKind::Request
            | ErrorKind::PoolSize { .. }
            | ErrorKind::Unsupported,
        ) => AcquireError::Misconfigured(why),
        (Undecided::Refused, _) => AcquireError::Refused(why),
    }
}

/// What a store's error means to somebody who renews.
fn unrenewed(error: &StoreError) -> RenewError {
    match error.kind() {
        ErrorKind::NewEpoch { .. } => RenewError::Lost(error.to_string()),
        _ => RenewError::Retry(error.to_string()),
    }
}

impl Strategy for PoolLease {
    fn acquire(&self, lease_duration: Duration, _options: &CallOptions) -> Result<Acquired, AcquireError> {
        self.claim(self.common.range, lease_duration)?.map_err(|why| self.rejection(why))
    }

    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        _options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        let Some(held) = lease.get::<SlotRef>() else {
            return Err(RenewError::Lost("the lease is of another strategy".into()));
        };
        let store = match (self.store)() {
            Ok(store) => store,
            Err(error) => return Err(unrenewed(&error)),
        };
        match block_on(store.renew_slot(held.clone(), lease_duration, true)) {
            Ok(SlotRenewed::Renewed(renewed)) => {
                Ok(Renewed::new(lease.clone(), renewed.ttl).with_window(renewed.window))
            }
            Ok(SlotRenewed::Rejected(rejected)) => Err(RenewError::Lost(self.lost(held.slot, &rejected))),
            Ok(other) => Err(RenewError::Retry(format!("an answer of a later version: {other:?}"))),
            Err(error) => Err(unrenewed(&error)),
        }
    }

    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        if let (Some(held), Ok(store)) = (lease.get::<SlotRef>(), (self.store)()) {
            // As well as it can: what is not given back expires.
            let _ = block_on(store.release_slot(held.clone(), options.last_used));
        }
    }

    fn withdraw(&self, _options: &CallOptions) {
        let claimants = std::mem::take(&mut *self.claimants());
        if claimants.is_empty() {
            return;
        }
        if let Ok(store) = (self.store)() {
            // Whoever still waits for an answer may hear of a grant, and use it for all that is known here.
            claimants.iter().for_each(|claimant| self.take_back(&**store, claimant.owner, claimant.is_idle));
        }
    }

    fn deterministic(&self) -> bool {
        false
    }

    fn cool_down(&self) -> Option<Duration> {
        Some(self.common.cool_down)
    }

    fn left(&self, _options: &CallOptions) -> Option<Left> {
        let store = (self.store)().ok()?;
        let room = block_on(store.room(self.common.clone())).ok()?;
        Some(Left { free: room.free, of: room.of })
    }
}

impl fmt::Debug for PoolLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolLease")
            .field("pool", &self.common.pool)
            .field("size", &self.common.size)
            .field("range", &self.common.range)
            .field("identity", &self.common.identity)
            .field("exclusive", &self.common.exclusive_identity)
            .field("process_proof", &self.process_proof)
            .finish_non_exhaustive()
    }
}
