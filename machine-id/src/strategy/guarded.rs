//! A static strategy whose IDs are entered in a store.

use std::time::Duration;

use lease_machines::SlotRange;

use super::PoolLease;
use crate::{AcquireError, Acquired, CallOptions, LeaseHandle, Left, RenewError, Renewed, Strategy};

/// A strategy that knows its machine ID from elsewhere, and a pool in which each ID in use is entered under its holder's
/// identity: so a list with a mistake in it, or a number that two variables have, is found out before an ID is made twice.
///
/// - The ID is the strategy's, always. The pool has a slot of that number, which one identity holds at a time.
/// - The same identity gets it again at once, also where it is still entered: that is what a crash left behind.
/// - **Of two identities with one ID, the later one by the store's order gets a [conflict](AcquireError::Conflict)** and makes
///   no ID; the first goes on. It is the later one's mistake as often as the first's, but IDs were made under the first.
/// - Without an answer of the store nothing starts: nobody would know.
#[derive(Debug)]
pub struct Guarded<S> {
    strategy: S,
    pool: PoolLease,
}

impl<S: Strategy> Guarded<S> {
    /// Enters what `strategy` hands out in this pool, which serves nothing else, under `identity`: of this holder alone, and the
    /// same after a restart.
    #[must_use]
    pub fn new(strategy: S, pool: PoolLease, identity: impl Into<String>) -> Self {
        Self { strategy, pool: pool.with_exclusive_identity(identity) }
    }
}

/// The strategy's own lease, and that on the slot.
struct Both {
    own: LeaseHandle,
    slot: LeaseHandle,
}

impl<S: Strategy> Strategy for Guarded<S> {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        let own = self.strategy.acquire(lease_duration, options)?;
        let id = own.machine_id;
        let error = match self.pool.claim(SlotRange::only(id), lease_duration) {
            Ok(Ok(slot)) => {
                return Ok(Acquired {
                    lease: LeaseHandle::new(Both { own: own.lease, slot: slot.lease }),
                    ttl: own.ttl.min(slot.ttl),
                    ..slot
                });
            }
            Ok(Err(why)) if self.pool.is_held(why) => {
                let why = self.pool.rejection(why);
                AcquireError::Conflict(format!("machine ID {id} is another identity's: {why}"))
            }
            Ok(Err(why)) => self.pool.rejection(why),
            Err(error) => error,
        };
        self.strategy.release(&own.lease, options);
        Err(error)
    }

    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        let Some(both) = lease.get::<Both>() else {
            return Err(RenewError::Lost("the lease is of another strategy".into()));
        };
        let slot = self.pool.renew(&both.slot, lease_duration, options)?;
        let own = self.strategy.renew(&both.own, lease_duration, options)?;
        let lease = LeaseHandle::new(Both { own: own.lease, slot: slot.lease });
        Ok(Renewed::new(lease, own.ttl.min(slot.ttl)).with_window(slot.window))
    }

    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        if let Some(both) = lease.get::<Both>() {
            self.strategy.release(&both.own, options);
            self.pool.release(&both.slot, options);
        }
    }

    fn withdraw(&self, options: &CallOptions) {
        self.strategy.withdraw(options);
        self.pool.withdraw(options);
    }

    fn deterministic(&self) -> bool {
        self.strategy.deterministic()
    }

    fn cool_down(&self) -> Option<Duration> {
        self.strategy.cool_down().into_iter().chain(self.pool.cool_down()).min()
    }

    fn left(&self, options: &CallOptions) -> Option<Left> {
        self.strategy.left(options)
    }
}
