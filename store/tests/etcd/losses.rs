//! What a cluster can lose, and how it shows.

use std::path::Path;
use std::process::Command;
use std::thread;
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
    keep(&mut server);
    let lost = lease("job", 2, granted(&store, claim("job", 2)));
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

/// Keeps a copy of its disk as it is now.
fn keep(server: &mut EtcdServer) {
    server.kill();
    copy(&server.data(), &server.data().with_extension("copy"));
    server.restart();
}

/// The same member on the disk that was kept.
fn put_back(server: &mut EtcdServer) {
    server.kill();
    copy(&server.data().with_extension("copy"), &server.data());
    server.restart();
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// What is written next gets the revision of what was lost. On a resource of its own, so that what it compares still holds.
#[test]
fn a_decision_does_not_make_up_for_one_that_was_put_back() {
    for lost in 1..=2 {
        let mut server = EtcdServer::start();
        let (_, store) = set_up(&server);
        let held = lease("held", 1, granted(&store, claim("held", 1)));
        keep(&mut server);
        let other = lease("job", 2, granted(&store, claim("job", 2)));
        (1..lost).for_each(|_| drop(renewed(&store, &other).unwrap()));
        put_back(&mut server);
        is_new_epoch(renewed(&store, &held));
        has_lost(&store, &other);
    }
}

/// That an epoch was opened is a decision, too.
#[test]
fn an_epoch_that_was_replaced_is_not_gone_back_to() {
    for by_another in [false, true] {
        let mut server = EtcdServer::start();
        let (url, first) = set_up(&server);
        granted(&first, claim("job", 1));
        keep(&mut server);
        let epoch = block_on(first.epoch()).unwrap();
        block_on(first.open_epoch(Opening::new(epoch).with_dead_holders())).unwrap();
        // One who came later knows only which epoch that one has replaced.
        let later = EtcdStore::open(&url).unwrap();
        let store = if by_another { &later } else { &first };
        let lost = lease("job", 2, granted(store, claim("job", 2)));
        put_back(&mut server);
        let error = renewed(store, &lost).unwrap_err();
        let ErrorKind::NewEpoch { current } = error.kind() else { panic!("{error}") };
        assert!(current != epoch && Some(current) != lost.epoch, "{error}");
        block_on(store.open_epoch(Opening::new(current).with_dead_holders())).unwrap();
        assert!(granted(store, claim("job", 3)).token > lost.token, "{by_another}");
    }
}

/// Who makes a cluster of a snapshot may be believed; not whoever puts back the disk of the same one.
#[test]
fn trust_in_another_cluster_is_none_in_a_disk_that_was_put_back() {
    let mut server = EtcdServer::start();
    let (url, _) = set_up(&server);
    let store = EtcdStore::open(&format!("{url}?trust_failover=1")).unwrap();
    let held = lease("held", 1, granted(&store, claim("held", 1)));
    keep(&mut server);
    let other = lease("job", 2, granted(&store, claim("job", 2)));
    put_back(&mut server);
    is_new_epoch(renewed(&store, &held));
    has_lost(&store, &other);
}

#[test]
fn fifty_migrates_at_once_open_one_epoch() {
    let url = EtcdServer::shared().url(&namespace());
    let done: Vec<Migration> = thread::scope(|scope| {
        let migrate = || EtcdStore::open(&url).unwrap().migrate().unwrap();
        let all: Vec<_> = (0..50).map(|_| scope.spawn(migrate)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(done.iter().filter(|done| **done == Migration::SetUp).count(), 1, "{done:?}");
    let epochs: Vec<_> = (0..2).map(|_| block_on(EtcdStore::open(&url).unwrap().epoch()).unwrap()).collect();
    assert_eq!(epochs[0], epochs[1]);
    let store = EtcdStore::open(&url).unwrap();
    assert_eq!(store.migrate().unwrap(), Migration::UpToDate);
    granted(&store, claim("job", 1));
}
