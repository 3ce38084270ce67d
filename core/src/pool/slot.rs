//! One slot: an authority, and what a pool remembers beside it.

use core::cmp::Reverse;
use core::time::Duration;

use super::{SlotClaim, Window, invariants};
use crate::{Checkpoint, ClockPolicy, FencingToken, Lease, LeaseAuthority};

/// One slot of a [`Pool`](super::Pool).
///
/// Like its authority it is not `Clone`: to carry one elsewhere, take its [`record`](Self::record), stop using it, and
/// [`restore`](Self::restore) it there.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Slot<I> {
    pub(super) authority: LeaseAuthority,
    pub(super) identity: Option<I>,
    pub(super) freed_at: Option<Duration>,
    pub(super) mark: Duration,
    pub(super) window_after: Option<Duration>,
}

/// All that a slot is, for whoever stores it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotRecord<I> {
    /// The state of its authority.
    pub checkpoint: Checkpoint,
    /// Under which identity it is held, or was held last.
    pub identity: Option<I>,
    /// From when on a vacant slot counts as free: its release, or the end of the lease that was revoked. `None` where
    /// there is a lease, whose end says it, and where there never was one.
    pub freed_at: Option<Duration>,
    /// The last stamp that counts as used or reserved, zero for none.
    pub mark: Duration,
    /// Where the window of the current lease begins, if it has one.
    pub window_after: Option<Duration>,
}

/// In which order slots are taken, the first first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// The claimant's own identity had it last, until then.
    Own(Reverse<Duration>),
    NeverUsed,
    FreeSince(Duration),
}

/// What a slot is to a claim.
pub(super) enum Standing {
    Open(Rank),
    ClosedUntil(Duration),
    /// No clock says until when.
    Closed,
}

impl<I> Default for Slot<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I> Slot<I> {
    /// A slot that was never used.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            authority: LeaseAuthority::new().with_clock_policy(ClockPolicy::Clamp),
            identity: None,
            freed_at: None,
            mark: Duration::ZERO,
            window_after: None,
        }
    }

    /// Goes on from a record; `None` where it is impossible: freed with a lease, a window without one, or a window that
    /// begins beyond the mark.
    #[must_use]
    pub fn restore(record: SlotRecord<I>) -> Option<Self> {
        let authority = LeaseAuthority::restore(record.checkpoint).with_clock_policy(ClockPolicy::Clamp);
        let slot = Self {
            authority,
            identity: record.identity,
            freed_at: record.freed_at,
            mark: record.mark,
            window_after: record.window_after,
        };
        invariants::broken(&slot).is_none().then_some(slot)
    }

    /// The current lease. It may be over: only a `now` tells.
    #[must_use]
    pub const fn lease(&self) -> Option<Lease> {
        self.authority.lease()
    }

    /// The greatest token issued or burnt here.
    #[must_use]
    pub const fn last_issued(&self) -> Option<FencingToken> {
        self.authority.last_issued()
    }

    /// Under which identity it is held, or was held last.
    #[must_use]
    pub const fn identity(&self) -> Option<&I> {
        self.identity.as_ref()
    }

    /// From when on it counts as free, unless its lease is renewed; `None` where it was never used.
    #[must_use]
    pub fn free_from(&self) -> Option<Duration> {
        self.lease().map(Lease::expires_at).or(self.freed_at)
    }

    /// The last stamp that counts as used or reserved, zero for none.
    #[must_use]
    pub const fn mark(&self) -> Duration {
        self.mark
    }

    pub(super) const fn observed(&self) -> Duration {
        self.authority.observed()
    }

    pub(super) fn live(&self, now: Duration) -> Option<Lease> {
        self.lease().filter(|lease| lease.is_live(now))
    }

    /// Somebody has it now.
    pub(super) fn occupy(&mut self, identity: Option<I>) {
        self.identity = identity;
        self.freed_at = None;
    }

    /// Nobody has it, and it counts as free from then on.
    pub(super) const fn vacate(&mut self, free_from: Duration) {
        self.freed_at = Some(free_from);
    }

    /// Reserves all stamps up to `until` that nobody else may have used. Those of a window that has not been closed are the
    /// holder's already.
    pub(super) fn reserve(&mut self, until: Duration) -> Window {
        let after = self.window_after.unwrap_or(self.mark);
        self.window_after = Some(after);
        self.mark = self.mark.max(until);
        Window { after, until: self.mark }
    }

    /// The holder used nothing of its window beyond `last_used`. A stamp beyond the mark raises it instead: what was used
    /// is used, whatever had been reserved.
    pub(super) fn give_back(&mut self, last_used: Duration) {
        self.mark = last_used.max(self.window_after.unwrap_or(self.mark));
    }

    pub(super) const fn close_window(&mut self) {
        self.window_after = None;
    }

    /// Stops a debug build that has come to an impossible state.
    pub(super) fn check(&self) {
        debug_assert_eq!(invariants::broken(self), None);
    }
}

impl<I: Clone + PartialEq> Slot<I> {
    /// The whole slot as a value.
    #[must_use]
    pub fn record(&self) -> SlotRecord<I> {
        SlotRecord {
            checkpoint: self.authority.checkpoint(),
            identity: self.identity.clone(),
            freed_at: self.freed_at,
            mark: self.mark,
            window_after: self.window_after,
        }
    }

    /// Whether the claim may have this slot, and before which others. `until` is the end of what it would reserve.
    pub(super) fn standing(
        &self,
        number: u16,
        claim: &SlotClaim<I>,
        now: Duration,
        until: Option<Duration>,
        cool_down: Duration,
    ) -> Standing {
        let no_token = self.last_issued().is_some_and(|last| last.next().is_none());
        let no_time = until.is_some_and(|until| until <= self.mark);
        if no_token || no_time {
            return Standing::Closed;
        }
        let Some(free_from) = self.free_from() else {
            return Standing::Open(Rank::NeverUsed);
        };
        let own = claim.identity.is_some() && claim.identity == self.identity;
        let may_take_over = |lease: Lease| {
            let gone = claim.gone.is_some_and(|gone| (gone.slot, gone.token) == (number, lease.token()));
            own && (claim.exclusive || gone)
        };
        let open_from = if own { free_from } else { free_from.saturating_add(cool_down) };
        if now >= open_from || self.live(now).is_some_and(may_take_over) {
            Standing::Open(if own { Rank::Own(Reverse(free_from)) } else { Rank::FreeSince(free_from) })
        } else {
            Standing::ClosedUntil(open_from)
        }
    }
}
