//! What has gone wrong for others: one test for each public report that concerns the embedded store. Those about names,
//! ttls and repeated calls that every store has to get right are in the conformance suite, those about files, clocks,
//! processes and the fence in the files beside this one.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Folder, TTL, TestClock, acquire, block_on, claim, granted, lease, name, open, options};
use lease_machines::{OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Claim, Ending, ErrorKind, Fault, FaultStore, LeaseRef, Released, Renewed, SqliteOptions,
    SqliteStore, Store, StoreError, Undecided,
};
use rusqlite::Connection;

/// etcd-io/etcd#11456, #9921: a waiter was granted the lock after its own lease had ended.
/// nextlyhq/nextly#777: the database's `now()` was frozen at the start of the transaction.
#[test]
fn a_grant_counts_from_after_the_wait_for_the_lock() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let ttl = Duration::from_millis(300);
    let first = granted(&store, Claim::new(name("job"), OwnerId::new(1), ttl));
    let blocker = Connection::open(folder.file()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let claim = Claim::new(name("job"), OwnerId::new(2), ttl);
        let renewal = scope.spawn(|| block_on(store.renew(lease("job", 1, first), ttl)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        let waiter = scope.spawn(|| {
            let grant = granted(&store, claim);
            (grant, Instant::now())
        });
        // Longer than the ttl.
        std::thread::sleep(Duration::from_millis(500));
        blocker.execute_batch("COMMIT").unwrap();
        let (grant, told) = waiter.join().unwrap();
        assert_eq!(grant.ttl, ttl, "the ttl had passed while it waited");
        assert!(
            matches!(renewal.join().unwrap(), Renewed::Rejected(why) if why.reason == Rejection::Expired)
        );
        let seen = block_on(store.inspect(name("job"))).unwrap();
        let left = seen.occupant.map(|occupant| occupant.remaining + told.elapsed());
        assert!(left.is_some_and(|left| left > ttl / 3), "the deadline is not in the future: {left:?}");
    });
}

/// etcd-io/etcd#11456, the other side: whoever has given up is not granted anything afterwards.
#[test]
fn a_waiter_past_its_own_limit_is_never_granted() {
    let folder = Folder::new();
    let options = SqliteOptions::default().timeout(Duration::from_millis(200));
    let store = SqliteStore::open(folder.file(), options).unwrap();
    let blocker = Connection::open(folder.file()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let errors: Vec<StoreError> = std::thread::scope(|scope| {
        let store = &store;
        let waiters: Vec<_> =
            (1..=8).map(|owner| scope.spawn(move || block_on(store.acquire(claim("job", owner))))).collect();
        waiters.into_iter().map(|waiter| waiter.join().unwrap().unwrap_err()).collect()
    });
    for error in errors {
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone));
    }
    blocker.execute_batch("ROLLBACK").unwrap();
    let _ = granted(&store, claim("other", 9));
    let seen = block_on(store.inspect(name("job"))).unwrap();
    assert!(seen.last_issued.is_none(), "one that had given up was granted it: {seen:?}");
}

/// redisson#7272, awslabs lock client PR#116: a renewal raced release and kept a released lock alive.
#[test]
fn once_release_has_returned_nothing_extends_the_lease() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    for round in 1..=50 {
        let grant = granted(&store, claim("job", round));
        let reference = lease("job", round, grant);
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !released.load(Ordering::SeqCst) {
                        let _ = block_on(store.renew(reference.clone(), TTL)).unwrap();
                    }
                    let late = block_on(store.renew(reference.clone(), TTL)).unwrap();
                    assert!(matches!(late, Renewed::Rejected(_)), "renewed after the release: {late:?}");
                });
            }
            let answer = block_on(store.release(reference.clone(), Ending::default())).unwrap();
            released.store(true, Ordering::SeqCst);
            assert_eq!(answer, Released::Released);
        });
        assert!(block_on(store.inspect(name("job"))).unwrap().occupant.is_none(), "round {round}");
    }
}

/// swarthy/redis-semaphore#175, redlock-rb#36: a late renewal silently took the lock again.
#[test]
fn a_late_renewal_says_expired_and_taking_it_again_is_explicit() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    clock.advance(TTL);
    let late = block_on(store.renew(lease("job", 1, grant), TTL)).unwrap();
    assert!(matches!(late, Renewed::Rejected(why) if why.reason == Rejection::Expired));
    assert!(block_on(store.inspect(name("job"))).unwrap().occupant.is_none());
    let again = block_on(store.reacquire(claim("job", 1).with_attempt(2))).unwrap();
    assert!(matches!(again, Acquired::Granted(again) if again.token > grant.token));
}

/// lyokato/redlock#21: a thousand times too long; another's lock released.
#[test]
fn units_are_what_they_say_and_release_is_conditional() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let ttl = Duration::from_millis(400);
    let start = Instant::now();
    let grant = granted(&store, Claim::new(name("job"), OwnerId::new(1), ttl));
    let stranger = LeaseRef::new(name("job"), OwnerId::new(2), grant.token, Some(grant.epoch));
    let answer = block_on(store.release(stranger, Ending::default())).unwrap();
    assert!(matches!(answer, Released::Rejected(why) if why.reason == Rejection::WrongOwner));
    block_on(store.wait(name("job"), Duration::from_secs(60))).unwrap();
    assert!(start.elapsed() >= ttl, "over after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(30), "over after {:?}", start.elapsed());
}

/// kubernetes#23731: a holder that lost a race was never told.
#[test]
fn the_first_answer_that_shows_another_holder_says_who() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let lost = granted(&store, claim("job", 1));
    clock.advance(TTL);
    let next = granted(&store, claim("job", 2).with_label("the next one"));
    let Renewed::Rejected(why) = block_on(store.renew(lease("job", 1, lost), TTL)).unwrap() else { panic!() };
    let occupant = why.occupant.unwrap();
    assert_eq!((why.reason, occupant.token), (Rejection::WrongOwner, next.token));
    assert_eq!(occupant.label.as_deref(), Some("the next one"));
}

