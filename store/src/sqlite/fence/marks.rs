//! Marks for those who have no connection of their own.

use std::path::Path;
use std::thread;
use std::time::Duration;

use lease_machines::FencingToken;
use rusqlite::Connection;

use super::SqliteFence;
use crate::fence::{Advance, not_asked, refused};
use crate::slot::Slot;
use crate::sqlite::connection::Target;
use crate::sqlite::failure::{Place, sqlite_error};
use crate::sqlite::forked::OpenFile;
use crate::{Answer, ErrorKind, GuardError, LeaseRef, Mark, MarkKey, Marks, SqliteOptions, StoreError};

/// SQLite counts milliseconds in 31 bits.
const LONGEST_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

/// The marks in an SQLite file. Each call opens it anew, on a thread of its own: they are rare, and may wait.
#[derive(Debug)]
pub(crate) struct SqliteMarks {
    target: Target,
    place: Place,
}

impl SqliteMarks {
    pub(crate) fn open(path: &str, options: &SqliteOptions) -> Result<Self, StoreError> {
        let target = Target::file(Path::new(path));
        let place = Place { path: Some(path.into()), timeout: options.limits.timeout };
        let marks = Self { target, place };
        let connection = connect(&marks.target, &marks.place)?;
        SqliteFence::set_up(&connection).map_err(refused)?;
        Ok(marks)
    }

    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, GuardError> + Send + 'static,
    ) -> Answer<'_, Result<T, GuardError>> {
        let (target, place) = (self.target.clone(), self.place.clone());
        Box::pin(async move {
            let (slot, pending) = Slot::new(Box::new(drop));
            let work = move || {
                if slot.begin() {
                    slot.answer(connect(&target, &place).map(|mut connection| work(&mut connection)));
                }
            };
            thread::Builder::new().name("lease-fence".to_owned()).spawn(work).map_err(|error| {
                StoreError::new(ErrorKind::Configuration, format!("no thread can be started: {error}"))
            })?;
            pending.await
        })
    }
}

/// Never creates the file: a mark in any other than the one that is written to keeps nobody out.
fn connect(target: &Target, place: &Place) -> Result<Connection, StoreError> {
    if !target.path().is_some_and(Path::exists) {
        return Err(StoreError::new(
            ErrorKind::Configuration,
            format!("found no file {place}, expected the database whose writes are fenced"),
        ));
    }
    // Refused in the child of a process that had the file open when it forked.
    let _entered = target.path().map(OpenFile::enter).transpose()?;
    let connection = target.connect(place)?;
    connection
        .busy_timeout(place.timeout.min(LONGEST_WAIT))
        .and_then(|()| connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON"))
        .map_err(|error| sqlite_error(place, "setting up", error))?;
    Ok(connection)
}

impl Marks for SqliteMarks {
    fn advance(&self, key: MarkKey, lease: LeaseRef) -> Advance<'_> {
        let answer = self.call(move |connection| SqliteFence::advance(connection, &key, &lease));
        Box::pin(async move { answer.await.map_err(not_asked)? })
    }

    fn look(&self, key: MarkKey) -> Answer<'_, Option<Mark>> {
        let answer = self.call(move |connection| SqliteFence::look(connection, &key));
        Box::pin(async move { answer.await?.map_err(refused) })
    }

    fn reset(&self, key: MarkKey, to: Option<FencingToken>, reason: String) -> Answer<'_, ()> {
        let answer = self.call(move |connection| SqliteFence::reset(connection, &key, to, &reason));
        Box::pin(async move { answer.await?.map_err(refused) })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, u64> {
        let answer = self.call(move |connection| SqliteFence::prune(connection, older_than));
        Box::pin(async move { answer.await?.map_err(refused) })
    }
}
