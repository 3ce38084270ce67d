//! N slots of one resource, handed out one at a time.

mod claim;
mod invariants;
mod slot;

use core::time::Duration;

use crate::{Decision, FencingToken, Lease, OwnerId, Rejection};
use slot::{Rank, Standing};

pub use claim::{Gone, SlotClaim, SlotGrant, SlotRange, Unclaimed, Window};
pub use slot::{Slot, SlotRecord};

/// Hands out the slots of one resource: numbers below the pool's size, each to one holder at a time.
///
/// A plain lease is a pool of one, a counting semaphore a pool of N, and the machine IDs of generators of unique IDs are a
/// pool whose claims also reserve ID time. The pool borrows its slots from whoever keeps them, and forgets nothing that is
/// not in them.
///
/// - **Getters**: [`slots`](Self::slots), [`holders`](Self::holders), [`observed`](Self::observed).
/// - **Requests**, each with the time at which it is decided: [`claim`](Self::claim), [`reclaim`](Self::reclaim),
///   [`renew`](Self::renew), [`release`](Self::release), [`withdraw`](Self::withdraw), [`revoke`](Self::revoke).
///
/// # The contract
///
/// 1. **Each slot is an authority of its own.** All that a [`LeaseAuthority`](crate::LeaseAuthority) promises holds for
///    each: tokens rise, one live lease, nothing is resurrected. So holders never exceed slots.
/// 2. **A live slot is never taken over by identity alone**: only by a claimant that says that its identity is
///    [exclusive](SlotClaim::with_exclusive_identity), or names a lease whose holder it [knows to be
///    gone](SlotClaim::with_gone).
/// 3. **A freed slot cools down** before another identity may have it: counted from the release, or from the expiry
///    where nobody released. The identity that held it last may return at once.
/// 4. **A revoked slot stays closed**, to everybody, until the revoked lease would have ended, then cools down: its holder may
///    not have heard of it.
/// 5. **No stamp belongs to two holders of a slot.** A grant and each renewal reserve ID time, see [`Window`]. The mark
///    rises when they are decided. It only goes back to a stamp that the holder itself, releasing, named as its last,
///    and never below where that holder's window began.
///
/// The clock: a `now` before the latest observation is taken as that observation, as stores do. `wall`, where it is given,
/// is what IDs are stamped with, since an origin of its own (Unix's, say); it may step.
///
/// Every request looks at one slot, a claim at each in its range once. None allocates.
#[derive(Debug)]
pub struct Pool<'a, I> {
    slots: &'a mut [Slot<I>],
    cool_down: Duration,
    observed: Duration,
}

impl<'a, I: Clone + PartialEq> Pool<'a, I> {
    /// The most slots that a pool has.
    pub const MAX_SLOTS: usize = 65_536;

    /// How long a freed slot rests unless told otherwise.
    pub const COOL_DOWN: Duration = Duration::from_secs(30);

    /// A pool over these slots; `None` where there are none, or more than [`MAX_SLOTS`](Self::MAX_SLOTS).
    ///
    /// `cool_down` should be no less than what the clocks of holders may be apart.
    #[must_use]
    pub fn over(slots: &'a mut [Slot<I>], cool_down: Duration) -> Option<Self> {
        if slots.is_empty() || slots.len() > Self::MAX_SLOTS {
            return None;
        }
        let observed = slots.iter().map(Slot::observed).max().unwrap_or_default();
        Some(Self { slots, cool_down, observed })
    }

    /// The slots; the place of each is its number.
    #[must_use]
    pub fn slots(&self) -> &[Slot<I>] {
        self.slots
    }

    /// How many slots are held at `now`.
    #[must_use]
    pub fn holders(&self, now: Duration) -> usize {
        let now = self.observed.max(now);
        self.slots.iter().filter(|slot| slot.live(now).is_some()).count()
    }

    /// The latest `now` that this pool or one of its slots has seen.
    #[must_use]
    pub const fn observed(&self) -> Duration {
        self.observed
    }

