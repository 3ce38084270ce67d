//! An SQLite file: nothing stands in front of it, and it has no process of its own.

use std::path::PathBuf;
use std::time::Duration;

use lease_machines_store::{GuardMode, LeaseRef, MarkKey, SqliteFence};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{Engine, Job, Later, REMEMBERED, Server, TIMEOUT, Writer, refused};
use crate::history::{Answer, Written, now};
use crate::proxy::Proxy;
use crate::servers::clock::WallClock;
use crate::servers::guard::Guarded;

pub(super) struct Sqlite {
    folder: Guarded,
    clock: WallClock,
}

impl Sqlite {
    pub(super) fn start() -> Result<Self, String> {
        let folder = Guarded::folder("sqlite");
        let clock = WallClock::new(folder.path().join("clock"))?;
        let engine = Self { folder, clock };
        lease_machines_store::migrate(&engine.plain_url()).map_err(|error| error.to_string())?;
        let set_up = || -> Result<(), Box<dyn std::error::Error>> {
            let connection = open(&engine.file())?;
            SqliteFence::set_up(&connection)?;
            connection.execute_batch(
                "CREATE TABLE journal (resource TEXT, n INTEGER, token INTEGER, id INTEGER);
                 CREATE INDEX journal_n ON journal (resource, n)",
            )?;
            Ok(())
        };
        set_up().map_err(|error| error.to_string())?;
        Ok(engine)
    }

    fn file(&self) -> String {
        self.folder.path().join("chaos.db").display().to_string()
    }
}

impl Engine for Sqlite {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn url(&self) -> String {
        self.plain_url()
    }

    fn plain_url(&self) -> String {
        format!("sqlite:{}?timeout={TIMEOUT}&history={REMEMBERED}", self.file())
    }

    fn second(&self, url: &str) -> String {
        url.replace("chaos.db", "second.db")
    }

    fn place(&self) -> String {
        self.file()
    }

    fn written(&self) -> Later<'_, Result<Vec<Written>, String>> {
        let read = || -> rusqlite::Result<Vec<Written>> {
            let connection = open(&self.file())?;
            let mut rows =
                connection.prepare("SELECT resource, n, token, id FROM journal ORDER BY resource, n")?;
            let read = rows.query_map([], |row| {
                Ok(Written {
                    resource: row.get(0)?,
                    n: row.get::<_, i64>(1)? as u64,
                    token: row.get::<_, i64>(2)? as u64,
                    id: row.get::<_, i64>(3)? as u64,
                })
            })?;
            read.collect()
        };
        let read = read().map_err(|error| error.to_string());
        Box::pin(async move { read })
    }

    fn server(&self) -> Option<&dyn Server> {
        None
    }

    fn proxies(&self) -> &[Proxy] {
        &[]
    }

    fn takes_back(&self) -> bool {
        true
    }

    /// Each process writes down what its own wall clock shows.
    fn remembers_times(&self) -> bool {
        false
    }

    fn variables(&self) -> Vec<String> {
        self.clock.variables()
    }

    /// The store does not go by it, so that nothing may come of this.
    fn set_client_clock(&self, ahead: i64) {
        self.clock.set(ahead);
    }
}

fn open(file: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(1))?;
    connection.execute_batch("PRAGMA synchronous = FULL")?;
    Ok(connection)
}

pub(super) struct SqliteWriter {
    file: PathBuf,
    connection: Option<Connection>,
}

impl SqliteWriter {
    pub(super) fn new(place: &str) -> Self {
        Self { file: place.into(), connection: None }
    }

    /// Runs something on the connection, away from the tasks.
    async fn on<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut Connection) -> T + Send + 'static,
    ) -> Result<T, Answer> {
        let (file, connection) = (self.file.clone(), self.connection.take());
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = match connection {
                Some(connection) => connection,
                None => {
                    open(&file.display().to_string()).map_err(|error| Answer::NotDone(error.to_string()))?
                }
            };
            let result = what(&mut connection);
            Ok((result, connection))
        });
        let (result, connection) =
            done.await.map_err(|error| Answer::Unknown(error.to_string())).and_then(|done| done)?;
        self.connection = Some(connection);
        Ok(result)
    }
}

impl Writer for SqliteWriter {
    fn ways(&self) -> &'static [(&'static str, bool)] {
        &[("immediate", true), ("deferred", true), ("exclusive", true)]
    }

    fn write<'a>(&'a mut self, job: &'a Job) -> Later<'a, (Option<u64>, Answer)> {
        let (key, lease, id) = (job.key.clone(), job.lease.clone(), job.id as i64);
        let mode = if job.strict { GuardMode::Strict } else { GuardMode::Plain };
        let behavior = match job.way {
            "deferred" => TransactionBehavior::Deferred,
            "exclusive" => TransactionBehavior::Exclusive,
            _ => TransactionBehavior::Immediate,
        };
        Box::pin(async move {
            self.on(move |connection| write(connection, behavior, &key, &lease, mode, id))
                .await
                .unwrap_or_else(|answer| (None, answer))
        })
    }

    fn advance<'a>(&'a mut self, key: &'a MarkKey, lease: &'a LeaseRef) -> Later<'a, Answer> {
        let (key, lease) = (key.clone(), lease.clone());
        Box::pin(async move {
            let advanced = self.on(move |connection| {
                // Its commit is its own affair: one that failed may have been carried out.
                match SqliteFence::advance(connection, &key, &lease) {
                    Ok(()) => Answer::Passed,
                    Err(error) => refused(&error).1,
                }
            });
            advanced.await.unwrap_or_else(|answer| answer)
        })
    }
}

fn write(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    key: &MarkKey,
    lease: &LeaseRef,
    mode: GuardMode,
    id: i64,
) -> (Option<u64>, Answer) {
    let not_done = |error: rusqlite::Error| Answer::NotDone(error.to_string());
    let transaction = match connection.transaction_with_behavior(behavior) {
        Ok(transaction) => transaction,
        Err(error) => return (None, not_done(error)),
    };
    if let Err(error) = SqliteFence::guard(&transaction, key, lease, mode) {
        return refused(&error);
    }
    let guarded = Some(now());
    let wrote = transaction.execute(
        "INSERT INTO journal SELECT ?1, coalesce(max(n), 0) + 1, ?2, ?3 FROM journal WHERE resource = ?1",
        (key.resource.as_str(), lease.token.value() as i64, id),
    );
    if let Err(error) = wrote {
        return (guarded, not_done(error));
    }
    match transaction.commit() {
        Ok(()) => (guarded, Answer::Passed),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            (guarded, not_done(error))
        }
        Err(error) => (guarded, Answer::Unknown(error.to_string())),
    }
}
