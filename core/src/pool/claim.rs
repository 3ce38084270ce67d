//! What a pool is asked, and what it answers.

use core::fmt;
use core::time::Duration;

use crate::{FencingToken, Lease, OwnerId, Rejection};

/// A request for one slot of a pool.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotClaim<I> {
    pub(super) owner: OwnerId,
    pub(super) identity: Option<I>,
    pub(super) ttl: Duration,
    pub(super) range: SlotRange,
    pub(super) exclusive: bool,
    pub(super) gone: Option<Gone>,
}

impl<I> SlotClaim<I> {
    /// For `owner`, drawn for this hold and no other, for `ttl`, anywhere in the pool, under no identity.
    #[must_use]
    pub const fn new(owner: OwnerId, ttl: Duration) -> Self {
        Self { owner, identity: None, ttl, range: SlotRange::ALL, exclusive: false, gone: None }
    }

    /// The same, under a name that survives restarts: whoever comes back under it gets the slot that it held last, if that
    /// is free. Several holders may share one. Without a name every slot is a stranger's.
    #[must_use]
    pub fn with_identity(mut self, identity: I) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The same, within this part of the pool.
    #[must_use]
    pub const fn with_range(mut self, range: SlotRange) -> Self {
        self.range = range;
        self
    }

    /// The same, by the only one that ever goes by this identity: a live slot of it is left over from an earlier life, and
    /// is taken over. Whoever says so of an identity that two share takes it away from the other.
    #[must_use]
    pub const fn with_exclusive_identity(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// The same, by one that has proof that the holder of this lease is gone. It counts under the same identity alone.
    #[must_use]
    pub const fn with_gone(mut self, gone: Gone) -> Self {
        self.gone = Some(gone);
        self
    }
}

/// Names a lease whose holder is known to be gone: on the same boot of the same machine, say, there is no process any more
/// with the holder's number and start time. It names the token, so that it says nothing of a later holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gone {
    /// The slot.
    pub slot: u16,
    /// The token that the lease was granted under.
    pub token: FencingToken,
}

/// A part of a pool: data centres that share one, for example, have one each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotRange {
    first: u16,
    last: u16,
}

impl SlotRange {
    /// All that any pool has.
    pub const ALL: Self = Self { first: 0, last: u16::MAX };

    /// From `first` to `last`, both included; `None` where `last` comes before `first`.
    #[must_use]
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first <= last { Some(Self { first, last }) } else { None }
    }

    /// This slot alone.
    #[must_use]
    pub const fn only(slot: u16) -> Self {
        Self { first: slot, last: slot }
    }

    /// The lowest number.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest number.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }
}

/// A slot that was granted or renewed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotGrant {
    /// Its number in the pool.
    pub slot: u16,
    /// The lease on it.
    pub lease: Lease,
    /// The ID time that is the holder's alone; `None` where none was asked for.
    pub window: Option<Window>,
}

/// ID time that belongs to one holder of a slot: the stamps `after < stamp <= until`, on the clock of `wall`.
///
/// It can begin ahead of the clock: where a live slot was taken over, or one that was given back without word of what was
/// used. It never begins before the end of what another holder may have used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// The last stamp that belongs to somebody else.
    pub after: Duration,
    /// The last stamp that belongs to this holder.
    pub until: Duration,
}

impl Window {
    /// Whether a stamp belongs to this holder.
    #[must_use]
    pub fn contains(self, stamp: Duration) -> bool {
        self.after < stamp && stamp <= self.until
    }
}

/// Why a claim got no slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unclaimed {
    /// Every slot in the range is held, closed or cooling down.
    Exhausted {
        /// When the first of them comes free for this claimant if nobody renews; `None` where no clock tells.
        next_chance: Option<Duration>,
    },
    /// There are slots that could be had, but others are deciding on each of them just now.
    Busy,
    /// The range begins beyond the end of the pool.
    NoSuchSlot,
    /// The request cannot be met: [`InvalidTtl`](Rejection::InvalidTtl), or
    /// [`DeadlineOverflow`](Rejection::DeadlineOverflow) for its lease or the time that it reserves.
    Invalid(Rejection),
}

impl fmt::Display for Unclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { .. } => f.write_str("every slot is held, closed or cooling down"),
            Self::Busy => f.write_str("others are deciding on every slot that could be had"),
            Self::NoSuchSlot => f.write_str("the range begins beyond the end of the pool"),
            Self::Invalid(reason) => reason.fmt(f),
        }
    }
}

impl core::error::Error for Unclaimed {}
