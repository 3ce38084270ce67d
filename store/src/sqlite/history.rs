//! The history of holds: one row for each that has ended. The one that goes on is in its resource's own row, so that a
//! renewal writes nothing here.

use lease_machines::{FencingToken, OwnerId};
use rusqlite::{Connection, Row, params};

use super::row::{read_token, wall_time};
use crate::codes::{outcome, outcome_code, result, result_code};
use crate::decide::micros;
use crate::{HistoryEntry, ResourceName};

/// Trimming at every entry would walk the whole history of the resource each time. So it is trimmed where tokens pass a
/// multiple of this, which not every entry need have itself: tokens that were burnt leave gaps.
const TRIM_EVERY: u64 = 16;

/// Adds a hold that has ended, unless its end is told already, and forgets the resource's oldest beyond `keep`.
pub(super) fn add(
    connection: &Connection,
    name: &ResourceName,
    entry: &HistoryEntry,
    keep: u32,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO lease_history (name, token, owner, label, identity, granted_at, renewed_at, \
                 renewals, ends_at, outcome, result, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            name.as_str(),
            entry.token.value() as i64,
            entry.owner.value() as i64,
            entry.label,
            entry.identity,
            micros(entry.granted_at) as i64,
            micros(entry.renewed_at) as i64,
            entry.renewals as i64,
            micros(entry.ends_at) as i64,
            outcome_code(entry.outcome),
            result_code(entry.result),
            entry.reason,
        ])?;
    let before: Option<i64> = connection
        .prepare_cached("SELECT max(token) FROM lease_history WHERE name = ?1 AND token < ?2")?
        .query_row(params![name.as_str(), entry.token.value() as i64], |row| row.get(0))?;
    let before = before.map_or(0, |token| token as u64);
    if before / TRIM_EVERY != entry.token.value() / TRIM_EVERY {
        connection
            .prepare_cached(
                "DELETE FROM lease_history WHERE name = ?1 AND token <= (SELECT token FROM lease_history
                 WHERE name = ?1 ORDER BY token DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![name.as_str(), keep])?;
    }
    Ok(())
}

/// Whether a hold that has ended is remembered.
pub(super) fn has(
    connection: &Connection,
    name: &ResourceName,
    owner: OwnerId,
    token: FencingToken,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM lease_history WHERE name = ?1 AND token = ?2 AND owner = ?3")?
        .exists(params![name.as_str(), token.value() as i64, owner.value() as i64])
}

/// Holds of a resource, the latest first: the current one from its row, the others from their table.
pub(super) fn load(
    connection: &Connection,
    name: &ResourceName,
    limit: usize,
    current: Option<HistoryEntry>,
) -> rusqlite::Result<Vec<HistoryEntry>> {
    let mut ended: Vec<HistoryEntry> = connection
        .prepare_cached(
            "SELECT token, owner, label, identity, granted_at, renewed_at, renewals, ends_at, outcome, result, reason
             FROM lease_history WHERE name = ?1 ORDER BY token DESC LIMIT ?2",
        )?
        .query_map(params![name.as_str(), i64::try_from(limit).unwrap_or(i64::MAX)], read)?
        .filter_map(Result::transpose)
        .collect::<rusqlite::Result<_>>()?;
    // Where its end was told already, the table has it.
    if let Some(current) = current {
        if ended.first().is_none_or(|last| last.token < current.token) {
            ended.insert(0, current);
            ended.truncate(limit);
        }
    }
    Ok(ended)
}

fn read(found: &Row<'_>) -> rusqlite::Result<Option<HistoryEntry>> {
    let Some(token) = read_token(found, 0)? else { return Ok(None) };
    let owner: i64 = found.get(1)?;
    let renewals: i64 = found.get(6)?;
    Ok(Some(HistoryEntry {
        token,
        owner: OwnerId::new(owner as u64),
        label: found.get(2)?,
        identity: found.get(3)?,
        granted_at: wall_time(found.get(4)?),
        renewed_at: wall_time(found.get(5)?),
        renewals: u64::try_from(renewals).unwrap_or(0),
        ends_at: wall_time(found.get(7)?),
        outcome: outcome(found.get(8)?),
        result: result(found.get(9)?),
        reason: found.get(10)?,
    }))
}
