//! The rows of a pool and its slots.
//!
//! A pool has a row for each of its slots from the beginning, also for those that were never used and those that were cut
//! off. `free_from` is the end of a slot's lease, or, where there is none, since when it counts as free; NULL where it was
//! never used. `asker` is the owner whose attempts the slot remembers: each owner at one slot of a pool at most.

use std::time::Duration;

use lease_machines::FencingToken;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use crate::ResourceName;
use crate::codes::how_code;
use crate::decide::{At, SlotRow, Write, micros};
use crate::sqlite::attach::nanos;
use crate::sqlite::row::{self, stamp, time};

/// What [`read`] takes, from the first column on: first those of any lease, see [`row::read`].
macro_rules! columns {
    () => {
        "last_issued, observed, owner, attempt, token, granted_at, free_from, ttl, epoch, 0, label, identity, \
         vacated_token, vacated_owner, vacated_how, granted_wall, renewed_wall, renewals, asker, mark, window_after"
    };
}

const ONE: &str = concat!("SELECT ", columns!(), ", slot FROM lease_slot WHERE pool = ?1 AND slot = ?2");

/// The slot that remembers an owner's attempts.
pub(super) const OWN: &str =
    concat!("SELECT ", columns!(), ", slot FROM lease_slot WHERE pool = ?1 AND asker = ?2");

/// The slots of a pool of this size that were ever used.
pub(super) const USED: &str = concat!(
    "SELECT ",
    columns!(),
    ", slot FROM lease_slot WHERE pool = ?1 AND slot < ?2 AND last_issued > 0 ORDER BY slot"
);

/// How many slots of a part of a pool are held, closed, or have not rested since.
pub(super) const TAKEN: &str = "SELECT count(*) FROM lease_slot INDEXED BY lease_slot_free
     WHERE pool = ?1 AND free_from > ?2 AND slot >= ?3 AND slot < ?4";

/// Reads a slot and its number; `first` is the place of the first column.
pub(super) fn read(found: &SqlRow<'_>, first: usize) -> rusqlite::Result<(u16, SlotRow)> {
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

pub(super) fn stamp_micros(stamp: Duration) -> i64 {
    i64::try_from(stamp.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn size(connection: &Connection, pool: &ResourceName) -> rusqlite::Result<Option<u32>> {
    connection
        .prepare_cached("SELECT size FROM lease_pool WHERE pool = ?1")?
        .query_row([pool.as_str()], |row| row.get(0))
        .optional()
}

/// A slot that the pool has.
pub(super) fn load(
    connection: &Connection,
    pool: &ResourceName,
    slot: u16,
) -> rusqlite::Result<Option<SlotRow>> {
    if size(connection, pool)?.is_none_or(|size| u32::from(slot) >= size) {
        return Ok(None);
    }
    let found = connection
        .prepare_cached(ONE)?
        .query_row(params![pool.as_str(), slot], |row| read(row, 0))
        .optional()?;
    Ok(found.map(|(_, slot)| slot))
}

pub(super) fn save(
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
pub(super) fn resize(connection: &Connection, pool: &ResourceName, size: u32) -> rusqlite::Result<()> {
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
