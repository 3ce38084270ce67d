//! The slots of pools: indexed queries find the slot for a claim in the core's order, and the core decides on it.
//!
//! A pool has a row for each of its slots from the beginning, also for those that were never used and those that were cut
//! off. `free_from` is the end of a slot's lease, or, where there is none, since when it counts as free; NULL where it was
//! never used. `asker` is the owner whose attempts the slot remembers: each owner at one slot of a pool at most.

use std::time::Duration;

use lease_machines::{FencingToken, Gone, OwnerId, Rejection};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, named_params, params};

use super::attach::nanos;
use super::batch::Batch;
use super::echoes::Unheard;
use super::lane::Worked;
use super::reader::Reads;
use super::row::{self, stamp, time};
use crate::codes::how_code;
use crate::decide::{self, At, Course, Decided, Effects, SlotRow, Standing, Write, micros};
use crate::pool::{slot_name, slot_named};
use crate::{
    Claimed, HistoryEntry, HoldOutcome, PoolClaim, PoolInspection, Rejected, Released, Resized, ResourceName,
    Revoked, SlotRef, SlotRenewed, Unclaimed,
};

/// What [`read`] takes, from the first column on: first those of any lease, see [`row::read`].
macro_rules! columns {
    () => {
        "last_issued, observed, owner, attempt, token, granted_at, free_from, ttl, epoch, 0, label, identity, \
         vacated_token, vacated_owner, vacated_how, granted_wall, renewed_wall, renewals, asker, mark, window_after"
    };
}

const ONE: &str = concat!("SELECT ", columns!(), ", slot FROM lease_slot WHERE pool = ?1 AND slot = ?2");

/// The slot that remembers an owner's attempts.
const OWN: &str = concat!("SELECT ", columns!(), ", slot FROM lease_slot WHERE pool = ?1 AND asker = ?2");

const USED: &str = concat!(
    "SELECT ",
    columns!(),
    ", slot FROM lease_slot WHERE pool = ?1 AND slot < ?2 AND last_issued > 0 ORDER BY slot"
);

// Each of the queries below names its index, since what a planner guesses of a pool that was empty a moment ago is wrong.

/// What every candidate has: a token left, a number in the range, and, where ID time is asked for, some left. The number is
/// looked up in an index where that is ordered by it, and nowhere else (`+`).
macro_rules! able {
    () => {
        "+slot BETWEEN :first AND :last AND last_issued < 9223372036854775807 AND (:until IS NULL OR mark < :until)"
    };
}

/// The live slot of this identity that would last longest, for one that is exclusive.
const LIVE_OF_IDENTITY: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_identity WHERE pool = :pool AND identity = :identity AND free_from > :now AND token IS NOT NULL
     AND ",
    able!(),
    " ORDER BY free_from DESC, slot LIMIT 1"
);

/// The slot that this identity left last.
const OF_IDENTITY: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_identity WHERE pool = :pool AND identity = :identity AND free_from <= :now AND ",
    able!(),
    " ORDER BY free_from DESC, slot LIMIT 1"
);

const NEVER_USED: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_free WHERE pool = :pool AND free_from IS NULL AND slot BETWEEN :first AND :last AND ",
    able!(),
    " ORDER BY slot LIMIT 1"
);

/// The slot that has been free for longest, and has rested since.
const FREE_LONGEST: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_free WHERE pool = :pool AND free_from <= :rested AND ",
    able!(),
    " ORDER BY free_from, slot LIMIT 1"
);

/// When the first slot of the claim's own identity comes free.
const NEXT_OF_IDENTITY: &str = concat!(
    "SELECT free_from FROM lease_slot INDEXED BY lease_slot_identity WHERE pool = :pool AND identity = :identity AND free_from > :now AND ",
    able!(),
    " ORDER BY free_from LIMIT 1"
);

/// Since when the first slot of another identity is going to be free.
const NEXT_OF_OTHERS: &str = concat!(
    "SELECT free_from FROM lease_slot INDEXED BY lease_slot_free WHERE pool = :pool AND free_from > :rested
     AND (:identity IS NULL OR identity IS NOT :identity) AND ",
    able!(),
    " ORDER BY free_from LIMIT 1"
);

