//! A pool as the core has it, beside what stores keep: the measure for random and concurrent runs.

use std::collections::BTreeSet;
use std::time::Duration;

use lease_machines::{
    Checkpoint, FencingToken, Gone, OwnerId, Pool, Rejection, Slot, SlotClaim, SlotGrant, SlotRange,
    SlotRecord, Unclaimed as CoreUnclaimed,
};

use crate::Unclaimed;

/// What is asked for by a claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Wish {
    pub(super) owner: u64,
    pub(super) attempt: u64,
    pub(super) again: bool,
    pub(super) size: u32,
    pub(super) ttl: Duration,
    pub(super) range: SlotRange,
    pub(super) cool_down: Duration,
    pub(super) identity: Option<&'static str>,
    pub(super) exclusive: bool,
    pub(super) gone: Option<(u16, u64)>,
    pub(super) id_time: bool,
}

/// What is asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Op {
    Claim(Wish),
    Renew { slot: u16, owner: u64, token: u64, ttl: Duration, id_time: bool },
    Release { slot: u16, owner: u64, token: u64, last_used: Option<Duration> },
    Withdraw { owner: u64 },
    Revoke { slot: u16, expect: Option<u64> },
    Resize { size: u32 },
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Said {
    Granted {
        slot: u16,
        token: u64,
        ttl: Duration,
        window: Option<(Duration, Duration)>,
    },
    Unclaimed(Unclaimed),
    Renewed {
        ttl: Duration,
        window: Option<(Duration, Duration)>,
    },
    Released,
    AlreadyReleased,
    Burnt {
        token: u64,
    },
    Superseded,
    PoolSize(u32),
    Resized,
    InUse(u16, Duration),
    /// The reason, and the owner and token of the lease that is live.
    Rejected(Rejection, Option<(u64, u64)>),
}

/// How a slot looks from outside: its number, last token, holder with token and time left, identity, and mark.
pub(super) type Look = (u16, u64, Option<(u64, u64, Duration)>, Option<String>, Duration);

/// The whole state. What a store does not record (a refused request's observation) the model does not either.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct PoolModel {
    size: u32,
    slots: Vec<Kept>,
    withdrawn: BTreeSet<u64>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Kept {
    slot: SlotRecord<&'static str>,
    /// The last asker, and its attempt.
    asker: Option<(u64, u64)>,
    /// Token and owner of the last lease that was released or withdrawn; whether it was released.
    vacated: Option<(u64, u64, bool)>,
}

