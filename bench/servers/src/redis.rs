//! Decisions on Redis.

use std::sync::Arc;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{RedisOptions, RedisStore, Store};
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use tokio::runtime::Runtime;

use crate::client::{Holder, RESOURCES, TTL, name, runtime, take_and_give_back, together};
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::table::{Row, Turns, median};

/// A connection that programs have.
pub(crate) struct Bare {
    runtime: Runtime,
    connection: MultiplexedConnection,
}

impl Bare {
    pub(crate) fn new(server: &RedisServer) -> Self {
        let runtime = runtime();
        let client = redis::Client::open(server.url("")).expect("a URL of ours");
        let connection = runtime.block_on(client.get_multiplexed_async_connection()).expect("it was started");
        Self { runtime, connection }
    }

    /// As locks are made of it: each key is free.
    pub(crate) fn set_if_free(&mut self, count: usize) {
        let mut set = redis::cmd("SET");
        set.arg(format!("free-{count}")).arg("7").arg("NX").arg("PX").arg(60_000);
        let answer: Option<String> = self
            .runtime
            .block_on(set.query_async(&mut self.connection))
            .expect("a server of one's own answers");
        assert_eq!(answer.as_deref(), Some("OK"));
    }
}

fn open(server: &RedisServer, change: impl FnOnce(RedisOptions) -> RedisOptions) -> Arc<dyn Store> {
    let store = RedisStore::open_with(&server.url("timeout=30s"), change).expect("a URL of ours");
    store.migrate().expect("a server of one's own can be set up");
    Arc::new(store)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = in_turns(&RedisServer::start(FORGETFUL), "redis in memory", 0.75, "at least 0.75");
    let durable = RedisServer::start(DURABLE);
    rows.extend(in_turns(&durable, "redis with appendfsync always", 0.8, "at least 0.8"));
    rows.push(sixty_four(&durable));
    rows
}

fn in_turns(server: &RedisServer, which: &str, least: f64, words: &'static str) -> Vec<Row> {
    let mut plain = Holder::new(open(server, |options| options.history(None)), 7, "plain", RESOURCES);
    let mut history = Holder::new(open(server, |options| options), 7, "history", RESOURCES);
    let mut renewed = Holder::new(open(server, |options| options), 7, "renewed", RESOURCES);
    let free = open(server, |options| options);
    let mut bare = Bare::new(server);
    let locks = LockManager::new(vec![server.url("")]);
    let runtime = runtime();
    let mut owner = 0;
    let [set, grant, history_grant, renew, pair, lock] = Turns { rounds: 60, calls: 50, warm_up: 10 }.take([
        &mut |count| bare.set_if_free(count),
        &mut |count| plain.grant(count),
        &mut |count| history.grant(count),
        &mut |count| renewed.renew(count),
        &mut |count| {
            owner += 1;
            block_on(take_and_give_back(free.as_ref(), name(&format!("free-{}", count % RESOURCES)), owner));
        },
        &mut |count| {
            let key = format!("lock-{}", count % RESOURCES).into_bytes();
            runtime.block_on(async {
                let lock = locks.lock(key.as_slice(), TTL).await.expect("nobody else asks");
                locks.unlock(&lock).await;
            });
        },
    ]);
    let peer = ("SET NX PX", set);
    vec![
        Row::rate(format!("{which}: rate of a grant to `SET NX PX`"), grant, peer, Some((least, words))),
        Row::rate(format!("{which}: the same, a grant with history"), history_grant, peer, None),
        Row::rate(format!("{which}: the same, a renewal"), renew, peer, None),
        Row::rate(
            format!(
                "{which}: rate of acquire and release, with history, to rslock's lock and unlock, without a token"
            ),
            pair,
            ("lock and unlock", lock),
            Some((1.0, "at least 1.0")),
        ),
    ]
}

fn sixty_four(server: &RedisServer) -> Row {
    let store = open(server, |options| options);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        alone.push(together(&runtime, &store, 1, 200));
        shared.push(together(&runtime, &store, 64, 50));
    }
    let (alone, shared) = (median(&mut alone), median(&mut shared));
    Row::rate(
        "redis with appendfsync always: rate of 64 tasks on one connection to that of one, renewals with history",
        shared,
        ("one", alone),
        Some((4.0, "at least 4")),
    )
}
