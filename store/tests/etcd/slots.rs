//! Pools, beside what the suite shows: many claimants at once, clocks that are wrong, members that die, and more slots than are
//! read at once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use etcd_client::Client;
use lease_machines::{FencingToken, OwnerId, Rejection, SlotRange};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Claimed, Clock, ErrorKind, EtcdOptions, EtcdStore, Opening, PoolClaim, PoolClock, Released, Resized,
    ResourceName, Revoked, SlotLease, SlotRef, SlotRenewed, Store, StoreError, Unclaimed, Undecided,
};
use tokio::runtime::{Builder, Runtime};

use crate::servers::etcd::{EtcdServer, namespace};

const MINUTE: Duration = Duration::from_secs(60);
/// What a server that was killed may take to be back; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

fn pool() -> ResourceName {
    ResourceName::new("ids").unwrap()
}

/// For a minute, of slots that need no rest.
fn claim(size: u32, owner: u64) -> PoolClaim {
    PoolClaim::new(pool(), size, OwnerId::new(owner), MINUTE).with_cool_down(Duration::ZERO)
}

/// With ID time, for so long.
fn for_time(mut claim: PoolClaim, ttl: Duration) -> PoolClaim {
    claim.ttl = ttl;
    claim.with_id_time()
}

fn slot(store: &EtcdStore, claim: PoolClaim) -> SlotLease {
    match block_on(store.claim_slot(claim)).unwrap() {
        Claimed::Granted(lease) => lease,
        other => panic!("no slot: {other:?}"),
    }
}

fn none(store: &EtcdStore, claim: PoolClaim) -> Unclaimed {
    match block_on(store.claim_slot(claim)).unwrap() {
        Claimed::Rejected(why) => why,
        other => panic!("a slot: {other:?}"),
    }
}

fn named(owner: u64, held: SlotLease) -> SlotRef {
    SlotRef::new(pool(), held.slot, OwnerId::new(owner), held.token, Some(held.epoch))
}

fn release(store: &EtcdStore, owner: u64, held: SlotLease) {
    assert_eq!(block_on(store.release_slot(named(owner, held), None)).unwrap(), Released::Released);
}

fn set_up(url: &str) -> EtcdStore {
    let store = EtcdStore::open(url).unwrap();
    store.migrate().unwrap();
    store
}

/// A wall clock that is off, on a machine whose other clock goes right.
struct Off(AtomicI64, Instant);

