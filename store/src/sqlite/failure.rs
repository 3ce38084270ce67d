//! Where the file is, how long to wait for it, and what SQLite's errors mean.

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use super::jitter::Jitter;
use crate::{ErrorKind, StoreError};

/// The file, as errors name it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// `None` for a database in memory.
    pub(super) path: Option<PathBuf>,
    pub(super) timeout: Duration,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display()),
            None => f.write_str("the in-memory database"),
        }
    }
}

impl Place {
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Tries again while others are in the way, up to the time-out.
    ///
    /// SQLite's own busy handler sleeps up to 100 ms between two looks, the longer the longer it has waited, so that of
    /// fifty processes the unlucky one starves. Here nobody looks less often than others.
    pub(super) fn patiently<T>(
        &self,
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let start = Instant::now();
        let mut jitter = Jitter::new();
        loop {
            match attempt() {
                Err(error) if is_busy(&error) && start.elapsed() < self.timeout => {
                    thread::sleep(jitter.pause(start.elapsed()));
                }
                result => return result,
            }
        }
    }
}

/// Others are in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let lost_race = ErrorCode::FileLockingProtocolFailed;
    let code = error.sqlite_error_code();
    code.is_some_and(|code| [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked, lost_race].contains(&code))
}

/// What went wrong while `doing` something *before* a commit: nothing was changed.
pub(super) fn sqlite_error(place: &Place, doing: &str, error: rusqlite::Error) -> StoreError {
    describe(place, doing, error).nothing_changed()
}

/// What went wrong in a commit: nobody knows whether it holds, unless SQLite says that it did not get to write it.
pub(super) fn commit_error(place: &Place, error: rusqlite::Error) -> StoreError {
    let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
    let described = describe(place, "committing", error);
    // A commit's last write is the one that makes it count. With the disk full it was not made.
    if full { described.nothing_changed() } else { described.outcome_unknown() }
}

fn describe(place: &Place, doing: &str, error: rusqlite::Error) -> StoreError {
    let (kind, what) = match error.sqlite_error_code() {
        // A value of another type than was written there.
        None if is_misfit(&error) => (ErrorKind::Damaged, "a row in it makes no sense"),
        _ if is_busy(&error) => {
            let what = format!("another process has kept it locked for {:?}", place.timeout);
            return StoreError::new(ErrorKind::Busy, format!("{doing} in {place}: {what}"))
                .with_source(error);
        }
        Some(ErrorCode::ReadOnly) => (ErrorKind::Permission, "it cannot be written"),
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::Permission, "access was denied")
        }
        Some(ErrorCode::CannotOpen) => (ErrorKind::Permission, "it, or a file beside it, cannot be opened"),
        Some(ErrorCode::DatabaseCorrupt) => (ErrorKind::Damaged, "it is damaged"),
        Some(ErrorCode::NotADatabase) => (ErrorKind::Damaged, "it is not an SQLite database"),
        Some(ErrorCode::DiskFull) => (ErrorKind::Storage, "the disk is full"),
        Some(ErrorCode::SystemIoFailure) => (ErrorKind::Storage, "the disk failed"),
        Some(ErrorCode::SchemaChanged | ErrorCode::TypeMismatch) => {
            (ErrorKind::Schema, "its tables are not as expected")
        }
        Some(ErrorCode::Unknown) => (ErrorKind::Schema, "its tables are not as expected"),
        _ => (ErrorKind::Storage, "SQLite failed"),
    };
    StoreError::new(kind, format!("{doing} in {place}: {what} ({error})")).with_source(error)
}

fn is_misfit(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;
    use crate::Undecided;

    /// `SQLITE_BUSY`, `SQLITE_LOCKED` and, where readers and writers of a log have got past each other a hundred times,
    /// `SQLITE_PROTOCOL`.
    #[test]
    fn whoever_lost_a_race_is_told_that_others_were_in_the_way() {
        let place = Place { path: None, timeout: Duration::from_secs(5) };
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_PROTOCOL] {
            let error = || rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert!(is_busy(&error()), "{code}");
            let told = sqlite_error(&place, "locking", error());
            assert_eq!((told.kind(), told.undecided()), (ErrorKind::Busy, Undecided::NotDone), "{told}");
        }
    }
}
