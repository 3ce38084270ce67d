//! Servers that go on without the last of what they have answered. Whoever was told of it sees that it is gone, also where as
//! many decisions were made since.

use std::time::{Duration, Instant};

use lease_machines_store::{
    Epoch, ErrorKind, LeaseRef, Opening, RedisOptions, RedisStore, Renewed, Store, StoreError,
};

use crate::common::{TTL, block_on, claim, granted, lease, name};
use crate::proxy::Proxy;
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::store;

/// "job" lies there, and so does all else that these tests ask for.
const BUCKET: &str = "{lease:default:69}";

fn handle(server: &RedisServer) -> RedisStore {
    store(server, |options| options)
}

fn renewed(store: &RedisStore, lease: &LeaseRef) -> Result<Renewed, StoreError> {
    block_on(store.renew(lease.clone(), TTL))
}

#[track_caller]
fn goes_on(store: &RedisStore, lease: &LeaseRef) {
    let answer = renewed(store, lease);
    assert!(matches!(answer, Ok(Renewed::Renewed(_))), "{answer:?}");
}

/// The loss was seen: there is another epoch, which grants nothing yet, and then only tokens above all that were told.
#[track_caller]
fn has_seen(store: &RedisStore, held: &LeaseRef, what: &str) {
    let answer = renewed(store, held);
    let Err(error) = answer else { panic!("{what}: {answer:?}") };
    let ErrorKind::NewEpoch { current } = error.kind() else { panic!("{what}: {error}") };
    assert_ne!(Some(current), held.epoch, "{what}");
    let busy = block_on(store.acquire(claim("free", 90))).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{what}: {busy}");
    block_on(store.open_epoch(Opening::new(current).with_dead_holders())).unwrap();
    let next = granted(store, claim("job", 91));
    assert!(next.token > held.token, "{what}: {next:?} after {held:?}");
}

/// What one decision is, each of which has to be there later.
type Decision = fn(&RedisStore, &LeaseRef);

const DECISIONS: [(&str, Decision); 6] = [
    ("a renewal", |store, held| goes_on(store, held)),
    ("a release", |store, held| drop(block_on(store.release(held.clone(), Default::default())).unwrap())),
    ("a withdrawal", |store, held| drop(block_on(store.withdraw(name("job"), held.owner)).unwrap())),
    ("a withdrawal of nothing", |store, _| {
        drop(block_on(store.withdraw(name("job"), lease_machines::OwnerId::new(77))).unwrap());
    }),
    ("a revoke", |store, _| drop(block_on(store.revoke(name("job"), None, None)).unwrap())),
    ("a rotation", |store, held| {
        let claim = claim("job", held.owner.value()).with_attempt(2);
        drop(block_on(store.reacquire(claim)).unwrap());
    }),
];

/// Where the connection goes on: behind what passes requests on to another server, or where somebody puts keys back.
#[test]
fn a_decision_does_not_make_up_for_one_that_was_lost() {
    let server = RedisServer::start(DURABLE);
    for (what, decision) in DECISIONS {
        server.command(&["FLUSHALL"]);
        let store = handle(&server);
        store.migrate().unwrap();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        assert_eq!(server.command(&["COPY", BUCKET, "saved", "REPLACE"]), ":1");
        decision(&store, &held);
        assert_eq!(server.command(&["COPY", "saved", BUCKET, "REPLACE"]), ":1");
        has_seen(&store, &held, what);
    }
    for lost in 1..=3 {
        server.command(&["FLUSHALL"]);
        let store = handle(&server);
        store.migrate().unwrap();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        assert_eq!(server.command(&["COPY", BUCKET, "saved", "REPLACE"]), ":1");
        (0..lost).for_each(|_| goes_on(&store, &held));
        assert_eq!(server.command(&["COPY", "saved", BUCKET, "REPLACE"]), ":1");
        has_seen(&store, &held, &format!("{lost} lost"));
    }
}

