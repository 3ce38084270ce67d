//! A standby that commits wait for: of what it does not have, nobody is told.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, ErrorKind, Opening, PoolClaim, PostgresStore, Store, StoreError, Undecided, WorkResult,
};

use crate::help::{claim, granted, lease};
use crate::servers::postgres::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that has a store and a standby, without which it commits nothing, and the store's URL.
fn pair() -> (Server, Server, String) {
    let mut primary = Server::start(&["wal_level = replica", "max_wal_senders = 4"]);
    let (_, url) = primary.fresh();
    // All of its processes have the setting only once it has started with that.
    primary.kill();
    primary.configure("synchronous_standby_names = '*'");
    primary.up();
    let standby = Server::standby_of(&primary);
    until("the standby is not waited for", || {
        primary.sql("SELECT sync_state FROM pg_stat_replication") == ["sync"]
    });
    (primary, standby, format!("{url}&timeout=60s"))
}

#[track_caller]
fn until(otherwise: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{otherwise}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How many commits wait for the standby.
fn waiting(primary: &Server) -> usize {
    primary.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").len()
}

/// Has something decided whose wait for the standby is cancelled. It is seen on this server from then on.
#[track_caller]
fn unsynced<T: Debug + Send>(primary: &Server, ask: impl FnOnce() -> Result<T, StoreError> + Send) {
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let answer = thread::scope(|scope| {
        let asking = scope.spawn(ask);
        until("it does not wait for the standby", || asking.is_finished() || !primary.sql(cancel).is_empty());
        asking.join().unwrap()
    });
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{error:?}");
    assert!(error.to_string().contains("did not wait for the standbys"), "{error}");
}

#[test]
fn what_no_standby_has_is_neither_repeated_nor_named() {
    let (primary, standby, url) = pair();
    let store = PostgresStore::open(&url).unwrap();
    let slot = || PoolClaim::new(claim("ids", 1).resource, 4, OwnerId::new(1), Duration::from_secs(60));
    assert!(block_on(store.resize_pool(slot().pool, 4)).is_ok());
    let given_back = lease("given back", 1, granted(&store, claim("given back", 1)));
    let done = lease("done", 1, granted(&store, claim("done", 1)));
    let frozen = standby.freeze();
    let release = || block_on(store.release(given_back.clone(), Ending::default()));
    unsynced(&primary, || block_on(store.acquire(claim("repeated", 1))));
    unsynced(&primary, || block_on(store.acquire(claim("named", 1))));
    unsynced(&primary, || block_on(store.claim_slot(slot())));
    unsynced(&primary, release);
    let well = Ending::new(WorkResult::Good).with_once(Some("key".to_owned()));
    unsynced(&primary, || block_on(store.release(done.clone(), well)));
    let answers = thread::scope(|scope| {
        let asking = [
            scope.spawn(|| format!("{:?}", block_on(store.acquire(claim("repeated", 1))))),
            scope.spawn(|| format!("{:?}", block_on(store.acquire(claim("named", 2))))),
            scope.spawn(|| format!("{:?}", block_on(store.claim_slot(slot())))),
            scope.spawn(|| format!("{:?}", release())),
            scope.spawn(|| format!("{:?}", block_on(store.acquire(claim("done", 2).with_once("key"))))),
        ];
        until("not all of them wait for the standby", || {
            asking.iter().any(|asking| asking.is_finished()) || waiting(&primary) == asking.len()
        });
        let told = asking.iter().any(|asking| asking.is_finished());
        drop(frozen);
        let answers = asking.map(|asking| asking.join().unwrap());
        assert!(!told, "one was told before: {answers:?}");
        answers
    });
    let kinds = ["Ok(Granted(", "Ok(Rejected(", "Ok(Granted(", "Ok(AlreadyReleased", "Ok(AlreadyDone("];
    for (answer, kind) in answers.iter().zip(kinds) {
        assert!(answer.starts_with(kind), "{kind}: {answer}");
    }
}

#[test]
fn an_epoch_that_no_standby_has_is_told_to_nobody() {
    let (primary, standby, url) = pair();
    let store = PostgresStore::open(&url).unwrap();
    let here = block_on(store.epoch()).unwrap();
    let open = || block_on(store.open_epoch(Opening::new(here).with_dead_holders()));
    let frozen = standby.freeze();
    unsynced(&primary, open);
    // Somebody else has opened it by now.
    let opened = thread::scope(|scope| {
        let asking = scope.spawn(open);
        until("it does not wait for the standby", || asking.is_finished() || waiting(&primary) == 1);
        let told = asking.is_finished();
        drop(frozen);
        let answer = asking.join().unwrap().unwrap();
        assert!(!told, "it was told before");
        answer
    });
    assert_ne!(opened, here);
    assert_eq!(block_on(store.epoch()).unwrap(), opened);
}

/// That a wait was cancelled is a warning, which a role may be set not to be told.
#[test]
fn a_cancelled_wait_is_seen_by_a_role_that_asks_for_no_warnings() {
    let (primary, standby, url) = pair();
    let store = PostgresStore::open(&format!("{url}&options=-c%20client_min_messages%3Derror")).unwrap();
    let _ = granted(&store, claim("warm", 1));
    let _frozen = standby.freeze();
    unsynced(&primary, || block_on(store.acquire(claim("job", 1))));
}
