//! What a decision costs among a thousand resources, and among a million.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, PostgresStore, RedisStore, ResourceName, SqliteOptions, SqliteStore, Store,
};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::client::{TTL, name};
use crate::servers::guard::Guarded;
use crate::servers::postgres::Server;
use crate::servers::redis::{FORGETFUL, RedisServer};
use crate::table::{Row, Turns};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
/// So many tasks fill a store.
const TASKS: usize = 128;

/// A store with so many resources, all held by one owner.
struct Filled {
    store: Arc<dyn Store>,
    resources: usize,
    attempt: u64,
}

impl Filled {
    fn new(store: Arc<dyn Store>, resources: usize) -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime without drivers");
        runtime.block_on(async {
            let mut all = JoinSet::new();
            for first in 0..TASKS {
                let store = Arc::clone(&store);
                all.spawn(async move {
                    for index in (first..resources).step_by(TASKS) {
                        grant(store.as_ref(), index, 1).await;
                    }
                });
            }
            all.join_all().await;
        });
        Self { store, resources, attempt: 1 }
    }

    /// Anywhere among them: the next one is far from the last.
    fn grant(&mut self, count: usize) {
        self.attempt += 1;
        let index = count.wrapping_mul(0x9E37_79B9) % self.resources;
        block_on(grant(self.store.as_ref(), index, self.attempt));
    }
}

async fn grant(store: &dyn Store, index: usize, attempt: u64) {
    let claim = Claim::new(resource(index), OwnerId::new(7), TTL).with_attempt(attempt).with_label("bench");
    let answer = store.reacquire(claim).await.expect("a store of one's own decides");
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

fn resource(index: usize) -> ResourceName {
    name(&format!("resource-{index:07}"))
}

pub(crate) fn rows() -> Vec<Row> {
    let measures: [(&str, fn() -> Row); 3] = [("postgres", postgres), ("sqlite", sqlite), ("redis", redis)];
    let measured = measures.map(|(name, measure)| {
        eprintln!("bench: flat: {name}");
        measure()
    });
    measured.into()
}

fn row(engine: &str, mut few: Filled, mut many: Filled, bytes: u64) -> Row {
    let [small, large] = Turns { rounds: 100, calls: 40, warm_up: 10 }
        .take([&mut |count| few.grant(count), &mut |count| many.grant(count)]);
    let times = large / small;
    Row {
        what: format!("{engine}: a grant among 1,000,000 resources to one among 1,000"),
        figure: format!(
            "{times:.2} ({large:.0} µs to {small:.0} µs, {bytes} bytes a resource without its history)"
        ),
        bound: Some(("at most 1.15", times <= 1.15)),
    }
}

fn postgres() -> Row {
    let server = Server::start(&["shared_buffers = 1GB", "max_wal_size = 8GB", "checkpoint_timeout = 60min"]);
    let open = |url: &str| -> Arc<dyn Store> {
        Arc::new(PostgresStore::open(&format!("{url}&connections=16&timeout=60s")).expect("a URL of ours"))
    };
    let (few, (schema, many)) = (open(&server.fresh().1), server.fresh());
    let (few, many) = (Filled::new(few, FEW), Filled::new(open(&many), MANY));
    let size = server.sql(&format!("SELECT pg_total_relation_size('{schema}.lease_row')"));
    let size: u64 = size.first().and_then(|size| size.parse().ok()).expect("a number");
    row("postgres", few, many, size / MANY as u64)
}

fn sqlite() -> Row {
    let folder = Guarded::folder("flat");
    let open = |file: &Path| -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(file, SqliteOptions::default()).expect("a new file can be set up"))
    };
    let (small, large) = (folder.path().join("few.db"), folder.path().join("many.db"));
    let (few, many) = (Filled::new(open(&small), FEW), Filled::new(open(&large), MANY));
    let size = fs::metadata(&large).expect("the file is there").len();
    row("sqlite", few, many, size / MANY as u64)
}

fn redis() -> Row {
    let servers = [RedisServer::start(FORGETFUL), RedisServer::start(FORGETFUL)];
    let open = |server: &RedisServer| -> Arc<dyn Store> {
        let store = RedisStore::open(&server.url("timeout=60s")).expect("a URL of ours");
        store.migrate().expect("a server of one's own can be set up");
        Arc::new(store)
    };
    let used = || -> u64 {
        let told = servers[1].command(&["INFO", "memory"]);
        let line = told.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.and_then(|number| number.trim().parse().ok()).expect("a number")
    };
    let (few, many) = (open(&servers[0]), open(&servers[1]));
    let before = used();
    let (few, many) = (Filled::new(few, FEW), Filled::new(many, MANY));
    let size = used().saturating_sub(before) / MANY as u64;
    row("redis", few, many, size)
}
