//! What a store is asked about the slots of a pool.

use std::time::Duration;

use lease_machines::{FencingToken, Gone, OwnerId, Pool, SlotRange};

use super::slot_name;
use crate::{Epoch, LeaseRef, ResourceName, StoreError};

/// A request for one slot of a pool, for [`Store::claim_slot`](crate::Store::claim_slot) and
/// [`reclaim_slot`](crate::Store::reclaim_slot).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoolClaim {
    /// The pool: a name of at most 249 bytes. A lease of the same name is another thing.
    pub pool: ResourceName,
    /// How many slots the claimant can do with, from 1 to 65,536: only numbers below are granted to it.
    ///
    /// A pool is made by its first claim, with as many slots as that names. A claim that names more than the pool has is
    /// refused ([`PoolSize`](crate::ErrorKind::PoolSize)), since others count on there being no more;
    /// [`resize_pool`](crate::Store::resize_pool) makes it larger.
    pub size: u32,
    /// Who asks: [`fresh_owner`](crate::fresh_owner), drawn for this hold and no other. An owner holds at most one slot of
    /// a pool.
    pub owner: OwnerId,
    /// For how long: from 1 ms to the store's `max_ttl`.
    pub ttl: Duration,
    /// Counts this owner's requests to the pool, from 1. One that is not greater than the recorded one is an echo: it
    /// changes nothing, and is answered with the recorded grant if that still stands, else *not done*.
    pub attempt: u64,
    /// The epoch that the caller believes in; `None` before it knows one.
    pub epoch: Option<Epoch>,
    /// Which part of the pool: data centres that share one have one each.
    pub range: SlotRange,
    /// How long a slot rests before another identity than its last may have it: up to 365 days, and no less than what the
    /// clocks of holders may be apart.
    pub cool_down: Duration,
    /// A name for the claimant that survives restarts: under it, it gets the slot again that it held last, if that is free.
    /// Several may share one. Without, every slot is a stranger's.
    pub identity: Option<String>,
    /// Nobody else goes by this identity: a live slot of it is left over from an earlier life, and is taken over.
    pub exclusive_identity: bool,
    /// A lease whose holder is known to be gone: under the same identity its slot is taken over.
    pub gone: Option<Gone>,
    /// Shown to people who ask who holds the slot.
    pub label: Option<String>,
    /// Whether ID time is reserved, see [`SlotLease::window`](crate::SlotLease::window). Machine IDs need it, counting
    /// semaphores do not.
    pub id_time: bool,
}

impl PoolClaim {
    /// How long a freed slot rests unless told otherwise: 30 s.
    pub const COOL_DOWN: Duration = Pool::<()>::COOL_DOWN;

    /// A first attempt for any slot of the pool, under no identity, without ID time.
    #[must_use]
    pub const fn new(pool: ResourceName, size: u32, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            pool,
            size,
            owner,
            ttl,
            attempt: 1,
            epoch: None,
            range: SlotRange::ALL,
            cool_down: Self::COOL_DOWN,
            identity: None,
            exclusive_identity: false,
            gone: None,
            label: None,
            id_time: false,
        }
    }

    /// The number after the last that it may get, in a pool of this size.
    pub(crate) fn end(&self, size: u32) -> u32 {
        size.min(self.size).min(u32::from(self.range.last()).saturating_add(1))
    }

    /// The same request, as the owner's attempt number `attempt`.
    #[must_use]
    pub const fn with_attempt(mut self, attempt: u64) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same request, valid in this epoch alone.
    #[must_use]
    pub const fn with_epoch(mut self, epoch: Option<Epoch>) -> Self {
        self.epoch = epoch;
        self
    }

    /// The same request, within this part of the pool.
    #[must_use]
    pub const fn with_range(mut self, range: SlotRange) -> Self {
        self.range = range;
        self
    }

    /// The same request, of slots that have rested this long.
    #[must_use]
    pub const fn with_cool_down(mut self, cool_down: Duration) -> Self {
        self.cool_down = cool_down;
        self
    }

    /// The same request, under this identity.
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The same request, by the only one that goes by its identity. Whoever says so of an identity that two share takes it
    /// away from the other.
    #[must_use]
    pub const fn with_exclusive_identity(mut self) -> Self {
        self.exclusive_identity = true;
        self
    }

    /// The same request, by one that has proof that the holder of this lease is gone.
    #[must_use]
    pub const fn with_gone(mut self, gone: Gone) -> Self {
        self.gone = Some(gone);
        self
    }

    /// The same request, with a label.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same request, reserving ID time.
    #[must_use]
    pub const fn with_id_time(mut self) -> Self {
        self.id_time = true;
        self
    }
}

/// Names a slot that was granted, for [`Store::renew_slot`](crate::Store::renew_slot) and
/// [`release_slot`](crate::Store::release_slot).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct SlotRef {
    /// The pool.
    pub pool: ResourceName,
    /// The slot's number in it.
    pub slot: u16,
    /// Who it was granted to.
    pub owner: OwnerId,
    /// The token it was granted under.
    pub token: FencingToken,
    /// The epoch it was granted in; `None` takes whatever epoch the store is in.
    pub epoch: Option<Epoch>,
}

impl SlotRef {
    /// Puts the parts together.
    #[must_use]
    pub const fn new(
        pool: ResourceName,
        slot: u16,
        owner: OwnerId,
        token: FencingToken,
        epoch: Option<Epoch>,
    ) -> Self {
        Self { pool, slot, owner, token, epoch }
    }

    /// The lease as the rules of all leases take it: what it is on does not matter to them.
    pub(crate) fn as_lease(&self) -> LeaseRef {
        LeaseRef::new(self.pool.clone(), self.owner, self.token, self.epoch)
    }

    /// The lease as a fence takes it: on the resource `pool#slot`, so that each slot has a mark of its own,
    /// `MarkKey::new(fenced.resource)`. Do not use that name for a lease of its own.
    ///
    /// It names no epoch, so that the guard is the plain one: the strict one looks among leases that are not slots.
    ///
    /// # Errors
    ///
    /// [`Request`](crate::ErrorKind::Request) where the pool's name is longer than 249 bytes.
    pub fn fenced(&self) -> Result<LeaseRef, StoreError> {
        Ok(LeaseRef::new(slot_name(&self.pool, self.slot)?, self.owner, self.token, None))
    }
}
