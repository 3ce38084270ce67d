//! The slots of pools: indexed queries find the slot for a claim in the core's order, and the core decides on it.

mod find;
mod rows;

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Rejection};
use rusqlite::{Connection, OptionalExtension, params};

use self::find::first;
use self::rows::{OWN, TAKEN, USED, load, read, resize, save, size};
use super::attach::nanos;
use super::batch::Batch;
use super::echoes::Unheard;
use super::lane::Worked;
use super::reader::Reads;
use super::row::time;
use crate::decide::{self, At, Course, Decided, Effects, SlotRow, Standing};
use crate::pool::{slot_name, slot_named};
use crate::{
    Claimed, HistoryEntry, HoldOutcome, PoolClaim, PoolInspection, Rejected, Released, Resized, ResourceName,
    Revoked, Room, SlotRef, SlotRenewed, Unclaimed,
};

/// The current hold of the slot that has this name, for its history.
pub(super) fn current_hold(
    connection: &Connection,
    name: &ResourceName,
    at: &At,
) -> rusqlite::Result<Option<HistoryEntry>> {
    let Some((pool, slot)) = slot_named(name) else { return Ok(None) };
    Ok(load(connection, &pool, slot)?.and_then(|slot| slot.row.current_hold(at.now, at.wall)))
}

/// How the owners that have withdrawn from a pool are remembered: no resource whose lease was ever asked for has that name
/// and an owner drawn for the pool.
fn withdrawn_as(pool: &ResourceName) -> String {
    format!("{pool}#")
}

impl Batch {
    /// What is to be taken back where nobody hears of the answer is told too, see [`acquire`](Self::acquire).
    pub(super) fn claim_slot(&self, claim: &PoolClaim, again: bool) -> Worked<(Claimed, Option<Unheard>)> {
        let (at, standing) = (self.now(), self.standing());
        let withdrawn = self.has_withdrawn(&withdrawn_as(&claim.pool), claim.owner)?;
        let there = size(self.connection(), &claim.pool)?;
        let pool_size = there.unwrap_or(claim.size);
        let mut own = self
            .connection()
            .prepare_cached(OWN)?
            .query_row(params![claim.pool.as_str(), claim.owner.value() as i64], |row| read(row, 0))
            .optional()?;
        let asked = own.as_mut().map(|(number, slot)| (*number, slot));
        let course = decide::course(&standing, &at, claim, again, pool_size, withdrawn, asked);
        let number = match (course, &own) {
            (Course::Answered(decided), own) => {
                let Decided { answer, effects } = *decided;
                if let Some((number, slot)) = own {
                    self.carry_out_slot(&claim.pool, *number, slot, &at, &effects)?;
                }
                if matches!(answer, Ok(Claimed::Granted(_))) {
                    self.heard(claim.owner);
                }
                return Ok(answer.map(|claimed| (claimed, None)));
            }
            (Course::Again, Some((number, _))) => *number,
            (Course::Again | Course::Free, _) => match self.first_slot(claim, there, &standing, &at)? {
                Ok(number) => number,
                Err(why) => return Ok(Ok((Claimed::Rejected(why), None))),
            },
        };
        let same = own.as_ref().is_some_and(|(own, _)| *own == number);
        let mut slot = match there {
            Some(_) => load(self.connection(), &claim.pool, number)?.unwrap_or_default(),
            None => SlotRow::default(),
        };
        let Decided { answer, effects } =
            decide::take(&mut slot, number, &standing, &at, claim, again && same);
        if !matches!(answer, Ok(Claimed::Granted(_))) {
            return Ok(answer.map(|claimed| (claimed, None)));
        }
        if there.is_none() {
            resize(self.connection(), &claim.pool, claim.size)?;
        }
        if let Some((former, _)) = own.filter(|_| !same) {
            // It asks through another slot now.
            self.connection()
                .prepare_cached(
                    "UPDATE lease_slot SET asker = NULL, attempt = NULL WHERE pool = ?1 AND slot = ?2",
                )?
                .execute(params![claim.pool.as_str(), former])?;
        }
        self.carry_out_slot(&claim.pool, number, &slot, &at, &effects)?;
        let rotated = effects.ended.as_ref().is_some_and(|hold| hold.outcome == HoldOutcome::Rotated);
        let unheard = (!rotated).then(|| self.unheard(claim.owner));
        Ok(answer.map(|claimed| (claimed, unheard)))
    }

