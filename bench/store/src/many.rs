//! A thousand leases renewed in one request.

use std::path::Path;
use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, LeaseRef, Renewed, ResourceName, SqliteOptions, SqliteStore, Store,
};

use crate::table::{Row, median, timed};

const LEASES: u64 = 1_000;
const ROUNDS: usize = 300;
const TTL: Duration = Duration::from_secs(3600);

pub(crate) fn row(folder: &Path) -> Row {
    let store = SqliteStore::open(folder.join("many.db"), SqliteOptions::default()).expect("a new file");
    let leases: Vec<(LeaseRef, Duration)> = (1..=LEASES)
        .map(|owner| {
            let name = ResourceName::new(format!("resource-{owner}")).expect("a plain name");
            match block_on(store.acquire(Claim::new(name.clone(), OwnerId::new(owner), TTL)))
                .expect("not busy")
            {
                Acquired::Granted(grant) => {
                    (LeaseRef::new(name, OwnerId::new(owner), grant.token, Some(grant.epoch)), TTL)
                }
                other => unreachable!("nobody else asks: {other:?}"),
            }
        })
        .collect();
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (lease, ttl) = leases[round % leases.len()].clone();
        one.push(timed(|| {
            let renewed = block_on(store.renew(lease, ttl)).expect("not busy");
            assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
        }));
        let leases = leases.clone();
        all.push(timed(|| {
            let renewed = block_on(store.renew_many(leases)).expect("not busy");
            assert!(renewed.iter().all(|one| matches!(one, Ok(Renewed::Renewed(_)))));
        }));
    }
    let (one, all) = (median(&mut one), median(&mut all));
    let ratio = all / one;
    Row {
        what: "sqlite: renewing 1,000 leases to renewing one".to_owned(),
        figure: format!("{ratio:.1} ({all:.0} µs, one {one:.0} µs, with history)"),
        bound: Some(("at most 30", ratio <= 30.0)),
    }
}
