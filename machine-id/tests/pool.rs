//! Machine IDs of a store's pool, on the store in memory: its clock is moved by the test.

#![allow(clippy::panic)] // tests may

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_machines::SlotRange;
use lease_machines_id::{
    AcquireError, Acquired, CallOptions, Fixed, Guarded, Id64, IdError, Layout, LeaseHandle, Left, Lent,
    Manager, Notice, Options, OptionsError, PoolLease, Reason, RenewError, StartError, Strategy,
};
use lease_machines_store::{
    ErrorKind, Fault, FaultStore, MemoryStore, Opening, PoolClaim, ResourceName, Store, StoreError,
};
use pollster::block_on;

const HOUR: Duration = Duration::from_secs(3_600);
const CALL: CallOptions = CallOptions::new(Duration::from_secs(5));

fn memory() -> Arc<MemoryStore> {
    let store = MemoryStore::new().expect("random numbers");
    // Its calendar begins with 2026; a manager wants clocks that agree.
    let origin = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    store.advance(SystemTime::now().duration_since(origin).expect("later than that"));
    Arc::new(store)
}

fn name() -> ResourceName {
    ResourceName::new("ids").expect("a name")
}

/// A pool, a moment later: a claim that reserves no time beyond what is reserved already gets nothing.
fn pool(store: &Arc<MemoryStore>, size: u32) -> PoolLease {
    store.advance(Duration::from_millis(1));
    PoolLease::new(Arc::clone(store) as Arc<dyn Store>, name(), size)
}

/// A pool behind a network with these faults.
fn faulty(store: &Arc<MemoryStore>, size: u32, script: &[Fault]) -> (Arc<FaultStore>, PoolLease) {
    let network = Arc::new(FaultStore::scripted(Arc::clone(store) as Arc<dyn Store>, script.iter().copied()));
    let pool = PoolLease::new(Arc::clone(&network) as Arc<dyn Store>, name(), size);
    (network, pool)
}

fn held(strategy: &impl Strategy) -> Acquired {
    strategy.acquire(HOUR, &CALL).expect("a slot")
}

fn refused(strategy: &impl Strategy) -> AcquireError {
    strategy.acquire(HOUR, &CALL).expect_err("no slot")
}

/// Whether no slot has a mark: nobody has made an ID, or may have.
fn nothing_reserved(store: &MemoryStore) -> bool {
    block_on(store.slots(name())).expect("a look").slots.iter().all(|slot| slot.mark.is_zero())
}

fn holders(store: &MemoryStore) -> usize {
    block_on(store.slots(name())).expect("a look").holders()
}

#[test]
fn no_two_holders_have_one_id() {
    let store = memory();
    let mut ids = [(); 3].map(|()| held(&pool(&store, 3))).map(|held| held.machine_id);
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2]);
    let AcquireError::Exhausted(why) = refused(&pool(&store, 3)) else { panic!("not exhausted") };
    assert!(why.contains("pool ids") && why.contains("3630 s"), "an hour and the cool-down: {why}");
}

#[test]
fn a_restart_gets_its_own_slot_back_and_a_stranger_waits_for_the_cool_down() {
    let store = memory();
    let web = pool(&store, 2).with_identity("web");
    let (first, other) = (held(&web), held(&pool(&store, 2)));
    web.release(&first.lease, &CALL);
    assert_eq!(holders(&store), 1);
    assert!(matches!(refused(&pool(&store, 2)), AcquireError::Exhausted(_)));
    let again = held(&web);
    assert_eq!(again.machine_id, first.machine_id);
    web.release(&again.lease, &CALL);
    store.advance(PoolClaim::COOL_DOWN);
    assert_ne!(held(&pool(&store, 2)).machine_id, other.machine_id);
}

#[test]
fn a_crashed_pod_takes_its_own_slot_over_and_the_first_life_stops() {
    let store = memory();
    let pod = || pool(&store, 8).with_exclusive_identity("pod-0");
    let (before, after) = (held(&pod()), held(&pod()));
    assert_eq!(before.machine_id, after.machine_id);
    assert_eq!(holders(&store), 1);
    let (before_window, after_window) = (before.window.expect("time"), after.window.expect("time"));
    assert!(after_window.after >= before_window.until, "no stamp is of both lives");
    let lost = pod().renew(&before.lease, HOUR, &CALL).expect_err("it is another's");
    let RenewError::Lost(why) = lost else { panic!("not lost: {lost}") };
    assert!(why.contains("slot 0 of pool ids") && why.contains("\"pod-0\" has it"), "{why}");
}

