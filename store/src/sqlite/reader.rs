//! The thread that looks: inspections, lists and histories never wait for a writer, and waiters are woken from here.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::failure::sqlite_error;
use super::history;
use super::jitter::Jitter;
use super::lane::{Lane, Wake, Worked};
use super::row::{self, Base, read, read_end};
use super::settings::Settings;
use super::slots;
use super::waiters::Waiters;
use crate::decide::At;
use crate::{Epoch, HistoryEntry, Inspection, ResourceName};

/// How often another process's commits are looked for while somebody waits: a release there is seen after this.
const LOOK_MICROS: (u64, u64) = (8_000, 24_000);

/// What reading work is given.
pub(super) struct Reads {
    connection: Connection,
    settings: Arc<Settings>,
}

/// Works until the queue is closed and empty.
pub(super) fn run(connection: Connection, settings: Arc<Settings>, lane: &Lane<Reads>, waiters: &Waiters) {
    let reads = Reads { connection, settings };
    let mut jitter = Jitter::new();
    let mut version = None;
    loop {
        let limit = (!waiters.is_empty()).then(|| jitter.between(LOOK_MICROS.0, LOOK_MICROS.1));
        if lane.sleep(limit) == Wake::Closed {
            return;
        }
        for (_, mut work) in lane.take(usize::MAX) {
            match reads.settings.place.patiently(|| work.run(&reads)) {
                Ok(()) => work.deliver(),
                Err(error) => work.fail(sqlite_error(&reads.settings.place, "reading", error)),
            }
        }
        lane.done();
        if waiters.is_empty() {
            version = None;
        } else {
            reads.look(waiters, &mut version);
        }
    }
}

impl Reads {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn epoch(&self) -> Worked<Epoch> {
        self.with_base(|base, _| Ok(base.standing.epoch))
    }

    pub(super) fn inspect(&self, resource: &ResourceName) -> Worked<Inspection> {
        self.with_base(|base, at| {
            let row = row::load(&self.connection, resource)?;
            let good = row::load_good(&self.connection, resource)?;
            Ok(row.inspection(resource.clone(), base.standing.epoch, at.now, good))
        })
    }

    /// All resources whose name begins like this. The names are compared as bytes, so that those with the prefix are
    /// one run of them.
    pub(super) fn list(&self, prefix: &str) -> Worked<Vec<Inspection>> {
        self.with_base(|base, at| {
            let mut statement = self.connection.prepare_cached(row::LIST)?;
            let mut rows = statement.query([prefix])?;
            let mut found = Vec::new();
            while let Some(sql) = rows.next()? {
                let name: String = sql.get(0)?;
                if !name.starts_with(prefix) {
                    break;
                }
                // A name that this program would refuse cannot be asked about either.
                let Ok(name) = ResourceName::new(name) else { continue };
                let (row, good) = (read(sql, 1)?, read_end(sql, 1 + row::WIDTH)?);
                found.push(row.inspection(name, base.standing.epoch, at.now, good));
            }
            Ok(found)
        })
    }

    pub(super) fn history(&self, resource: &ResourceName, limit: usize) -> Worked<Vec<HistoryEntry>> {
        self.with_base(|_, at| {
            let current = match self.settings.keep {
                Some(_) => match row::load(&self.connection, resource)?.current_hold(at.now, at.wall) {
                    None => slots::current_hold(&self.connection, resource, at)?,
                    current => current,
                },
                None => None,
            };
            history::load(&self.connection, resource, limit, current)
        })
    }

    /// One snapshot for everything that a question reads.
    pub(super) fn with_base<T>(&self, question: impl FnOnce(&Base, &At) -> rusqlite::Result<T>) -> Worked<T> {
        self.connection.prepare_cached("BEGIN")?.execute([])?;
        let answer = self.snapshot(question);
        self.connection.execute_batch("ROLLBACK")?;
        answer
    }

    fn snapshot<T>(&self, question: impl FnOnce(&Base, &At) -> rusqlite::Result<T>) -> Worked<T> {
        match self.settings.base(&self.connection)? {
            Ok(base) => question(&base, &self.settings.boot.at(base.offset)).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Answers the waiters whose resource may be free, if anything was committed or their time has come.
    fn look(&self, waiters: &Waiters, version: &mut Option<i64>) {
        let seen = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut pragma| pragma.query_row([], |row| row.get(0)))
            .ok();
        // Where it cannot be told, anything may have happened.
        let changed = seen.is_none() || *version != seen;
        *version = seen;
        let now = self.settings.boot.at(0).now;
        waiters.end_over(now);
        let look = |resource: ResourceName| {
            let remaining = match self.inspect(&resource) {
                Ok(Ok(inspection)) => inspection.occupant.map(|occupant| occupant.remaining),
                // The next request says what is wrong.
                Ok(Err(_)) | Err(_) => Some(Duration::ZERO),
            };
            (resource, remaining)
        };
        let seen = waiters.to_look_at(now, changed).into_iter().map(look).collect();
        waiters.seen(now, &seen);
    }
}
