//! What becomes of requests whose caller left, and of a store that is closed with some of them outstanding.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{
    Folder, TTL, TestClock, acquire, block_on, claim, granted, lease, name, open, options, poll_and_keep,
    poll_once,
};
use lease_machines_store::{Acquired, Claimed, Clock, Ending, PoolClaim, Renewed, SqliteStore, Store};

/// Decided and committed, as anybody can see.
fn held_by(store: &SqliteStore, owner: u64) {
    let start = Instant::now();
    loop {
        let occupant = block_on(store.inspect(name("job"))).unwrap().occupant;
        if occupant.as_ref().map(|occupant| occupant.owner.value()) == Some(owner) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "held by {occupant:?}, expected {owner}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What was queued before is done with.
fn settled(store: &SqliteStore) {
    let _ = granted(store, claim("another", 99));
    let _ = block_on(store.withdraw(name("another"), lease_machines::OwnerId::new(99))).unwrap();
}

/// A caller that gave up waiting asks again by the same request, as it may: it is told of the grant that stands. The
/// first answer, which nobody looked at, must not be taken for a grant that nobody knows of.
#[test]
fn a_grant_that_an_echo_was_told_of_is_not_taken_back() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let unheard = poll_and_keep(store.acquire(claim("job", 1)));
    held_by(&store, 1);
    let told = granted(&store, claim("job", 1));
    drop(unheard);
    settled(&store);
    let other = acquire(&store, claim("job", 2));
    assert!(matches!(other, Acquired::Rejected(_)), "two hold it: {told:?} and {other:?}");
    let renewed = block_on(store.renew(lease("job", 1, told), TTL)).unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
}

/// Whoever rotates its lease works under it meanwhile: what nobody heard of then is the new token, not the hold.
#[test]
fn a_rotation_that_nobody_heard_of_leaves_the_resource_held() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let first = granted(&store, claim("job", 1));
    let unheard = poll_and_keep(store.reacquire(claim("job", 1).with_attempt(2)));
    let start = Instant::now();
    while block_on(store.inspect(name("job"))).unwrap().last_issued == Some(first.token) {
        assert!(start.elapsed() < Duration::from_secs(20), "not rotated");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(unheard);
    settled(&store);
    let other = acquire(&store, claim("job", 2));
    assert!(matches!(other, Acquired::Rejected(_)), "the holder still counts on {first:?}: {other:?}");
    // It learns the new token by its next attempt, and can give it back.
    let again = block_on(store.reacquire(claim("job", 1).with_attempt(3))).unwrap();
    let Acquired::Granted(again) = again else { panic!("{again:?}") };
    let _ = block_on(store.release(lease("job", 1, again), Ending::default())).unwrap();
    let _ = granted(&store, claim("job", 2));
}

/// A process that is frozen while it has the file locked keeps no other from ending.
#[test]
fn a_store_is_closed_though_another_has_the_file_locked() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let timeout = Duration::from_millis(500);
    let store = SqliteStore::open(folder.file(), options(&clock).timeout(timeout)).unwrap();
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    let unheard = poll_and_keep(store.acquire(claim("job", 1)));
    held_by(&store, 1);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // One request is begun by nobody, one leaves a grant to take back.
    poll_once(store.acquire(claim("job", 2)));
    drop(unheard);
    let (closed, is_closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(store);
        closed.send(()).unwrap();
    });
    let closed = is_closed.recv_timeout(Duration::from_secs(30));
    other.execute_batch("ROLLBACK").unwrap();
    assert!(closed.is_ok(), "the store waits for the lock for ever");
}

/// A clock by which the thread that looks hangs, as it does on a disk that does not answer.
struct Hanging {
    clock: Arc<TestClock>,
    /// Whether it is to hang, and does.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Hanging {
    fn set(&self, to_hang: bool) {
        self.state.lock().unwrap().0 = to_hang;
        self.changed.notify_all();
    }

    fn until_it_hangs(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(_, hangs)| !*hangs).unwrap());
    }
}

impl Clock for Hanging {
    fn now(&self) -> Duration {
        if std::thread::current().name() == Some("lease-reader") {
            let mut state = self.state.lock().unwrap();
            while state.0 {
                state.1 = true;
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap();
            }
            state.1 = false;
        }
        self.clock.now()
    }

    fn wall(&self) -> std::time::SystemTime {
        self.clock.wall()
    }

    fn identity(&self) -> String {
        self.clock.identity()
    }
}

/// Whoever begins to wait is not held up by a disk that hangs, nor kept beyond its limit: a runtime that polls the wait on
/// the thread that keeps its leases would lose all of them.
#[test]
fn a_disk_that_hangs_holds_up_no_wait() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let hanging =
        Arc::new(Hanging { clock: Arc::clone(&clock), state: Mutex::default(), changed: Condvar::new() });
    let settings = options(&clock).clock(Arc::clone(&hanging) as Arc<dyn Clock>);
    let store = Arc::new(SqliteStore::open(folder.file(), settings).unwrap());
    let _ = granted(&*store, claim("job", 1));
    let wait = |limit| {
        let (store, (said, heard)) = (Arc::clone(&store), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            let wait = poll_and_keep(store.wait(name("job"), limit));
            said.send("asked").unwrap();
            block_on(wait).unwrap();
            said.send("ended").unwrap();
        });
        heard
    };
    let patience = Duration::from_secs(30);
    let first = wait(TTL);
    assert_eq!(first.recv_timeout(patience), Ok("asked"));
    hanging.set(true);
    hanging.until_it_hangs();
    let second = wait(Duration::from_secs(1));
    let asked = second.recv_timeout(patience);
    clock.advance(Duration::from_secs(2));
    let ended = second.recv_timeout(patience);
    hanging.set(false);
    assert_eq!((asked, ended), (Ok("asked"), Ok("ended")));
    clock.advance(TTL);
    assert_eq!(first.recv_timeout(patience), Ok("ended"));
}

/// A slot that nobody was left to hear of is free again, for everybody; one that an echo was told of stays.
#[test]
fn a_slot_that_nobody_heard_of_is_given_back() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let claim = |owner: u64| {
        PoolClaim::new(name("ids"), 1, lease_machines::OwnerId::new(owner), TTL)
            .with_cool_down(Duration::ZERO)
    };
    let seen = || block_on(store.slots(name("ids"))).unwrap();
    let holder = || seen().slots.first().and_then(|slot| slot.occupant.as_ref().map(|who| who.owner.value()));
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(20), "not {what}: {:?}", seen());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let unheard = poll_and_keep(store.claim_slot(claim(1)));
    until("granted", &|| holder() == Some(1));
    drop(unheard);
    until("given back", &|| holder().is_none());
    // Its owner may ask again, and is not taken for one that has withdrawn.
    let again = block_on(store.reclaim_slot(claim(1).with_attempt(2))).unwrap();
    assert!(matches!(again, Claimed::Granted(_)), "{again:?}");
    let _ = block_on(store.withdraw_slot(name("ids"), lease_machines::OwnerId::new(1))).unwrap();

    let unheard = poll_and_keep(store.claim_slot(claim(2)));
    until("granted", &|| holder() == Some(2));
    let Claimed::Granted(told) = block_on(store.claim_slot(claim(2))).unwrap() else { panic!() };
    drop(unheard);
    settled(&store);
    let other = block_on(store.claim_slot(claim(3))).unwrap();
    assert!(matches!(other, Claimed::Rejected(_)), "two hold it: {told:?} and {other:?}");
}
