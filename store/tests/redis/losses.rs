//! Servers that end, freeze, forget and are promoted.

use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::{
    Acquired, Epoch, ErrorKind, LeaseRef, Opening, RedisStore, Renewed, Store, StoreError, Undecided,
};

use crate::common::{TTL, block_on, claim, granted, lease, name};
use crate::proxy::{Proxy, Replies};
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::store;

fn fresh(server: &RedisServer) -> RedisStore {
    let made = store(server, |options| options.timeout(Duration::from_secs(2)));
    made.migrate().unwrap();
    made
}

fn epoch(store: &RedisStore) -> Epoch {
    block_on(store.epoch()).unwrap()
}

fn renew(store: &RedisStore, lease: &LeaseRef) -> Result<Renewed, StoreError> {
    block_on(store.renew(lease.clone(), TTL))
}

/// Asks until the store is there again: what fails meanwhile says that it is unreachable.
fn again<T>(mut ask: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    loop {
        match ask() {
            Err(error) if error.kind() == ErrorKind::Unreachable => {}
            answer => return answer,
        }
    }
}

#[test]
fn a_server_that_writes_everything_down_loses_nothing_by_a_kill() {
    let mut server = RedisServer::start(DURABLE);
    let store = fresh(&server);
    let old = epoch(&store);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let mut last = held.token;
    for owner in 2..6 {
        let other = granted(&store, claim("other", owner));
        assert!(other.token > last || owner == 2, "{other:?} after {last}");
        last = other.token;
        server.restart();
        let answer = again(|| renew(&store, &held)).unwrap();
        assert!(matches!(answer, Renewed::Renewed(_)), "{answer:?}");
        let answer = block_on(store.release(lease("other", owner, other), Default::default())).unwrap();
        assert_eq!(answer, lease_machines_store::Released::Released);
    }
    assert_eq!(epoch(&store), old);
    // For whoever comes new, too.
    assert_eq!(epoch(&fresh(&server)), old);
}

#[test]
fn a_server_that_forgets_everything_is_not_set_up() {
    let mut server = RedisServer::start(FORGETFUL);
    let store = fresh(&server);
    let old = epoch(&store);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    server.restart();
    for _ in 0..2 {
        let error = again(|| renew(&store, &held)).unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::NotSetUp, Undecided::Refused), "{error}");
        let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSetUp, "{error}");
    }
    store.migrate().unwrap();
    let new = epoch(&store);
    assert_ne!(new, old);
    assert_eq!(renew(&store, &held).unwrap_err().kind(), ErrorKind::NewEpoch { current: new });
    let next = granted(&store, claim("job", 2));
    assert!(next.token > held.token, "{next:?} after {}", held.token);
}

#[test]
fn a_flush_takes_the_epoch_with_it() {
    let server = RedisServer::start(DURABLE);
    let store = fresh(&server);
    granted(&store, claim("job", 1));
    assert_eq!(server.command(&["FLUSHALL"]), "+OK");
    let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::NotSetUp, Undecided::Refused), "{error}");
}

/// As an eviction would, or somebody who tidies up.
#[test]
fn a_bucket_that_is_gone_grants_nothing_until_an_epoch_is_opened() {
    let server = RedisServer::start(DURABLE);
    let store = fresh(&server);
    let old = epoch(&store);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    // "job" lies in bucket 69.
    assert_eq!(server.command(&["DEL", "{lease:default:69}"]), ":1");
    let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSetUp, "{error}");
    assert_eq!(renew(&store, &held).unwrap_err().kind(), ErrorKind::NotSetUp);
    granted(&store, claim("a", 1));
    store.migrate().unwrap();
    let new = epoch(&store);
    assert_ne!(new, old);
    let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone), "{error}");
    assert_eq!(block_on(store.open_epoch(Opening::new(old))).unwrap(), new, "an old epoch was opened over");
    let last = block_on(store.open_epoch(Opening::new(new).with_dead_holders())).unwrap();
    let next = granted(&store, claim("job", 2));
    assert_eq!(next.epoch, last);
    assert!(next.token.value() > held.token.value() + (1 << 32), "{next:?} after {}", held.token);
}

#[test]
fn a_count_that_went_back_opens_an_epoch() {
    let server = RedisServer::start(DURABLE);
    let store = fresh(&server);
    let old = epoch(&store);
    let before = granted(&store, claim("job", 1));
    let (key, row) = ("{lease:default:69}", "rjob");
    // What a copy of an earlier day would have: an older count, and no row.
    assert_eq!(server.command(&["HSET", key, "n", "0"]), ":0");
    assert_eq!(server.command(&["HDEL", key, row]), ":1");
    let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
    let new = epoch(&store);
    assert_ne!(new, old);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::NewEpoch { current: new }, Undecided::Refused));
    let error = block_on(store.acquire(claim("other", 3))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "others may be missing: {error}");
    block_on(store.open_epoch(Opening::new(new).with_dead_holders())).unwrap();
    assert!(granted(&store, claim("job", 3)).token > before.token);
}