/// simstudioai/sim#6864: the answer was lost, so nobody owned the lock until its ttl.
#[test]
fn a_lost_answer_costs_nobody_the_ttl() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = std::sync::Arc::new(open(&folder, &clock));
    let network = FaultStore::scripted(store.clone(), [Fault::DropReply]);
    assert!(block_on(network.acquire(claim("job", 1))).is_err());
    // Whoever still wants it asks again and has it; whoever does not, takes it back without a token.
    let again = block_on(network.reacquire(claim("job", 1).with_attempt(2))).unwrap();
    assert!(matches!(again, Acquired::Granted(grant) if grant.ttl == TTL));
    assert_eq!(block_on(network.withdraw(name("job"), OwnerId::new(1))).unwrap(), Released::Released);
    let _ = granted(&*store, claim("job", 2));
}

/// redisson#6510, and counters deleted with the lock: counters grow for ever, or start again at 1.
#[test]
fn names_come_and_go_while_tokens_rise_and_the_file_stays_flat() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = SqliteStore::open(folder.file(), options(&clock).history(Some(2))).unwrap();
    let mut last = 0;
    let mut sizes = Vec::new();
    for generation in 0..6_u64 {
        let claims: Vec<_> = (0..2_000)
            .map(|index| (format!("job-{generation}-{index}"), 1 + generation * 10_000 + index))
            .collect();
        // The same file, and many at once, so that they share commits.
        std::thread::scope(|scope| {
            let store = &store;
            for part in claims.chunks(125) {
                scope.spawn(move || {
                    for (resource, owner) in part {
                        let grant = granted(store, claim(resource, *owner));
                        let _ = block_on(store.release(lease(resource, *owner, grant), Ending::default()))
                            .unwrap();
                    }
                });
            }
        });
        let token = granted(&store, claim("always", generation + 1));
        assert!(token.token.value() > last, "token {} after {last}", token.token);
        last = token.token.value();
        let _ = block_on(store.release(lease("always", generation + 1, token), Ending::default())).unwrap();
        clock.advance(Duration::from_secs(3600));
        let pruned = block_on(store.prune(Duration::from_secs(60))).unwrap();
        assert_eq!(pruned.resources, 2_001);
        assert!(pruned.floor >= last);
        last = last.max(pruned.floor);
        sizes.push(std::fs::metadata(folder.file()).unwrap().len());
    }
    let (second, sixth) = (sizes[1], sizes[5]);
    assert!(sixth <= second + second / 4, "the file grows: {sizes:?}");
}

/// etcd#14857: the server granted another ttl than asked.
#[test]
fn the_granted_ttl_is_in_the_answer_and_is_what_counts() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    // Below a millisecond it is rounded up, never down.
    let odd = Duration::from_nanos(1_500_001);
    let grant = granted(&store, Claim::new(name("job"), OwnerId::new(1), odd));
    assert_eq!(grant.ttl, Duration::from_millis(2));
    clock.advance(Duration::from_nanos(1_999_999));
    assert!(matches!(acquire(&store, claim("job", 2)), Acquired::Rejected(_)));
    clock.advance(Duration::from_nanos(1));
    let _ = granted(&store, claim("job", 2));
}

/// solid_queue PR#761: a second release freed a slot that another held.
#[test]
fn a_second_release_frees_nobody_else() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let first = granted(&store, claim("job", 1));
    assert_eq!(
        block_on(store.release(lease("job", 1, first), Ending::default())).unwrap(),
        Released::Released
    );
    let second = granted(&store, claim("job", 2));
    let again = block_on(store.release(lease("job", 1, first), Ending::default())).unwrap();
    assert_eq!(again, Released::AlreadyReleased);
    let holder = block_on(store.inspect(name("job"))).unwrap().occupant.unwrap();
    assert_eq!(holder.token, second.token);
}

/// jentic-one#529: many tasks of one process, each with its own open store, meet no BUSY.
#[test]
fn many_stores_on_one_file_meet_no_busy() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for thread in 0..12_u64 {
            let folder = &folder;
            scope.spawn(move || {
                let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
                for round in 0..40 {
                    let owner = 1 + thread * 1_000 + round;
                    if let Acquired::Granted(grant) = acquire(&store, claim("job", owner)) {
                        let _ =
                            block_on(store.release(lease("job", owner, grant), Ending::default())).unwrap();
                    }
                    let _ = block_on(store.list("j".into())).unwrap();
                }
            });
        }
    });
}

/// A token at the very end closes the resource rather than repeating one.
#[test]
fn tokens_end_at_the_greatest_signed_number() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let _ = granted(&store, claim("job", 1));
    let edit = Connection::open(folder.file()).unwrap();
    edit.execute("UPDATE lease_row SET last_issued = ?1 - 1", [i64::MAX]).unwrap();
    clock.advance(TTL);
    assert_eq!(granted(&store, claim("job", 2)).token.value(), i64::MAX as u64);
    clock.advance(TTL);
    let Acquired::Rejected(why) = acquire(&store, claim("job", 3)) else { panic!() };
    assert_eq!(why.reason, Rejection::TokensExhausted);
    let answer = block_on(store.revoke(name("job"), None, None)).unwrap();
    assert!(
        matches!(answer, lease_machines_store::Revoked::Rejected(why) if why.reason == Rejection::TokensExhausted)
    );
    let Acquired::Rejected(why) = acquire(&store, claim("job", 4)) else { panic!() };
    assert_eq!(why.reason, Rejection::TokensExhausted);
}