impl Off {
    fn set(&self, seconds: i64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for Off {
    fn now(&self) -> Duration {
        self.1.elapsed()
    }

    fn wall(&self) -> SystemTime {
        let off = self.0.load(Ordering::SeqCst);
        let by = Duration::from_secs(off.unsigned_abs());
        if off < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }

    fn identity(&self) -> String {
        "off".to_owned()
    }
}

/// A machine whose clock is off by so many seconds.
fn machine(server: &EtcdServer, space: &str, seconds: i64, skew: Duration) -> (Arc<Off>, EtcdStore) {
    // On it a program's own clients live.
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime =
        RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
    let member = format!("127.0.0.1:{}", server.port);
    let client = runtime.block_on(Client::connect([member], None)).unwrap();
    let clock = Arc::new(Off(AtomicI64::new(seconds), Instant::now()));
    let options =
        EtcdOptions::default().namespace(space).clock(Arc::clone(&clock) as Arc<dyn Clock>).clock_skew(skew);
    let store = EtcdStore::from_client(client, options).unwrap();
    store.migrate().unwrap();
    (clock, store)
}

#[test]
fn two_hundred_claimants_at_once_get_a_slot_each() {
    const CLIENTS: u64 = 200;
    let server = EtcdServer::start();
    let url = server.url(&namespace());
    let stores: Vec<_> = (0..8).map(|_| Arc::new(set_up(&url))).collect();
    let before = server.count("Txn");
    let slots: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| {
                let store = Arc::clone(&stores[usize::try_from(client % 8).unwrap()]);
                scope.spawn(move || {
                    let begun = Instant::now();
                    loop {
                        match block_on(store.claim_slot(claim(256, client).with_id_time())).unwrap() {
                            Claimed::Granted(lease) => break lease.slot,
                            Claimed::Rejected(Unclaimed::Busy) => {
                                assert!(begun.elapsed() < PATIENCE, "busy on and on");
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let different: BTreeSet<u16> = slots.iter().copied().collect();
    assert_eq!(different.len() as u64, CLIENTS, "{slots:?}");
    assert_eq!(block_on(stores[0].slots(pool())).unwrap().holders() as u64, CLIENTS);
    // Were all of them to choose the same slot again and again, it would be 20,000.
    let asked = server.count("Txn") - before;
    assert!(asked < CLIENTS * 15, "{asked} transactions");
}

#[test]
fn a_machine_whose_clock_is_behind_what_was_seen_is_refused() {
    let (server, space) = (EtcdServer::shared(), namespace());
    let skew = Duration::from_secs(10);
    let ((ahead, hasty), (_, right)) = (machine(server, &space, 0, skew), machine(server, &space, 0, skew));
    assert_eq!(right.capabilities().pool_clock, PoolClock::Clients { apart: skew });
    slot(&right, claim(4, 1));
    ahead.set(1_800);
    let held = slot(&hasty, claim(4, 2).with_id_time());
    let error = block_on(right.claim_slot(claim(4, 3))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Configuration, Undecided::Refused), "{error}");
    for part in ["clock is 29m", "behind", "slot 1", "10s apart"] {
        let said = error.to_string().replace("30m", "29m");
        assert!(said.contains(part), "{error} does not say {part:?}");
    }
    // What it holds it goes on holding, and where nothing of that part was written by such a clock it is granted more.
    let other = claim(4, 3).with_range(SlotRange::new(2, 3).unwrap());
    let third = slot(&right, other);
    let renewed = block_on(right.renew_slot(named(3, third), MINUTE, false)).unwrap();
    assert!(matches!(renewed, SlotRenewed::Renewed(_)), "{renewed:?}");
    // Where that one was wrong, a revoke forgets what it showed; the slot stays closed as long as the lease would have lasted.
    let burnt = block_on(right.revoke_slot(pool(), held.slot, Some(held.token), None)).unwrap();
    assert!(matches!(burnt, Revoked::Burnt(token) if token > held.token), "{burnt:?}");
    assert_eq!(slot(&right, claim(4, 4)).slot, 3);
    assert!(matches!(none(&right, claim(4, 5)), Unclaimed::Exhausted { .. }));
}

/// With clocks that are further apart than was said, in both directions, each window begins above all earlier ones.
#[test]
fn no_clock_makes_a_stamp_be_given_out_twice() {
    let (server, space) = (EtcdServer::shared(), namespace());
    let (clock, store) = machine(server, &space, 0, Duration::from_secs(3_600));
    let mut last = Duration::ZERO;
    let mut granted = 0;
    for (owner, off) in (1..).zip([0_i64, 1_500, -300, 0, 3_000, 200, -3_500, 0, 3_600, 100]) {
        clock.set(off);
        // One that its own identity left needs no rest.
        let only = claim(1, owner).with_identity("one").with_id_time();
        match block_on(store.claim_slot(only.clone())) {
            Ok(Claimed::Granted(lease)) => {
                let window = lease.window.unwrap();
                assert!(window.after >= last && window.until > window.after, "{window:?} after {last:?}");
                last = window.until;
                granted += 1;
                // A renewal by a clock that is set back takes nothing from it.
                clock.set(off - 600);
                let renewed = block_on(store.renew_slot(named(owner, lease), MINUTE, true)).unwrap();
                let SlotRenewed::Renewed(renewed) = renewed else { panic!("{renewed:?}") };
                assert_eq!(renewed.window, Some(window));
                release(&store, owner, lease);
            }
            // All up to the end of what it would reserve is taken already; or it is further behind than was said.
            Ok(answer) => {
                assert_eq!(answer, Claimed::Rejected(Unclaimed::Exhausted { next_chance: None }));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Configuration, "{error}"),
        }
    }
    assert_eq!(granted, 4, "each time that the clock was ahead of all before, and no other");
    // Who asks for more time than is taken gets what is above.
    clock.set(100);
    let longer = for_time(claim(1, 99).with_identity("one"), 120 * MINUTE);
    let window = slot(&store, longer).window.unwrap();
    assert_eq!(window.after, last);
}

#[test]
fn a_slot_rests_for_its_cool_down_and_for_what_clocks_may_be_apart() {
    let (server, space) = (EtcdServer::shared(), namespace());
    let skew = Duration::from_secs(10);
    let ((_, first), (clock, other)) = (machine(server, &space, 0, skew), machine(server, &space, 0, skew));
    let held = slot(&first, claim(1, 1).with_identity("a"));
    release(&first, 1, held);
    let rested = |owner| claim(1, owner).with_cool_down(Duration::from_secs(30));
    for (off, free) in [(20, 0), (34, 0), (41, 1)] {
        clock.set(off);
        assert_eq!(block_on(other.room(rested(2))).unwrap().free, free, "at {off} s");
    }
    clock.set(20);
    let why = none(&other, rested(2));
    let Unclaimed::Exhausted { next_chance: Some(next) } = why else { panic!("{why:?}") };
    assert!(next <= Duration::from_secs(20) && next > Duration::from_secs(5), "in {next:?}");
    // Its own identity needs none, whatever the clock of the machine shows that it comes back on.
    clock.set(-5);
    let back = slot(&other, rested(3).with_identity("a"));
    assert!(back.slot == held.slot && back.token > held.token, "{back:?} after {held:?}");
    release(&other, 3, back);
    clock.set(41);
    slot(&other, rested(4));
}

#[test]
fn no_clock_takes_a_slot_from_its_holder() {
    let (server, space) = (EtcdServer::shared(), namespace());
    let skew = Duration::from_secs(10);
    let ((mine, holder), (clock, other)) =
        (machine(server, &space, 0, skew), machine(server, &space, 0, skew));
    let held = slot(&holder, claim(1, 1));
    clock.set(36_000);
    let why = none(&other, claim(1, 2));
    assert!(matches!(why, Unclaimed::Exhausted { next_chance: Some(_) }), "{why:?}");
    let size = block_on(other.resize_pool(pool(), 2)).unwrap();
    assert_eq!(size, Resized::Resized);
    mine.set(-36_000);
    let renewed = block_on(holder.renew_slot(named(1, held), MINUTE, false)).unwrap();
    assert!(matches!(renewed, SlotRenewed::Renewed(lease) if lease.ttl >= MINUTE), "{renewed:?}");
    release(&holder, 1, held);
}

#[test]
fn a_server_that_is_killed_amid_claims_grants_no_slot_twice() {
    const CLIENTS: u64 = 16;
    let mut server = EtcdServer::start();
    let url = format!("{}?timeout=2s&clock_skew=0s", server.url(&namespace()));
    set_up(&url);
    let granted = AtomicUsize::new(0);
    let held: Vec<(u64, SlotLease)> = thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|owner| {
                let (url, granted) = (&url, &granted);
                scope.spawn(move || {
                    let store = EtcdStore::open(url).unwrap();
                    let (begun, mut attempt) = (Instant::now(), 0);
                    // One after another, so that some are still to come when the server is gone.
                    while granted.load(Ordering::SeqCst) + 4 < usize::try_from(owner).unwrap() {
                        thread::sleep(Duration::from_millis(2));
                    }
                    loop {
                        attempt += 1;
                        let asked = store.reclaim_slot(claim(32, owner).with_attempt(attempt).with_id_time());
                        match block_on(asked) {
                            Ok(Claimed::Granted(lease)) => {
                                granted.fetch_add(1, Ordering::SeqCst);
                                return (owner, lease);
                            }
                            Ok(answer) => assert_eq!(answer, Claimed::Rejected(Unclaimed::Busy)),
                            Err(error) => assert_ne!(error.undecided(), Undecided::Refused, "{error}"),
                        }
                        assert!(begun.elapsed() < PATIENCE, "owner {owner} gets none");
                        // Who asks a server that is not there is told so at once.
                        thread::sleep(Duration::from_millis(50));
                    }
                })
            })
            .collect();
        while granted.load(Ordering::SeqCst) < 6 {
            thread::sleep(Duration::from_millis(2));
        }
        server.kill();
        server.restart();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let different: BTreeSet<u16> = held.iter().map(|(_, lease)| lease.slot).collect();
    assert_eq!(different.len() as u64, CLIENTS, "{held:?}");
    // Nor has any owner a second one, of a claim that nobody answered.
    let store = EtcdStore::open(&url).unwrap();
    assert_eq!(block_on(store.slots(pool())).unwrap().holders() as u64, CLIENTS);
    for (owner, lease) in held {
        let renewed = block_on(store.renew_slot(named(owner, lease), MINUTE, true)).unwrap();
        assert!(matches!(renewed, SlotRenewed::Renewed(_)), "owner {owner}: {renewed:?}");
    }
}

#[test]
fn a_server_that_is_frozen_ends_no_slot_early() {
    let server = EtcdServer::start();
    let store = set_up(&format!("{}?timeout=1s&clock_skew=0s", server.url(&namespace())));
    let held = slot(&store, claim(2, 1));
    server.freeze();
    let error = block_on(store.claim_slot(claim(2, 2))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    let error = block_on(store.release_slot(named(1, held), None)).unwrap_err();
    assert_ne!(error.undecided(), Undecided::Refused, "{error}");
    server.thaw();
    let begun = Instant::now();
    let decided = loop {
        match block_on(store.withdraw_slot(pool(), OwnerId::new(1))) {
            Ok(answer) => break answer,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    // The release may have come through in the end.
    assert!(matches!(decided, Released::Released | Released::AlreadyReleased), "{decided:?}");
    assert_eq!(slot(&store, claim(2, 3).with_range(SlotRange::only(held.slot))).slot, held.slot);
}

#[test]
fn a_pool_of_more_slots_than_are_read_at_once_is_looked_through() {
    const SIZE: u16 = 520;
    let server = EtcdServer::shared();
    let store = set_up(&format!("{}?clock_skew=0s&history=off", server.url(&namespace())));
    let mut held = Vec::new();
    for number in 0..SIZE {
        let only = claim(SIZE.into(), u64::from(number) + 1).with_range(SlotRange::only(number));
        held.push(slot(&store, only));
    }
    let seen = block_on(store.slots(pool())).unwrap();
    assert_eq!((seen.slots.len(), seen.holders()), (SIZE.into(), SIZE.into()));
    let why = none(&store, claim(SIZE.into(), 9_001));
    assert!(matches!(why, Unclaimed::Exhausted { next_chance: Some(_) }), "{why:?}");
    release(&store, 518, held[517]);
    assert_eq!(slot(&store, claim(SIZE.into(), 9_002)).slot, 517);
    // An owner's slot is found outside of the range that it asks for, too.
    let elsewhere = claim(SIZE.into(), 1).with_attempt(2).with_range(SlotRange::new(500, 519).unwrap());
    assert_eq!(none(&store, elsewhere), Unclaimed::Invalid(Rejection::Occupied));
    let last = block_on(store.resize_pool(pool(), 300)).unwrap();
    assert!(matches!(last, Resized::InUse { slot: 519, .. }), "{last:?}");
}

/// The suite's case needs a clock that the test moves.
#[test]
fn a_new_epoch_gives_out_no_stamp_of_the_old_one() {
    let url = format!("{}?max_ttl=60s&clock_skew=0s", EtcdServer::shared().url(&namespace()));
    let store = set_up(&url);
    let first = slot(&store, for_time(claim(4, 1), Duration::from_secs(10)));
    let before = first.wall;
    block_on(store.open_epoch(Opening::new(first.epoch).with_dead_holders())).unwrap();
    // Of a slot that this history knows, and of one that only the lost one may have known.
    for (owner, number) in [(2, 0), (3, 3)] {
        let only = claim(4, owner).with_range(SlotRange::only(number));
        let short = for_time(only.clone(), Duration::from_secs(10));
        assert_eq!(none(&store, short), Unclaimed::Exhausted { next_chance: None });
        let window = slot(&store, for_time(only.with_attempt(2), MINUTE)).window.unwrap();
        assert!(window.after >= before + MINUTE, "{window:?}, opened after {before:?}");
    }
}

#[test]
fn a_token_that_its_slot_never_had_shows_a_loss_and_one_of_another_slot_does_not() {
    let store = set_up(&EtcdServer::shared().url(&namespace()));
    let held = slot(&store, claim(4, 1));
    let right = named(1, held);
    let renewed = |lease: SlotRef| block_on(store.renew_slot(lease, MINUTE, false)).unwrap();
    let wrong = renewed(SlotRef::new(pool(), 2, OwnerId::new(1), held.token, Some(held.epoch)));
    assert!(matches!(wrong, SlotRenewed::Rejected(why) if why.reason == Rejection::Vacant));
    assert_eq!(block_on(store.epoch()).unwrap(), held.epoch, "it was not lost, but named wrongly");
    let later = FencingToken::new(held.token.value() + 1_000).unwrap();
    let answer = renewed(SlotRef::new(pool(), 0, OwnerId::new(7), later, Some(held.epoch)));
    assert!(matches!(answer, SlotRenewed::Rejected(_)), "{answer:?}");
    let lost: Result<SlotRenewed, StoreError> = block_on(store.renew_slot(right, MINUTE, false));
    assert!(matches!(lost.unwrap_err().kind(), ErrorKind::NewEpoch { .. }));
    assert_ne!(block_on(store.epoch()).unwrap(), held.epoch);
}