#[test]
fn a_promoted_replica_opens_an_epoch_unless_it_is_trusted() {
    for trust in [false, true] {
        let (master, replica) = (RedisServer::start(DURABLE), RedisServer::start(DURABLE));
        let port = master.port.to_string();
        assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &port]), "+OK");
        // Asks for one replica, so that it is known to have everything.
        let start = Instant::now();
        while !master.command(&["INFO", "replication"]).contains("state=online") {
            assert!(start.elapsed() < Duration::from_secs(20), "no replication");
        }
        let there = store(&master, |options| options.replicas(1));
        there.migrate().unwrap();
        let old = epoch(&there);
        let held = lease("job", 1, granted(&there, claim("job", 1)));
        let error = block_on(store(&replica, |options| options).acquire(claim("job", 2))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::NotDone, "{error}");
        assert!(error.to_string().contains("replica"), "{error}");
        drop(master);
        assert_eq!(replica.command(&["REPLICAOF", "NO", "ONE"]), "+OK");
        let here = store(&replica, |options| options.trust_failover(trust));
        let answer = renew(&here, &held);
        if trust {
            assert!(matches!(answer, Ok(Renewed::Renewed(_))), "{answer:?}");
            assert_eq!(epoch(&here), old);
        } else {
            let new = epoch(&here);
            assert_ne!(new, old);
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::NewEpoch { current: new });
            let error = block_on(here.acquire(claim("other", 2))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            // Others find the same one.
            assert_eq!(epoch(&store(&replica, |options| options)), new);
        }
    }
}

#[test]
fn fewer_replicas_than_asked_for_leave_the_outcome_unknown() {
    let server = RedisServer::start(DURABLE);
    fresh(&server);
    let store = store(&server, |options| options.replicas(1).timeout(Duration::from_secs(1)));
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{error}");
}

#[test]
fn a_frozen_server_keeps_nobody_longer_than_the_time_out() {
    let server = RedisServer::start(DURABLE);
    let store = fresh(&server);
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    server.freeze();
    let start = Instant::now();
    let first = renew(&store, &held).unwrap_err();
    assert_eq!((first.kind(), first.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{first}");
    // The next one is not even sent: the server does not greet.
    let second = block_on(store.acquire(claim("job", 2))).unwrap_err();
    assert_eq!((second.kind(), second.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{second}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    server.thaw();
    assert!(matches!(again(|| renew(&store, &held)), Ok(Renewed::Renewed(_))));
    let answer = block_on(store.acquire(claim("job", 2))).unwrap();
    assert!(matches!(answer, Acquired::Rejected(_)), "{answer:?}");
}

#[test]
fn replies_that_are_cut_short_held_back_or_nonsense_are_unknown() {
    let server = RedisServer::start(DURABLE);
    fresh(&server);
    let proxy = Proxy::to(server.port);
    let url = format!("redis://127.0.0.1:{}?timeout=500ms", proxy.port);
    for (owner, replies) in [(1, Replies::CutShort), (2, Replies::Hold), (3, Replies::Nonsense)] {
        let resource = format!("job-{owner}");
        let store = RedisStore::open(&url).unwrap();
        epoch(&store);
        proxy.replies(replies);
        let start = Instant::now();
        let error = block_on(store.acquire(claim(&resource, owner))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::Unknown, "{replies:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{replies:?}: {error}");
        // A server that behaves so from the start is asked nothing.
        let error = block_on(store.acquire(claim(&resource, 9))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::NotDone, "{replies:?}: {error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        proxy.replies(Replies::Pass);
        // It was done all the same: the retry has it at once.
        let again = block_on(store.reacquire(claim(&resource, owner).with_attempt(2))).unwrap();
        assert!(matches!(again, Acquired::Granted(_)), "{again:?}");
        let seen = block_on(store.inspect(name(&resource))).unwrap();
        assert!(seen.occupant.is_some());
    }
}

/// The server forgets by its own clock, which may be set: an hour's step must not let in what was withdrawn a moment ago.
#[test]
fn a_withdrawn_owner_outlasts_a_step_of_the_clock() {
    let server = RedisServer::start(DURABLE);
    let store = fresh(&server);
    let _ = block_on(store.withdraw(name("job"), OwnerId::new(1))).unwrap();
    let left = "return redis.call('PTTL', redis.call('KEYS', '*withdrawn*')[1])";
    let left: u64 = server.command(&["EVAL", left, "0"]).trim_start_matches(':').parse().unwrap();
    assert!(Duration::from_millis(left) > Duration::from_secs(2 * 3600), "{left} ms");
}
