//! Pools of slots: their rules one by one, every small world, and random histories beside a naive reference.
//!
//! The tests of `reported` are named after what has gone wrong for others.

#![allow(clippy::panic, clippy::indexing_slicing)] // tests may

mod claiming;
mod exhaustive;
mod random;
mod reference;
mod reported;
mod windows;

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Pool, Slot, SlotClaim, SlotGrant, Unclaimed};

const COOL_DOWN: Duration = Pool::<u8>::COOL_DOWN;
const TTL: Duration = Duration::from_secs(60);

/// A pool with a clock, which is also the wall clock, for tests that tell a story.
struct Stage {
    slots: Vec<Slot<&'static str>>,
    now: Duration,
    owners: u64,
}

impl Stage {
    fn of(slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot::new()).collect();
        Self { slots, now: secs(1_000), owners: 0 }
    }

    fn pool(&mut self) -> Pool<'_, &'static str> {
        Pool::over(&mut self.slots, COOL_DOWN).expect("a pool of a possible size")
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// A claim by somebody new.
    fn claim_of(&mut self, identity: &'static str) -> SlotClaim<&'static str> {
        self.owners += 1;
        SlotClaim::new(OwnerId::new(self.owners), TTL).with_identity(identity)
    }

    fn ask(&mut self, claim: &SlotClaim<&'static str>) -> Result<SlotGrant, Unclaimed> {
        let now = self.now;
        self.pool().claim(claim, now, Some(now))
    }

    #[track_caller]
    fn get(&mut self, identity: &'static str) -> SlotGrant {
        let claim = self.claim_of(identity);
        self.ask(&claim).unwrap_or_else(|why| panic!("{identity} got nothing: {why}"))
    }

    #[track_caller]
    fn refused(&mut self, identity: &'static str) -> Unclaimed {
        let claim = self.claim_of(identity);
        self.ask(&claim).expect_err("no slot can be had")
    }

    #[track_caller]
    fn release(&mut self, grant: SlotGrant, last_used: Option<Duration>) {
        let now = self.now;
        let (owner, token) = (grant.lease.owner(), grant.lease.token());
        self.pool().release(grant.slot, owner, token, last_used, now).expect("it is the holder's");
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("not zero")
}
