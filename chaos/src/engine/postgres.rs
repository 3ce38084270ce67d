//! A PostgreSQL server, reached directly or through PgBouncer in transaction mode.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use lease_machines_store::{GuardMode, LeaseRef, MarkKey, PostgresFence};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel, NoTls};

use super::database::{Database, proxies};
use super::{Engine, Job, Later, PATIENCE, REMEMBERED, Server, TIMEOUT, refused};
use crate::history::{Answer, Written, now};
use crate::proxy::{Proxy, Wire};
use crate::random::Random;
use crate::record::Recorder;
use crate::servers::clock::WallClock;
use crate::servers::guard::Guarded;
use crate::servers::pgbouncer::Pooler;
use crate::servers::postgres;

const SCHEMA: &str = "lease_machines";

pub(super) struct Postgres {
    server: Running,
    proxies: Vec<Proxy>,
    version: String,
}

struct Running {
    server: Mutex<postgres::Server>,
    /// What stands before it.
    pooler: Option<Mutex<Pooler>>,
    /// Which of the two is killed or frozen next.
    turn: AtomicBool,
    clock: WallClock,
}

/// A server that was down is asked again at once, and not after 15 s.
const POOLER: &str = "server_login_retry = 0.1";

impl Postgres {
    pub(super) fn start(is_pooled: bool, random: Random, recorder: &Recorder) -> Result<Self, String> {
        let folder = Guarded::folder("postgres");
        let clock = WallClock::new(folder.path().join("clock"))?;
        let server = postgres::Server::start_in(folder.with(&clock.variables()), &[]);
        let url = server.url(SCHEMA);
        lease_machines_store::migrate(&url).map_err(|error| error.to_string())?;
        let set_up = PostgresFence::default().set_up_sql();
        let journal = format!(
            "CREATE TABLE {SCHEMA}.journal (resource text, n bigint, token bigint, id bigint);
             CREATE INDEX ON {SCHEMA}.journal (resource, n);"
        );
        server.try_sql("postgres", &(set_up + &journal)).map_err(|error| error.to_string())?;
        let version = server.sql("SHOW server_version").concat();
        let pooler = is_pooled.then(|| Pooler::start(server.port, POOLER));
        let front = pooler.as_ref().map_or(server.port, |pooler| pooler.port);
        let proxies = proxies(Wire::Postgres, true, front, random, recorder)?;
        Ok(Self {
            server: Running {
                server: Mutex::new(server),
                pooler: pooler.map(Mutex::new),
                turn: AtomicBool::new(false),
                clock,
            },
            proxies,
            version: format!("PostgreSQL {version}{}", if is_pooled { " through PgBouncer" } else { "" }),
        })
    }

    fn port(&self) -> u16 {
        self.server.server.lock().unwrap().port
    }
}

fn url(port: u16) -> String {
    format!(
        "postgres://lease@127.0.0.1:{port}/postgres?schema={SCHEMA}&sslmode=disable&timeout={TIMEOUT}\
         &connect_timeout={TIMEOUT}&history={REMEMBERED}"
    )
}

fn place(port: u16) -> String {
    format!("host=127.0.0.1 port={port} user=lease dbname=postgres sslmode=disable connect_timeout=2")
}