#[test]
fn the_time_that_was_not_used_is_given_back() {
    let store = memory();
    let pool = pool(&store, 1).with_identity("web");
    let first = held(&pool);
    let window = first.window.expect("time");
    let last_used = window.after + Duration::from_secs(1);
    let mut options = CALL;
    options.last_used = Some(last_used);
    pool.release(&first.lease, &options);
    store.advance(Duration::from_secs(2));
    let next = held(&pool).window.expect("time");
    assert!(last_used <= next.after && next.after < window.until, "{next:?} after {last_used:?}");
}

/// A claim whose answer was lost: the slot is not lost with it.
#[test]
fn an_unheard_grant_is_heard_by_the_next_claim() {
    let store = memory();
    for fault in [Fault::DropReply, Fault::DropRequest, Fault::Late] {
        let (network, pool) = faulty(&store, 1, &[fault]);
        let unheard = refused(&pool);
        assert!(matches!(unheard, AcquireError::Unreachable(_)), "{fault:?}: {unheard}");
        let held = held(&pool);
        // What comes late is an old attempt, and is answered to nobody.
        block_on(network.deliver_late());
        assert_eq!(holders(&store), 1, "{fault:?}");
        let renewed = pool.renew(&held.lease, HOUR, &CALL).expect("still held");
        assert!(renewed.window.is_some());
        pool.release(&held.lease, &CALL);
        assert_eq!(holders(&store), 0, "{fault:?}");
        store.advance(PoolClaim::COOL_DOWN + 2 * HOUR);
    }
}

/// A server that was killed in the middle of a claim, and refuses connections until it is back.
#[test]
fn an_unheard_grant_is_not_forgotten_over_other_errors() {
    let store = memory();
    let (_, away) = faulty(&store, 2, &[Fault::DropReply, Fault::Refuse, Fault::Refuse]);
    for _ in 0..3 {
        assert!(matches!(refused(&away), AcquireError::Unreachable(_)));
    }
    held(&away);
    assert_eq!(holders(&store), 1, "the first claim's slot is not held beside it");
}

/// A claim that is still on its way, and arrives when a slot has come free.
#[test]
fn what_is_granted_late_is_heard_by_the_next_claim_also_where_one_between_got_nothing() {
    let store = memory();
    let other = pool(&store, 1);
    let others = held(&other);
    let (network, pool) = faulty(&store, 1, &[Fault::Late]);
    assert!(matches!(refused(&pool), AcquireError::Unreachable(_)));
    assert!(matches!(refused(&pool), AcquireError::Exhausted(_)));
    other.release(&others.lease, &CALL);
    store.advance(PoolClaim::COOL_DOWN + HOUR);
    block_on(network.deliver_late());
    assert_eq!(holders(&store), 1, "it is granted, and nobody hears of it");
    assert_eq!(held(&pool).machine_id, 0);
}

/// Somebody has taken back what the claim was granted unheard: its owner is done with.
#[test]
fn a_claim_that_comes_too_late_says_so_and_the_next_is_a_strangers() {
    let store = memory();
    let (_, pool) = faulty(&store, 2, &[Fault::DropReply]);
    refused(&pool);
    let seen = block_on(store.slots(name())).expect("a look");
    let owner =
        seen.slots.iter().find_map(|slot| Some(slot.occupant.as_ref()?.owner)).expect("granted unheard");
    assert!(block_on(store.withdraw_slot(name(), owner)).is_ok());
    let late = refused(&pool);
    assert!(matches!(late, AcquireError::Busy(_)), "{late:?}");
    let said = late.to_string();
    assert!(said.contains("comes too late") && !said.contains("reached"), "{said}");
    held(&pool);
}