    /// Of a pool that is made by this claim every slot is as good as the first.
    fn first_slot(
        &self,
        claim: &PoolClaim,
        there: Option<u32>,
        standing: &Standing,
        at: &At,
    ) -> rusqlite::Result<Result<u16, Unclaimed>> {
        match there {
            Some(size) => first(self.connection(), claim, size, standing, at),
            None if u32::from(claim.range.first()) < claim.size => Ok(Ok(claim.range.first())),
            None => Ok(Err(Unclaimed::NoSuchSlot)),
        }
    }

    pub(super) fn renew_slot(&self, lease: &SlotRef, ttl: Duration, id_time: bool) -> Worked<SlotRenewed> {
        self.decide_slot(&lease.pool, lease.slot, |slot, standing, at| {
            decide::renew_slot(slot, standing, at, lease, ttl, id_time)
        })
    }

    pub(super) fn release_slot(&self, lease: &SlotRef, last_used: Option<Duration>) -> Worked<Released> {
        self.decide_slot(&lease.pool, lease.slot, |slot, standing, at| {
            decide::release_slot(slot, standing, at, lease, last_used)
        })
    }

    pub(super) fn withdraw_slot(&self, pool: &ResourceName, owner: OwnerId) -> Worked<Released> {
        let own: Option<u16> = self
            .connection()
            .prepare_cached("SELECT slot FROM lease_slot WHERE pool = ?1 AND asker = ?2")?
            .query_row(params![pool.as_str(), owner.value() as i64], |row| row.get(0))
            .optional()?;
        match own {
            Some(number) => self.decide_slot(pool, number, |slot, standing, at| {
                decide::withdraw_slot(slot, standing, at, owner)
            }),
            None => {
                self.remember_withdrawn(&withdrawn_as(pool), owner, &self.now())?;
                Ok(Ok(Released::Rejected(Rejected::new(Rejection::Vacant))))
            }
        }
    }

    /// Takes back a slot that nobody was left to hear of, see [`undo`](Self::undo).
    pub(super) fn undo_slot(
        &self,
        pool: &ResourceName,
        number: u16,
        owner: OwnerId,
        token: FencingToken,
        unheard: Unheard,
    ) -> Worked<()> {
        if !self.is_unheard(owner, unheard) {
            return Ok(Ok(()));
        }
        let answer = self.decide_slot(pool, number, |slot, standing, at| {
            if slot.row.lease.as_ref().is_some_and(|held| held.owner == owner && held.token == token) {
                let mut decided = decide::withdraw_slot(slot, standing, at, owner);
                decided.effects.withdrawn = None;
                decided
            } else {
                Decided { answer: Ok(Released::AlreadyReleased), effects: Effects::default() }
            }
        })?;
        Ok(answer.map(drop))
    }

    pub(super) fn revoke_slot(
        &self,
        pool: &ResourceName,
        number: u16,
        expect: Option<FencingToken>,
        reason: Option<&str>,
    ) -> Worked<Revoked> {
        if load(self.connection(), pool, number)?.is_none() {
            return Ok(Ok(Revoked::Rejected(Rejected::new(Rejection::Vacant))));
        }
        self.decide_slot(pool, number, |slot, standing, at| {
            decide::revoke_slot(slot, standing, at, expect, reason.map(str::to_owned))
        })
    }

