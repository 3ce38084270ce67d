//! What is told of is on the disk, whoever wrote it.

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claimed, Ending, LeaseRef, MysqlStore, PoolClaim, Released, Renewed, Revoked, SlotRef,
    SlotRenewed, Store,
};

use crate::help::{claim, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server};

on_both! {
    what_changes_nothing_waits_for_the_disk_too
}

/// Without a binary log InnoDB shows a commit before it is flushed. Whoever is refused because of it, or is told again what
/// its owner was granted, must not be told before: after a crash another would get the same token. A request that rolls
/// back writes nothing to the log, and waits for nothing.
fn what_changes_nothing_waits_for_the_disk_too(kind: Kind) {
    let server = Server::start(kind, if kind == Kind::MySql { &["--skip-log-bin"] } else { &[] });
    let (_, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let status = if kind == Kind::MariaDb { "information_schema" } else { "performance_schema" };
    let status = format!(
        "SELECT variable_value FROM {status}.global_status WHERE variable_name = 'Innodb_os_log_written'"
    );
    let written = || -> u64 { server.sql("", &status)[0].parse().unwrap() };
    let mut same = claim("job", 1);
    same.attempt = 1;
    let grant = granted(&store, same.clone());
    let held = lease("job", 1, grant);
    let other = LeaseRef::new(held.resource.clone(), OwnerId::new(2), held.token, held.epoch);
    let stale = LeaseRef::new(held.resource.clone(), held.owner, FencingToken::FIRST, held.epoch);
    let of_pool = |owner| PoolClaim::new(held.resource.clone(), 1, OwnerId::new(owner), same.ttl);
    let Claimed::Granted(slot) = block_on(store.claim_slot(of_pool(1))).unwrap() else { panic!() };
    let slot = SlotRef::new(held.resource.clone(), slot.slot, OwnerId::new(2), slot.token, None);
    let asked: [(&str, &dyn Fn()); 7] = [
        ("a claim of what is held", &|| {
            let told = block_on(store.acquire(claim("job", 2))).unwrap();
            assert!(matches!(told, Acquired::Rejected(_)), "{told:?}");
        }),
        ("a claim that comes again", &|| assert_eq!(granted(&store, same.clone()).token, grant.token)),
        ("a renewal by another", &|| {
            assert!(matches!(block_on(store.renew(other.clone(), same.ttl)).unwrap(), Renewed::Rejected(_)))
        }),
        ("a release of an older lease", &|| {
            assert!(matches!(
                block_on(store.release(stale.clone(), Ending::default())).unwrap(),
                Released::Rejected(_)
            ))
        }),
        ("a revoke of an older lease", &|| {
            assert!(matches!(
                block_on(store.revoke(held.resource.clone(), Some(stale.token), None)).unwrap(),
                Revoked::Rejected(_)
            ))
        }),
        ("a claim of a pool that is full", &|| {
            assert!(matches!(block_on(store.claim_slot(of_pool(2))).unwrap(), Claimed::Rejected(_)))
        }),
        ("a renewal of another's slot", &|| {
            let told = block_on(store.renew_slot(slot.clone(), same.ttl, false)).unwrap();
            assert!(matches!(told, SlotRenewed::Rejected(_)), "{told:?}");
        }),
    ];
    for (what, ask) in asked {
        for _ in 0..3 {
            let before = written();
            ask();
            assert!(written() > before, "{what} did not wait for the disk");
        }
    }
}