/// Reads a slot and its number; `first` is the place of the first column.
fn read(found: &SqlRow<'_>, first: usize) -> rusqlite::Result<(u16, SlotRow)> {
    let at = |column: usize| first + column;
    let mut lease = row::read(found, first)?;
    let asker: Option<i64> = found.get(at(18))?;
    if asker.is_none() {
        lease.asker = None;
    }
    let free_from: Option<i64> = found.get(at(6))?;
    let window_after: Option<i64> = found.get(at(20))?;
    let slot = SlotRow {
        freed_at: if lease.lease.is_none() { free_from.map(time) } else { None },
        identity: found.get(at(11))?,
        mark: stamp(found.get(at(19))?),
        window_after: window_after.map(stamp),
        row: lease,
    };
    Ok((u16::try_from(found.get::<_, i64>(at(21))?).unwrap_or(u16::MAX), slot))
}

fn stamp_micros(stamp: Duration) -> i64 {
    i64::try_from(stamp.as_micros()).unwrap_or(i64::MAX)
}

fn size(connection: &Connection, pool: &ResourceName) -> rusqlite::Result<Option<u32>> {
    connection
        .prepare_cached("SELECT size FROM lease_pool WHERE pool = ?1")?
        .query_row([pool.as_str()], |row| row.get(0))
        .optional()
}

/// A slot that the pool has.
fn load(connection: &Connection, pool: &ResourceName, slot: u16) -> rusqlite::Result<Option<SlotRow>> {
    if size(connection, pool)?.is_none_or(|size| u32::from(slot) >= size) {
        return Ok(None);
    }
    let found = connection
        .prepare_cached(ONE)?
        .query_row(params![pool.as_str(), slot], |row| read(row, 0))
        .optional()?;
    Ok(found.map(|(_, slot)| slot))
}

/// The current hold of the slot that has this name, for its history.
pub(super) fn current_hold(
    connection: &Connection,
    name: &ResourceName,
    at: &At,
) -> rusqlite::Result<Option<HistoryEntry>> {
    let Some((pool, slot)) = slot_named(name) else { return Ok(None) };
    Ok(load(connection, &pool, slot)?.and_then(|slot| slot.row.current_hold(at.now, at.wall)))
}