    /// Takes one slot of the claim's range, and reserves ID time there where `wall` is given.
    ///
    /// Of the slots that it may have, it gets
    ///
    /// 1. one that its identity was the last to hold: of several the one that it left last (with an exclusive identity also
    ///    one that is live, before all others; likewise the one whose holder is named as gone);
    /// 2. else one that was never used;
    /// 3. else the one that has been free for longest;
    ///
    /// and of equals the lowest number. A slot without a greater token is closed for good. So, for claims that reserve
    /// time, is one whose mark lies at or beyond the end of what would be reserved, until the wall clock has passed it.
    ///
    /// # Errors
    ///
    /// [`Unclaimed`]; then nothing has changed.
    pub fn claim(
        &mut self,
        claim: &SlotClaim<I>,
        now: Duration,
        wall: Option<Duration>,
    ) -> Result<SlotGrant, Unclaimed> {
        self.claim_past(claim, now, wall, |_| false)
    }

    /// As [`claim`](Self::claim), passing over slots that `locked` says another request is deciding on just now.
    ///
    /// # Errors
    ///
    /// [`Unclaimed::Busy`] where only locked slots could have been had. A store tries such a claim once more before it says
    /// so.
    pub fn claim_past(
        &mut self,
        claim: &SlotClaim<I>,
        now: Duration,
        wall: Option<Duration>,
        locked: impl Fn(u16) -> bool,
    ) -> Result<SlotGrant, Unclaimed> {
        let now = self.observe(now);
        let until = bounds(now, wall, claim.ttl).map_err(Unclaimed::Invalid)?;
        let mut best: Option<(Rank, u16)> = None;
        let (mut busy, mut next_chance) = (false, None::<Duration>);
        let (mut looked_at, cool_down) = (false, self.cool_down);
        for (number, slot) in numbered(self.slots, claim.range) {
            looked_at = true;
            match slot.standing(number, claim, now, until, cool_down) {
                Standing::Open(_) if locked(number) => busy = true,
                Standing::Open(rank) => {
                    let this = (rank, number);
                    best = Some(best.map_or(this, |other| other.min(this)));
                }
                Standing::ClosedUntil(at) => {
                    next_chance = Some(next_chance.map_or(at, |other| other.min(at)));
                }
                Standing::Closed => {}
            }
        }
        match best {
            Some((_, number)) => self.grant(number, claim, now, until, false).map_err(Unclaimed::Invalid),
            None if busy => Err(Unclaimed::Busy),
            None if looked_at => Err(Unclaimed::Exhausted { next_chance }),
            None => Err(Unclaimed::NoSuchSlot),
        }
    }

