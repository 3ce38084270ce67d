//! What went wrong with a server, told apart by what it means for the request.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::server::with_causes;
use crate::{ErrorKind, StoreError};

/// The server, as people know it: never with a user or a password.
#[derive(Clone, Debug)]
pub(super) struct Place(pub(super) Arc<str>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Nothing was sent yet: whatever it was, nothing was changed.
pub(super) fn not_connected(place: &Place, error: Error) -> StoreError {
    let told = match error.code() {
        Some(_) => failed(place, "connecting", error),
        None => {
            StoreError::new(ErrorKind::Unreachable, format!("{place} cannot be reached: {}", causes(&error)))
                .with_source(error)
        }
    };
    told.nothing_changed()
}

/// An error that a statement ended with. One that the server told has undone whatever the statement did; without one,
/// nobody knows.
pub(super) fn failed(place: &Place, doing: &str, error: Error) -> StoreError {
    let Some(told) = error.as_db_error() else {
        let message = format!("{place} gave no answer: {}", causes(&error));
        return StoreError::new(ErrorKind::Unreachable, message).with_source(error);
    };
    let (kind, meaning) = meaning(told.code());
    let message = format!("{place}: {doing}: {meaning}{} ({})", told.message(), told.code().code());
    // A server that was told to stop may say so after it has committed; a pooler whose server has gone says just that; and one
    // that panics, since its log cannot be written, may find the commit in that log when it starts again.
    let ended = matches!(*told.code(), SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN)
        || told.code().code().starts_with("08")
        || told.parsed_severity() == Some(Severity::Panic);
    let result = StoreError::new(kind, message).with_source(error);
    if ended { result } else { result.nothing_changed() }
}

/// The functions refuse, before they do anything, a transaction that is stricter than READ COMMITTED.
pub(super) fn is_too_strict(code: &SqlState) -> bool {
    code.code() == "LM002"
}

fn meaning(code: &SqlState) -> (ErrorKind, &'static str) {
    const NOT_SET_UP: &str = "it was never set up, or was wiped (`lease migrate` sets it up): ";
    const SHAPE: &str = "the tables or functions are not those that this program knows: ";
    const STANDBY: &str = "it is a standby or read-only, expected the primary: ";
    const TOO_STRICT: &str = "a decision would not see what is committed while it waits (set default_transaction_isolation to \
                              'read committed' for the role): ";
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED => (ErrorKind::Busy, "others were in the way: "),
        SqlState::TOO_MANY_CONNECTIONS | SqlState::CANNOT_CONNECT_NOW => (ErrorKind::Busy, ""),
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
            (ErrorKind::Unreachable, STANDBY)
        }
        SqlState::UNDEFINED_TABLE
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::INVALID_SCHEMA_NAME
        | SqlState::NO_DATA_FOUND => (ErrorKind::NotSetUp, NOT_SET_UP),
        SqlState::INSUFFICIENT_PRIVILEGE => {
            (ErrorKind::Permission, "the role lacks a right (`lease migrate --print` shows the GRANTs): ")
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            (ErrorKind::Permission, "")
        }
        SqlState::INVALID_CATALOG_NAME => (ErrorKind::Configuration, ""),
        // A store begins none that it does not end.
        SqlState::IN_FAILED_SQL_TRANSACTION => {
            (ErrorKind::Configuration, "the connection is in a transaction that was begun before: ")
        }
        SqlState::DISK_FULL => (ErrorKind::Storage, "its disk is full, make room: "),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => (ErrorKind::Damaged, ""),
        _ if is_too_strict(code) => (ErrorKind::Configuration, TOO_STRICT),
        // A clock that nobody has set, by which no epoch is opened.
        _ if code.code() == "LM001" => (ErrorKind::Configuration, ""),
        _ => match code.code().get(..2) {
            Some("42" | "22" | "23") => (ErrorKind::Schema, SHAPE),
            Some("08" | "57") => (ErrorKind::Unreachable, ""),
            _ => (ErrorKind::Storage, ""),
        },
    }
}

/// An error and what caused it, in one line.
pub(super) fn causes(error: &Error) -> String {
    with_causes(error.to_string(), error.source())
}
