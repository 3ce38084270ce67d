//! Pools: each slot an authority of its own, and which of them a claim gets.

mod claiming;
mod linear;
mod model;
mod owners;
mod random;
mod sizes;
mod times;

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use super::Case;
use super::block_on;
use super::context::{Context, Outcome, name, told};
use crate::{
    Claimed, PoolClaim, PoolInspection, Rejected, Released, ResourceName, Revoked, SlotLease, SlotRef,
    SlotRenewed, StoreError, Unclaimed,
};

pub(super) const CASES: [&[Case]; 6] =
    [claiming::CASES, owners::CASES, times::CASES, sizes::CASES, random::CASES, linear::CASES];

/// The pool of the cases.
const POOL: &str = "ids";
/// How many slots it has.
const SIZE: u32 = 4;

/// Short forms for the cases about slots.
impl Context<'_> {
    fn pool(&self) -> Outcome<ResourceName> {
        name(POOL)
    }

    /// A claim for ten units in a pool of four, whose slots rest for two.
    fn slot_claim(&self, owner: u64) -> Outcome<PoolClaim> {
        let claim = PoolClaim::new(self.pool()?, SIZE, OwnerId::new(owner), self.units(10));
        Ok(claim.with_cool_down(self.units(2)))
    }

    fn claim_slot(&self, claim: PoolClaim) -> Outcome<Claimed> {
        block_on(self.store().claim_slot(claim)).map_err(told)
    }

    /// A slot for this claim.
    fn slot(&self, claim: PoolClaim) -> Outcome<SlotLease> {
        held(self.claim_slot(claim)?)
    }

    /// A slot for this owner, of no identity.
    fn slot_of(&self, owner: u64) -> Outcome<SlotLease> {
        self.slot(self.slot_claim(owner)?)
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Outcome<Claimed> {
        block_on(self.store().reclaim_slot(claim)).map_err(told)
    }

    /// Why there is no slot for this claim.
    fn no_slot(&self, claim: PoolClaim) -> Outcome<Unclaimed> {
        Ok(
            expect!(self.claim_slot(claim)?, Claimed::Rejected(why) => why, "expected that no slot is granted"),
        )
    }

    fn slot_ref(&self, owner: u64, held: SlotLease) -> Outcome<SlotRef> {
        Ok(SlotRef::new(self.pool()?, held.slot, OwnerId::new(owner), held.token, Some(held.epoch)))
    }

    fn renew_slot(&self, lease: &SlotRef) -> Outcome<SlotRenewed> {
        block_on(self.store().renew_slot(lease.clone(), self.units(10), false)).map_err(told)
    }

    fn release_slot(&self, lease: &SlotRef) -> Outcome<Released> {
        block_on(self.store().release_slot(lease.clone(), None)).map_err(told)
    }

    /// Gives back what was held, which must have stood.
    fn free_slot(&self, owner: u64, held: SlotLease) -> Outcome<()> {
        let answer = self.release_slot(&self.slot_ref(owner, held)?)?;
        ensure!(answer == Released::Released, "slot {} was not released: {answer:?}", held.slot);
        Ok(())
    }

    fn withdraw_slot(&self, owner: u64) -> Outcome<Released> {
        block_on(self.store().withdraw_slot(self.pool()?, OwnerId::new(owner))).map_err(told)
    }

    fn revoke_slot(&self, slot: u16, expect: Option<FencingToken>) -> Outcome<Revoked> {
        let reason = Some("stuck".to_owned());
        block_on(self.store().revoke_slot(self.pool()?, slot, expect, reason)).map_err(told)
    }

    /// Whether two times are the same, where several requests lie between them that each take their time on a real clock.
    fn roughly(&self, found: Duration, expected: Duration) -> bool {
        self.same(found, expected)
            || !self.fixture.is_driven()
                && found <= expected
                && found.saturating_add(self.units(3)) >= expected
    }

    /// How many slots are free for claims like this one, and how many there are.
    fn room(&self, claim: PoolClaim) -> Outcome<(u32, u32)> {
        let room = block_on(self.store().room(claim)).map_err(told)?;
        Ok((room.free, room.of))
    }

    fn slots(&self) -> Outcome<PoolInspection> {
        block_on(self.store().slots(self.pool()?)).map_err(told)
    }
}

fn held(answer: Claimed) -> Outcome<SlotLease> {
    Ok(expect!(answer, Claimed::Granted(lease) => lease, "expected a slot"))
}

fn renewed(answer: SlotRenewed) -> Outcome<SlotLease> {
    Ok(expect!(answer, SlotRenewed::Renewed(lease) => lease, "expected a renewal"))
}

fn not_renewed(answer: SlotRenewed) -> Outcome<Rejected> {
    Ok(expect!(answer, SlotRenewed::Rejected(why) => why, "expected that nothing is renewed"))
}

/// What kind of error an answer is.
fn kind<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Outcome<crate::ErrorKind> {
    Ok(expect!(answer, Err(error) => error.kind(), "expected that nothing is decided"))
}