    /// Asks again after a claim whose answer was lost: where this owner has a live slot in the range, it keeps it under a
    /// new, greater token, with the window that it had and the time that is reserved now. Else as
    /// [`claim`](Self::claim).
    ///
    /// Whoever reclaims has made no ID under the lost grant, or goes on above the last that it made.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    pub fn reclaim(
        &mut self,
        claim: &SlotClaim<I>,
        now: Duration,
        wall: Option<Duration>,
    ) -> Result<SlotGrant, Unclaimed> {
        let observed = self.observe(now);
        let until = bounds(observed, wall, claim.ttl).map_err(Unclaimed::Invalid)?;
        let own = numbered(self.slots, claim.range)
            .find(|(_, slot)| slot.live(observed).is_some_and(|lease| lease.owner() == claim.owner))
            .map(|(number, _)| number);
        match own {
            Some(number) => self.grant(number, claim, observed, until, true).map_err(Unclaimed::Invalid),
            None => self.claim(claim, now, wall),
        }
    }

    /// Extends the lease of a slot, and reserves ID time from where its window began to `wall + ttl` where `wall` is given.
    ///
    /// # Errors
    ///
    /// [`Rejection::Vacant`] for a number that the pool does not have, [`Rejection::DeadlineOverflow`] also where `wall +
    /// ttl` is out of range; for the rest as [`LeaseAuthority::renew`](crate::LeaseAuthority::renew).
    pub fn renew(
        &mut self,
        number: u16,
        owner: OwnerId,
        token: FencingToken,
        now: Duration,
        wall: Option<Duration>,
        ttl: Duration,
    ) -> Result<SlotGrant, Rejection> {
        let now = self.observe(now);
        let until = bounds(now, wall, ttl)?;
        let slot = self.slot(number)?;
        let lease = granted(slot.authority.renew(owner, token, now, ttl))?;
        let window = until.map(|until| slot.reserve(until));
        slot.check();
        Ok(SlotGrant { slot: number, lease, window })
    }

    /// Gives a slot back. With `last_used`, the last stamp that its holder has used, the rest of its window is given back
    /// too; without, all of it counts as used.
    ///
    /// # Errors
    ///
    /// [`Rejection::Vacant`] for a number that the pool does not have; for the rest as
    /// [`LeaseAuthority::release`](crate::LeaseAuthority::release). Nothing has changed then; least of all where another
    /// holds the slot by now.
    pub fn release(
        &mut self,
        number: u16,
        owner: OwnerId,
        token: FencingToken,
        last_used: Option<Duration>,
        now: Duration,
    ) -> Result<(), Rejection> {
        let now = self.observe(now);
        let slot = self.slot(number)?;
        match slot.authority.release(owner, token, now) {
            Decision::Rejected(reason) => Err(reason),
            _ => {
                slot.vacate(now);
                if let Some(stamp) = last_used {
                    slot.give_back(stamp);
                }
                slot.close_window();
                slot.check();
                Ok(())
            }
        }
    }

    /// Gives back whatever this owner holds in the pool, without knowing numbers and tokens. Says how many slots it were.
    pub fn withdraw(&mut self, owner: OwnerId, now: Duration) -> usize {
        let now = self.observe(now);
        let mut withdrawn = 0_usize;
        for slot in self.slots.iter_mut() {
            let Some(lease) = slot.live(now).filter(|lease| lease.owner() == owner) else { continue };
            if slot.authority.release(owner, lease.token(), now) == Decision::Released {
                slot.vacate(now);
                slot.close_window();
                slot.check();
                withdrawn = withdrawn.saturating_add(1);
            }
        }
        withdrawn
    }

    /// The operator's break, as [`LeaseAuthority::revoke`](crate::LeaseAuthority::revoke). The slot stays closed until the
    /// revoked lease would have ended, and all of its window counts as used.
    ///
    /// # Errors
    ///
    /// [`Rejection::Vacant`] for a number that the pool does not have; for the rest as there.
    pub fn revoke(
        &mut self,
        number: u16,
        expect: Option<FencingToken>,
        now: Duration,
    ) -> Result<FencingToken, Rejection> {
        let now = self.observe(now);
        let slot = self.slot(number)?;
        let before = slot.authority.lease();
        let answer = slot.authority.revoke(expect, now);
        if let (Some(lease), None) = (before, slot.authority.lease()) {
            slot.vacate(lease.expires_at());
            slot.close_window();
        }
        slot.check();
        answer
    }

    fn observe(&mut self, now: Duration) -> Duration {
        self.observed = self.observed.max(now);
        self.observed
    }

    fn slot(&mut self, number: u16) -> Result<&mut Slot<I>, Rejection> {
        self.slots.get_mut(usize::from(number)).ok_or(Rejection::Vacant)
    }

    fn grant(
        &mut self,
        number: u16,
        claim: &SlotClaim<I>,
        now: Duration,
        until: Option<Duration>,
        again: bool,
    ) -> Result<SlotGrant, Rejection> {
        let slot = self.slot(number)?;
        let lease = granted(slot.authority.take_over(claim.owner, now, claim.ttl))?;
        slot.occupy(claim.identity.clone());
        if !again {
            slot.close_window();
        }
        let window = until.map(|until| slot.reserve(until));
        slot.check();
        Ok(SlotGrant { slot: number, lease, window })
    }
}

/// Where the time that is reserved ends, once the request is known to be possible at all.
fn bounds(now: Duration, wall: Option<Duration>, ttl: Duration) -> Result<Option<Duration>, Rejection> {
    if ttl.is_zero() {
        return Err(Rejection::InvalidTtl);
    }
    now.checked_add(ttl).ok_or(Rejection::DeadlineOverflow)?;
    wall.map(|wall| wall.checked_add(ttl).ok_or(Rejection::DeadlineOverflow)).transpose()
}

fn numbered<I>(slots: &[Slot<I>], range: SlotRange) -> impl Iterator<Item = (u16, &Slot<I>)> {
    (0..=u16::MAX)
        .zip(slots)
        .skip(usize::from(range.first()))
        .take_while(move |(number, _)| *number <= range.last())
}

fn granted(decision: Decision) -> Result<Lease, Rejection> {
    match decision {
        Decision::Granted(lease) | Decision::Renewed(lease) => Ok(lease),
        Decision::Rejected(reason) => Err(reason),
        Decision::Released => Err(Rejection::Vacant),
    }
}
