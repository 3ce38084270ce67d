//! Servers that take no requests now, or answer none: whether something was done is never told wrongly.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines::FencingToken;
use lease_machines_store::{
    Epoch, ErrorKind, MarkKey, Migration, Opening, RedisStore, Store, StoreError, Undecided, open_marks,
};

use crate::common::{TTL, block_on, claim, granted, lease, name};
use crate::proxy::{Proxy, Replies};
use crate::servers::guard::free_port;
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::{namespace, store};

/// What takes seconds to load is answered meanwhile.
const SLOW: &[&str] = &[
    "--appendonly",
    "no",
    "--key-load-delay",
    "3000",
    "--loading-process-events-interval-bytes",
    "1024",
    "--repl-diskless-sync-delay",
    "0",
];

#[track_caller]
fn is(told: &StoreError, undecided: Undecided) {
    assert_eq!((told.kind(), told.undecided()), (ErrorKind::Unreachable, undecided), "{told}");
}

/// Each on a connection of its own, that was made while all was well.
fn asked_on_a_connection(
    server: &RedisServer,
    harm: impl FnOnce(),
) -> Vec<(&'static str, Option<StoreError>)> {
    let first = store(server, |options| options);
    first.migrate().unwrap();
    let held = lease("job", 1, granted(&first, claim("job", 1)));
    let over = lease("over", 5, granted(&first, claim("over", 5)));
    drop(block_on(first.release(over, Default::default())).unwrap());
    let epoch = held.epoch.unwrap();
    let stores: Vec<RedisStore> = (0..8)
        .map(|_| {
            let store = store(server, |options| options);
            block_on(store.epoch()).unwrap();
            store
        })
        .collect();
    harm();
    vec![
        ("acquire", block_on(stores[0].acquire(claim("other", 2))).err()),
        ("renew", block_on(stores[1].renew(held.clone(), TTL)).err()),
        ("release", block_on(stores[2].release(held.clone(), Default::default())).err()),
        ("withdraw", block_on(stores[3].withdraw(name("job"), held.owner)).err()),
        ("inspect", block_on(stores[4].inspect(name("job"))).err()),
        ("prune", block_on(stores[5].prune(Duration::ZERO)).err()),
        ("open an epoch", block_on(stores[6].open_epoch(Opening::new(epoch))).err()),
        ("migrate", stores[7].migrate().err()),
        ("anew", block_on(store(server, |options| options).acquire(claim("other", 3))).err()),
    ]
}

