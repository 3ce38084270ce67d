//! The pools of the store in memory: the core's own pool finds the slot for a claim.

use std::collections::{BTreeMap, HashSet};

use lease_machines::{FencingToken, OwnerId, Pool, Rejection};

use super::state::{Holds, State};
use crate::decide::{self, At, Course, Decided, Effects, Row, SlotRow, Standing, Write};
use crate::pool::{slot_name, slot_named};
use crate::{
    Claimed, PoolClaim, PoolInspection, Rejected, Released, Resized, ResourceName, Revoked, StoreError,
    Unclaimed,
};

/// All pools, and whoever has withdrawn from one.
#[derive(Default, Debug)]
pub(super) struct Pools {
    pools: BTreeMap<ResourceName, Slots>,
    withdrawn: HashSet<(ResourceName, OwnerId)>,
}

/// One pool. It may have more slots than its size, since it was larger: those keep their tokens and marks.
#[derive(Default, Debug)]
struct Slots {
    size: u32,
    slots: Vec<Kept>,
}

#[derive(Default, Debug)]
struct Kept {
    slot: SlotRow,
    holds: Holds,
}

impl Pools {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.pools.values().flat_map(|pool| &pool.slots).map(|kept| &kept.slot.row)
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = (&mut Row, &mut Holds)> {
        let slots = self.pools.values_mut().flat_map(|pool| &mut pool.slots);
        slots.map(|kept| (&mut kept.slot.row, &mut kept.holds))
    }

    pub(super) fn names(&self) -> Vec<ResourceName> {
        self.pools.keys().cloned().collect()
    }

    /// The slot of this name.
    pub(super) fn named(&self, name: &ResourceName) -> Option<(&Row, &Holds)> {
        let (pool, slot) = slot_named(name)?;
        let kept = self.pools.get(&pool)?.slots.get(usize::from(slot))?;
        Some((&kept.slot.row, &kept.holds))
    }
}

impl Slots {
    fn resize(&mut self, size: u32) {
        self.size = size;
        let length = usize::try_from(size).unwrap_or(0);
        if self.slots.len() < length {
            self.slots.resize_with(length, Kept::default);
        }
    }

    fn get(&mut self, slot: u16) -> Option<&mut Kept> {
        if u32::from(slot) < self.size { self.slots.get_mut(usize::from(slot)) } else { None }
    }

    /// The slot whose last asker is this owner.
    fn own(&mut self, owner: OwnerId) -> Option<(u16, &mut Kept)> {
        let asked = |kept: &Kept| kept.slot.row.asker.is_some_and(|(asker, _)| asker == owner);
        (0..=u16::MAX).zip(&mut self.slots).find(|(_, kept)| asked(kept))
    }

    /// The slot that the claim gets, as the whole pool of the core has it.
    fn first(
        &self,
        claim: &PoolClaim,
        standing: &Standing,
        at: &At,
    ) -> Result<Result<u16, Unclaimed>, StoreError> {
        let length = usize::try_from(claim.size.min(self.size)).unwrap_or(0);
        let mut slots = Vec::with_capacity(length);
        for kept in self.slots.iter().take(length) {
            slots.push(kept.slot.slot(standing, at)?);
        }
        let Some(mut pool) = Pool::over(&mut slots, claim.cool_down) else {
            return Ok(Err(Unclaimed::NoSuchSlot));
        };
        let asked = decide::core_claim(claim, claim.gone).with_range(claim.range);
        let wall = claim.id_time.then(|| decide::wall(at));
        let now = pool.observed().max(at.now);
        Ok(match pool.claim(&asked, at.now, wall) {
            Ok(grant) => Ok(grant.slot),
            Err(why) => Err(decide::unclaimed(why, now)),
        })
    }
}

impl Kept {
    fn write(&mut self, slot: SlotRow, effects: &Effects) {
        if effects.write != Write::Nothing {
            self.slot = slot;
            self.holds.record(effects);
        }
    }
}

