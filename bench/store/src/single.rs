//! One decision at a time: what deciding adds to the commit that it needs anyway.

use std::path::Path;
use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, Grant, LeaseRef, Renewed, ResourceName, SqliteOptions, SqliteStore, Store,
};

use crate::table::{Row, median, timed};

const BLOCKS: usize = 101;
const CALLS: usize = 40;
/// Calls at the beginning of each block that only warm up.
const WARM_UP: usize = 10;
const RESOURCES: usize = 100;
const TTL: Duration = Duration::from_secs(3600);

struct Side {
    store: SqliteStore,
    grants: Vec<(ResourceName, Grant)>,
    attempt: u64,
}

impl Side {
    fn new(folder: &Path, file: &str, history: Option<u32>) -> Self {
        let options = SqliteOptions::default().history(history);
        let store = SqliteStore::open(folder.join(file), options).expect("a new file can be set up");
        let mut side = Self { store, grants: Vec::new(), attempt: 1 };
        for index in 0..RESOURCES {
            let name = ResourceName::new(format!("resource-{index:04}")).expect("a plain name");
            let grant = side.take(&name);
            side.grants.push((name, grant));
        }
        side
    }

    /// A grant: the owner's own lease is replaced by the next, so that every call grants.
    fn take(&mut self, name: &ResourceName) -> Grant {
        self.attempt += 1;
        let claim =
            Claim::new(name.clone(), OwnerId::new(7), TTL).with_attempt(self.attempt).with_label("bench");
        match block_on(self.store.reacquire(claim)).expect("a file of one's own is not busy") {
            Acquired::Granted(grant) => grant,
            other => unreachable!("the owner itself asks: {other:?}"),
        }
    }

    fn grant(&mut self, round: usize) {
        let (name, _) = self.grants[round % RESOURCES].clone();
        let grant = self.take(&name);
        self.grants[round % RESOURCES].1 = grant;
    }

    fn renew(&mut self, round: usize) {
        let (name, grant) = &self.grants[round % RESOURCES];
        let lease = LeaseRef::new(name.clone(), OwnerId::new(7), grant.token, Some(grant.epoch));
        let renewed = block_on(self.store.renew(lease, TTL)).expect("a file of one's own is not busy");
        assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    }

    fn bare(&mut self, round: usize) {
        let (name, _) = &self.grants[round % RESOURCES];
        block_on(self.store.bare_upsert(name.clone(), round as i64))
            .expect("a file of one's own is not busy");
    }
}

pub(crate) fn rows(folder: &Path) -> Vec<Row> {
    let mut plain = Side::new(folder, "plain.db", None);
    let mut history = Side::new(folder, "history.db", Some(SqliteOptions::HISTORY));
    let mut times: [Vec<Duration>; 5] = Default::default();
    for block in 0..BLOCKS {
        // In turns, and each block begins with another: a disk may be quicker or slower after one of them. Blocks, not
        // single calls, since a store's thread that has slept for long is slow to wake.
        for turn in 0..times.len() {
            let kind = (turn + block) % times.len();
            for call in 0..WARM_UP + CALLS {
                let round = block * CALLS + call;
                let took = timed(|| match kind {
                    0 => plain.bare(round),
                    1 => plain.grant(round),
                    2 => plain.renew(round),
                    3 => history.grant(round),
                    _ => history.renew(round),
                });
                if call >= WARM_UP && block > 0 {
                    times[kind].push(took);
                }
            }
        }
    }
    let [bare, grant, renew, history_grant, history_renew] = times.map(|mut times| median(&mut times));
    let row = |what: &str, time: f64, bound: f64, words| {
        Row::rate(what, time, ("bare upsert", bare), Some((bound, words)))
    };
    vec![
        row("sqlite: rate of a grant to a bare upsert", grant, 0.95, "at least 0.95"),
        row("sqlite: rate of a renewal to a bare upsert", renew, 0.95, "at least 0.95"),
        row("sqlite: the same, a grant with history", history_grant, 0.85, "at least 0.85"),
        row("sqlite: the same, a renewal with history", history_renew, 0.85, "at least 0.85"),
    ]
}