#[test]
fn a_replica_without_its_primary_has_done_nothing() {
    for program in ["redis-server", "valkey-server"] {
        for stale in ["yes", "no"] {
            let server = RedisServer::start_as(program, DURABLE);
            let idle = store(&server, |options| options);
            let gone = free_port().to_string();
            let told = asked_on_a_connection(&server, || {
                block_on(idle.epoch()).unwrap();
                assert_eq!(server.command(&["CONFIG", "SET", "replica-serve-stale-data", stale]), "+OK");
                assert_eq!(server.command(&["REPLICAOF", "127.0.0.1", &gone]), "+OK");
            });
            for (what, error) in told {
                // Where it may, a replica shows what it has.
                let looks = stale == "yes" && ["inspect", "migrate"].contains(&what);
                let Some(error) = error else {
                    assert!(looks, "{program}, {stale}, {what} was answered");
                    continue;
                };
                let told = (error.kind(), error.undecided());
                let right = (ErrorKind::Unreachable, Undecided::NotDone);
                assert_eq!(told, right, "{program}, {stale}, {what}: {error:?}");
                assert!(error.to_string().contains("replica"), "{program}, {stale}, {what}: {error}");
            }
            let error = block_on(idle.acquire(claim("other", 4))).unwrap_err();
            is(&error, Undecided::NotDone);
            // Nobody knows what it has missed: the connection that was told so is not trusted again.
            assert_eq!(server.command(&["REPLICAOF", "NO", "ONE"]), "+OK");
            let error = block_on(idle.acquire(claim("other", 4))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{program}, {stale}: {error}");
        }
    }
}

#[test]
fn a_server_that_reads_its_data_has_done_nothing() {
    for program in ["redis-server", "valkey-server"] {
        let mut server = RedisServer::start_as(program, SLOW);
        let idle = store(&server, |options| options);
        idle.migrate().unwrap();
        let old = block_on(idle.epoch()).unwrap();
        assert_eq!(server.command(&["SAVE"]), "+OK");
        server.restart_loading();
        let fresh = store(&server, |options| options);
        let told = [
            block_on(idle.acquire(claim("job", 1))).unwrap_err(),
            block_on(fresh.acquire(claim("job", 2))).unwrap_err(),
            fresh.migrate().unwrap_err(),
            block_on(fresh.open_epoch(Opening::new(old))).unwrap_err(),
        ];
        for error in told {
            is(&error, Undecided::NotDone);
            assert!(error.to_string().contains("loading"), "{program}: {error}");
        }
        server.has_loaded();
        // It does not write everything down: what it has answered may be missing.
        let error = block_on(idle.acquire(claim("job", 1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{program}: {error}");
        assert_ne!(block_on(fresh.epoch()).unwrap(), old);
    }
}

/// As it becomes another's replica.
#[test]
fn a_server_that_takes_over_the_data_of_another_has_done_nothing() {
    let (server, other) = (RedisServer::start(SLOW), RedisServer::start(SLOW));
    store(&other, |options| options.namespace(namespace())).migrate().unwrap();
    let told = asked_on_a_connection(&server, || {
        assert_eq!(server.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]), "+OK");
        server.is_loading();
    });
    for (what, error) in told {
        let told = error.as_ref().map(|error| (error.kind(), error.undecided()));
        assert_eq!(told, Some((ErrorKind::Unreachable, Undecided::NotDone)), "{what}: {error:?}");
    }
}

fn behind(server: &RedisServer) -> (Proxy, String) {
    let proxy = Proxy::to(server.port);
    let url = format!("redis://127.0.0.1:{}?timeout=1s", proxy.port);
    (proxy, url)
}

#[test]
fn what_is_not_answered_is_unknown_also_where_it_concerns_all() {
    let server = RedisServer::start(FORGETFUL);
    store(&server, |options| options).migrate().unwrap();
    let (proxy, url) = behind(&server);
    type Ask = fn(&RedisStore, Epoch) -> StoreError;
    let asks: [(&str, Ask); 3] = [
        ("prune", |store, _| block_on(store.prune(Duration::ZERO)).unwrap_err()),
        ("open an epoch", |store, epoch| block_on(store.open_epoch(Opening::new(epoch))).unwrap_err()),
        ("migrate", |store, _| store.migrate().unwrap_err()),
    ];
    for replies in [Replies::Hold, Replies::CutShort, Replies::Nonsense] {
        for (what, ask) in asks {
            let store = RedisStore::open(&url).unwrap();
            let epoch = block_on(store.epoch()).unwrap();
            proxy.replies(replies);
            let error = ask(&store, epoch);
            let told = (error.kind(), error.undecided());
            assert_eq!(told, (ErrorKind::Unreachable, Undecided::Unknown), "{what}, {replies:?}: {error}");
            // What is not even sent is not done.
            let error = ask(&store, epoch);
            assert_eq!(error.undecided(), Undecided::NotDone, "{what}, {replies:?}: {error}");
            proxy.replies(Replies::Pass);
        }
        let marks = open_marks(&url).unwrap();
        let key = MarkKey::new(name("job"));
        block_on(marks.look(key.clone())).unwrap();
        proxy.replies(replies);
        let error = block_on(marks.reset(key, FencingToken::new(1), "a test".to_owned())).unwrap_err();
        is(&error, Undecided::Unknown);
        proxy.replies(Replies::Pass);
    }
}

#[test]
fn a_prune_is_unknown_where_one_bucket_refuses_and_another_does_not_answer() {
    let server = RedisServer::start(FORGETFUL);
    store(&server, |options| options).migrate().unwrap();
    // No replica: whatever is decided is unknown.
    let store = store(&server, |options| options.replicas(1).timeout(Duration::from_secs(1)));
    block_on(store.epoch()).unwrap_err();
    let error = block_on(store.inspect(name("job"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    // The first of all is not what it was, and says so.
    assert_eq!(server.command(&["SET", "{lease:default:0}", "x"]), "+OK");
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    is(&error, Undecided::Unknown);
}

#[test]
fn fifty_migrates_at_once_open_one_epoch() {
    for program in ["redis-server", "valkey-server"] {
        let server = RedisServer::start_as(program, DURABLE);
        let (barrier, space) = (Arc::new(Barrier::new(50)), namespace());
        let all: Vec<_> = (0..50)
            .map(|_| {
                let store = store(&server, |options| options.namespace(&space));
                let barrier = Arc::clone(&barrier);
                thread::spawn(move || {
                    barrier.wait();
                    let migration = store.migrate().unwrap();
                    (migration, block_on(store.epoch()).unwrap())
                })
            })
            .collect();
        let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
        let made = all.iter().filter(|(migration, _)| *migration == Migration::SetUp).count();
        assert_eq!(made, 1, "{program}: {all:?}");
        assert!(all.iter().all(|(_, epoch)| *epoch == all[0].1), "{program}: {all:?}");
        let store = store(&server, |options| options.namespace(&space));
        assert_eq!(store.migrate().unwrap(), Migration::UpToDate);
        granted(&store, claim("job", 1));
        let begun = Instant::now();
        block_on(store.prune(Duration::ZERO)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
