//! Rows between the decisions and the tables.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use super::attach::nanos;
use crate::codes;
use crate::decide::{At, Effects, Held, Row, Standing, Write, micros};
use crate::{End, Epoch, ResourceName, Vacated};

/// What a transaction reads of the store as a whole.
pub(super) struct Base {
    pub(super) standing: Standing,
    pub(super) boot: String,
    pub(super) offset: i64,
}

/// `None` where the store has no epoch.
pub(super) fn load_base(connection: &Connection) -> rusqlite::Result<Option<Base>> {
    connection
        .prepare_cached("SELECT epoch, floor, grants_from, boot, clock_offset, stamps_above FROM lease_store WHERE id = 1")?
        .query_row([], |row| {
            let epoch: i64 = row.get(0)?;
            let floor: i64 = row.get(1)?;
            let boot = row.get(3)?;
            let offset = row.get(4)?;
            let grants_from = time(row.get(2)?);
            let stamps_above = row.get(5)?;
            Ok(Epoch::new(epoch as u64).map(|epoch| Base {
                standing: Standing {
                    epoch,
                    floor: u64::try_from(floor).unwrap_or(0),
                    grants_from,
                    stamps_above: stamp(stamps_above),
                },
                boot,
                offset,
            }))
        })
        .optional()
        .map(Option::flatten)
}

/// What [`read`] takes, from the first column on.
macro_rules! columns {
    () => {
        "last_issued, observed, owner, attempt, token, granted_at, expires_at, ttl, epoch, retained, label, identity, \
         vacated_token, vacated_owner, vacated_how, granted_wall, renewed_wall, renewals"
    };
}

/// How many columns that are.
pub(super) const WIDTH: usize = 18;

const SELECT: &str = concat!("SELECT ", columns!(), " FROM lease_row WHERE name = ?1");

/// Names from ?1 on, each with its row and its last good end.
pub(super) const LIST: &str = concat!(
    "SELECT name, ",
    columns!(),
    ", good_token, good_owner, good_label, once, at FROM lease_row LEFT JOIN
     (SELECT name AS good_name, token AS good_token, owner AS good_owner, label AS good_label, once, at FROM lease_good)
     ON good_name = name WHERE name >= ?1 ORDER BY name"
);

/// A resource's row; one never seen is empty.
pub(super) fn load(connection: &Connection, name: &ResourceName) -> rusqlite::Result<Row> {
    connection
        .prepare_cached(SELECT)?
        .query_row([name.as_str()], |row| read(row, 0))
        .optional()
        .map(Option::unwrap_or_default)
}

/// Whether any resource's row is of this lease, see [`Row::has_granted`].
pub(super) fn has_granted(
    connection: &Connection,
    owner: OwnerId,
    token: FencingToken,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM lease_row
             WHERE (owner = ?1 AND token = ?2) OR (vacated_owner = ?1 AND vacated_token = ?2)",
        )?
        .exists(params![owner.value() as i64, token.value() as i64])
}