/// Granted, or still on its way: nobody hears of it, and the start is over before another claim.
#[test]
fn a_start_that_fails_takes_back_what_it_asked_for() {
    for fault in [Fault::DropReply, Fault::Late] {
        let store = memory();
        let (network, pool) = faulty(&store, 1, &[fault]);
        let options = Options::new().acquire_timeout(Some(Duration::from_millis(240)));
        let started = Manager::start(pool, options);
        assert!(matches!(started, Err(StartError::Acquire(AcquireError::Unreachable(_)))), "{started:?}");
        block_on(network.deliver_late());
        assert_eq!(holders(&store), 0, "{fault:?}");
        assert!(nothing_reserved(&store), "{fault:?}");
    }
}

/// Whoever has the slot next makes IDs at once, also such as are in the order of their making: none was made before.
#[test]
fn a_start_that_its_clock_forbids_gives_back_the_time_that_it_was_granted() {
    let store = memory();
    store.advance(HOUR);
    for script in [&[][..], &[Fault::DropReply]] {
        let (_, away) = faulty(&store, 1, script);
        let started = Manager::start(away.with_identity("web"), Options::new());
        assert!(matches!(started, Err(StartError::ClockSkew { .. })), "{started:?}");
        assert_eq!(holders(&store), 0, "{script:?}");
        assert!(nothing_reserved(&store), "{script:?}");
    }
    let trusting = Options::new().max_clock_skew(2 * HOUR);
    let pool = pool(&store, 1).with_identity("web").with_cool_down(2 * HOUR);
    let next = Manager::start(pool, trusting).expect("its own slot");
    assert!(next.sortable::<Id64>().next().is_ok());
    next.stop();
}

#[test]
fn what_lies_in_another_range_is_taken_back_with_its_time() {
    let store = memory();
    let (_, pool) = faulty(&store, 512, &[Fault::DropReply]);
    let guarded = Guarded::new(Wandering(AtomicU16::new(0)), pool, "db-1");
    assert!(matches!(refused(&guarded), AcquireError::Unreachable(_)));
    assert!(matches!(refused(&guarded), AcquireError::Busy(_)));
    assert!(holders(&store) == 0 && nothing_reserved(&store));
}

/// Another number at each call.
struct Wandering(AtomicU16);

impl Strategy for Wandering {
    fn acquire(&self, lease_duration: Duration, _: &CallOptions) -> Result<Acquired, AcquireError> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Acquired::new(number, LeaseHandle::none(), lease_duration))
    }
}

#[test]
fn a_slot_that_was_granted_unheard_is_not_in_the_way_of_another_number() {
    let store = memory();
    let (_, pool) = faulty(&store, 512, &[Fault::DropReply]);
    let guarded = Guarded::new(Wandering(AtomicU16::new(0)), pool, "db-1");
    assert!(matches!(refused(&guarded), AcquireError::Unreachable(_)));
    let busy = refused(&guarded);
    assert!(matches!(&busy, AcquireError::Busy(why) if why.contains("already")), "{busy}");
    assert_eq!(holders(&store), 0, "the first was taken back");
    assert_eq!(held(&guarded).machine_id, 2);
}

/// The grant of a claim that hung is given back when it comes. By then an ID is held under another claim: that one stays.
#[test]
fn what_a_hung_claim_gives_back_is_its_own() {
    let store = memory();
    // Whichever of the two it is that hangs.
    let (_, pool) = faulty(&store, 2, &[Fault::Delay(Duration::from_millis(300))]);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| held(&pool));
        let kept = held(&pool);
        let late = other.join().expect("granted in the end");
        pool.release(&late.lease, &CALL);
        assert!(pool.renew(&kept.lease, HOUR, &CALL).is_ok());
        assert_eq!(holders(&store), 1);
    });
}

