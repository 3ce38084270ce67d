//! What went wrong with a server, told apart by what it means for the request.

use std::error::Error as _;

use mysql_async::{DriverError, Error, ServerError};

use crate::server::with_causes;
use crate::{ErrorKind, StoreError};

/// Nothing was sent yet: whatever it was, nothing was changed.
pub(super) fn not_connected(place: &str, error: Error) -> StoreError {
    let told = match &error {
        Error::Server(_) => failed(place, "connecting", error),
        Error::Driver(DriverError::UnknownAuthPlugin { name }) => {
            let message = format!("{place} asks for a kind of login that is not known here: {name}");
            StoreError::new(ErrorKind::Configuration, message).with_source(error)
        }
        _ => {
            StoreError::new(ErrorKind::Unreachable, format!("{place} cannot be reached: {}", causes(&error)))
                .with_source(error)
        }
    };
    told.nothing_changed()
}

/// An error that a statement ended with. One that the server told has undone whatever the statement did, unless it ended in
/// the middle of a commit; without one, nobody knows.
pub(super) fn failed(place: &str, doing: &str, error: Error) -> StoreError {
    let Error::Server(told) = &error else {
        let message = format!("{place} gave no answer: {}", causes(&error));
        return StoreError::new(ErrorKind::Unreachable, message).with_source(error);
    };
    let (kind, meaning) = meaning(told);
    let message = format!("{place}: {doing}: {meaning}{} ({})", told.message, told.code);
    let unknown =
        matches!(told.code, ERROR_DURING_COMMIT | SHUTDOWN | INTERRUPTED | KILLED | LOG_WRITE | LOGGING);
    let result = StoreError::new(kind, message).with_source(error);
    if unknown { result.outcome_unknown() } else { result.nothing_changed() }
}

// Both kinds of server number these in the same way, but for those that say otherwise.
/// Of the log for replicas: of what stands there already a restart may make a commit.
const LOG_WRITE: u16 = 1026;
const SHUTDOWN: u16 = 1053;
const ERROR_DURING_COMMIT: u16 = 1180;
pub(super) const LOCK_WAIT: u16 = 1205;
pub(super) const DEADLOCK: u16 = 1213;
const INTERRUPTED: u16 = 1317;
/// MySQL's, before it ends itself.
const LOGGING: u16 = 1598;
/// MariaDB's.
const KILLED: u16 = 1927;
pub(super) const NO_SUCH_TABLE: u16 = 1146;
pub(super) const NO_SUCH_ROUTINE: u16 = 1305;
const OTHER_ARGUMENTS: u16 = 1318;
pub(super) const NO_RIGHT_TO_TABLE: u16 = 1142;
pub(super) const NO_RIGHT_TO_ROUTINE: u16 = 1370;

fn meaning(told: &ServerError) -> (ErrorKind, &'static str) {
    const NOT_SET_UP: &str = "it was never set up, or was wiped (`lease migrate` sets it up): ";
    const SHAPE: &str = "the tables or procedures are not those that this program knows: ";
    const PROCEDURES: &str =
        "the procedures are not those that this program knows (`lease migrate` puts its own back): ";
    const READ_ONLY: &str = "it is a replica or read-only, expected the primary: ";
    match told.code {
        LOCK_WAIT | DEADLOCK => (ErrorKind::Busy, "others were in the way: "),
        // MariaDB and MySQL: a statement took longer than the server lets it.
        1969 | 3024 => (ErrorKind::Busy, "others were in the way: "),
        1040 | 1203 | 1226 => (ErrorKind::Busy, ""),
        SHUTDOWN | ERROR_DURING_COMMIT | INTERRUPTED | KILLED => (ErrorKind::Unreachable, ""),
        1290 | 1792 | 1836 => (ErrorKind::Unreachable, READ_ONLY),
        NO_SUCH_TABLE | NO_SUCH_ROUTINE | 45002 => (ErrorKind::NotSetUp, NOT_SET_UP),
        NO_RIGHT_TO_TABLE | 1143 | 1227 | NO_RIGHT_TO_ROUTINE => {
            (ErrorKind::Permission, "the account lacks a right (`lease migrate --print` shows the GRANT): ")
        }
        1044 | 1045 | 1130 | 1698 => (ErrorKind::Permission, ""),
        1046 | 1049 | 1193 | 45001 => (ErrorKind::Configuration, ""),
        1021 | 1114 => (ErrorKind::Storage, "its disk is full, make room: "),
        LOG_WRITE | LOGGING => (ErrorKind::Storage, "its log cannot be written: "),
        OTHER_ARGUMENTS => (ErrorKind::Schema, PROCEDURES),
        // A routine that was changed by hand, columns of another name, type or number.
        1054 | 1136 | 1264 | 1265 | 1364 | 1366 | 1406 => (ErrorKind::Schema, SHAPE),
        126 | 127 | 145 | 1034 | 1194 | 1712 | 1877 => (ErrorKind::Damaged, ""),
        _ => match told.state.get(..2) {
            Some("42" | "21" | "22" | "23") => (ErrorKind::Schema, SHAPE),
            Some("08") => (ErrorKind::Unreachable, ""),
            Some("28") => (ErrorKind::Permission, ""),
            _ => (ErrorKind::Storage, ""),
        },
    }
}

/// Whether a procedure is not there.
pub(super) fn is_without_procedure(error: &StoreError) -> bool {
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(Error::Server(told)) => told.code == NO_SUCH_ROUTINE,
        _ => false,
    }
}

/// Whether the server refused because another row has the same entry in this key.
pub(super) fn is_duplicate(error: &StoreError, key: &str) -> bool {
    const DUPLICATE: u16 = 1062;
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(Error::Server(told)) => told.code == DUPLICATE && told.message.contains(key),
        _ => false,
    }
}

/// An error and what caused it, in one line.
fn causes(error: &Error) -> String {
    with_causes(error.to_string(), error.source())
}
