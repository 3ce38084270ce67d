//! What an error of the database means to a guard.

use rusqlite::ErrorCode;

use crate::sqlite::failure::is_busy;
use crate::{GuardError, GuardErrorKind};

pub(super) fn database(doing: &str, error: rusqlite::Error) -> GuardError {
    /// `SQLITE_BUSY_SNAPSHOT`: the transaction has read what is no longer the latest.
    const BUSY_SNAPSHOT: i32 = 517;
    let extended = error.sqlite_error().map(|error| error.extended_code);
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) if extended == Some(BUSY_SNAPSHOT) => GuardErrorKind::Serialization,
        _ if is_busy(&error) => GuardErrorKind::Busy,
        _ if error.to_string().contains("no such table: lease_fence") => GuardErrorKind::NotSetUp,
        _ => GuardErrorKind::Database,
    };
    let what = match kind {
        GuardErrorKind::Serialization => "the transaction has read a state that is no longer the latest",
        GuardErrorKind::Busy => "another transaction was writing for too long",
        GuardErrorKind::NotSetUp => "this database has no table of marks (SqliteFence::set_up makes it)",
        _ => "the database failed",
    };
    GuardError::new(kind, format!("{doing}: {what} ({error})")).with_source(error)
}
