//! Sixty-four holders in one process renew at once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, LeaseRef, Renewed, ResourceName, SqliteOptions, SqliteStore, Store,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::disk::Disk;
use crate::table::{Row, median, timed};

const HOLDERS: u64 = 64;
const ROUNDS: usize = 41;
const RENEWALS: u32 = 40;
const WRITES: usize = 40;
const TTL: Duration = Duration::from_secs(3600);

pub(crate) fn rows(folder: &Path) -> Vec<Row> {
    let store =
        Arc::new(SqliteStore::open(folder.join("holders.db"), SqliteOptions::default()).expect("a new file"));
    let leases: Vec<LeaseRef> = (1..=HOLDERS)
        .map(|owner| {
            let name = ResourceName::new(format!("resource-{owner}")).expect("a plain name");
            match block_on(store.acquire(Claim::new(name.clone(), OwnerId::new(owner), TTL)))
                .expect("not busy")
            {
                Acquired::Granted(grant) => {
                    LeaseRef::new(name, OwnerId::new(owner), grant.token, Some(grant.epoch))
                }
                other => unreachable!("nobody else asks: {other:?}"),
            }
        })
        .collect();
    let runtime = Builder::new_current_thread().build().expect("a runtime without drivers");
    let mut disk = Disk::new(folder);
    let (mut writes, mut renewals, mut single) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        writes.extend((0..WRITES).map(|_| timed(|| disk.write())));
        renewals.push(renewed(&runtime, &store, &leases));
        single.push(renewed(&runtime, &store, &leases[..1]));
    }
    let (write, renewal, alone) = (median(&mut writes), median(&mut renewals), median(&mut single));
    let (ratio, times) = (write / renewal, alone / renewal);
    vec![
        Row {
            what: "sqlite: rate of 64 concurrent holders to bare writes".to_owned(),
            figure: format!("{ratio:.1} ({renewal:.1} µs a renewal with history, bare write {write:.0} µs)"),
            bound: Some(("at least 12", ratio >= 12.0)),
        },
        Row {
            what: "sqlite: the same, to that of one holder".to_owned(),
            figure: format!("{times:.1} ({renewal:.1} µs a renewal with history, one {alone:.0} µs)"),
            bound: Some(("at least 15", times >= 15.0)),
        },
    ]
}

/// The time that each renewal takes where each lease has a task that renews it again and again, all on one thread.
fn renewed(runtime: &Runtime, store: &Arc<SqliteStore>, leases: &[LeaseRef]) -> Duration {
    let start = Instant::now();
    runtime.block_on(async {
        let mut holders = JoinSet::new();
        for lease in leases {
            let (store, lease) = (Arc::clone(store), lease.clone());
            holders.spawn(async move {
                for _ in 0..RENEWALS {
                    let renewed = store.renew(lease.clone(), TTL).await.expect("not busy");
                    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
                }
            });
        }
        holders.join_all().await;
    });
    start.elapsed() / (RENEWALS * leases.len() as u32)
}
