//! Behind PgBouncer in transaction mode.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use lease_machines_store::conformance::{self, Fixture, Subject, block_on};
use lease_machines_store::{ErrorKind, PostgresStore, Store, StoreError, Undecided};

use crate::conformance::check;
use crate::help::{claim, granted};
use crate::servers::pgbouncer::Pooler;
use crate::servers::postgres::{Server, runtime};
use crate::servers::proxy::Proxy;

/// The one that the tests share. It leaves out what a connection's start asks for, which others refuse.
fn pooler() -> &'static Pooler {
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    POOLER.get_or_init(|| Pooler::start(Server::shared().port, ""))
}

fn url(port: u16, schema: &str) -> String {
    url_of("postgres", port, schema)
}

fn url_of(database: &str, port: u16, schema: &str) -> String {
    format!("postgres://lease@127.0.0.1:{port}/{database}?schema={schema}&sslmode=disable")
}

/// In this database of the pooler's.
struct Pooled(&'static str);

struct Behind(Arc<PostgresStore>, String);

impl Subject for Pooled {
    fn name(&self) -> String {
        format!("postgres behind PgBouncer, database {}", self.0)
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let url = url_of(self.0, pooler().port, &Server::shared().fresh().0);
        Ok(Box::new(Behind(Arc::new(PostgresStore::open(&url)?), url)))
    }
}

impl Fixture for Behind {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        PostgresStore::open(&self.1).ok().map(|store| Arc::new(store) as Arc<dyn Store>)
    }

    fn pass(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn is_driven(&self) -> bool {
        false
    }

    fn unit(&self) -> Duration {
        Duration::from_millis(200)
    }
}

#[test]
fn passes_behind_a_pooler() {
    check(&conformance::run(&Pooled("postgres")), 95, 5);
}

#[test]
fn passes_behind_a_pooler_of_serializable_sessions() {
    check(&conformance::run(&Pooled("serializable")), 95, 5);
}

#[test]
fn a_pooler_is_found_out_before_a_statement_has_a_name() {
    let server = Server::shared();
    let silent = Pooler::start(server.port, "ignore_startup_parameters = options");
    for (pooler, refuses) in [(pooler().port, true), (silent.port, false)] {
        let proxy = Proxy::start(pooler);
        let (schema, _) = server.fresh();
        let store = PostgresStore::open(&url(proxy.port, &schema)).unwrap();
        for owner in 1..=5 {
            let _ = granted(&store, claim(&format!("job-{owner}"), owner));
        }
        assert_eq!(proxy.named(), 0, "refuses {refuses}");
    }
    let proxy = Proxy::start(server.port);
    let (schema, _) = server.fresh();
    let _ = granted(&PostgresStore::open(&url(proxy.port, &schema)).unwrap(), claim("job", 1));
    assert!(proxy.named() > 0, "a direct connection is one, and is used as one");
}

#[test]
fn a_server_that_dies_behind_its_pooler_may_have_decided() {
    let mut server = Server::start(&[]);
    let (schema, _) = server.fresh();
    let pooler = Pooler::start(server.port, "");
    let store = PostgresStore::open(&url(pooler.port, &schema)).unwrap();
    granted(&store, claim("job", 1));
    let blocker = runtime().block_on(server.client("postgres")).unwrap();
    let lock = format!("BEGIN; SELECT FROM {schema}.lease_row FOR UPDATE");
    runtime().block_on(blocker.batch_execute(&lock)).unwrap();
    let error = thread::scope(|scope| {
        let asked = scope.spawn(|| block_on(store.acquire(claim("job", 2))));
        let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while server.sql(waiting).is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        server.kill();
        asked.join().unwrap().unwrap_err()
    });
    // What the pooler says of it is no word of the server's: the decision may have been committed.
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{error}");
}
