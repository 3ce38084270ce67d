//! What a cluster can lose, and how it shows.

use std::process::Command;
use std::time::Duration;

use etcd_client::Client;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Ending, ErrorKind, EtcdStore, LeaseRef, Migration, Opening, Released, Renewed, Store,
    StoreError, Undecided,
};

use crate::help::{claim, granted, lease};
use crate::servers::etcd::{EtcdServer, namespace};

const TTL: Duration = Duration::from_secs(60);

fn set_up(server: &EtcdServer) -> (String, EtcdStore) {
    let url = server.url(&namespace());
    let store = EtcdStore::open(&url).unwrap();
    assert_eq!(store.migrate().unwrap(), Migration::SetUp);
    (url, store)
}

fn renewed(store: &EtcdStore, lease: &LeaseRef) -> Result<Renewed, StoreError> {
    block_on(store.renew(lease.clone(), TTL))
}

fn is_new_epoch<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NewEpoch { .. }), "{error}");
}

/// Old leases are lost, and nothing is granted before all that may be missing are over.
fn has_lost(store: &EtcdStore, held: &LeaseRef) {
    is_new_epoch(renewed(store, held));
    let answer = block_on(store.acquire(claim("other", 7)));
    assert_eq!(answer.map_err(|error| error.undecided()).unwrap_err(), Undecided::NotDone);
    let epoch = block_on(store.epoch()).unwrap();
    assert_ne!(Some(epoch), held.epoch);
    // Whoever knows that the old holders are dead need not wait.
    block_on(store.open_epoch(Opening::new(epoch).with_dead_holders())).unwrap();
    let next = granted(store, claim("job", 8));
    assert!(next.token.value() >= held.token.value() + (1 << 32), "{next:?} after {held:?}");
}

#[test]
fn a_crash_loses_nothing_that_was_answered() {
    let mut server = EtcdServer::start();
    let (_, store) = set_up(&server);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let given_back = lease("done", 2, granted(&store, claim("done", 2)));
    assert_eq!(block_on(store.release(given_back.clone(), Ending::default())).unwrap(), Released::Released);
    let epoch = block_on(store.epoch()).unwrap();
    server.kill();
    let error = renewed(&store, &held).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    server.restart();
    assert!(matches!(renewed(&store, &held).unwrap(), Renewed::Renewed(_)));
    assert!(matches!(block_on(store.acquire(claim("job", 3))).unwrap(), Acquired::Rejected(_)));
    assert_eq!(
        block_on(store.release(given_back.clone(), Ending::default())).unwrap(),
        Released::AlreadyReleased
    );
    assert!(granted(&store, claim("done", 4)).token > given_back.token);
    assert_eq!(block_on(store.epoch()).unwrap(), epoch);
}

#[test]
fn a_wiped_cluster_is_not_taken_for_a_new_one() {
    let mut server = EtcdServer::start();
    let (url, store) = set_up(&server);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    server.wipe();
    let other = EtcdStore::open(&url).unwrap();
    for store in [&store, &other] {
        for error in [
            renewed(store, &held).unwrap_err(),
            block_on(store.acquire(claim("job", 2))).unwrap_err(),
            block_on(store.epoch()).unwrap_err(),
        ] {
            assert_eq!(
                (error.kind(), error.undecided()),
                (ErrorKind::NotSetUp, Undecided::Refused),
                "{error}"
            );
            assert!(error.to_string().contains("never set up, or was wiped"), "{error}");
        }
    }
    assert_eq!(store.migrate().unwrap(), Migration::SetUp);
    is_new_epoch(renewed(&store, &held));
    assert!(granted(&store, claim("job", 3)).token > held.token);
}

#[test]
fn keys_that_were_copied_into_another_cluster_are_in_a_new_epoch() {
    let (one, other) = (EtcdServer::start(), EtcdServer::start());
    let (url, store) = set_up(&one);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    // What a tool does that copies a prefix; leases of etcd's own are not copied.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut from = Client::connect([format!("127.0.0.1:{}", one.port)], None).await.unwrap();
        let mut to = Client::connect([format!("127.0.0.1:{}", other.port)], None).await.unwrap();
        let all = etcd_client::GetOptions::new().with_prefix();
        for kv in from.get("/lease-machines/", Some(all)).await.unwrap().kvs() {
            to.put(kv.key(), kv.value(), None).await.unwrap();
        }
    });
    let moved = EtcdStore::open(&url.replace(&one.port.to_string(), &other.port.to_string())).unwrap();
    has_lost(&moved, &held);
    assert!(matches!(renewed(&store, &held).unwrap(), Renewed::Renewed(_)), "the first one goes on");
}

#[test]
fn disks_that_were_put_back_show_to_whoever_knows_more() {
    let mut server = EtcdServer::start();
    let (url, store) = set_up(&server);
    let before = granted(&store, claim("before", 1));
    server.kill();
    let (data, copy) = (server.data(), server.data().with_extension("copy"));
    let copied = Command::new("cp").arg("-a").arg(&data).arg(&copy).status().unwrap();
    assert!(copied.success());
    server.restart();
    let lost = lease("job", 2, granted(&store, claim("job", 2)));
    let put_back = |server: &mut EtcdServer| {
        server.kill();
        std::fs::remove_dir_all(&data).unwrap();
        let copied = Command::new("cp").arg("-a").arg(&copy).arg(&data).status().unwrap();
        assert!(copied.success());
        server.restart();
    };
    // This store was told of a later revision.
    put_back(&mut server);
    is_new_epoch(renewed(&store, &lease("before", 1, before)));
    has_lost(&store, &lost);
    // Another knows none. A holder's token shows it.
    put_back(&mut server);
    let other = EtcdStore::open(&url).unwrap();
    let told = renewed(&other, &lost).unwrap();
    assert!(matches!(told, Renewed::Rejected(_)), "the call itself is answered as by the core: {told:?}");
    has_lost(&other, &lost);
}
