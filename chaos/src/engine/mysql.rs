//! A MySQL or a MariaDB server.

use std::sync::Mutex;

use lease_machines_store::{GuardMode, LeaseRef, MarkKey, MysqlFence};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Transaction, TxOpts};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::database::{Database, proxies};
use super::{Engine, Job, Later, PATIENCE, REMEMBERED, Server, TIMEOUT, refused};
use crate::history::{Answer, Written, now};
use crate::proxy::{Proxy, Wire};
use crate::random::Random;
use crate::record::Recorder;
use crate::servers::clock::WallClock;
use crate::servers::guard::Guarded;
use crate::servers::mysql::{self, Kind};

const DATABASE: &str = "leases";
const SECOND: &str = "second";

pub(super) struct Mysql {
    server: Running,
    kind: Kind,
    proxies: Vec<Proxy>,
    version: String,
}

struct Running {
    server: Mutex<mysql::Server>,
    clock: WallClock,
    /// Where that one is.
    _folder: Guarded,
}

impl Mysql {
    pub(super) fn start(kind: Kind, random: Random, recorder: &Recorder) -> Result<Self, String> {
        let folder = Guarded::folder("clock");
        let clock = WallClock::new(folder.path().to_owned())?;
        let server = mysql::Server::start_with(&clock.variables(), "", kind, &[]);
        for database in [DATABASE, SECOND] {
            server.sql("", &format!("CREATE DATABASE {database}"));
        }
        lease_machines_store::migrate(&url(kind, server.port)).map_err(|error| error.to_string())?;
        Handle::current().block_on(async {
            let mut conn = Self::connect(&place(server.port)).await?;
            MysqlFence::set_up(&mut conn).await.map_err(|error| error.to_string())?;
            let journal = "CREATE TABLE journal (resource VARBINARY(255), n BIGINT, token BIGINT, id BIGINT, \
                               INDEX (resource, n)) ENGINE=InnoDB";
            conn.query_drop(journal).await.map_err(|error| error.to_string())
        })?;
        let version = server.sql("", "SELECT version()").concat();
        let name = if kind == Kind::MariaDb { "MariaDB" } else { "MySQL" };
        let proxies = proxies(Wire::Mysql, true, server.port, random, recorder)?;
        let server = Running { server: Mutex::new(server), clock, _folder: folder };
        Ok(Self { server, kind, proxies, version: format!("{name} {version}") })
    }

    fn port(&self) -> u16 {
        self.server.server.lock().unwrap().port
    }
}

fn url(kind: Kind, port: u16) -> String {
    let scheme = if kind == Kind::MariaDb { "mariadb" } else { "mysql" };
    format!(
        "{scheme}://lease:@127.0.0.1:{port}/{DATABASE}?timeout={TIMEOUT}&connect_timeout={TIMEOUT}&history={REMEMBERED}"
    )
}

fn place(port: u16) -> String {
    format!("mysql://lease:@127.0.0.1:{port}/{DATABASE}")
}

impl Engine for Mysql {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn url(&self) -> String {
        url(self.kind, self.proxies[0].port)
    }

    fn plain_url(&self) -> String {
        url(self.kind, self.port())
    }

    fn second(&self, url: &str) -> String {
        url.replace(&format!("/{DATABASE}?"), &format!("/{SECOND}?"))
    }

    fn place(&self) -> String {
        place(self.proxies[1].port)
    }

    fn written(&self) -> Later<'_, Result<Vec<Written>, String>> {
        let place = place(self.port());
        Box::pin(async move {
            let mut conn = Self::connect(&place).await?;
            let text = "SELECT CAST(resource AS CHAR), n, token, id FROM journal ORDER BY resource, n";
            let rows: Vec<(String, u64, u64, u64)> =
                conn.query(text).await.map_err(|error| error.to_string())?;
            let _ = conn.disconnect().await;
            Ok(rows.into_iter().map(|(resource, n, token, id)| Written { resource, n, token, id }).collect())
        })
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&self.server)
    }

    fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = self.server.lock().unwrap().guarded.pid();
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Server for Running {
    fn kill(&self) {
        self.server.lock().unwrap().kill();
    }

    fn restart(&self) {
        self.server.lock().unwrap().up();
    }

    fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn set_clock(&self, ahead: i64) {
        self.clock.set(ahead);
    }
}