#[test]
fn only_the_stores_own_no_is_a_loss() {
    let store = memory();
    let (network, pool) = faulty(&store, 4, &[]);
    let held = held(&pool);
    network.push(Fault::DropReply);
    assert!(matches!(pool.renew(&held.lease, HOUR, &CALL), Err(RenewError::Retry(_))));
    assert!(pool.renew(&held.lease, HOUR, &CALL).is_ok());

    let revoked = block_on(store.revoke_slot(name(), held.machine_id, None, None));
    assert!(revoked.is_ok());
    let lost = pool.renew(&held.lease, HOUR, &CALL).expect_err("revoked");
    assert!(matches!(&lost, RenewError::Lost(why) if why.contains("revoked")), "{lost}");

    let held = pool.acquire(HOUR, &CALL).expect("another slot");
    let epoch = block_on(store.epoch()).expect("an epoch");
    let opened = block_on(store.open_epoch(Opening::new(epoch)));
    assert!(opened.is_ok());
    let lost = pool.renew(&held.lease, HOUR, &CALL).expect_err("of an old epoch");
    assert!(matches!(&lost, RenewError::Lost(why) if why.contains("epoch")), "{lost}");
}

#[test]
fn what_no_try_would_mend_is_said_at_once() {
    let store = memory();
    held(&pool(&store, 4));
    let larger = refused(&pool(&store, 5));
    assert!(matches!(&larger, AcquireError::Misconfigured(why) if why.contains('4')), "{larger}");
    for size in [0, 65_537] {
        let error = refused(&pool(&store, size));
        assert!(matches!(error, AcquireError::Misconfigured(_)), "{size}: {error}");
    }
    let started = Manager::start(pool(&store, 5), Options::new());
    assert!(matches!(started, Err(StartError::Acquire(AcquireError::Misconfigured(_)))), "{started:?}");
}

#[test]
fn slots_that_rest_for_less_than_clocks_may_be_apart_are_not_started_with() {
    let store = memory();
    let (secs, short) = (Duration::from_secs, || pool(&store, 4).with_cool_down(Duration::from_secs(9)));
    let refused = OptionsError::CoolDown { cool_down: secs(9), skew: secs(10) };
    let started = Manager::start(short(), Options::new());
    assert_eq!(started.err(), Some(StartError::Options(refused)));
    let (fixed, leased): (Box<dyn Strategy>, Box<dyn Strategy>) = (Box::new(Fixed(3)), Box::new(short()));
    for guarded in [Guarded::new(fixed, short(), "db-1"), Guarded::new(leased, pool(&store, 4), "db-1")] {
        assert_eq!(Manager::start(guarded, Options::new()).err(), Some(StartError::Options(refused)));
    }
    let started = Manager::start(short(), Options::new().max_clock_skew(secs(9)));
    started.expect("clocks that agree better").stop();
}

#[test]
fn a_manager_makes_ids_under_the_slots_number_and_gives_it_back() {
    let store = memory();
    let manager = Manager::start(pool(&store, 512).with_label("a test"), Options::new()).expect("a slot");
    let ids = manager.sortable::<Id64>();
    let id = ids.next().expect("held");
    assert_eq!(Some(Layout::<Id64>::default().decode(id).machine_id), manager.machine_id());
    let seen = block_on(store.slots(name())).expect("a look");
    let label = seen.slots.iter().find_map(|slot| slot.occupant.as_ref()?.label.clone());
    assert_eq!(label.as_deref(), Some("a test"));
    manager.stop();
    assert_eq!(holders(&store), 0);
    assert_eq!(ids.next(), Err(IdError::Disabled(Reason::Stopped)));
    // The mark was lowered to what was used, not left at the end of the reserved hours.
    let seen = block_on(store.slots(name())).expect("a look");
    assert!(seen.slots.iter().all(|slot| slot.mark <= seen.wall + Duration::from_secs(60)), "{seen:?}");
}