/// Reads a row whose columns begin at `first`.
pub(super) fn read(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<Row> {
    let at = |column: usize| first + column;
    let owner: Option<i64> = row.get(at(2))?;
    let owner = owner.map(|owner| OwnerId::new(owner as u64));
    let attempt: Option<i64> = row.get(at(3))?;
    let token = read_token(row, at(4))?;
    let lease = match (owner, token) {
        (Some(owner), Some(token)) => {
            let epoch: i64 = row.get(at(8))?;
            Epoch::new(epoch as u64)
                .map(|epoch| -> rusqlite::Result<Held> {
                    Ok(Held {
                        owner,
                        token,
                        granted_at: time(row.get(at(5))?),
                        expires_at: time(row.get(at(6))?),
                        ttl: time(row.get(at(7))?),
                        epoch,
                        retained: row.get(at(9))?,
                        granted_wall: wall_time(row.get(at(15))?),
                        renewed_wall: wall_time(row.get(at(16))?),
                        renewals: u64::try_from(row.get::<_, i64>(at(17))?).unwrap_or(0),
                        label: row.get(at(10))?,
                        identity: row.get(at(11))?,
                    })
                })
                .transpose()?
        }
        _ => None,
    };
    let vacated = match (read_token(row, at(12))?, row.get::<_, Option<i64>>(at(13))?) {
        (Some(token), Some(owner)) => {
            Some(Vacated::new(token, OwnerId::new(owner as u64), codes::how(row.get(at(14))?)))
        }
        _ => None,
    };
    Ok(Row {
        last_issued: read_token(row, at(0))?,
        observed: time(row.get(at(1))?),
        lease,
        asker: owner.zip(attempt.map(|attempt| attempt as u64)),
        vacated,
    })
}

/// Writes as much of the row as the decision changed.
pub(super) fn save(
    connection: &Connection,
    name: &ResourceName,
    row: &Row,
    at: &At,
    effects: &Effects,
) -> rusqlite::Result<()> {
    let wall = micros(at.wall) as i64;
    match (effects.write, &row.lease) {
        (Write::Nothing, _) => {}
        (Write::Renewal, Some(held)) => {
            connection
                .prepare_cached(
                    "UPDATE lease_row SET observed = ?2, wall = ?3, expires_at = ?4, ttl = ?5, renewed_wall = ?3,
                         renewals = ?6 WHERE name = ?1",
                )?
                .execute(params![name.as_str(), nanos(row.observed), wall, nanos(held.expires_at), nanos(held.ttl),
                    held.renewals as i64])?;
        }
        (Write::Observation, _) => {
            connection
                .prepare_cached("UPDATE lease_row SET observed = ?2, wall = ?3 WHERE name = ?1")?
                .execute(params![name.as_str(), nanos(row.observed), wall])?;
        }
        (Write::Renewal | Write::Whole, lease) => {
            let held = lease.as_ref();
            let vacated = row.vacated.as_ref();
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO lease_row (name, last_issued, observed, wall, owner, attempt, token, \
                         granted_at, expires_at, ttl, epoch, retained, label, identity, vacated_token, \
                         vacated_owner, vacated_how, granted_wall, renewed_wall, renewals) VALUES \
                     (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
                )?
                .execute(params![
                    name.as_str(),
                    row.last_issued.map_or(0, FencingToken::value) as i64,
                    nanos(row.observed),
                    wall,
                    row.asker.map(|(owner, _)| owner.value() as i64),
                    row.asker.map(|(_, attempt)| attempt as i64),
                    held.map(|held| held.token.value() as i64),
                    held.map(|held| nanos(held.granted_at)),
                    held.map(|held| nanos(held.expires_at)),
                    held.map(|held| nanos(held.ttl)),
                    held.map(|held| held.epoch.value() as i64),
                    held.map(|held| held.retained),
                    held.and_then(|held| held.label.as_deref()),
                    held.and_then(|held| held.identity.as_deref()),
                    vacated.map(|vacated| vacated.token.value() as i64),
                    vacated.map(|vacated| vacated.owner.value() as i64),
                    vacated.map(|vacated| codes::how_code(vacated.how)),
                    held.map(|held| micros(held.granted_wall) as i64),
                    held.map(|held| micros(held.renewed_wall) as i64),
                    held.map(|held| held.renewals as i64),
                ])?;
        }
    }
    Ok(())
}

/// The last good end of a resource.
pub(super) fn load_good(connection: &Connection, name: &ResourceName) -> rusqlite::Result<Option<End>> {
    connection
        .prepare_cached("SELECT token, owner, label, once, at FROM lease_good WHERE name = ?1")?
        .query_row([name.as_str()], |row| read_end(row, 0))
        .optional()
        .map(Option::flatten)
}

/// The good end under a once-key.
pub(super) fn load_done(
    connection: &Connection,
    name: &ResourceName,
    once: &str,
) -> rusqlite::Result<Option<End>> {
    connection
        .prepare_cached("SELECT token, owner, label, once, at FROM lease_done WHERE name = ?1 AND once = ?2")?
        .query_row([name.as_str(), once], |row| read_end(row, 0))
        .optional()
        .map(Option::flatten)
}

/// Records work that ended well.
pub(super) fn save_good(connection: &Connection, name: &ResourceName, end: &End) -> rusqlite::Result<()> {
    let at = micros(end.at) as i64;
    let (token, owner) = (end.token.value() as i64, end.owner.value() as i64);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO lease_good (name, token, owner, label, once, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![name.as_str(), token, owner, end.label, end.once, at])?;
    if let Some(once) = &end.once {
        connection
            .prepare_cached(
                "INSERT OR IGNORE INTO lease_done (name, once, token, owner, label, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![name.as_str(), once, token, owner, end.label, at])?;
    }
    Ok(())
}

/// An end of token, owner, label, once-key and time that begins at column `first`; `None` where there is none.
pub(super) fn read_end(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<Option<End>> {
    let Some(token) = read_token(row, first)? else { return Ok(None) };
    let owner: i64 = row.get(first + 1)?;
    let mut end = End::new(token, OwnerId::new(owner as u64), wall_time(row.get(first + 4)?));
    end.label = row.get(first + 2)?;
    end.once = row.get(first + 3)?;
    Ok(Some(end))
}

pub(super) fn read_token(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<FencingToken>> {
    let token: Option<i64> = row.get(column)?;
    Ok(token.and_then(|token| u64::try_from(token).ok()).and_then(FencingToken::new))
}

/// An instant of the store's clock.
pub(super) fn time(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// A stamp of ID time, in microseconds since Unix's origin.
pub(super) fn stamp(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// An instant of the wall clock.
pub(super) fn wall_time(micros: i64) -> SystemTime {
    let since = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}
