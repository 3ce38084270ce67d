//! Decisions about one slot of a pool: the core's pool of one, on one version of the slot's row.
//!
//! Which slot a claim gets is the store's to find, in the core's order: [`course`] says whether one is to be looked for,
//! [`take`] lets the core decide on the one that was found.

use std::time::Duration;

use lease_machines::{
    FencingToken, Gone, LeaseAuthority, OwnerId, Pool, Rejection, Slot, SlotClaim, SlotGrant, SlotRecord,
    Unclaimed as CoreUnclaimed, Window,
};

use super::acquire::held_back;
use super::renew::{refused, rewound, usable};
use super::row::{burnt, micros};
use super::{At, Decided, Effects, Held, Row, Standing, Write, same_epoch};
use crate::pool::{superseded, too_many};
use crate::{
    Claimed, ErrorKind, HoldOutcome, PoolClaim, Rejected, Released, Revoked, SlotInspection, SlotLease,
    SlotRef, SlotRenewed, StoreError, Unclaimed, VacatedHow,
};

/// A slot: a lease's row, and what a pool remembers beside it.
#[derive(Clone, Default, Debug)]
pub(crate) struct SlotRow {
    /// Its lease, its tokens, and who asked last. An owner is the asker of at most one slot of a pool.
    pub(crate) row: Row,
    /// Under which identity it is held, or was held last.
    pub(crate) identity: Option<String>,
    /// From when on it counts as free, where it is vacant and was held before.
    pub(crate) freed_at: Option<Duration>,
    /// The last stamp that counts as used or reserved, since Unix's origin; zero for none.
    pub(crate) mark: Duration,
    /// Where the window of the current lease begins, if it has one.
    pub(crate) window_after: Option<Duration>,
}

impl SlotRow {
    /// The slot as the core has it.
    pub(crate) fn slot(&self, standing: &Standing, at: &At) -> Result<Slot<String>, StoreError> {
        // What a lost history made of a window nobody knows: it is not gone on with in another epoch.
        let of_this_epoch = self.row.lease.as_ref().is_some_and(|held| held.epoch == standing.epoch);
        Slot::restore(SlotRecord {
            checkpoint: self.row.authority(standing, at)?.checkpoint(),
            identity: self.identity.clone(),
            freed_at: self.freed_at,
            mark: self.mark.max(standing.stamps_above),
            window_after: self.window_after.filter(|_| of_this_epoch),
        })
        .ok_or_else(|| {
            StoreError::new(
                ErrorKind::Damaged,
                "a slot's row is none that a decision leaves behind: freed with a lease, or a window without one",
            )
        })
    }