#[test]
fn what_others_decide_after_a_restart_on_older_files_makes_up_for_nothing() {
    for (lost, others) in [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 9)] {
        let mut server = RedisServer::start(DURABLE);
        let store = handle(&server);
        store.migrate().unwrap();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        server.keep();
        (0..lost).for_each(|_| goes_on(&store, &held));
        server.put_back();
        // It knows nothing, and decides in the same bucket.
        let other = handle(&server);
        (0..others).for_each(|_| goes_on(&other, &held));
        has_seen(&store, &held, &format!("{lost} lost, {others} by another"));
        let told = renewed(&other, &held).unwrap_err();
        assert!(matches!(told.kind(), ErrorKind::NewEpoch { .. }), "{told}");
    }
}

/// The token of the grant that was lost is issued again: its owner sees that, and so does everybody from then on.
#[test]
fn a_token_that_is_issued_twice_ends_the_epoch_as_soon_as_its_first_owner_asks() {
    let mut server = RedisServer::start(DURABLE);
    let store = handle(&server);
    store.migrate().unwrap();
    let before = granted(&store, claim("job", 1));
    drop(block_on(store.release(lease("job", 1, before), Default::default())).unwrap());
    server.keep();
    let lost = lease("job", 2, granted(&store, claim("job", 2)));
    server.put_back();
    let other = handle(&server);
    let again = lease("job", 3, granted(&other, claim("job", 3)));
    assert_eq!(again.token, lost.token, "nobody here knows of it");
    // About another resource, in another bucket.
    let error = block_on(store.acquire(claim("a", 4))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let told = renewed(&other, &again).unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::NewEpoch { .. }), "{told}");
    has_seen(&store, &lost, "its first owner");
}

#[test]
fn the_only_one_of_several_who_was_told_sees_it() {
    let mut server = RedisServer::start(DURABLE);
    let stores: Vec<RedisStore> = (0..4).map(|_| handle(&server)).collect();
    stores[0].migrate().unwrap();
    let held = lease("job", 1, granted(&stores[0], claim("job", 1)));
    stores.iter().for_each(|store| goes_on(store, &held));
    server.keep();
    goes_on(&stores[3], &held);
    server.put_back();
    stores[..3].iter().for_each(|store| goes_on(store, &held));
    has_seen(&stores[3], &held, "the last one");
    for store in &stores[..3] {
        let told = renewed(store, &held).unwrap_err();
        assert!(matches!(told.kind(), ErrorKind::NewEpoch { .. }), "{told}");
    }
}

/// Which others meet, and which it does not.
#[test]
fn whoever_slept_through_several_runs_sees_what_was_lost_before_them_and_nothing_else() {
    for (keeps, runs) in [(true, 1), (true, 3), (true, 10), (false, 3), (false, 7)] {
        let mut server = RedisServer::start(DURABLE);
        let (store, other) = (handle(&server), handle(&server));
        store.migrate().unwrap();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        server.keep();
        goes_on(&store, &held);
        if keeps {
            server.restart();
        } else {
            server.put_back();
        }
        for _ in 0..runs {
            again(&other, &held);
            again(&other, &held);
            server.restart();
        }
        if keeps {
            again(&store, &held);
            assert_eq!(block_on(other.epoch()).ok(), held.epoch);
        } else {
            has_seen_again(&store, &held, &format!("{runs} runs later"));
        }
    }
}

