//! Connections to the file, set up so that a commit is durable when it returns.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::failure::{Place, sqlite_error};
use crate::{ErrorKind, StoreError};

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;

/// Where a database is.
#[derive(Clone, Debug)]
pub(super) enum Target {
    File {
        /// As it was given, for errors.
        name: PathBuf,
        /// From the root: SQLite takes other paths for URLs, or for databases in memory, and the current folder may be
        /// another later.
        path: PathBuf,
    },
    /// Shared by the connections of this process that know its name, gone with the last of them.
    Memory(String),
}

impl Target {
    pub(super) fn file(name: &Path) -> Self {
        let path = std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
        Self::File { name: name.to_owned(), path }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Memory(_) => None,
        }
    }

    pub(super) fn name(&self) -> Option<&Path> {
        match self {
            Self::File { name, .. } => Some(name),
            Self::Memory(_) => None,
        }
    }

    /// Opens the database. The file has to be there: SQLite would create it with a mode that everybody may read.
    pub(super) fn connect(&self, place: &Place) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self {
            Self::File { name, path } => {
                check_path(name)?;
                Connection::open_with_flags(path, flags)
            }
            Self::Memory(name) => {
                let flags = flags | OpenFlags::SQLITE_OPEN_CREATE;
                Connection::open_with_flags_and_vfs(name, flags, "memdb")
            }
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

/// Creates a file that only its owner may read and write, unless there is one. What SQLite puts beside it gets the mode
/// of the file. Any number of processes may do it at once: all of them open what the first has made.
pub(super) fn create_missing(path: &Path) -> Result<(), StoreError> {
    let is_missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if !is_missing {
        return Ok(());
    }
    match OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let folder = folder_of(path);
            let denied = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
            let kind = match error.kind() {
                kind if denied.contains(&kind) => ErrorKind::Permission,
                _ => ErrorKind::Storage,
            };
            let what = if kind == ErrorKind::Permission {
                format!("this user may not write the folder {}{}", folder.display(), rights(folder))
            } else {
                format!("in the folder {}", folder.display())
            };
            let message = format!("cannot create {}: {what}: {error}", path.display());
            Err(StoreError::new(kind, message).nothing_changed().with_source(error))
        }
    }
}

/// Says what is wrong with a path before SQLite says no more than that it cannot open it.
pub(super) fn check_path(path: &Path) -> Result<(), StoreError> {
    let wrong =
        |kind, found: String| Err(StoreError::new(kind, format!("cannot open {}: {found}", path.display())));
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            wrong(ErrorKind::Configuration, "found a folder, expected a file, or none yet".to_owned())
        }
        Ok(found) if !found.is_file() => {
            wrong(ErrorKind::Configuration, "found a device, pipe or socket, expected a file".to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let closed = closed_folder(path).unwrap_or_else(|| folder_of(path).to_owned());
            let closed =
                format!("this user may not enter the folder {}{}", closed.display(), rights(&closed));
            wrong(ErrorKind::Permission, closed)
        }
        Err(_) if !folder_of(path).is_dir() => wrong(
            ErrorKind::Configuration,
            format!("its folder {} does not exist", folder_of(path).display()),
        ),
        _ => match closed_file(path) {
            Some(closed) => wrong(
                ErrorKind::Permission,
                format!(
                    "this user may not read and write {}{}; where several users share a store, their group must be \
                     allowed to",
                    closed.display(),
                    rights(&closed)
                ),
            ),
            None => Ok(()),
        },
    }
}

/// The file, or one of those that SQLite keeps beside it, where this user may not open it. Of the file itself it is enough
/// here that it can be read: that it cannot be written is said when it is.
fn closed_file(path: &Path) -> Option<PathBuf> {
    use rustix::fs::Access;
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        (PathBuf::from(name), Access::READ_OK | Access::WRITE_OK)
    };
    [(path.to_owned(), Access::READ_OK), beside("-wal"), beside("-shm")].into_iter().find_map(
        |(file, needed)| {
            (rustix::fs::access(&file, needed) == Err(rustix::io::Errno::ACCESS)).then_some(file)
        },
    )
}

pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The first folder on the way that may not be entered.
fn closed_folder(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    let closed =
        folders.into_iter().find(|folder| rustix::fs::access(*folder, rustix::fs::Access::EXEC_OK).is_err());
    closed.map(Path::to_owned)
}

/// Whose a folder is, for errors.
fn rights(folder: &Path) -> String {
    fs::metadata(folder).map_or_else(
        |_| String::new(),
        |found| format!(" (mode {:04o}, of user {})", found.mode() & 0o7777, found.uid()),
    )
}