async fn connect(place: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(place, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Engine for Postgres {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn url(&self) -> String {
        url(self.proxies[0].port)
    }

    fn plain_url(&self) -> String {
        url(self.port())
    }

    fn second(&self, url: &str) -> String {
        url.replace(&format!("schema={SCHEMA}"), "schema=second")
    }

    fn place(&self) -> String {
        place(self.proxies[1].port)
    }

    fn written(&self) -> Later<'_, Result<Vec<Written>, String>> {
        let place = place(self.port());
        Box::pin(async move {
            let text = format!("SELECT resource, n, token, id FROM {SCHEMA}.journal ORDER BY resource, n");
            let read = async { connect(&place).await?.query(&text, &[]).await };
            let rows = read.await.map_err(|error| error.to_string())?;
            let number = |row: &tokio_postgres::Row, column| row.get::<_, i64>(column) as u64;
            Ok(rows
                .iter()
                .map(|row| Written {
                    resource: row.get(0),
                    n: number(row, 1),
                    token: number(row, 2),
                    id: number(row, 3),
                })
                .collect())
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
    /// The pooler where it is its turn, which comes and goes with each fault.
    fn pooler(&self, is_over: bool) -> Option<MutexGuard<'_, Pooler>> {
        let pooler = self.pooler.as_ref()?;
        let turn = if is_over {
            self.turn.fetch_xor(true, Ordering::SeqCst)
        } else {
            self.turn.load(Ordering::SeqCst)
        };
        turn.then(|| pooler.lock().unwrap())
    }

    /// All its processes: one of a stopped server's that ran on would go on answering.
    fn signal(&self, signal: Signal, is_over: bool) {
        if let Some(pooler) = self.pooler(is_over) {
            return pooler.signal(signal);
        }
        let server = self.server.lock().unwrap();
        let Some(main) = server.guarded.pid() else { return };
        let list = format!("/proc/{main}/task/{main}/children");
        let others = std::fs::read_to_string(list).unwrap_or_default();
        let others = others.split_whitespace().filter_map(|pid| pid.parse().ok());
        for pid in std::iter::once(main).chain(others).filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Server for Running {
    fn kill(&self) {
        match self.pooler(false) {
            Some(mut pooler) => pooler.kill(),
            None => self.server.lock().unwrap().kill(),
        }
    }

    fn restart(&self) {
        match self.pooler(true) {
            Some(mut pooler) => pooler.up(),
            None => self.server.lock().unwrap().up(),
        }
    }

    fn freeze(&self) {
        self.signal(Signal::STOP, false);
    }

    fn thaw(&self) {
        self.signal(Signal::CONT, true);
    }

    fn set_clock(&self, ahead: i64) {
        self.clock.set(ahead);
    }
}

impl Database for Postgres {
    type Connection = Client;

    const WAYS: &'static [(&'static str, bool)] = &[
        ("read committed", true),
        ("repeatable read", false),
        ("serializable", false),
        ("plain SQL", false),
    ];

    async fn connect(place: &str) -> Result<Client, String> {
        connect(place).await.map_err(|error| error.to_string())
    }

    fn is_closed(client: &Client) -> bool {
        client.is_closed()
    }

    async fn write(client: &mut Client, job: &Job) -> (Option<u64>, Answer) {
        let mut guarded = None;
        let transaction = match timeout(PATIENCE, begin(client, job, &mut guarded)).await {
            Ok(Ok(transaction)) => transaction,
            Ok(Err(refused)) => return refused,
            Err(_) => return (guarded, Answer::NotDone("no answer before the commit".to_owned())),
        };
        let answer = match timeout(PATIENCE, transaction.commit()).await {
            Ok(Ok(())) => Answer::Passed,
            // The server said so itself; what it could not say may have happened.
            Ok(Err(error)) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
                Answer::NotDone(error.to_string())
            }
            Ok(Err(error)) => Answer::Unknown(error.to_string()),
            Err(_) => Answer::Unknown("no answer to the commit".to_owned()),
        };
        (guarded, answer)
    }

    async fn advance(client: &mut Client, key: &MarkKey, lease: &LeaseRef) -> Result<(), Answer> {
        PostgresFence::default().advance(client, key, lease).await.map_err(|error| refused(&error).1)
    }
}

/// Everything up to the commit. A transaction that is dropped before it has not happened.
async fn begin<'c>(
    client: &'c mut Client,
    job: &Job,
    guarded: &mut Option<u64>,
) -> Result<tokio_postgres::Transaction<'c>, (Option<u64>, Answer)> {
    let not_done = |error: tokio_postgres::Error| (None, Answer::NotDone(error.to_string()));
    let level = match job.way {
        "repeatable read" => IsolationLevel::RepeatableRead,
        "serializable" => IsolationLevel::Serializable,
        _ => IsolationLevel::ReadCommitted,
    };
    let transaction = client.build_transaction().isolation_level(level).start().await.map_err(not_done)?;
    let fence = PostgresFence::default();
    let token = job.lease.token.value() as i64;
    if job.way == "plain SQL" {
        let (resource, owner) = (job.key.resource.as_str().as_bytes(), job.lease.owner.value() as i64);
        let passed = transaction
            .query(&fence.guard_sql(), &[&job.key.store, &resource, &job.key.slot, &token, &owner])
            .await;
        if let Err(error) = passed {
            let stale = error.as_db_error().filter(|told| told.code().code() == "LF002");
            let highest = stale.and_then(|told| told.detail()?.parse::<i64>().ok());
            return Err(match highest {
                Some(highest) => (Some(now()), Answer::Stale { highest: highest as u64 }),
                None => not_done(error),
            });
        }
    } else {
        let mode = if job.strict { GuardMode::Strict } else { GuardMode::Plain };
        fence.guard(&transaction, &job.key, &job.lease, mode).await.map_err(|error| refused(&error))?;
    }
    *guarded = Some(now());
    let text = format!(
        "INSERT INTO {SCHEMA}.journal SELECT $1::text, coalesce(max(n), 0) + 1, $2::bigint, $3::bigint \
         FROM {SCHEMA}.journal WHERE resource = $1::text"
    );
    let wrote = transaction.execute(&text, &[&job.key.resource.as_str(), &token, &(job.id as i64)]).await;
    wrote.map_err(|error| (*guarded, Answer::NotDone(error.to_string())))?;
    Ok(transaction)
}