fn save(
    connection: &Connection,
    pool: &ResourceName,
    number: u16,
    slot: &SlotRow,
    at: &At,
    write: Write,
) -> rusqlite::Result<()> {
    let (row, wall) = (&slot.row, micros(at.wall) as i64);
    match (write, &row.lease) {
        (Write::Nothing, _) => {}
        (Write::Renewal, Some(held)) => {
            connection
                .prepare_cached(
                    "UPDATE lease_slot SET observed = ?3, wall = ?4, free_from = ?5, ttl = ?6, renewed_wall = ?4,
                         renewals = ?7, mark = ?8, window_after = ?9 WHERE pool = ?1 AND slot = ?2",
                )?
                .execute(params![
                    pool.as_str(),
                    number,
                    nanos(row.observed),
                    wall,
                    nanos(held.expires_at),
                    nanos(held.ttl),
                    held.renewals as i64,
                    stamp_micros(slot.mark),
                    slot.window_after.map(stamp_micros),
                ])?;
        }
        (Write::Observation, _) => {
            connection
                .prepare_cached(
                    "UPDATE lease_slot SET observed = ?3, wall = ?4 WHERE pool = ?1 AND slot = ?2",
                )?
                .execute(params![pool.as_str(), number, nanos(row.observed), wall])?;
        }
        (Write::Renewal | Write::Whole, held) => {
            let held = held.as_ref();
            let vacated = row.vacated.as_ref();
            let owner = held.map(|held| held.owner).or(row.asker.map(|(owner, _)| owner));
            let free_from = held.map(|held| held.expires_at).or(slot.freed_at);
            connection
                .prepare_cached(
                    "UPDATE lease_slot SET last_issued = ?3, observed = ?4, wall = ?5, owner = ?6, attempt = ?7,
                         token = ?8, granted_at = ?9, free_from = ?10, ttl = ?11, epoch = ?12, label = ?13,
                         identity = ?14, vacated_token = ?15, vacated_owner = ?16, vacated_how = ?17,
                         granted_wall = ?18, renewed_wall = ?19, renewals = ?20, asker = ?21, mark = ?22,
                         window_after = ?23 WHERE pool = ?1 AND slot = ?2",
                )?
                .execute(params![
                    pool.as_str(),
                    number,
                    row.last_issued.map_or(0, FencingToken::value) as i64,
                    nanos(row.observed),
                    wall,
                    owner.map(|owner| owner.value() as i64),
                    row.asker.map(|(_, attempt)| attempt as i64),
                    held.map(|held| held.token.value() as i64),
                    held.map(|held| nanos(held.granted_at)),
                    free_from.map(nanos),
                    held.map(|held| nanos(held.ttl)),
                    held.map(|held| held.epoch.value() as i64),
                    held.and_then(|held| held.label.as_deref()),
                    slot.identity,
                    vacated.map(|vacated| vacated.token.value() as i64),
                    vacated.map(|vacated| vacated.owner.value() as i64),
                    vacated.map(|vacated| how_code(vacated.how)),
                    held.map(|held| micros(held.granted_wall) as i64),
                    held.map(|held| micros(held.renewed_wall) as i64),
                    held.map(|held| held.renewals as i64),
                    row.asker.map(|(owner, _)| owner.value() as i64),
                    stamp_micros(slot.mark),
                    slot.window_after.map(stamp_micros),
                ])?;
        }
    }
    Ok(())
}

/// Gives the pool its size, and rows for the slots that it has not had before.
fn resize(connection: &Connection, pool: &ResourceName, size: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO lease_pool (pool, size) VALUES (?1, ?2) ON CONFLICT (pool) DO UPDATE SET size = ?2",
        )?
        .execute(params![pool.as_str(), size])?;
    connection
        .prepare_cached(
            "WITH RECURSIVE numbers (slot) AS (
                 SELECT coalesce((SELECT max(slot) + 1 FROM lease_slot WHERE pool = ?1), 0) AS slot WHERE slot < ?2
                 UNION ALL SELECT slot + 1 FROM numbers WHERE slot + 1 < ?2)
             INSERT INTO lease_slot (pool, slot, last_issued, observed, wall, mark)
             SELECT ?1, slot, 0, 0, 0, 0 FROM numbers",
        )?
        .execute(params![pool.as_str(), size])?;
    Ok(())
}

/// How the owners that have withdrawn from a pool are remembered: no resource whose lease was ever asked for has that name
/// and an owner drawn for the pool.
fn withdrawn_as(pool: &ResourceName) -> String {
    format!("{pool}#")
}

