//! The tables, and how a file comes to have them.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::attach::Boot;
use super::failure::{Place, sqlite_error};
use crate::decide::EARLIEST_MICROS;
use crate::decide::micros;
use crate::version::{Known, Stamp};
use crate::{Epoch, ErrorKind, StoreError};

/// The versions of the tables that this program writes and uses.
pub(super) const KNOWN: Known = Known::alone(1);

/// A later version that still admits programs of this one (`usable_by`) may add tables, and columns with a default: every
/// statement names its columns. A row that a program of this version writes anew has those defaults.
///
/// All times are nanoseconds of the store's clock, except walls, `at`, those of the history and stamps of ID time (`mark`,
/// `window_after`, `stamps_above`): microseconds since 1970. Owners and epochs are the bits of an unsigned number.
pub(super) const TABLES: &str = "
CREATE TABLE lease_store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    usable_by INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    floor INTEGER NOT NULL,
    grants_from INTEGER NOT NULL,
    boot TEXT NOT NULL,
    clock_offset INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    stamps_above INTEGER NOT NULL
);
CREATE TABLE lease_row (
    name TEXT NOT NULL PRIMARY KEY,
    last_issued INTEGER NOT NULL,
    observed INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    owner INTEGER,
    attempt INTEGER,
    token INTEGER,
    granted_at INTEGER,
    expires_at INTEGER,
    ttl INTEGER,
    epoch INTEGER,
    retained INTEGER,
    label TEXT,
    identity TEXT,
    vacated_token INTEGER,
    vacated_owner INTEGER,
    vacated_how INTEGER,
    granted_wall INTEGER,
    renewed_wall INTEGER,
    renewals INTEGER
) WITHOUT ROWID;
CREATE TABLE lease_history (
    name TEXT NOT NULL,
    token INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    label TEXT,
    identity TEXT,
    granted_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    renewals INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    result INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (name, token)
) WITHOUT ROWID;
CREATE TABLE lease_good (
    name TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    label TEXT,
    once TEXT,
    at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE lease_done (
    name TEXT NOT NULL,
    once TEXT NOT NULL,
    token INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    label TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (name, once)
) WITHOUT ROWID;
CREATE TABLE lease_withdrawn (
    name TEXT NOT NULL,
    owner INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (name, owner)
) WITHOUT ROWID;
CREATE INDEX lease_withdrawn_at ON lease_withdrawn (at);
CREATE TABLE lease_pool (
    pool TEXT NOT NULL PRIMARY KEY,
    size INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE lease_slot (
    pool TEXT NOT NULL,
    slot INTEGER NOT NULL,
    last_issued INTEGER NOT NULL,
    observed INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    owner INTEGER,
    attempt INTEGER,
    token INTEGER,
    granted_at INTEGER,
    free_from INTEGER,
    ttl INTEGER,
    epoch INTEGER,
    label TEXT,
    identity TEXT,
    vacated_token INTEGER,
    vacated_owner INTEGER,
    vacated_how INTEGER,
    granted_wall INTEGER,
    renewed_wall INTEGER,
    renewals INTEGER,
    asker INTEGER,
    mark INTEGER NOT NULL,
    window_after INTEGER,
    PRIMARY KEY (pool, slot)
) WITHOUT ROWID;
CREATE UNIQUE INDEX lease_slot_asker ON lease_slot (pool, asker) WHERE asker IS NOT NULL;
CREATE INDEX lease_slot_free ON lease_slot (pool, free_from, slot);
CREATE INDEX lease_slot_identity ON lease_slot (pool, identity, free_from DESC, slot) WHERE identity IS NOT NULL;
";

const NAMES: [&str; 8] = [
    "lease_store",
    "lease_row",
    "lease_history",
    "lease_good",
    "lease_done",
    "lease_withdrawn",
    "lease_pool",
    "lease_slot",
];

/// What is done about a file that has no tables of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    /// Nothing: that is an error.
    Leave,
    /// A missing or empty file is set up; one that holds anything else is not touched: it may have lost its tables.
    SetUpIfEmpty,
    /// The tables are added to whatever is there.
    SetUp,
}

/// Makes sure that the tables are there, and of a version that this program can use. Says whether it made them.
///
/// One immediate transaction: of fifty processes at once the first does it, and a crash in the middle leaves the file
/// as it was.
pub(super) fn ensure(
    connection: &Connection,
    place: &Place,
    boot: &Boot,
    missing: Missing,
) -> Result<bool, StoreError> {
    let error = |error| sqlite_error(place, "looking for the tables", error);
    // Usually they are there, and nobody needs to be locked out to see it.
    if place.patiently(|| tables(connection)).map_err(error).and_then(|found| complete(&found, place))? {
        check_version(connection, place)?;
        return Ok(false);
    }
    let transaction = place
        .patiently(|| Transaction::new_unchecked(connection, TransactionBehavior::Immediate))
        .map_err(error)?;
    let found = tables(&transaction).map_err(error)?;
    if complete(&found, place)? {
        check_version(&transaction, place)?;
        return Ok(false);
    }
    // Counts every change of the tables ever made: 0 in a file that is new or empty, and in no other.
    let changes: i64 = transaction.query_row("PRAGMA schema_version", [], |row| row.get(0)).map_err(error)?;
    let is_new = changes == 0;
    if missing == Missing::Leave || (missing == Missing::SetUpIfEmpty && !is_new) {
        let tables = if found.is_empty() { "no tables".to_owned() } else { found.join(", ") };
        return Err(StoreError::new(
            ErrorKind::NotSetUp,
            format!(
                "{place} {} was never set up as a lease store, or was wiped: found {tables}, expected lease_store and its \
                 like. `migrate` adds them",
                if is_new { "is empty and" } else { "is not empty and" }
            ),
        ));
    }
    let wall = micros(boot.wall());
    if wall < EARLIEST_MICROS {
        return Err(clock_is_wrong(place, wall));
    }
    let epoch = Epoch::draw()?.value() as i64;
    transaction.execute_batch(TABLES).map_err(error)?;
    transaction
        .execute(
            "INSERT INTO lease_store VALUES (1, ?1, ?2, ?3, 0, 0, ?4, 0, ?5, 0)",
            params![KNOWN.writes.version, KNOWN.writes.usable_by, epoch, boot.identity(), wall as i64],
        )
        .map_err(error)?;
    place.patiently(|| transaction.execute_batch("COMMIT")).map_err(error)?;
    Ok(true)
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Whether all our tables are there; some of them alone are an error.
fn complete(found: &[String], place: &Place) -> Result<bool, StoreError> {
    let lacking: Vec<&str> =
        NAMES.into_iter().filter(|name| !found.iter().any(|table| table == name)).collect();
    if !lacking.is_empty() && lacking.len() < NAMES.len() {
        return Err(StoreError::new(
            ErrorKind::Damaged,
            format!("{place} has lost tables of the lease store: {}", lacking.join(", ")),
        ));
    }
    Ok(lacking.is_empty())
}

pub(super) fn clock_is_wrong(place: &Place, wall_micros: u64) -> StoreError {
    StoreError::new(
        ErrorKind::Configuration,
        format!(
            "no epoch is opened in {place} by a clock that stands {} days after 1970-01-01, before this program was \
             made: set the machine's clock first",
            wall_micros / 86_400_000_000
        ),
    )
}

fn check_version(connection: &Connection, place: &Place) -> Result<(), StoreError> {
    // Another process may be turning the new file's journal into a log.
    let found: Option<Stamp> = place
        .patiently(|| {
            connection
                .query_row("SELECT version, usable_by FROM lease_store WHERE id = 1", [], |row| {
                    Ok(Stamp { version: row.get(0)?, usable_by: row.get(1)? })
                })
                .optional()
        })
        .map_err(|error| sqlite_error(place, "reading the version of the tables", error))?;
    let Some(found) = found else {
        return Err(StoreError::new(
            ErrorKind::NotSetUp,
            format!("{place} has no epoch: it was never set up, or was wiped"),
        ));
    };
    KNOWN.admit(place, found).map(drop)
}
