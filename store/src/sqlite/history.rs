//! The history of holds: one row for each grant, which its renewals update in place.

use std::time::Duration;

use lease_machines::OwnerId;
use rusqlite::{Connection, params};

use super::row::{read_token, wall_time};
use crate::decide::{At, Closing, Opened, Row, micros};
use crate::{HistoryEntry, HoldOutcome, ResourceName, WorkResult};

/// Trimming at every grant would walk the whole history of the resource each time.
const TRIM_EVERY: u64 = 16;

pub(super) fn close(connection: &Connection, name: &ResourceName, closing: &Closing) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE lease_history SET outcome = ?3, result = ?4, reason = ?5, ends_at = coalesce(?6, ends_at)
             WHERE name = ?1 AND token = ?2 AND outcome = 0",
        )?
        .execute(params![
            name.as_str(),
            closing.token.value() as i64,
            outcome_code(closing.outcome),
            result_code(closing.result),
            closing.reason,
            closing.at.map(|at| micros(at) as i64),
        ])?;
    Ok(())
}

/// Adds a hold, and forgets the resource's oldest beyond `keep`.
pub(super) fn open(
    connection: &Connection,
    name: &ResourceName,
    row: &Row,
    at: &At,
    opened: &Opened,
    keep: u32,
) -> rusqlite::Result<()> {
    let wall = micros(at.wall) as i64;
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO lease_history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 0, ?7, ?8, 0, ?9)",
    )?;
    let token = match (opened, &row.lease) {
        (Opened::Lease, Some(held)) => {
            insert.execute(params![
                name.as_str(),
                held.token.value() as i64,
                held.owner.value() as i64,
                held.label,
                held.identity,
                wall,
                wall.saturating_add(span(held.ttl)),
                0,
                None::<&str>,
            ])?;
            held.token
        }
        (Opened::Burnt { token, reason }, _) => {
            insert.execute(params![
                name.as_str(),
                token.value() as i64,
                0,
                None::<&str>,
                None::<&str>,
                wall,
                wall,
                outcome_code(HoldOutcome::Revoked),
                reason,
            ])?;
            *token
        }
        (Opened::Lease, None) => return Ok(()),
    };
    if token.value() % TRIM_EVERY == 0 {
        connection
            .prepare_cached(
                "DELETE FROM lease_history WHERE name = ?1 AND token <= (SELECT token FROM lease_history
                 WHERE name = ?1 ORDER BY token DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![name.as_str(), keep])?;
    }
    Ok(())
}

pub(super) fn renew(
    connection: &Connection,
    name: &ResourceName,
    row: &Row,
    at: &At,
) -> rusqlite::Result<()> {
    let Some(held) = &row.lease else { return Ok(()) };
    let wall = micros(at.wall) as i64;
    connection
        .prepare_cached(
            "UPDATE lease_history SET renewed_at = ?3, renewals = renewals + 1, ends_at = ?4
             WHERE name = ?1 AND token = ?2",
        )?
        .execute(params![
            name.as_str(),
            held.token.value() as i64,
            wall,
            wall.saturating_add(span(held.ttl))
        ])?;
    Ok(())
}

/// Holds of a resource, the latest first. `row` tells whether the last one goes on.
pub(super) fn load(
    connection: &Connection,
    name: &ResourceName,
    limit: usize,
    row: &Row,
    now: Duration,
) -> rusqlite::Result<Vec<HistoryEntry>> {
    let current = row.live(now.max(row.observed)).filter(|held| !held.retained).map(|held| held.token);
    connection
        .prepare_cached(
            "SELECT token, owner, label, identity, granted_at, renewed_at, renewals, ends_at, outcome, result, reason
             FROM lease_history WHERE name = ?1 ORDER BY token DESC LIMIT ?2",
        )?
        .query_map(params![name.as_str(), i64::try_from(limit).unwrap_or(i64::MAX)], |found| {
            let Some(token) = read_token(found, 0)? else { return Ok(None) };
            let owner: i64 = found.get(1)?;
            let renewals: i64 = found.get(6)?;
            let outcome = match found.get(8)? {
                0_i64 if current == Some(token) => HoldOutcome::Held,
                code => outcome_from(code),
            };
            Ok(Some(HistoryEntry {
                token,
                owner: OwnerId::new(owner as u64),
                label: found.get(2)?,
                identity: found.get(3)?,
                granted_at: wall_time(found.get(4)?),
                renewed_at: wall_time(found.get(5)?),
                renewals: u64::try_from(renewals).unwrap_or(0),
                ends_at: wall_time(found.get(7)?),
                outcome,
                result: result_from(found.get(9)?),
                reason: found.get(10)?,
            }))
        })?
        .filter_map(Result::transpose)
        .collect()
}

fn span(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn outcome_code(outcome: HoldOutcome) -> i64 {
    match outcome {
        HoldOutcome::Held => 0,
        HoldOutcome::Released => 1,
        HoldOutcome::Expired => 2,
        HoldOutcome::Revoked => 3,
        HoldOutcome::Withdrawn => 4,
        HoldOutcome::Rotated => 5,
        HoldOutcome::EpochLost => 6,
    }
}

/// A hold that nobody ended and that is not the current one has run out.
fn outcome_from(code: i64) -> HoldOutcome {
    match code {
        1 => HoldOutcome::Released,
        3 => HoldOutcome::Revoked,
        4 => HoldOutcome::Withdrawn,
        5 => HoldOutcome::Rotated,
        6 => HoldOutcome::EpochLost,
        _ => HoldOutcome::Expired,
    }
}

fn result_code(result: WorkResult) -> i64 {
    match result {
        WorkResult::Unknown => 0,
        WorkResult::Good => 1,
        WorkResult::Failed => 2,
    }
}

fn result_from(code: i64) -> WorkResult {
    match code {
        1 => WorkResult::Good,
        2 => WorkResult::Failed,
        _ => WorkResult::Unknown,
    }
}
