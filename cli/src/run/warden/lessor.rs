//! Whom a lease is asked of: the store for a resource, or for any slot of a pool.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lease_machines::{OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Claim, Claimed, Ending, ErrorKind, Grant, LeaseRef, Rejected, Released, Renewed, ResourceName,
    SlotLease, SlotRef, SlotRenewed, Store, StoreError, Unclaimed, give_back_unheard, slot_name,
};

use crate::commands::{PoolOptions, Sent};

/// No slot: their numbers have 16 bits.
const NONE: u32 = u32::MAX;

/// One of the two. A slot is a lease with a number: whoever keeps it asks and is answered as for any other.
pub(crate) struct Lessor {
    store: Arc<dyn Store>,
    slots: Option<Slots>,
}

struct Slots {
    options: PoolOptions,
    /// The one that was granted last.
    held: AtomicU32,
}

impl Lessor {
    pub(crate) fn new(store: Arc<dyn Store>, slots: Option<PoolOptions>) -> Self {
        let slots = slots.map(|options| Slots { options, held: AtomicU32::new(NONE) });
        Self { store, slots }
    }

    /// The number of the slot that was granted last.
    pub(crate) fn slot(&self) -> Option<u16> {
        self.slots.as_ref().and_then(Slots::held)
    }

    /// What a fence knows the lease by: the resource, or the slot.
    pub(crate) fn fenced(&self, resource: &ResourceName) -> ResourceName {
        let slot = self.slot().and_then(|slot| slot_name(resource, slot).ok());
        slot.unwrap_or_else(|| resource.clone())
    }

    pub(crate) async fn acquire(&self, claim: Claim, again: bool) -> Result<Acquired, StoreError> {
        match &self.slots {
            None if again => self.store.reacquire(claim).await,
            None => self.store.acquire(claim).await,
            Some(slots) => {
                let asked = slots.options.claim(claim.resource.clone(), claim.owner, claim.ttl);
                let mut asked = asked.with_attempt(claim.attempt);
                asked.label = claim.label;
                let sent = Sent::now();
                let answer = match again {
                    true => self.store.reclaim_slot(asked).await?,
                    false => self.store.claim_slot(asked).await?,
                };
                slots.answered(sent.check(answer, &*self.store, &claim.resource, claim.owner).await?)
            }
        }
    }

    pub(crate) async fn renew(&self, lease: LeaseRef, ttl: Duration) -> Result<Renewed, StoreError> {
        match &self.slots {
            None => self.store.renew(lease, ttl).await,
            Some(slots) => match self.store.renew_slot(slots.of(lease)?, ttl, true).await? {
                SlotRenewed::Renewed(held) => Ok(Renewed::Renewed(grant(&held))),
                SlotRenewed::Rejected(rejected) => Ok(Renewed::Rejected(rejected)),
                _ => Err(unknown()),
            },
        }
    }

    /// What a command has used of the time that was reserved, it does not say: all of it counts as used. Where none was
    /// `started`, nothing was.
    pub(crate) async fn release(
        &self,
        lease: LeaseRef,
        ending: Ending,
        started: bool,
    ) -> Result<Released, StoreError> {
        match &self.slots {
            None => self.store.release(lease, ending).await,
            Some(slots) => {
                let last_used = (!started).then_some(Duration::ZERO);
                self.store.release_slot(slots.of(lease)?, last_used).await
            }
        }
    }

    pub(crate) async fn withdraw(
        &self,
        resource: ResourceName,
        owner: OwnerId,
        started: bool,
    ) -> Result<Released, StoreError> {
        if self.slots.is_none() {
            return self.store.withdraw(resource, owner).await;
        }
        let unheard = match started {
            true => false,
            // What goes wrong here goes wrong below as well, or is no more than time that nobody uses.
            false => give_back_unheard(&*self.store, resource.clone(), owner).await.unwrap_or(false),
        };
        match self.store.withdraw_slot(resource, owner).await? {
            // By the line above, and by nobody else.
            Released::AlreadyReleased if unheard => Ok(Released::Released),
            answer => Ok(answer),
        }
    }

    /// Nobody tells of a slot that comes free. Whoever waits for one asks again when its time is up.
    pub(crate) async fn wait(&self, resource: ResourceName, limit: Duration) -> Result<(), StoreError> {
        match &self.slots {
            None => self.store.wait(resource, limit).await,
            Some(_) => pending().await,
        }
    }
}

impl Slots {
    fn held(&self) -> Option<u16> {
        u16::try_from(self.held.load(Ordering::Relaxed)).ok()
    }

    fn answered(&self, answer: Claimed) -> Result<Acquired, StoreError> {
        match answer {
            Claimed::Granted(held) => {
                self.held.store(held.slot.into(), Ordering::Relaxed);
                Ok(Acquired::Granted(grant(&held)))
            }
            Claimed::Rejected(Unclaimed::Exhausted { .. }) => {
                Ok(Acquired::Rejected(Rejected::new(Rejection::Occupied)))
            }
            Claimed::Rejected(Unclaimed::Invalid(reason)) => Ok(Acquired::Rejected(Rejected::new(reason))),
            Claimed::Rejected(why @ Unclaimed::Busy) => {
                Err(StoreError::new(ErrorKind::Busy, why.to_string()))
            }
            Claimed::Rejected(why) => Err(StoreError::new(ErrorKind::Request, why.to_string())),
            _ => Err(unknown()),
        }
    }