#[test]
fn a_pool_that_runs_short_is_told_of() {
    let store = memory();
    let counted = |pool: &PoolLease| pool.left(&CALL).map(|left| (left.free, left.of, left.is_short()));
    let holders: Vec<_> = (0..9).map(|_| held(&pool(&store, 11))).collect();
    assert_eq!(counted(&pool(&store, 11)), Some((2, 11, false)));
    let (sender, notices) = std::sync::mpsc::channel();
    let manager = Manager::start_with(pool(&store, 11), Options::new(), move |notice| {
        let _ = sender.send(notice);
    });
    let manager = manager.expect("the last but one");
    let mut notices = std::iter::from_fn(|| notices.recv_timeout(Duration::from_secs(60)).ok());
    let short = notices.find_map(|notice| match notice {
        Notice::RunsShort { left } => Some((left.free, left.of)),
        _ => None,
    });
    assert_eq!(short, Some((1, 11)));
    // What was given back cools down first; a part of the pool is counted by itself.
    pool(&store, 11).release(&holders[0].lease, &CALL);
    assert_eq!(counted(&pool(&store, 11)), Some((1, 11, true)));
    assert_eq!(
        counted(&pool(&store, 11).with_range(SlotRange::new(9, 40).expect("a range"))),
        Some((1, 2, false))
    );
    store.advance(PoolClaim::COOL_DOWN);
    assert_eq!(counted(&pool(&store, 11)), Some((2, 11, false)));
    // Who can do with fewer slots is told of these alone: the first has rested, all others are held.
    assert_eq!(counted(&pool(&store, 9)), Some((1, 9, false)));
    manager.stop();
}

#[test]
fn two_pools_in_one_process_have_nothing_to_do_with_each_other() {
    let store = memory();
    let other = ResourceName::new("others").expect("a name");
    let one = Manager::start(pool(&store, 1), Options::new()).expect("a slot");
    let other = PoolLease::new(Arc::clone(&store) as Arc<dyn Store>, other, 1);
    let two = Manager::start(other, Options::new()).expect("a slot");
    assert_eq!((one.machine_id(), two.machine_id()), (Some(0), Some(0)));
    let ids = (one.counter::<Id64>(), two.counter::<Id64>());
    one.stop();
    assert!(ids.0.next().is_err());
    assert!(ids.1.next().is_ok());
    two.stop();
}

/// A store that is lent for a call. The number is of those that are out.
struct Loan(Arc<MemoryStore>, Arc<AtomicUsize>);