impl State {
    pub(super) fn claim_slot(&mut self, claim: &PoolClaim, again: bool) -> Result<Claimed, StoreError> {
        let (at, standing) = (self.at(), self.standing.clone());
        let withdrawn = self.pools.withdrawn.contains(&(claim.pool.clone(), claim.owner));
        let made = self.pools.pools.contains_key(&claim.pool);
        let mut fresh = Slots::default();
        let pool = self.pools.pools.get_mut(&claim.pool).unwrap_or(&mut fresh);
        if !made {
            pool.resize(claim.size);
        }
        let size = pool.size;
        let own = pool.own(claim.owner);
        let own_number = own.as_ref().map(|(number, _)| *number);
        let mut row = own.as_ref().map(|(_, kept)| kept.slot.clone());
        let course =
            decide::course(&standing, &at, claim, again, size, withdrawn, own_number.zip(row.as_mut()));
        let number = match course {
            Course::Answered(decided) => {
                let Decided { answer, effects } = *decided;
                if let (Some((_, kept)), Some(row)) = (own, row) {
                    kept.write(row, &effects);
                }
                return answer;
            }
            Course::Again => own_number.unwrap_or_default(),
            Course::Free => match pool.first(claim, &standing, &at)? {
                Ok(number) => number,
                Err(why) => return Ok(Claimed::Rejected(why)),
            },
        };
        let Some(kept) = pool.get(number) else { return Ok(Claimed::Rejected(Unclaimed::NoSuchSlot)) };
        let mut row = kept.slot.clone();
        let again = own_number == Some(number) && again;
        let Decided { answer, effects } = decide::take(&mut row, number, &standing, &at, claim, again);
        kept.write(row, &effects);
        if matches!(answer, Ok(Claimed::Granted(_))) {
            // It asks through this slot now.
            let former = own_number.filter(|own| *own != number);
            // Also where that was cut off since.
            if let Some(kept) = former.and_then(|own| pool.slots.get_mut(usize::from(own))) {
                kept.slot.row.asker = None;
            }
            if !made {
                self.pools.pools.insert(claim.pool.clone(), fresh);
            }
        }
        answer
    }

    /// Decides on a copy of the slot, and keeps what came of it. A slot that the pool does not have is one that nobody ever
    /// held, and nothing of it is kept.
    pub(super) fn decide_slot<T>(
        &mut self,
        pool: &ResourceName,
        number: u16,
        decision: impl FnOnce(&mut SlotRow, &Standing, &At) -> Decided<T>,
    ) -> Result<T, StoreError> {
        let at = self.at();
        let kept = self.pools.pools.get_mut(pool).and_then(|pool| pool.get(number));
        let mut slot = kept.as_ref().map(|kept| kept.slot.clone()).unwrap_or_default();
        let Decided { answer, effects } = decision(&mut slot, &self.standing, &at);
        if let Some(kept) = kept {
            kept.write(slot, &effects);
        }
        if let Some(owner) = effects.withdrawn {
            self.pools.withdrawn.insert((pool.clone(), owner));
        }
        self.look_for_a_loss(effects.rewound);
        answer
    }

    pub(super) fn withdraw_slot(
        &mut self,
        pool: &ResourceName,
        owner: OwnerId,
    ) -> Result<Released, StoreError> {
        let own = self.pools.pools.get_mut(pool).and_then(|pool| pool.own(owner)).map(|(number, _)| number);
        match own {
            Some(number) => self.decide_slot(pool, number, |slot, standing, at| {
                decide::withdraw_slot(slot, standing, at, owner)
            }),
            None => {
                self.pools.withdrawn.insert((pool.clone(), owner));
                Ok(Released::Rejected(Rejected::new(Rejection::Vacant)))
            }
        }
    }

    pub(super) fn revoke_slot(
        &mut self,
        pool: &ResourceName,
        number: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Result<Revoked, StoreError> {
        slot_name(pool, number)?;
        if self.pools.pools.get_mut(pool).and_then(|pool| pool.get(number)).is_none() {
            return Ok(Revoked::Rejected(Rejected::new(Rejection::Vacant)));
        }
        self.decide_slot(pool, number, |slot, standing, at| {
            decide::revoke_slot(slot, standing, at, expect, reason)
        })
    }

    pub(super) fn slots(&self, name: &ResourceName) -> PoolInspection {
        let at = self.at();
        let mut seen = PoolInspection::unseen(name.clone(), self.standing.epoch, decide::wall(&at));
        if let Some(pool) = self.pools.pools.get(name) {
            seen.size = pool.size;
            let numbered = (0..=u16::MAX).zip(&pool.slots).take(usize::try_from(pool.size).unwrap_or(0));
            seen.slots = numbered.filter_map(|(number, kept)| kept.slot.inspection(number, &at)).collect();
        }
        seen
    }

    pub(super) fn resize_pool(&mut self, name: &ResourceName, size: u32) -> Resized {
        let now = self.now;
        let pool = self.pools.pools.entry(name.clone()).or_default();
        let cut = (0..=u16::MAX).zip(&pool.slots).skip(usize::try_from(size).unwrap_or(0));
        for (slot, kept) in cut.collect::<Vec<_>>().into_iter().rev() {
            if let Some(remaining) = kept.slot.in_use(now) {
                return Resized::InUse { slot, remaining };
            }
        }
        pool.resize(size);
        Resized::Resized
    }
}