    fn of(&self, lease: LeaseRef) -> Result<SlotRef, StoreError> {
        let LeaseRef { resource, owner, token, epoch, .. } = lease;
        match self.held() {
            Some(slot) => Ok(SlotRef::new(resource, slot, owner, token, epoch)),
            None => Err(StoreError::new(ErrorKind::Request, "no slot was granted yet")),
        }
    }
}

fn grant(held: &SlotLease) -> Grant {
    Grant::new(held.token, held.ttl, held.epoch)
}

fn unknown() -> StoreError {
    StoreError::new(
        ErrorKind::Unsupported,
        "the store gave an answer that this version of lease does not know",
    )
}

#[cfg(test)]
mod tests {
    use lease_machines_store::{MemoryStore, fresh_owner};

    use super::*;
    use crate::commands::agreeing;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    fn options(size: u32) -> PoolOptions {
        PoolOptions::of_size(size)
    }

    fn claim() -> Claim {
        Claim::new(ResourceName::new("ids").unwrap(), fresh_owner().unwrap(), Duration::from_secs(60))
    }

    #[test]
    fn a_slot_is_taken_renewed_and_given_back_like_a_lease() {
        let store: Arc<dyn Store> = Arc::new(agreeing());
        let (one, two) =
            (Lessor::new(Arc::clone(&store), Some(options(2))), Lessor::new(store, Some(options(2))));
        assert_eq!(one.slot(), None);
        let mine = claim();
        let Ok(Acquired::Granted(held)) = block_on(one.acquire(mine.clone(), false)) else { panic!("free") };
        let Ok(Acquired::Granted(_)) = block_on(two.acquire(claim(), false)) else { panic!("free") };
        assert_eq!((one.slot(), two.slot()), (Some(0), Some(1)));
        assert_eq!(one.fenced(&mine.resource).as_str(), "ids#0");
        let lease = LeaseRef::new(mine.resource.clone(), mine.owner, held.token, Some(held.epoch));
        let renewed = block_on(one.renew(lease.clone(), Duration::from_secs(90)));
        assert!(matches!(renewed, Ok(Renewed::Renewed(grant)) if grant.token == held.token));

        let full = block_on(two.acquire(claim(), false));
        assert!(matches!(full, Ok(Acquired::Rejected(why)) if why.reason == Rejection::Occupied));
        assert!(matches!(
            block_on(one.release(lease.clone(), Ending::default(), true)),
            Ok(Released::Released)
        ));
        assert!(matches!(block_on(one.renew(lease, Duration::from_secs(90))), Ok(Renewed::Rejected(_))));
    }

    #[test]
    fn a_machine_whose_clock_is_too_far_from_the_stores_gets_none() {
        let store = Arc::new(MemoryStore::new().unwrap());
        let lessor = Lessor::new(Arc::clone(&store) as Arc<dyn Store>, Some(options(1)));
        store.advance(Duration::from_secs(1));
        let refused = block_on(lessor.acquire(claim(), false)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Configuration);
        assert!(refused.to_string().contains("this machine's clock is"), "{refused}");
        let seen = block_on(store.slots(ResourceName::new("ids").unwrap())).unwrap();
        assert_eq!((lessor.slot(), seen.holders()), (None, 0), "and nothing is held");
        assert!(seen.slots[0].mark.is_zero(), "nor reserved");
    }

    /// An answer that was lost: the same owner asks again, and keeps the slot under a new token.
    #[test]
    fn whoever_asks_again_keeps_its_slot() {
        let store: Arc<dyn Store> = Arc::new(agreeing());
        let lessor = Lessor::new(store, Some(options(1)));
        let mine = claim();
        let Ok(Acquired::Granted(first)) = block_on(lessor.acquire(mine.clone(), false)) else { panic!() };
        let again = mine.clone().with_attempt(2);
        let Ok(Acquired::Granted(second)) = block_on(lessor.acquire(again, true)) else { panic!() };
        assert!(second.token > first.token);
        assert!(matches!(
            block_on(lessor.withdraw(mine.resource, mine.owner, false)),
            Ok(Released::Released)
        ));
    }

    /// A command may have made IDs, and does not say up to when. Where it was never started none were made.
    #[test]
    fn the_time_for_a_command_that_was_not_started_is_given_back() {
        for started in [false, true] {
            for release in [false, true] {
                let store = Arc::new(agreeing());
                let lessor = Lessor::new(Arc::clone(&store) as Arc<dyn Store>, Some(options(1)));
                let mine = claim();
                let Ok(Acquired::Granted(held)) = block_on(lessor.acquire(mine.clone(), false)) else {
                    panic!("free")
                };
                let lease = LeaseRef::new(mine.resource.clone(), mine.owner, held.token, Some(held.epoch));
                let answer = match release {
                    true => block_on(lessor.release(lease, Ending::default(), started)),
                    false => block_on(lessor.withdraw(mine.resource.clone(), mine.owner, started)),
                };
                assert!(matches!(answer, Ok(Released::Released)), "{started} {release}: {answer:?}");
                let seen = block_on(store.slots(mine.resource)).unwrap();
                assert_eq!((seen.holders(), seen.slots[0].mark.is_zero()), (0, !started), "{release}");
            }
        }
    }
}
