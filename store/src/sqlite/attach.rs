//! How a file's clock goes on when the machine's starts again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::failure::{Place, commit_error, sqlite_error};
use crate::decide::{At, micros};
use crate::{Clock, ErrorKind, StoreError};

/// The clock of this process, and whose it is.
pub(super) struct Boot {
    clock: Arc<dyn Clock>,
    identity: String,
}

impl Boot {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let identity = clock.identity();
        Self { clock, identity }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn raw(&self) -> i64 {
        nanos(self.clock.now())
    }

    /// The file's clock, which lies this far from the machine's.
    pub(super) fn at(&self, offset: i64) -> At {
        let now = self.raw().saturating_add(offset);
        At { now: Duration::from_nanos(u64::try_from(now).unwrap_or(0)), wall: self.wall() }
    }
}

/// Nanoseconds as SQLite keeps them; an instant in 292 years is never reached.
pub(super) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Takes the file over from an earlier boot.
///
/// The boot clock starts again at 0, so the file's offset is moved: its time goes on from the latest observation. How
/// long the machine was off is not known, so every live lease gets its full ttl again; where no other machine uses the
/// file (`single_host`), its holders are gone and their leases are over. The same goes for leases that may be missing,
/// and are waited for: that takes another `max_ttl` at most.
///
/// A foreign identity may also be another machine that uses the file *now*, each taking the other's leases for those
/// of a former boot. It counts as former only if this boot began after that one last wrote anything, by the wall clock.
pub(super) fn attach(
    connection: &Connection,
    place: &Place,
    boot: &Boot,
    single_host: bool,
    max_ttl: Duration,
) -> Result<(), StoreError> {
    let error = |error| sqlite_error(place, "reading the clock of the store", error);
    let same = |connection: &Connection| {
        connection
            .query_row("SELECT boot FROM lease_store WHERE id = 1", [], |row| row.get::<_, String>(0))
            .optional()
            .map(|found| found.is_some_and(|found| found == boot.identity()))
    };
    if place.patiently(|| same(connection)).map_err(error)? {
        return Ok(());
    }
    let transaction = place
        .patiently(|| Transaction::new_unchecked(connection, TransactionBehavior::Immediate))
        .map_err(error)?;
    if same(&transaction).map_err(error)? {
        return Ok(());
    }
    let (observed, last_wall): (i64, i64) = transaction
        .query_row(
            "SELECT max((SELECT coalesce(max(observed), 0) FROM lease_row),
                        (SELECT coalesce(max(observed), 0) FROM lease_slot)),
                    max(wall, (SELECT coalesce(max(wall), 0) FROM lease_row),
                        (SELECT coalesce(max(wall), 0) FROM lease_slot)) FROM lease_store WHERE id = 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(error)?;
    let wall = micros(boot.wall()) as i64;
    let raw = boot.raw();
    let began = wall.saturating_sub(raw / 1_000);
    if !single_host && began <= last_wall {
        return Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "{place} was written by another boot {:.1} s after this one began (by the wall clock): another machine \
                 seems to use it at this moment, and two machines on one file would not see each other's leases. If \
                 only this machine ever uses it, open it once with ?single_host=1",
                (last_wall.saturating_sub(began)) as f64 / 1e6
            ),
        ));
    }
    let offset = observed.saturating_sub(raw);
    let grants_from = if single_host { 0 } else { observed.saturating_add(nanos(max_ttl)) };
    if single_host {
        for over in [
            "UPDATE lease_row SET expires_at = ?1 WHERE token IS NOT NULL AND expires_at > ?1",
            // A slot that is closed after a revoke is free as well: its holder is gone, too.
            "UPDATE lease_slot SET free_from = ?1 WHERE free_from > ?1",
        ] {
            transaction.execute(over, [observed]).map_err(error)?;
        }
        // A wall clock that once stood in the future must not ask for this again at every boot.
        for table in ["lease_row", "lease_slot"] {
            let back = format!("UPDATE {table} SET wall = ?1 WHERE wall > ?1");
            transaction.execute(&back, [wall]).map_err(error)?;
        }
    } else {
        for again in [
            "UPDATE lease_row SET expires_at = ?1 + ttl WHERE token IS NOT NULL AND expires_at > ?1",
            "UPDATE lease_slot SET free_from = ?1 + ttl WHERE token IS NOT NULL AND free_from > ?1",
        ] {
            transaction.execute(again, [observed]).map_err(error)?;
        }
    }
    transaction
        .execute(
            "UPDATE lease_store SET boot = ?1, clock_offset = ?2, wall = ?3, grants_from = min(grants_from, ?4)
             WHERE id = 1",
            params![boot.identity(), offset, wall, grants_from],
        )
        .map_err(error)?;
    place.patiently(|| transaction.execute_batch("COMMIT")).map_err(|error| commit_error(place, error))
}