impl Database for Mysql {
    type Connection = Conn;

    const WAYS: &'static [(&'static str, bool)] = &[
        ("read committed", true),
        ("repeatable read", false),
        ("serializable", false),
        ("plain SQL", false),
    ];

    async fn connect(place: &str) -> Result<Conn, String> {
        let opts = Opts::from_url(place).map_err(|error| error.to_string())?;
        Conn::new(OptsBuilder::from_opts(opts).prefer_socket(false)).await.map_err(|error| error.to_string())
    }

    async fn write(conn: &mut Conn, job: &Job) -> (Option<u64>, Answer) {
        let mut guarded = None;
        let transaction = match timeout(PATIENCE, begin(conn, job, &mut guarded)).await {
            Ok(Ok(transaction)) => transaction,
            Ok(Err(refused)) => return refused,
            Err(_) => return (guarded, Answer::NotDone("no answer before the commit".to_owned())),
        };
        let answer = match timeout(PATIENCE, transaction.commit()).await {
            Ok(Ok(())) => Answer::Passed,
            Ok(Err(error)) => Answer::Unknown(error.to_string()),
            Err(_) => Answer::Unknown("no answer to the commit".to_owned()),
        };
        (guarded, answer)
    }

    async fn advance(conn: &mut Conn, key: &MarkKey, lease: &LeaseRef) -> Result<(), Answer> {
        MysqlFence::advance(conn, key, lease).await.map_err(|error| refused(&error).1)
    }
}

/// Everything up to the commit. A transaction whose connection is closed before it has not happened.
async fn begin<'c>(
    conn: &'c mut Conn,
    job: &Job,
    guarded: &mut Option<u64>,
) -> Result<Transaction<'c>, (Option<u64>, Answer)> {
    let not_done = |error: mysql_async::Error| (None, Answer::NotDone(error.to_string()));
    let level = match job.way {
        "repeatable read" => "REPEATABLE READ",
        "serializable" => "SERIALIZABLE",
        _ => "READ COMMITTED",
    };
    for set in [
        format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
        "SET innodb_lock_wait_timeout = 2".to_owned(),
    ] {
        conn.query_drop(set).await.map_err(not_done)?;
    }
    let mut transaction = conn.start_transaction(TxOpts::default()).await.map_err(not_done)?;
    let token = job.lease.token.value();
    if job.way == "plain SQL" {
        let shown =
            (&job.key.store, job.key.resource.as_str(), job.key.slot, token, job.lease.owner.value() as i64);
        if let Err(error) = transaction.exec_drop(MysqlFence::guard_sql(), shown).await {
            let stale = matches!(&error, mysql_async::Error::Server(told) if told.state == "LF002");
            let _ = transaction.rollback().await;
            return Err(if stale { (Some(now()), Answer::Stale { highest: 0 }) } else { not_done(error) });
        }
    } else {
        let mode = if job.strict { GuardMode::Strict } else { GuardMode::Plain };
        if let Err(error) = MysqlFence::guard(&mut transaction, &job.key, &job.lease, mode).await {
            let _ = transaction.rollback().await;
            return Err(refused(&error));
        }
    }
    *guarded = Some(now());
    let resource = job.key.resource.as_str();
    let text = "INSERT INTO journal SELECT ?, coalesce(max(n), 0) + 1, ?, ? FROM journal WHERE resource = ?";
    let wrote = transaction.exec_drop(text, (resource, token, job.id, resource)).await;
    if let Err(error) = wrote {
        return Err((*guarded, Answer::NotDone(error.to_string())));
    }
    Ok(transaction)
}
