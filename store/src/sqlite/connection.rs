//! Connections to the file, set up so that a commit is durable when it returns.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::failure::{Place, sqlite_error};
use crate::{ErrorKind, StoreError};

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;

/// Where a database is.
#[derive(Clone, Debug)]
pub(super) enum Target {
    File(std::path::PathBuf),
    /// Shared by the connections of this process that know its name, gone with the last of them.
    Memory(String),
}

impl Target {
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Memory(_) => None,
        }
    }

    /// Opens the database, creating the file where it is missing.
    pub(super) fn connect(&self, place: &Place) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self {
            Self::File(path) => {
                check_folder(path)?;
                Connection::open_with_flags(path, flags)
            }
            Self::Memory(name) => Connection::open_with_flags_and_vfs(name, flags, c"memdb"),
        }
        .map_err(|error| sqlite_error(place, "opening", error))?;
        let error = |error| sqlite_error(place, "opening", error);
        // SQLite's own waiting is unfair; see `Place::patiently`.
        connection.busy_timeout(Duration::ZERO).map_err(error)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // SQLite quietly opens a file that it may not write for reading.
        if connection.is_readonly("main").map_err(error)? {
            return Err(StoreError::new(
                ErrorKind::Permission,
                format!(
                    "{place} cannot be written: found it read-only, expected a file that this user may write"
                ),
            ));
        }
        Ok(connection)
    }
}

/// Makes every commit of this connection durable, and lets readers and the writer not wait for each other.
pub(super) fn configure(connection: &Connection, place: &Place) -> Result<(), StoreError> {
    let error = |error| sqlite_error(place, "setting up", error);
    let expected = if place.path().is_some() { "wal" } else { "memory" };
    let mode = place
        .patiently(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)))
        .map_err(error)?;
    if mode != expected {
        return Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "{place} cannot keep a write-ahead log: its journal mode is {mode:?}, expected {expected:?}"
            ),
        ));
    }
    place
        .patiently(|| {
            // fullfsync is Apple's: without it the drive may keep a commit in its cache. Elsewhere it is ignored.
            connection.execute_batch(
                "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
                 PRAGMA journal_size_limit = 67108864; PRAGMA foreign_keys = OFF;",
            )
        })
        .map_err(error)
}

fn check_folder(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong = |found: &str| {
        Err(StoreError::new(ErrorKind::Configuration, format!("cannot open {}: {found}", path.display())))
    };
    if path.is_dir() {
        return wrong("found a folder, expected a file, or none yet");
    }
    if !folder.is_dir() {
        return wrong(&format!("its folder {} does not exist", folder.display()));
    }
    Ok(())
}
