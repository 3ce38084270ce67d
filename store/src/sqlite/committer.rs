//! The thread that writes: many requests, one commit.

use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rusqlite::Connection;

use super::batch::Batch;
use super::echoes::Echoes;
use super::failure::{commit_error, is_busy, sqlite_error};
use super::jitter::Jitter;
use super::lane::{Lane, Queued, Wake};
use super::row::Base;
use super::settings::Settings;
use crate::StoreError;

/// What one commit carries at most, so that the lock is not held for too long.
const MOST_AT_ONCE: usize = 1_024;

/// Works until the queue is closed and empty. `committed` is called after each commit that may have changed something.
pub(super) fn run(
    connection: Connection,
    settings: &Arc<Settings>,
    lane: &Lane<Batch>,
    committed: &dyn Fn(),
) {
    let committer = Committer {
        connection: Rc::new(connection),
        settings: Arc::clone(settings),
        echoes: Rc::new(Echoes::new()),
    };
    while lane.sleep(None) != Wake::Closed {
        if !committer.lock(lane) {
            continue;
        }
        // Taken only now: whatever came while others held the lock shares this commit.
        let batch = lane.take(MOST_AT_ONCE);
        if let Some(failed) = committer.decide(batch) {
            // One of them cannot be done, and it takes all others with it. Alone, it takes none.
            for queued in failed {
                if committer.lock(lane) {
                    committer.decide(vec![queued]);
                } else {
                    lane.put_back(vec![queued]);
                }
            }
        }
        lane.done();
        committed();
    }
}

struct Committer {
    connection: Rc<Connection>,
    settings: Arc<Settings>,
    echoes: Rc<Echoes>,
}

impl Committer {
    /// Begins a transaction that holds the file's write lock, for as long as anyone still waits for it.
    fn lock(&self, lane: &Lane<Batch>) -> bool {
        let start = Instant::now();
        let mut jitter = Jitter::new();
        loop {
            let begun =
                self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
            match begun {
                Ok(_) => return true,
                // The watch ends the requests whose time is up.
                Err(error) if is_busy(&error) => thread::sleep(jitter.pause(start.elapsed())),
                Err(error) => {
                    let error = sqlite_error(&self.settings.place, "locking", error);
                    for (_, mut work) in lane.take(usize::MAX) {
                        work.fail(error.clone());
                    }
                    lane.done();
                    return false;
                }
            }
            if !lane.is_wanted(self.settings.place.timeout) {
                return false;
            }
        }
    }

    /// Decides and commits a batch. Returns it undone where it has to be tried one by one.
    fn decide(&self, mut batch: Vec<Queued<Batch>>) -> Option<Vec<Queued<Batch>>> {
        let base = match self.base() {
            Ok(base) => base,
            Err(error) => {
                self.roll_back();
                fail(batch, &error);
                return None;
            }
        };
        let context = Batch::new(
            Rc::clone(&self.connection),
            Arc::clone(&self.settings),
            Rc::clone(&self.echoes),
            base,
        );
        for (_, work) in &mut batch {
            if let Err(error) = work.run(&context) {
                self.roll_back();
                if batch.len() > 1 {
                    return Some(batch);
                }
                fail(batch, &sqlite_error(&self.settings.place, "deciding", error));
                return None;
            }
        }
        match self.settings.place.patiently(|| self.commit()) {
            Ok(()) => {
                // From here on nothing may be ended as unknown that has been committed.
                for (_, work) in &mut batch {
                    work.deliver();
                }
            }
            Err(error) => {
                self.roll_back();
                fail(batch, &commit_error(&self.settings.place, error));
            }
        }
        None
    }

    fn base(&self) -> Result<Base, StoreError> {
        self.settings
            .base(&self.connection)
            .unwrap_or_else(|error| Err(sqlite_error(&self.settings.place, "reading the epoch", error)))
    }

    fn commit(&self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    fn roll_back(&self) {
        // SQLite has already rolled back after some errors.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

fn fail(batch: Vec<Queued<Batch>>, error: &StoreError) {
    for (_, mut work) in batch {
        work.fail(error.clone());
    }
}