impl Deref for Loan {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_store_on_loan_is_given_back_after_each_call() {
    let (store, lent, out) = (memory(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (lends, counts, is_out) = (Arc::clone(&store), Arc::clone(&lent), Arc::clone(&out));
    let lend = move || -> Result<Lent, StoreError> {
        if counts.fetch_add(1, Ordering::SeqCst) == 4 {
            return Err(StoreError::new(ErrorKind::Unreachable, "it is out of the house"));
        }
        is_out.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Loan(Arc::clone(&lends), Arc::clone(&is_out))))
    };
    let strategy: Box<dyn Strategy> = Box::new(PoolLease::on_loan(lend, name(), 2));
    assert!(!strategy.deterministic());
    let first = held(&strategy);
    let renewed = strategy.renew(&first.lease, HOUR, &CALL).expect("held");
    assert_eq!(strategy.left(&CALL), Some(Left { free: 1, of: 2 }));
    strategy.release(&renewed.lease, &CALL);
    assert_eq!(holders(&store), 0);
    assert_eq!((lent.load(Ordering::SeqCst), out.load(Ordering::SeqCst)), (4, 0));
    // Without it nobody knows.
    assert!(matches!(strategy.renew(&first.lease, HOUR, &CALL), Err(RenewError::Retry(_))));
}

/// A static list with a mistake in it.
#[test]
fn of_two_identities_with_one_id_the_later_one_stops() {
    let store = memory();
    let guarded = |identity: &str| Guarded::new(Fixed(3), pool(&store, 512), identity);
    let first = Manager::start(guarded("db-1"), Options::new()).expect("it is the first");
    let (sender, notices) = std::sync::mpsc::channel();
    let second = Manager::start_with(guarded("db-2"), Options::new(), move |notice| {
        let _ = sender.send(notice);
    });
    let Err(StartError::Acquire(AcquireError::Conflict(why))) = second else { panic!("{second:?}") };
    assert!(why.contains("machine ID 3"), "{why}");
    let told = notices.recv_timeout(Duration::from_secs(60));
    assert_eq!(told, Ok(Notice::Conflict { why }));
    assert_eq!(first.machine_id(), Some(3));
    assert!(first.counter::<Id64>().next().is_ok());
    first.stop();
    // Left by its holder, it is only cooling down: no conflict, and worth waiting for.
    assert!(matches!(refused(&guarded("db-2")), AcquireError::Exhausted(_)));
    store.advance(PoolClaim::COOL_DOWN);
    assert_eq!(held(&guarded("db-2")).machine_id, 3);
}

#[test]
fn a_guarded_id_is_its_identitys_again_after_a_crash() {
    let store = memory();
    let guarded = || Guarded::new(Fixed(3), pool(&store, 512), "db-1");
    let (before, after) = (held(&guarded()), held(&guarded()));
    assert_eq!((before.machine_id, after.machine_id), (3, 3));
    assert!(matches!(guarded().renew(&before.lease, HOUR, &CALL), Err(RenewError::Lost(_))));
    let renewed = guarded().renew(&after.lease, HOUR, &CALL).expect("held");
    assert!(renewed.window.is_some());
    guarded().release(&renewed.lease, &CALL);
    assert_eq!(holders(&store), 0);
}

#[test]
fn a_guard_knows_how_many_its_strategy_has_left() {
    let store = memory();
    let others = ResourceName::new("others").expect("a name");
    let inner = PoolLease::new(Arc::clone(&store) as Arc<dyn Store>, others, 4);
    let guarded = Guarded::new(inner, pool(&store, 512), "db-1");
    held(&guarded);
    assert_eq!(guarded.left(&CALL), Some(Left { free: 3, of: 4 }));
}

#[test]
fn nothing_guarded_starts_without_the_store() {
    let store = memory();
    let (_, pool) = faulty(&store, 512, &[Fault::DropRequest]);
    let guarded = Guarded::new(Fixed(3), pool, "db-1");
    assert!(matches!(refused(&guarded), AcquireError::Unreachable(_)));
}

/// And a store that is down at the start is waited for, in the time that a start has.
#[test]
fn a_guarded_manager_starts_when_the_store_is_there_and_not_before() {
    let store = memory();
    let start = |refusals: usize, timeout: Duration| {
        let (_, pool) = faulty(&store, 512, &vec![Fault::Refuse; refusals]);
        let options = Options::new().acquire_timeout(Some(timeout));
        Manager::start(Guarded::new(Fixed(3), pool, "db-1"), options)
    };
    let started = start(1_000, Duration::from_millis(400));
    assert!(matches!(started, Err(StartError::Acquire(AcquireError::Unreachable(_)))), "{started:?}");
    assert_eq!(holders(&store), 0);
    let manager = start(2, Duration::from_secs(60)).expect("it is back");
    assert_eq!((manager.machine_id(), holders(&store)), (Some(3), 1));
    manager.stop();
    assert_eq!(holders(&store), 0);
}

/// Who says what his process is, says so in the label; where nothing is to be taken over, a claim needs no look.
#[test]
fn the_process_is_written_down_where_a_later_claim_may_take_the_slot_over() {
    let store = memory();
    let labelled = || pool(&store, 8).with_label("a test").with_process_proof();
    held(&labelled());
    held(&labelled().with_exclusive_identity("pod-0"));
    held(&labelled().with_identity("web"));
    let seen = block_on(store.slots(name())).expect("a look");
    let labels: Vec<_> =
        seen.slots.iter().filter_map(|slot| slot.occupant.as_ref()?.label.as_deref()).collect();
    assert_eq!(labels[..2], ["a test", "a test"]);
    match lease_machines_os::Process::current() {
        Some(own) => assert_eq!(labels[2], format!("a test [{own}]")),
        None => assert_eq!(labels[2], "a test"),
    }
    // It lives: its slot is not taken over.
    assert_eq!(held(&labelled().with_identity("web")).machine_id, 3);
}

#[test]
fn a_look_that_fails_proves_nothing_and_keeps_nobody_from_claiming() {
    let store = memory();
    let looks = u16::from(lease_machines_os::Process::current().is_some());
    for fault in [Fault::DropRequest, Fault::DropReply, Fault::Refuse] {
        let script = vec![fault; looks.into()];
        let (_, pool) = faulty(&store, 8, &script);
        held(&pool.with_identity("web").with_process_proof());
        store.advance(Duration::from_millis(1));
    }
    assert_eq!(holders(&store), 3);
}