    pub(super) fn resize_pool(&self, pool: &ResourceName, size: u32) -> Worked<Resized> {
        let at = self.now();
        let in_use: Option<(u16, i64)> = self
            .connection()
            .prepare_cached(
                "SELECT slot, free_from FROM lease_slot WHERE pool = ?1 AND slot >= ?2 AND free_from > ?3
                 ORDER BY slot DESC LIMIT 1",
            )?
            .query_row(params![pool.as_str(), size, nanos(at.now)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((slot, free_from)) = in_use {
            let remaining = time(free_from).saturating_sub(at.now);
            return Ok(Ok(Resized::InUse { slot, remaining }));
        }
        resize(self.connection(), pool, size)?;
        Ok(Ok(Resized::Resized))
    }

    /// Loads, decides, writes. A slot that the pool does not have is one that nobody ever held.
    fn decide_slot<T>(
        &self,
        pool: &ResourceName,
        number: u16,
        decision: impl FnOnce(&mut SlotRow, &Standing, &At) -> Decided<T>,
    ) -> Worked<T> {
        let there = load(self.connection(), pool, number)?;
        let mut slot = there.unwrap_or_default();
        let at = self.now();
        let decided = decision(&mut slot, &self.standing(), &at);
        self.carry_out_slot(pool, number, &slot, &at, &decided.effects)?;
        if let Some(owner) = decided.effects.withdrawn {
            self.remember_withdrawn(&withdrawn_as(pool), owner, &at)?;
        }
        Ok(decided.answer)
    }

    fn carry_out_slot(
        &self,
        pool: &ResourceName,
        number: u16,
        slot: &SlotRow,
        at: &At,
        effects: &Effects,
    ) -> rusqlite::Result<()> {
        save(self.connection(), pool, number, slot, at, effects.write)?;
        if effects.ended.is_some() || effects.burnt.is_some() {
            // A pool whose name has no room for a number has no slots, and no history.
            if let Ok(name) = slot_name(pool, number) {
                self.add_history(&name, effects)?;
            }
        }
        self.end_wait(at)?;
        self.look_for_a_loss(effects.rewound, at)
    }
}

impl Reads {
    pub(super) fn pools(&self) -> Worked<Vec<ResourceName>> {
        self.with_base(|_, _| {
            let mut statement =
                self.connection().prepare_cached("SELECT pool FROM lease_pool ORDER BY pool")?;
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                // A name that this program would refuse cannot be asked about either.
                found.extend(ResourceName::new(row.get::<_, String>(0)?));
            }
            Ok(found)
        })
    }

    pub(super) fn slots(&self, pool: &ResourceName) -> Worked<PoolInspection> {
        self.with_base(|base, at| {
            let mut seen = PoolInspection::unseen(pool.clone(), base.standing.epoch, decide::wall(at));
            let Some(size) = size(self.connection(), pool)? else { return Ok(seen) };
            seen.size = size;
            let mut statement = self.connection().prepare_cached(USED)?;
            let found = statement.query_map(params![pool.as_str(), size], |row| read(row, 0))?;
            for slot in found {
                let (number, slot) = slot?;
                seen.slots.extend(slot.inspection(number, at));
            }
            Ok(seen)
        })
    }

    pub(super) fn room(&self, claim: &PoolClaim) -> Worked<Room> {
        self.with_base(|_, at| {
            let Some(size) = size(self.connection(), &claim.pool)? else {
                return Ok(Room::within(claim, 0, 0));
            };
            let rested = at.now.checked_sub(claim.cool_down).map_or(-1, nanos);
            let taken = self.connection().prepare_cached(TAKEN)?.query_row(
                params![claim.pool.as_str(), rested, claim.range.first(), claim.end(size)],
                |row| row.get(0),
            )?;
            Ok(Room::within(claim, size, taken))
        })
    }
}

/// Whether any slot's row is of this lease, see [`Row::has_granted`](decide::Row::has_granted).
pub(super) fn has_granted(
    connection: &Connection,
    owner: OwnerId,
    token: FencingToken,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM lease_slot
             WHERE (owner = ?1 AND token = ?2) OR (vacated_owner = ?1 AND vacated_token = ?2)",
        )?
        .exists(params![owner.value() as i64, token.value() as i64])
}