/// The same, from whoever has a connection to a run that has ended.
fn again(store: &RedisStore, held: &LeaseRef) {
    loop {
        match renewed(store, held) {
            Err(error) if error.kind() == ErrorKind::Unreachable => {}
            Ok(Renewed::Renewed(_)) => return,
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn has_seen_again(store: &RedisStore, held: &LeaseRef, what: &str) {
    while block_on(store.inspect(name("job"))).is_err_and(|error| error.kind() == ErrorKind::Unreachable) {}
    has_seen(store, held, what);
}

/// That an epoch was opened is a decision, too.
#[test]
fn an_epoch_that_was_replaced_is_not_gone_back_to() {
    for told_by_another in [false, true] {
        for opened in 1..=2 {
            let mut server = RedisServer::start(DURABLE);
            let first = handle(&server);
            first.migrate().unwrap();
            granted(&first, claim("job", 1));
            server.keep();
            let mut epoch: Epoch = block_on(first.epoch()).unwrap();
            for number in 0..opened {
                epoch = block_on(first.open_epoch(Opening::new(epoch).with_dead_holders())).unwrap();
                granted(&first, claim("other", 10 + number));
            }
            // One who came later knows of the last epoch, and which it has replaced.
            let later = handle(&server);
            let store = if told_by_another { &later } else { &first };
            let held = lease("job", 2, granted(store, claim("job", 2)));
            server.put_back();
            if told_by_another && opened == 2 {
                // That the first one was replaced is nothing that it was told. Its lease is lost all the same.
                let told = renewed_once_there(store, &held).unwrap_err();
                assert!(matches!(told.kind(), ErrorKind::NewEpoch { .. }), "{told}");
            } else {
                has_seen_again(store, &held, &format!("{opened} opened, {told_by_another}"));
            }
        }
    }
}

fn renewed_once_there(store: &RedisStore, held: &LeaseRef) -> Result<Renewed, StoreError> {
    loop {
        match renewed(store, held) {
            Err(error) if error.kind() == ErrorKind::Unreachable => {}
            other => return other,
        }
    }
}

fn trusting(options: RedisOptions) -> RedisOptions {
    options.trust_failover(true)
}

/// A server that writes down what it has now and then, whose failovers somebody trusts.
#[test]
fn an_older_dump_shows_also_where_restarts_are_trusted() {
    for (lost, others) in [(0, 2), (1, 0), (1, 1), (2, 2)] {
        let mut server = RedisServer::start(FORGETFUL);
        let store = store(&server, trusting);
        store.migrate().unwrap();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        assert_eq!(server.command(&["SAVE"]), "+OK");
        (0..lost).for_each(|_| goes_on(&store, &held));
        server.restart();
        let other = crate::support::store(&server, trusting);
        (0..others).for_each(|_| goes_on(&other, &held));
        if lost == 0 {
            again(&store, &held);
        } else {
            has_seen_again(&store, &held, &format!("{lost} lost, {others} by another"));
        }
    }
}

#[test]
fn a_promoted_replica_that_lacks_the_last_decision_shows_also_where_it_is_trusted() {
    for (lost, others) in [(0, 1), (1, 0), (1, 1), (2, 2)] {
        let (master, replica) = (RedisServer::start(DURABLE), RedisServer::start(DURABLE));
        assert_eq!(replica.command(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]), "+OK");
        let proxy = Proxy::to(master.port);
        let url = format!("redis://127.0.0.1:{}?timeout=5s", proxy.port);
        let open = || RedisStore::open_with(&url, trusting).unwrap();
        let store = open();
        store.migrate().unwrap();
        let held = lease("job", 1, granted(&store, claim("job", 1)));
        let count = |server: &RedisServer| server.command(&["HGET", BUCKET, "n"]);
        let start = Instant::now();
        while count(&replica) != count(&master) {
            assert!(start.elapsed() < Duration::from_secs(20), "no replication");
        }
        // It hears of nothing from now on, and is the one that is asked later.
        assert_eq!(replica.command(&["REPLICAOF", "NO", "ONE"]), "+OK");
        (0..lost).for_each(|_| goes_on(&store, &held));
        drop(master);
        proxy.leads_to(replica.port);
        let other = open();
        (0..others).for_each(|_| goes_on(&other, &held));
        if lost == 0 {
            again(&store, &held);
            assert_eq!(block_on(store.epoch()).ok(), held.epoch);
        } else {
            has_seen_again(&store, &held, &format!("{lost} lost, {others} by another"));
        }
    }
}