    /// Has the core's pool of this one slot decide. What came of it is in the second value, and not yet in the row.
    fn decide<T>(
        &self,
        standing: &Standing,
        at: &At,
        cool_down: Duration,
        ask: impl FnOnce(&mut Pool<'_, String>) -> T,
    ) -> Result<(T, SlotRecord<String>), StoreError> {
        let mut slots = [self.slot(standing, at)?];
        let Some(mut pool) = Pool::over(&mut slots, cool_down) else {
            return Err(StoreError::new(ErrorKind::Damaged, "a pool of one slot is none"));
        };
        let answer = ask(&mut pool);
        let [slot] = slots;
        Ok((answer, slot.record()))
    }

    /// Takes over what the core has recorded, but for the lease.
    fn record(&mut self, record: SlotRecord<String>) {
        self.row.record(&LeaseAuthority::restore(record.checkpoint));
        self.identity = record.identity;
        self.freed_at = record.freed_at;
        self.mark = record.mark;
        self.window_after = record.window_after;
    }

    /// For how long somebody holds it, or may still act under a lease that was revoked, if so.
    pub(crate) fn in_use(&self, now: Duration) -> Option<Duration> {
        let now = now.max(self.row.observed);
        let until = self.row.lease.as_ref().map(|held| held.expires_at).or(self.freed_at)?;
        until.checked_sub(now).filter(|left| !left.is_zero())
    }

    fn window(&self) -> Option<Window> {
        self.window_after.map(|after| Window { after, until: self.mark })
    }

    /// The snapshot that people are shown; `None` where nobody has ever touched it.
    pub(crate) fn inspection(&self, number: u16, at: &At) -> Option<SlotInspection> {
        self.row.last_issued?;
        let now = at.now.max(self.row.observed);
        let free_from = self.row.lease.as_ref().map(|held| held.expires_at).or(self.freed_at);
        let by_wall = |time: Duration| match time.checked_sub(now) {
            Some(ahead) => at.wall.checked_add(ahead),
            None => at.wall.checked_sub(now.saturating_sub(time)),
        };
        let mut inspection = SlotInspection::new(number);
        inspection.last_issued = self.row.last_issued;
        inspection.occupant = self.row.occupant(now);
        inspection.identity.clone_from(&self.identity);
        inspection.free_from = free_from.and_then(by_wall);
        inspection.mark = self.mark;
        Some(inspection)
    }
}

/// The store's wall clock, in what engines keep of it.
pub(crate) fn wall(at: &At) -> Duration {
    Duration::from_micros(micros(at.wall))
}

/// What a claim comes to before a free slot is looked for.
pub(crate) enum Course {
    /// It is answered; what has to be written is about its owner's slot.
    Answered(Box<Decided<Claimed>>),
    /// Its owner's slot, under a new token.
    Again,
    /// A free one.
    Free,
}

/// What becomes of a claim, `reclaim_slot` where `again`. `size` is the pool's, `own` the slot whose last asker is the
/// claim's owner.
pub(crate) fn course(
    standing: &Standing,
    at: &At,
    claim: &PoolClaim,
    again: bool,
    size: u32,
    withdrawn: bool,
    own: Option<(u16, &mut SlotRow)>,
) -> Course {
    let answered = |answer| Course::Answered(Box::new(Decided::only(answer)));
    if let Err(error) = same_epoch(claim.epoch, standing) {
        return answered(Err(error));
    }
    if withdrawn {
        return answered(Err(superseded(claim, "the owner has withdrawn")));
    }
    let own = match own {
        Some((number, slot)) => match slot.row.asker {
            Some((_, attempt)) if claim.attempt <= attempt => {
                let echo = echo(slot, number, standing, at, claim, attempt);
                return Course::Answered(Box::new(echo));
            }
            _ => Some((number, slot)),
        },
        None => None,
    };
    if claim.size > size {
        return answered(Err(too_many(claim, size)));
    }
    if claim.ttl.is_zero() {
        return answered(Ok(Claimed::Rejected(Unclaimed::Invalid(Rejection::InvalidTtl))));
    }
    let live = own.filter(|(_, slot)| slot.row.live(at.now.max(slot.row.observed)).is_some());
    match live {
        Some((number, _)) if again && in_range(claim, number) => Course::Again,
        Some(_) => answered(Ok(Claimed::Rejected(Unclaimed::Invalid(Rejection::Occupied)))),
        None => Course::Free,
    }
}

/// Whether the claim may have a slot of this number.
pub(crate) fn in_range(claim: &PoolClaim, number: u16) -> bool {
    let range = claim.range;
    range.first() <= number && number <= range.last() && u32::from(number) < claim.size
}

/// A doubled or delayed request: it is told what its owner already has, or that it is too late.
fn echo(
    slot: &mut SlotRow,
    number: u16,
    standing: &Standing,
    at: &At,
    claim: &PoolClaim,
    attempt: u64,
) -> Decided<Claimed> {
    let now = at.now.max(slot.row.observed);
    let own = |held: &&Held| held.owner == claim.owner && held.epoch == standing.epoch;
    let Some(held) = slot.row.lease.as_ref().filter(own) else {
        let why = format!("attempt {attempt} of the owner was answered before");
        return Decided::only(Err(superseded(claim, &why)));
    };
    if now < held.expires_at {
        let left = held.expires_at.saturating_sub(now);
        let lease = SlotLease::new(number, held.token, left, slot.window(), wall(at), standing.epoch);
        return Decided::only(Ok(Claimed::Granted(lease)));
    }
    // The answer says that the lease is over: that has to stay so.
    let ended = Some(held.ended(HoldOutcome::Expired, now, at.wall));
    slot.row.observed = now;
    Decided {
        answer: Err(superseded(claim, "its lease has run out")),
        effects: Effects { write: Write::Observation, ended, ..Effects::default() },
    }
}

/// Lets the core decide on the slot that was found for a claim: its owner's own (`again`), or the first of those that it may
/// have. `Exhausted` then says of this slot alone that it cannot be had.
pub(crate) fn take(
    slot: &mut SlotRow,
    number: u16,
    standing: &Standing,
    at: &At,
    claim: &PoolClaim,
    again: bool,
) -> Decided<Claimed> {
    let alone = Gone { slot: 0, token: FencingToken::FIRST };
    let gone = claim.gone.filter(|gone| gone.slot == number).map(|gone| Gone { token: gone.token, ..alone });
    let asked = core_claim(claim, gone);
    let until = claim.id_time.then(|| wall(at));
    let decided = slot.decide(standing, at, claim.cool_down, |pool| {
        if again { pool.reclaim(&asked, at.now, until) } else { pool.claim(&asked, at.now, until) }
    });
    let (grant, record) = match decided {
        Ok((Ok(grant), record)) => (grant, record),
        Ok((Err(why), _)) => {
            let now = at.now.max(slot.row.observed);
            return Decided::only(Ok(Claimed::Rejected(unclaimed(why, now))));
        }
        Err(error) => return Decided::only(Err(error)),
    };
    let now = record.checkpoint.observed();
    if now < standing.grants_from {
        return Decided::only(Err(held_back(standing, now)));
    }
    let ended = slot.row.lease.as_ref().map(|old| {
        let outcome = if now < old.expires_at { HoldOutcome::Rotated } else { HoldOutcome::Expired };
        old.ended(outcome, now, at.wall)
    });
    slot.record(record);
    let ttl = grant.lease.expires_at().saturating_sub(now);
    slot.row.lease = Some(Held {
        owner: claim.owner,
        token: grant.lease.token(),
        granted_at: now,
        expires_at: grant.lease.expires_at(),
        ttl,
        epoch: standing.epoch,
        retained: false,
        granted_wall: at.wall,
        renewed_wall: at.wall,
        renewals: 0,
        label: claim.label.clone(),
        identity: claim.identity.clone(),
    });
    slot.row.asker = Some((claim.owner, claim.attempt));
    Decided {
        answer: Ok(Claimed::Granted(told(number, grant, now, standing, at))),
        effects: Effects { write: Write::Whole, ended, ..Effects::default() },
    }
}

/// A claim as the core takes it, anywhere in the pool.
pub(crate) fn core_claim(claim: &PoolClaim, gone: Option<Gone>) -> SlotClaim<String> {
    let mut asked = SlotClaim::new(claim.owner, claim.ttl);
    if let Some(identity) = &claim.identity {
        asked = asked.with_identity(identity.clone());
    }
    if claim.exclusive_identity {
        asked = asked.with_exclusive_identity();
    }
    match gone {
        Some(gone) => asked.with_gone(gone),
        None => asked,
    }
}

fn told(number: u16, grant: SlotGrant, now: Duration, standing: &Standing, at: &At) -> SlotLease {
    let left = grant.lease.expires_at().saturating_sub(now);
    SlotLease::new(number, grant.lease.token(), left, grant.window, wall(at), standing.epoch)
}

/// The core's reason, its time counted from now on.
pub(crate) fn unclaimed(why: CoreUnclaimed, now: Duration) -> Unclaimed {
    match why {
        CoreUnclaimed::Exhausted { next_chance } => {
            Unclaimed::Exhausted { next_chance: next_chance.map(|at| at.saturating_sub(now)) }
        }
        CoreUnclaimed::NoSuchSlot => Unclaimed::NoSuchSlot,
        CoreUnclaimed::Invalid(reason) => Unclaimed::Invalid(reason),
        // The core's `Busy`, and whatever it may come to say: ask again.
        _ => Unclaimed::Busy,
    }
}

/// Decides `renew_slot`.
pub(crate) fn renew(
    slot: &mut SlotRow,
    standing: &Standing,
    at: &At,
    lease: &SlotRef,
    ttl: Duration,
    id_time: bool,
) -> Decided<SlotRenewed> {
    let shown = lease.as_lease();
    if let Err(error) = usable(&slot.row, standing, &shown) {
        return Decided::only(Err(error));
    }
    let rewound = rewound(&slot.row, standing, at, &shown);
    let until = id_time.then(|| wall(at));
    let decided = slot.decide(standing, at, Duration::ZERO, |pool| {
        pool.renew(0, lease.owner, lease.token, at.now, until, ttl)
    });
    match decided {
        Ok((Ok(grant), record)) => {
            let now = record.checkpoint.observed();
            slot.record(record);
            if let Some(held) = &mut slot.row.lease {
                held.expires_at = grant.lease.expires_at();
                held.ttl = held.expires_at.saturating_sub(now);
                held.renewed_wall = at.wall;
                held.renewals = held.renewals.saturating_add(1);
            }
            Decided {
                answer: Ok(SlotRenewed::Renewed(told(lease.slot, grant, now, standing, at))),
                effects: Effects { write: Write::Renewal, ..Effects::default() },
            }
        }
        Ok((Err(reason), _)) => {
            let now = at.now.max(slot.row.observed);
            let effects = refused(&mut slot.row, at, now, reason, rewound);
            Decided { answer: Ok(SlotRenewed::Rejected(slot.row.rejected(reason, now))), effects }
        }
        Err(error) => Decided::only(Err(error)),
    }
}

/// Decides `release_slot`.
pub(crate) fn release(
    slot: &mut SlotRow,
    standing: &Standing,
    at: &At,
    lease: &SlotRef,
    last_used: Option<Duration>,
) -> Decided<Released> {
    let shown = lease.as_lease();
    if let Err(error) = usable(&slot.row, standing, &shown) {
        return Decided::only(Err(error));
    }
    if slot.row.vacated.as_ref().is_some_and(|last| {
        last.token == lease.token && last.owner == lease.owner && last.how == VacatedHow::Released
    }) {
        return Decided::only(Ok(Released::AlreadyReleased));
    }
    let rewound = rewound(&slot.row, standing, at, &shown);
    let decided = slot.decide(standing, at, Duration::ZERO, |pool| {
        pool.release(0, lease.owner, lease.token, last_used, at.now)
    });
    match decided {
        Ok((Ok(()), record)) => vacated(slot, record, at, VacatedHow::Released, HoldOutcome::Released),
        Ok((Err(reason), _)) => {
            let now = at.now.max(slot.row.observed);
            let effects = refused(&mut slot.row, at, now, reason, rewound);
            Decided { answer: Ok(Released::Rejected(slot.row.rejected(reason, now))), effects }
        }
        Err(error) => Decided::only(Err(error)),
    }
}

/// Decides `withdraw_slot`, on the slot whose last asker is this owner.
pub(crate) fn withdraw(
    slot: &mut SlotRow,
    standing: &Standing,
    at: &At,
    owner: OwnerId,
) -> Decided<Released> {
    let decided = slot.decide(standing, at, Duration::ZERO, |pool| pool.withdraw(owner, at.now));
    let mut decided = match decided {
        Ok((0, _)) => {
            let last = slot.row.vacated.as_ref();
            let already = last.is_some_and(|last| last.owner == owner && last.how != VacatedHow::Revoked);
            let now = at.now.max(slot.row.observed);
            Decided::only(Ok(if already {
                Released::AlreadyReleased
            } else {
                Released::Rejected(slot.row.rejected(Rejection::Vacant, now))
            }))
        }
        Ok((_, record)) => vacated(slot, record, at, VacatedHow::Withdrawn, HoldOutcome::Withdrawn),
        Err(error) => Decided::only(Err(error)),
    };
    decided.effects.withdrawn = Some(owner);
    decided
}

fn vacated(
    slot: &mut SlotRow,
    record: SlotRecord<String>,
    at: &At,
    how: VacatedHow,
    outcome: HoldOutcome,
) -> Decided<Released> {
    slot.record(record);
    let ended = slot.row.lease.as_ref().map(|held| held.ended(outcome, slot.row.observed, at.wall));
    slot.row.vacate(how);
    Decided {
        answer: Ok(Released::Released),
        effects: Effects { write: Write::Whole, ended, ..Effects::default() },
    }
}

/// Decides `revoke_slot`.
pub(crate) fn revoke(
    slot: &mut SlotRow,
    standing: &Standing,
    at: &At,
    expect: Option<FencingToken>,
    reason: Option<String>,
) -> Decided<Revoked> {
    let decided = slot.decide(standing, at, Duration::ZERO, |pool| pool.revoke(0, expect, at.now));
    let (answer, record) = match decided {
        Ok((Err(why @ (Rejection::Vacant | Rejection::StaleToken)), record)) => {
            let now = record.checkpoint.observed();
            return Decided::only(Ok(Revoked::Rejected(slot.row.rejected(why, now))));
        }
        Ok(decided) => decided,
        Err(error) => return Decided::only(Err(error)),
    };
    slot.record(record);
    let now = slot.row.observed;
    let live = slot.row.live(now).is_some();
    let mut ended =
        slot.row.lease.as_ref().map(|held| {
            held.ended(if live { HoldOutcome::Revoked } else { HoldOutcome::Expired }, now, at.wall)
        });
    let mut burnt_alone = None;
    if live {
        if let Some(entry) = &mut ended {
            entry.reason = reason;
        }
    } else if let Ok(token) = answer {
        burnt_alone = Some(burnt(token, reason, at.wall));
    }
    slot.row.vacate(VacatedHow::Revoked);
    Decided {
        answer: Ok(match answer {
            Ok(token) => Revoked::Burnt(token),
            Err(why) => Revoked::Rejected(Rejected::new(why)),
        }),
        effects: Effects { write: Write::Whole, ended, burnt: burnt_alone, ..Effects::default() },
    }
}
