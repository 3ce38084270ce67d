//! Slots of a pool on PostgreSQL: claimed by all at once, as when a fleet starts, beside one after the other.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{Claimed, PoolClaim, PostgresStore, Resized, ResourceName, Store};

use crate::client::name;
use crate::servers::postgres::Server;
use crate::table::{Row, median, timed};

const CLIENTS: u64 = 500;
const SLOTS: u32 = 512;
const ROUNDS: usize = 9;

pub(crate) fn row(server: &Server) -> Row {
    let (_, url) = server.fresh();
    let open = |_| {
        Arc::new(PostgresStore::open(&format!("{url}&connections=4&timeout=60s")).expect("a URL of ours"))
    };
    let stores: Vec<Arc<PostgresStore>> = (0..20).map(open).collect();
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    // The first round warms up: it connects.
    for round in 0..=ROUNDS {
        let once = at_once(&stores, &fresh_pool(&stores[0], &format!("together-{round}")));
        let singly = one_by_one(&stores[0], &fresh_pool(&stores[0], &format!("alone-{round}")));
        if round > 0 {
            together.push(once);
            alone.push(singly);
        }
    }
    Row::rate(
        "postgres: rate of 500 claims at once of 512 slots, over 80 connections, to that of one after the other",
        median(&mut together),
        ("one after the other", median(&mut alone)),
        Some((1.0, "more than 1")),
    )
}

fn fresh_pool(store: &PostgresStore, pool: &str) -> ResourceName {
    let pool = name(pool);
    let made = block_on(store.resize_pool(pool.clone(), SLOTS));
    assert_eq!(made.expect("a server of one's own answers"), Resized::Resized);
    pool
}

/// Each with an identity and ID time, as machine IDs are claimed.
fn claim(store: &PostgresStore, pool: &ResourceName, client: u64) -> u16 {
    let claim = PoolClaim::new(pool.clone(), SLOTS, OwnerId::new(client + 1), Duration::from_secs(8 * 3600));
    let claim = claim.with_identity(format!("worker-{client}")).with_id_time();
    match block_on(store.claim_slot(claim)) {
        Ok(Claimed::Granted(held)) => held.slot,
        other => panic!("{other:?}"),
    }
}

fn at_once(stores: &[Arc<PostgresStore>], pool: &ResourceName) -> Duration {
    let start = Barrier::new(CLIENTS as usize + 1);
    thread::scope(|scope| {
        let begin = |client: u64| {
            let (store, start) = (&stores[client as usize % stores.len()], &start);
            scope.spawn(move || {
                start.wait();
                claim(store, pool, client)
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(begin).collect();
        let mut slots = BTreeSet::new();
        let took = timed(|| {
            start.wait();
            slots.extend(clients.into_iter().map(|client| client.join().expect("a claim is granted")));
        });
        assert_eq!(slots.len(), CLIENTS as usize, "two have the same slot");
        took
    })
}

fn one_by_one(store: &PostgresStore, pool: &ResourceName) -> Duration {
    let mut slots = BTreeSet::new();
    let took = timed(|| slots.extend((0..CLIENTS).map(|client| claim(store, pool, client))));
    assert_eq!(slots.len(), CLIENTS as usize, "two have the same slot");
    took
}
