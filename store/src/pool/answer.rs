//! What a store answers about the slots of a pool.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, Rejection, Window};

use crate::{Epoch, Occupant, PoolClaim, Rejected, ResourceName};

/// A slot that is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct SlotLease {
    /// Its number in the pool.
    pub slot: u16,
    /// Greater than every earlier token of this slot. Tokens of different slots say nothing of each other.
    pub token: FencingToken,
    /// The time *remaining* by the store's clock when it decided, as in [`Grant`](crate::Grant): count it from before the
    /// request was sent.
    pub ttl: Duration,
    /// The ID time that is the holder's alone, since Unix's origin, in whole microseconds; `None` where none was asked for.
    /// It begins above all that another holder of the slot may have used, and ends at the store's clock + `ttl`. A renewal
    /// that reserves time keeps where it began.
    pub window: Option<Window>,
    /// The store's wall clock when it decided, since Unix's origin: a machine whose own is far from it should not stamp IDs.
    pub wall: Duration,
    /// The epoch that the lease belongs to.
    pub epoch: Epoch,
}

impl SlotLease {
    /// Puts the parts together.
    #[must_use]
    pub const fn new(
        slot: u16,
        token: FencingToken,
        ttl: Duration,
        window: Option<Window>,
        wall: Duration,
        epoch: Epoch,
    ) -> Self {
        Self { slot, token, ttl, window, wall, epoch }
    }
}

/// The answer to `claim_slot` and `reclaim_slot`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an answer says whether the caller may act"]
#[non_exhaustive]
pub enum Claimed {
    /// The caller holds a slot.
    Granted(SlotLease),
    /// It got none.
    Rejected(Unclaimed),
}

/// Why a claim got no slot: as the core's, in time from now on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unclaimed {
    /// There are slots that could be had, but others were deciding on each of them, also when it was tried once more. Ask
    /// again.
    Busy,
    /// Every slot in the range is held, closed or cooling down.
    Exhausted {
        /// In how long the first of them comes free for this claimant if nobody renews; `None` where no clock tells.
        next_chance: Option<Duration>,
    },
    /// The range begins beyond the end of the pool.
    NoSuchSlot,
    /// The request cannot be met: [`InvalidTtl`](Rejection::InvalidTtl), [`DeadlineOverflow`](Rejection::DeadlineOverflow),
    /// or [`Occupied`](Rejection::Occupied), where this very owner holds a slot of the pool already, and asks for one as if
    /// it did not, or for one in another range.
    Invalid(Rejection),
}

impl std::fmt::Display for Unclaimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => lease_machines::Unclaimed::Busy.fmt(f),
            Self::Exhausted { next_chance } => {
                lease_machines::Unclaimed::Exhausted { next_chance: *next_chance }.fmt(f)
            }
            Self::NoSuchSlot => lease_machines::Unclaimed::NoSuchSlot.fmt(f),
            Self::Invalid(Rejection::Occupied) => f.write_str("this owner holds a slot of the pool already"),
            Self::Invalid(reason) => reason.fmt(f),
        }
    }
}

/// The answer to `renew_slot`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an answer says whether the caller may go on"]
#[non_exhaustive]
pub enum SlotRenewed {
    /// The lease goes on, under the same token.
    Renewed(SlotLease),
    /// The lease is not (or no longer) the caller's.
    Rejected(Rejected),
}

/// The answer to `resize_pool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "an answer says whether the pool has the size"]
#[non_exhaustive]
pub enum Resized {
    /// The pool has that many slots now.
    Resized,
    /// It was to become smaller, and this slot, the highest of them, would have been cut off while somebody holds it or may
    /// still act under it: it is held, or closed after a revoke.
    InUse {
        /// Its number.
        slot: u16,
        /// In how long it is free unless its lease is renewed.
        remaining: Duration,
    },
}

/// How a pool stands: a snapshot, not a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoolInspection {
    /// Which pool.
    pub pool: ResourceName,
    /// The store's epoch.
    pub epoch: Epoch,
    /// How many slots it has; 0 for a pool that the store has not seen.
    pub size: u32,
    /// The store's wall clock, since Unix's origin: marks are compared with it.
    pub wall: Duration,
    /// Its slots by number, without those that nobody has ever held.
    pub slots: Vec<SlotInspection>,
}

impl PoolInspection {
    /// A pool of which nothing is known.
    #[must_use]
    pub const fn unseen(pool: ResourceName, epoch: Epoch, wall: Duration) -> Self {
        Self { pool, epoch, size: 0, wall, slots: Vec::new() }
    }

    /// How many slots are held.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.slots.iter().filter(|slot| slot.occupant.is_some()).count()
    }

    /// How much is left for claims like this one.
    #[must_use]
    pub fn room(&self, claim: &PoolClaim) -> Room {
        let numbers = u32::from(claim.range.first())..claim.end(self.size);
        let rests = |free_from: SystemTime| {
            let free_from = free_from.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            free_from.saturating_add(claim.cool_down) > self.wall
        };
        let is_taken = |slot: &SlotInspection| slot.occupant.is_some() || slot.free_from.is_some_and(rests);
        let within = self.slots.iter().filter(|slot| numbers.contains(&slot.slot.into()));
        let taken = within.filter(|slot| is_taken(slot)).count();
        Room::within(claim, self.size, u32::try_from(taken).unwrap_or(u32::MAX))
    }
}

/// How much of a pool is left for claims of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Room {
    /// The slots that a stranger could be granted now: nobody holds them, and they have rested.
    pub free: u32,
    /// All that such a claim may ever get: in its range, and below its size and the pool's.
    pub of: u32,
}

impl Room {
    /// In a pool of this size, where so many of the slots that the claim may get are held, closed or resting.
    #[must_use]
    pub fn within(claim: &PoolClaim, size: u32, taken: u32) -> Self {
        let of = claim.end(size).saturating_sub(claim.range.first().into());
        Self { free: of.saturating_sub(taken), of }
    }
}

/// How a slot stands that somebody has held.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SlotInspection {
    /// Its number.
    pub slot: u16,
    /// The greatest token issued or burnt.
    pub last_issued: Option<FencingToken>,
    /// Who holds it, if the lease is live by the store's clock: owner, token, label, identity, and how long it goes on.
    pub occupant: Option<Occupant>,
    /// Under which identity it is held, or was held last.
    pub identity: Option<String>,
    /// From when on it counts as free, by the store's wall clock, for people: the end of its lease, its release, or the end
    /// that a revoked lease would have had. Its cool-down is counted from there. `None` where it was only ever revoked.
    pub free_from: Option<SystemTime>,
    /// The last stamp of ID time that counts as used or reserved, since Unix's origin; zero for none.
    pub mark: Duration,
}

impl SlotInspection {
    /// A slot of which only the number is known.
    #[must_use]
    pub const fn new(slot: u16) -> Self {
        Self {
            slot,
            last_issued: None,
            occupant: None,
            identity: None,
            free_from: None,
            mark: Duration::ZERO,
        }
    }
}