/// The slot that a claim gets: the first that it may have in the core's order, which is that of [`Pool::claim`].
///
/// [`Pool::claim`]: lease_machines::Pool::claim
fn first(
    connection: &Connection,
    claim: &PoolClaim,
    size: u32,
    standing: &Standing,
    at: &At,
) -> rusqlite::Result<Result<u16, Unclaimed>> {
    let (first, last) = (claim.range.first(), u32::from(claim.range.last()).min(claim.size.min(size) - 1));
    if u32::from(first) > last {
        return Ok(Err(Unclaimed::NoSuchSlot));
    }
    let until = claim.id_time.then(|| decide::wall(at).saturating_add(claim.ttl));
    if until.is_some_and(|until| until <= standing.stamps_above) {
        return Ok(Err(Unclaimed::Exhausted { next_chance: None }));
    }
    let (now, until) = (nanos(at.now), until.map(stamp_micros));
    let rested = at.now.checked_sub(claim.cool_down).map_or(-1, nanos);
    let (pool, identity) = (claim.pool.as_str(), claim.identity.as_deref());
    let ask = |sql: &str, more: &[(&str, &dyn rusqlite::ToSql)]| -> rusqlite::Result<Option<i64>> {
        let mut statement = connection.prepare_cached(sql)?;
        let range = named_params! { ":pool": pool, ":first": first, ":last": last, ":until": until };
        for (name, value) in range.iter().chain(more) {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        let mut rows = statement.raw_query();
        rows.next()?.map(|row| row.get(0)).transpose()
    };
    let number = |slot: i64| u16::try_from(slot).unwrap_or(u16::MAX);
    let mine: [(&str, &dyn rusqlite::ToSql); 2] = [(":identity", &identity), (":now", &now)];
    if identity.is_some() {
        if claim.exclusive_identity {
            if let Some(slot) = ask(LIVE_OF_IDENTITY, &mine)? {
                return Ok(Ok(number(slot)));
            }
        } else if let Some(gone) = claim.gone {
            if taken_over(connection, claim, gone, standing, at)? {
                return Ok(Ok(gone.slot));
            }
        }
        if let Some(slot) = ask(OF_IDENTITY, &mine)? {
            return Ok(Ok(number(slot)));
        }
    }
    if let Some(slot) = ask(NEVER_USED, &[])? {
        return Ok(Ok(number(slot)));
    }
    if let Some(slot) = ask(FREE_LONGEST, &[(":rested", &rested)])? {
        return Ok(Ok(number(slot)));
    }
    let own = match identity {
        Some(_) => ask(NEXT_OF_IDENTITY, &mine)?,
        None => None,
    };
    let others = ask(NEXT_OF_OTHERS, &[(":identity", &identity), (":rested", &rested)])?;
    let others = others.map(|free_from| time(free_from).saturating_add(claim.cool_down));
    let next = own.map(time).into_iter().chain(others).min();
    Ok(Err(Unclaimed::Exhausted { next_chance: next.map(|free| free.saturating_sub(at.now)) }))
}

/// Whether the slot whose holder is said to be gone is taken over: where the core would, in a pool of this one.
fn taken_over(
    connection: &Connection,
    claim: &PoolClaim,
    gone: Gone,
    standing: &Standing,
    at: &At,
) -> rusqlite::Result<bool> {
    if !decide::in_range(claim, gone.slot) {
        return Ok(false);
    }
    let Some(mut slot) = load(connection, &claim.pool, gone.slot)? else { return Ok(false) };
    if slot.row.live(at.now).is_none() || slot.identity != claim.identity {
        return Ok(false);
    }
    let tried = decide::take(
        &mut slot,
        gone.slot,
        &Standing { grants_from: Duration::ZERO, ..standing.clone() },
        at,
        claim,
        false,
    );
    Ok(matches!(tried.answer, Ok(Claimed::Granted(_))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::TABLES;

    /// However many slots there are: a claim reads a handful of entries of an index, and never the whole pool.
    #[test]
    fn a_claim_looks_a_slot_up_in_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        resize(&connection, &ResourceName::new("ids").unwrap(), 1_000).unwrap();
        connection.execute_batch("ANALYZE").unwrap();
        for (sql, index) in [
            (OWN, "lease_slot_asker (pool=? AND asker=?)"),
            (LIVE_OF_IDENTITY, "lease_slot_identity (pool=? AND identity=? AND free_from>?)"),
            (OF_IDENTITY, "lease_slot_identity (pool=? AND identity=? AND free_from<?)"),
            (NEXT_OF_IDENTITY, "lease_slot_identity (pool=? AND identity=? AND free_from>?)"),
            (NEVER_USED, "lease_slot_free (pool=? AND free_from=? AND slot>? AND slot<?)"),
            (FREE_LONGEST, "lease_slot_free (pool=? AND free_from<?)"),
            (NEXT_OF_OTHERS, "lease_slot_free (pool=? AND free_from>?)"),
        ] {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps: Vec<String> =
                plan.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>().unwrap();
            assert_eq!(steps.len(), 1, "sorted, or looked for twice: {steps:?} for {sql}");
            assert!(steps[0].contains(index), "{steps:?} for {sql}");
        }
    }
}