impl PoolModel {
    /// A pool of this many slots.
    pub(super) fn of(size: u32) -> Self {
        let mut model = Self::default();
        model.resize(size);
        model
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The last token of a slot, 0 for none, and that of its lease.
    pub(super) fn tokens(&self, slot: u16) -> (u64, Option<u64>) {
        let kept = self.slots.get(usize::from(slot)).map(|kept| kept.slot.checkpoint);
        let last = kept.and_then(|kept| kept.last_issued()).map_or(0, FencingToken::value);
        (last, kept.and_then(|kept| kept.lease()).map(|lease| lease.token().value()))
    }

    /// How long a stamp may be that is near the end of the slot's window.
    pub(super) fn mark(&self, slot: u16) -> Duration {
        self.slots.get(usize::from(slot)).map_or(Duration::ZERO, |kept| kept.slot.mark)
    }

    /// The slots that somebody has held, as they look at this time.
    pub(super) fn look(&self, now: Duration) -> Vec<Look> {
        let seen = |(number, kept): (u16, &Kept)| {
            let last = kept.slot.checkpoint.last_issued()?.value();
            let now = now.max(kept.slot.checkpoint.observed());
            let lease = kept.slot.checkpoint.lease().filter(|lease| lease.is_live(now));
            let holder = lease.map(|lease| {
                (lease.owner().value(), lease.token().value(), lease.expires_at().saturating_sub(now))
            });
            Some((number, last, holder, kept.slot.identity.map(str::to_owned), kept.slot.mark))
        };
        (0..=u16::MAX).zip(&self.slots).take(self.length()).filter_map(seen).collect()
    }

    /// Does what is asked, and returns what a right store answers.
    ///
    /// Which token of a slot comes next is the store's choice, as long as it is greater than every earlier one: `chosen` is
    /// the slot and token that it issued; without it, the next number. `locked` are slots that other requests are deciding on.
    pub(super) fn ask(
        &mut self,
        op: &Op,
        now: Duration,
        wall: Duration,
        chosen: Option<(u16, u64)>,
        locked: impl Fn(u16) -> bool,
    ) -> Said {
        if let Some((slot, token)) = chosen {
            self.begin_below(slot, token);
        }
        match op {
            Op::Claim(wish) => self.claim(wish, now, wall, locked),
            Op::Renew { slot, owner, token, ttl, id_time } => {
                let wall = id_time.then_some(wall);
                let (owner, token, ttl) = (OwnerId::new(*owner), fencing(*token), *ttl);
                match self.write(Duration::ZERO, |pool| pool.renew(*slot, owner, token, now, wall, ttl)) {
                    Ok(grant) => {
                        let Said::Granted { ttl, window, .. } = self.granted(grant, now) else {
                            return Said::Superseded;
                        };
                        Said::Renewed { ttl, window }
                    }
                    Err(reason) => self.refuse(*slot, reason, now),
                }
            }
            Op::Release { slot, owner, token, last_used } => {
                let here = self.kept(*slot);
                if here.is_some_and(|kept| kept.vacated == Some((*token, *owner, true))) {
                    return Said::AlreadyReleased;
                }
                let (who, shown, used) = (OwnerId::new(*owner), fencing(*token), *last_used);
                match self.write(Duration::ZERO, |pool| pool.release(*slot, who, shown, used, now)) {
                    Ok(()) => {
                        self.vacate(*slot, Some((*token, *owner, true)));
                        Said::Released
                    }
                    Err(reason) => self.refuse(*slot, reason, now),
                }
            }
            Op::Withdraw { owner } => self.withdraw(*owner, now),
            Op::Revoke { slot, expect } => {
                let held = self.kept(*slot).is_some_and(|kept| kept.slot.checkpoint.lease().is_some());
                match self.write(Duration::ZERO, |pool| pool.revoke(*slot, expect.map(fencing), now)) {
                    Ok(burnt) => {
                        if held {
                            self.vacate(*slot, None);
                        }
                        Said::Burnt { token: burnt.value() }
                    }
                    Err(reason) => Said::Rejected(reason, self.live(*slot, now)),
                }
            }
            Op::Resize { size } => {
                let cut: Vec<_> = (0..=u16::MAX).zip(&self.slots).skip(index(*size)).collect();
                for (slot, kept) in cut.into_iter().rev() {
                    let now = now.max(kept.slot.checkpoint.observed());
                    let lease = kept.slot.checkpoint.lease().map(|lease| lease.expires_at());
                    let until = lease.or(kept.slot.freed_at).unwrap_or_default();
                    if until > now {
                        return Said::InUse(slot, until.saturating_sub(now));
                    }
                }
                self.resize(*size);
                Said::Resized
            }
        }
    }

    fn claim(&mut self, wish: &Wish, now: Duration, wall: Duration, locked: impl Fn(u16) -> bool) -> Said {
        if self.withdrawn.contains(&wish.owner) {
            return Said::Superseded;
        }
        let asked = |kept: &Kept| kept.asker.is_some_and(|(asker, _)| asker == wish.owner);
        let own = self.slots.iter().position(asked).and_then(|slot| u16::try_from(slot).ok());
        if let Some(slot) = own {
            // Also where that slot was cut off: who asked for it is still remembered.
            let kept = self.slots.get(usize::from(slot));
            let recorded = kept.and_then(|kept| kept.asker).map_or(0, |(_, attempt)| attempt);
            if wish.attempt <= recorded {
                return self.echo(slot, wish.owner, now);
            }
        }
        if wish.size > self.size {
            return Said::PoolSize(self.size);
        }
        if wish.ttl.is_zero() {
            return Said::Unclaimed(Unclaimed::Invalid(Rejection::InvalidTtl));
        }
        let range = wish.range;
        let in_range =
            |slot: u16| range.first() <= slot && slot <= range.last() && u32::from(slot) < wish.size;
        if let Some(slot) = own.filter(|slot| self.live(*slot, now).is_some()) {
            if !wish.again || !in_range(slot) {
                return Said::Unclaimed(Unclaimed::Invalid(Rejection::Occupied));
            }
        }
        // Numbers from its size on are no numbers to this claimant.
        let last = u16::try_from(wish.size - 1).unwrap_or(u16::MAX);
        let Some(range) = SlotRange::new(range.first(), range.last().min(last)) else {
            return Said::Unclaimed(Unclaimed::NoSuchSlot);
        };
        let mut claim = SlotClaim::new(OwnerId::new(wish.owner), wish.ttl).with_range(range);
        if let Some(identity) = wish.identity {
            claim = claim.with_identity(identity);
        }
        if wish.exclusive {
            claim = claim.with_exclusive_identity();
        }
        if let Some((slot, token)) = wish.gone {
            claim = claim.with_gone(Gone { slot, token: fencing(token) });
        }
        let wall = wish.id_time.then_some(wall);
        let answer = self.write(wish.cool_down, |pool| {
            let now = now.max(pool.observed());
            let own = pool.slots().iter().find(|slot| {
                slot.lease().is_some_and(|lease| lease.is_live(now) && lease.owner().value() == wish.owner)
            });
            if wish.again && own.is_some() {
                pool.reclaim(&claim, now, wall)
            } else {
                pool.claim_past(&claim, now, wall, &locked)
            }
            .map_err(|why| (why, now))
        });
        match answer {
            Ok(grant) => {
                for kept in self.slots.iter_mut().filter(|kept| asked(kept)) {
                    kept.asker = None;
                }
                if let Some(kept) = self.slots.get_mut(usize::from(grant.slot)) {
                    kept.asker = Some((wish.owner, wish.attempt));
                }
                self.granted(grant, now)
            }
            Err((why, now)) => Said::Unclaimed(match why {
                CoreUnclaimed::Exhausted { next_chance } => {
                    Unclaimed::Exhausted { next_chance: next_chance.map(|at| at.saturating_sub(now)) }
                }
                CoreUnclaimed::NoSuchSlot => Unclaimed::NoSuchSlot,
                CoreUnclaimed::Invalid(reason) => Unclaimed::Invalid(reason),
                _ => Unclaimed::Busy,
            }),
        }
    }

    fn echo(&mut self, slot: u16, owner: u64, now: Duration) -> Said {
        let Some(kept) = self.slots.get_mut(usize::from(slot)) else { return Said::Superseded };
        let now = now.max(kept.slot.checkpoint.observed());
        let Some(lease) = kept.slot.checkpoint.lease().filter(|lease| lease.owner().value() == owner) else {
            return Said::Superseded;
        };
        if !lease.is_live(now) {
            kept.slot.checkpoint = observed(kept.slot.checkpoint, now);
            return Said::Superseded;
        }
        let mark = kept.slot.mark;
        Said::Granted {
            slot,
            token: lease.token().value(),
            ttl: lease.expires_at().saturating_sub(now),
            window: kept.slot.window_after.map(|after| (after, mark)),
        }
    }

    fn withdraw(&mut self, owner: u64, now: Duration) -> Said {
        self.withdrawn.insert(owner);
        let asked = |kept: &Kept| kept.asker.is_some_and(|(asker, _)| asker == owner);
        let own = self.slots.iter().position(asked).and_then(|slot| u16::try_from(slot).ok());
        let Some(slot) = own else { return Said::Rejected(Rejection::Vacant, None) };
        let token = self.tokens(slot).1;
        if self.write(Duration::ZERO, |pool| Ok::<_, ()>(pool.withdraw(OwnerId::new(owner), now))) == Ok(1) {
            self.vacate(slot, token.map(|token| (token, owner, false)));
            return Said::Released;
        }
        if self.kept(slot).is_some_and(|kept| kept.vacated.is_some_and(|(_, last, _)| last == owner)) {
            return Said::AlreadyReleased;
        }
        Said::Rejected(Rejection::Vacant, self.live(slot, now))
    }

    /// Has the core decide, and keeps what it did, unless it refused.
    fn write<T, E>(
        &mut self,
        cool_down: Duration,
        ask: impl FnOnce(&mut Pool<'_, &'static str>) -> Result<T, E>,
    ) -> Result<T, E> {
        let length = self.length();
        let restored =
            self.slots.iter().take(length).map(|kept| Slot::restore(kept.slot.clone()).unwrap_or_default());
        let mut slots: Vec<_> = restored.collect();
        let mut nowhere = [Slot::new()];
        let pool = Pool::over(&mut slots, cool_down);
        let answer = match pool {
            Some(mut pool) => ask(&mut pool),
            // There is no pool of no slots.
            None => match Pool::over(&mut nowhere, cool_down) {
                Some(mut pool) => return ask(&mut pool),
                None => unreachable!("one slot is a pool"),
            },
        };
        if answer.is_ok() {
            for (kept, slot) in self.slots.iter_mut().zip(&slots) {
                kept.slot = slot.record();
            }
        }
        answer
    }

    fn granted(&self, grant: SlotGrant, now: Duration) -> Said {
        let now = self.kept(grant.slot).map_or(now, |kept| now.max(kept.slot.checkpoint.observed()));
        Said::Granted {
            slot: grant.slot,
            token: grant.lease.token().value(),
            ttl: grant.lease.expires_at().saturating_sub(now),
            window: grant.window.map(|window| (window.after, window.until)),
        }
    }

    fn refuse(&mut self, slot: u16, reason: Rejection, now: Duration) -> Said {
        if reason == Rejection::Expired {
            if let Some(kept) = self.slots.get_mut(usize::from(slot)) {
                kept.slot.checkpoint = observed(kept.slot.checkpoint, now);
            }
        }
        Said::Rejected(reason, self.live(slot, now))
    }

    fn vacate(&mut self, slot: u16, vacated: Option<(u64, u64, bool)>) {
        if let Some(kept) = self.slots.get_mut(usize::from(slot)) {
            kept.vacated = vacated;
        }
    }

    fn live(&self, slot: u16, now: Duration) -> Option<(u64, u64)> {
        let kept = self.kept(slot)?;
        let now = now.max(kept.slot.checkpoint.observed());
        let lease = kept.slot.checkpoint.lease().filter(|lease| lease.is_live(now))?;
        Some((lease.owner().value(), lease.token().value()))
    }

    /// A slot that the pool has.
    fn kept(&self, slot: u16) -> Option<&Kept> {
        self.slots.get(usize::from(slot)).filter(|_| u32::from(slot) < self.size)
    }

    fn length(&self) -> usize {
        index(self.size)
    }

    fn resize(&mut self, size: u32) {
        self.size = size;
        while self.slots.len() < self.length() {
            self.slots.push(Kept { slot: Slot::new().record(), asker: None, vacated: None });
        }
    }

    /// Lets the core issue this token of the slot, if it is above all earlier ones.
    fn begin_below(&mut self, slot: u16, token: u64) {
        if let Some(kept) = self.slots.get_mut(usize::from(slot)) {
            let known = kept.slot.checkpoint;
            let last = known.last_issued().map_or(0, FencingToken::value).max(token.saturating_sub(1));
            if let Some(raised) =
                Checkpoint::from_parts(FencingToken::new(last), known.lease(), known.observed())
            {
                kept.slot.checkpoint = raised;
            }
        }
    }
}

fn observed(checkpoint: Checkpoint, now: Duration) -> Checkpoint {
    let now = now.max(checkpoint.observed());
    Checkpoint::from_parts(checkpoint.last_issued(), checkpoint.lease(), now).unwrap_or(checkpoint)
}

fn index(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn fencing(token: u64) -> FencingToken {
    FencingToken::new(token).unwrap_or(FencingToken::FIRST)
}
