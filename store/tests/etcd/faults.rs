//! A wire that breaks, and a member that stops.

use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, ErrorKind, EtcdStore, Renewed, Store, Undecided};

use crate::help::{claim, granted, lease};
use crate::servers::etcd::{EtcdServer, namespace};
use crate::servers::tap::{Harm, Tap};

const TTL: Duration = Duration::from_secs(60);

/// A store whose connection goes through a tap.
fn through(server: &EtcdServer, options: &str) -> (Tap, EtcdStore) {
    let tap = Tap::to(server.port);
    let store = EtcdStore::open(&format!("etcd://127.0.0.1:{}/{}?{options}", tap.port, namespace())).unwrap();
    store.migrate().unwrap();
    (tap, store)
}

#[test]
fn an_answer_that_is_swallowed_is_unknown_and_asked_for_again() {
    let (tap, store) = through(EtcdServer::shared(), "timeout=1s");
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    tap.harm(Harm::Swallow);
    let begun = Instant::now();
    // The etcd lease is asked for first, and nothing stands on it.
    let error = block_on(store.renew(held.clone(), TTL)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    // A release is one transaction, and nobody knows.
    let error = block_on(store.release(held.clone(), Default::default())).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    tap.harm(Harm::None);
    assert!(matches!(block_on(store.renew(held.clone(), TTL)).unwrap(), Renewed::Renewed(_)));
    // On a connection that stands, the transaction is on its way.
    tap.harm(Harm::Swallow);
    let error = block_on(store.release(held.clone(), Default::default())).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{error}");
    tap.harm(Harm::None);
    let again = block_on(store.release(held, Default::default())).unwrap();
    assert_eq!(again, lease_machines_store::Released::AlreadyReleased);
    granted(&store, claim("job", 2));
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let (tap, store) = through(EtcdServer::shared(), "timeout=5s");
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    for _ in 0..3 {
        tap.harm(Harm::Cut);
        let error = block_on(store.release(held.clone(), Default::default())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert_ne!(error.undecided(), Undecided::Refused, "{error}");
        tap.harm(Harm::None);
        let told = block_on(store.acquire(claim("job", 2))).unwrap();
        assert!(matches!(told, Acquired::Rejected(_)), "a request that was cut off took effect: {told:?}");
    }
    assert!(matches!(block_on(store.renew(held, TTL)).unwrap(), Renewed::Renewed(_)));
}

#[test]
fn a_member_that_is_frozen_ends_no_lease_early() {
    let server = EtcdServer::start();
    let store = EtcdStore::open(&format!("{}?timeout=1s", server.url(&namespace()))).unwrap();
    store.migrate().unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    server.freeze();
    let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    server.thaw();
    let begun = Instant::now();
    loop {
        match block_on(store.renew(held.clone(), TTL)) {
            Ok(answer) => {
                assert!(matches!(answer, Renewed::Renewed(_)), "{answer:?}");
                return;
            }
            Err(error) => {
                assert_ne!(error.undecided(), Undecided::Refused, "{error}");
                assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
            }
        }
    }
}
