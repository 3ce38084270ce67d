//! One lease through its life, and what is told on the way.

use std::time::Duration;

use lease_machines::Rejection;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, Ending, EtcdStore, Released, Renewed, Store};

use crate::help::{claim_for, granted, lease};
use crate::servers::etcd::{EtcdServer, namespace};

#[test]
fn ttls_are_whole_seconds_and_said() {
    let store = EtcdStore::open(&EtcdServer::shared().url(&namespace())).unwrap();
    store.migrate().unwrap();
    let held = granted(&store, claim_for("job", 1, Duration::from_millis(4_001)));
    assert_eq!(held.ttl, Duration::from_secs(5));
    let lease = lease("job", 1, held);
    let renewed = block_on(store.renew(lease.clone(), Duration::from_millis(60_500))).unwrap();
    assert!(
        matches!(renewed, Renewed::Renewed(grant) if grant.ttl == Duration::from_secs(61)),
        "{renewed:?}"
    );
    // The shortest that the cluster grants; what was asked for was less.
    let least = granted(&store, claim_for("other", 1, Duration::from_millis(1)));
    assert_eq!(least.ttl, Duration::from_secs(2));
    let told = block_on(store.acquire(claim_for("job", 2, Duration::from_secs(5)))).unwrap();
    let Acquired::Rejected(rejected) = told else { panic!("{told:?}") };
    assert_eq!(rejected.reason, Rejection::Occupied);
    assert_eq!(block_on(store.release(lease, Ending::default())).unwrap(), Released::Released);
}
