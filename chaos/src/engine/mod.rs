//! The engines that are put to the test. To add one: a file beside this one with its [`Engine`] and its [`Writer`] (a
//! server's is a [`ServerWriter`]), and a line in [`start`] and in [`writer`].

mod database;
#[cfg(feature = "etcd")]
mod etcd;
mod mysql;
mod postgres;
mod redis;
mod sqlite;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lease_machines_store::{GuardError, GuardErrorKind, LeaseRef, MarkKey};

use self::database::ServerWriter;
use crate::history::{Answer, Written, now};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::record::Recorder;
use crate::servers::mysql::Kind;

/// By name, in the order in which they are run.
pub(crate) const ENGINES: &[&str] = &[
    "sqlite",
    "postgres",
    "pgbouncer",
    "mariadb",
    "mysql",
    "redis",
    "valkey",
    #[cfg(feature = "etcd")]
    "etcd",
];

/// How long a call may take, as the stores' URLs have it.
pub(crate) const TIMEOUT: &str = "1s";

/// How many holds of a resource the stores remember: more than it ever has in a run.
pub(crate) const REMEMBERED: usize = 20_000;

/// How long a [`Writer`] waits for its connection, for all up to the commit, and for that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server that a run has started, or a file, with a lease store in it and marks beside that.
pub(crate) trait Engine: Send + Sync {
    /// Which version of what.
    fn version(&self) -> String;

    /// What clients open: through a proxy where there is one.
    fn url(&self) -> String;

    /// The same without anything in between.
    fn plain_url(&self) -> String;

    /// The URL of a second store beside the one that has this URL.
    fn second(&self, url: &str) -> String;

    /// Where a [`Writer`] writes.
    fn place(&self) -> String;

    /// The guarded writes, as they are found in the end.
    fn written(&self) -> Later<'_, Result<Vec<Written>, String>>;

    /// The server, where it is one of its own.
    fn server(&self) -> Option<&dyn Server>;

    fn proxies(&self) -> &[Proxy];

    /// What processes with clients find in their environment.
    fn variables(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it is clients in processes of their own whose wall clock is stepped, and not the server.
    fn steps_clients(&self) -> bool {
        self.server().is_none()
    }

    /// Sets that clock so far ahead of the machine's, in seconds.
    fn set_client_clock(&self, _ahead: i64) {}

    /// Whether the store withdraws a grant of which nobody was left to hear.
    fn takes_back(&self) -> bool {
        false
    }

    /// Whether the times in the store's history are those that it decided by.
    fn remembers_times(&self) -> bool {
        true
    }

    /// Whether a lease ends when one of the engine's own does: after whole seconds, never early and at times late, as after
    /// a restart, and how long it has been held is told by the clocks of clients.
    fn ends_by_leases(&self) -> bool {
        false
    }

    /// Whether tokens are numbered one after the other.
    fn is_dense(&self) -> bool {
        true
    }
}

/// A process of its own, to which things happen. Each call returns when it has happened.
pub(crate) trait Server: Send + Sync {
    fn kill(&self);
    /// Starts it again, and waits until it answers.
    fn restart(&self);
    fn freeze(&self);
    fn thaw(&self);
    /// Sets its clock so far ahead of the machine's, in seconds.
    fn set_clock(&self, ahead: i64);
}

/// A guarded write.
pub(crate) struct Job {
    pub(crate) key: MarkKey,
    pub(crate) lease: LeaseRef,
    pub(crate) strict: bool,
    /// One of the writer's [`ways`](Writer::ways).
    pub(crate) way: &'static str,
    pub(crate) id: u64,
}

/// A client's own connection to the database that is written to.
pub(crate) trait Writer: Send {
    /// Kinds of transaction, such as isolation levels, and whether a strict guard can run there.
    fn ways(&self) -> &'static [(&'static str, bool)];

    /// When the guard had spoken, and what became of the write.
    fn write<'a>(&'a mut self, job: &'a Job) -> Later<'a, (Option<u64>, Answer)>;

    /// Raises the mark.
    fn advance<'a>(&'a mut self, key: &'a MarkKey, lease: &'a LeaseRef) -> Later<'a, Answer>;
}

/// Starts an engine. Blocks.
pub(crate) fn start(name: &str, random: Random, recorder: &Recorder) -> Result<Box<dyn Engine>, String> {
    Ok(match name {
        "sqlite" => Box::new(sqlite::Sqlite::start()?),
        "postgres" => Box::new(postgres::Postgres::start(false, random, recorder)?),
        "pgbouncer" => Box::new(postgres::Postgres::start(true, random, recorder)?),
        "mariadb" => Box::new(mysql::Mysql::start(Kind::MariaDb, random, recorder)?),
        "mysql" => Box::new(mysql::Mysql::start(Kind::MySql, random, recorder)?),
        "redis" => Box::new(redis::Redis::start("redis-server", random, recorder)?),
        "valkey" => Box::new(redis::Redis::start("valkey-server", random, recorder)?),
        #[cfg(feature = "etcd")]
        "etcd" => Box::new(etcd::Etcd::start(random, recorder)?),
        _ => return Err(format!("no engine is called {name:?}; there are: {}", ENGINES.join(", "))),
    })
}

pub(crate) fn writer(engine: &str, place: &str) -> Box<dyn Writer> {
    match engine {
        "sqlite" => Box::new(sqlite::SqliteWriter::new(place)),
        "postgres" | "pgbouncer" => Box::new(ServerWriter::<postgres::Postgres>::new(place)),
        "mariadb" | "mysql" => Box::new(ServerWriter::<mysql::Mysql>::new(place)),
        #[cfg(feature = "etcd")]
        "etcd" => Box::new(ServerWriter::<etcd::Etcd>::new(place)),
        _ => Box::new(ServerWriter::<redis::Redis>::new(place)),
    }
}

/// What a guard's refusal is, and when it was there.
fn refused(error: &GuardError) -> (Option<u64>, Answer) {
    let answer = match error.kind() {
        GuardErrorKind::StaleToken { highest, .. } => Answer::Stale { highest: highest.value() },
        GuardErrorKind::Lost => Answer::Lost,
        GuardErrorKind::Busy | GuardErrorKind::Serialization | GuardErrorKind::Database => {
            return (None, Answer::NotDone(error.to_string()));
        }
        _ => return (None, Answer::Refused(error.to_string())),
    };
    (Some(now()), answer)
}
