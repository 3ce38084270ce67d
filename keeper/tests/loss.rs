//! What has gone wrong for others with leases, and must not here. Each test names the report it comes from.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lease_machines::Fence;
use lease_machines_keeper::{HoldError, HoldOptions, LeaseState, LossReason, Verdict};
use lease_machines_store::{ErrorKind, WorkResult};
use support::{Call, Fault, World, ms, options, secs};

/// etcd-io/etcd#11456, #9921: a waiter was granted the lock after its own lease had ended.
#[tokio::test]
async fn a_grant_lies_in_the_future_when_it_is_returned() {
    // The store decides at once, and its answer takes longer and longer.
    for late in [ms(0), ms(500), ms(7_000), ms(8_000), ms(29_000), ms(31_000), ms(45_000)] {
        let world = World::new();
        world.toy.plan(Call::Acquire, [Fault::AnsweredLate(late)]);
        let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
        let hold = tokio::spawn(async move {
            let guard = scheduler.hold("a", options()).await?;
            assert!(guard.may_act(), "granted {late:?} late, {:?} left", guard.remaining());
            Ok::<_, HoldError>(guard)
        });
        clock.pass(secs(60)).await;
        drop(hold.await.unwrap().unwrap());
    }
}

/// etcd-io/etcd#11456, #9921: a waiter past its own deadline was granted.
#[tokio::test]
async fn a_waiter_past_its_deadline_is_never_granted() {
    let world = World::new();
    let first = world.scheduler.hold("a", options()).await.unwrap();
    let (second, clock) = (world.other(), world.clock.clone());
    let wait = tokio::spawn(async move { second.hold("a", options().wait(secs(3))).await });
    clock.pass(ms(2_900)).await;
    // The release is seen at once; the answer to the acquire that follows comes after the wait is over.
    world.toy.plan(Call::Acquire, [Fault::AnsweredLate(ms(200))]);
    drop(first);
    clock.pass(secs(2)).await;
    let error = wait.await.unwrap().unwrap_err();
    assert!(matches!(error, HoldError::Unreachable { .. } | HoldError::Occupied(_)), "{error}");
    assert_eq!(world.toy.holder("a"), None, "what was granted too late is given back");
}

/// etcd#10811, apache/curator#727: a paused holder went on writing beside its successor.
#[tokio::test]
async fn a_holder_that_was_frozen_is_refused_before_its_successor_has_written() {
    let world = World::new();
    let mut resource = Fence::new(None);
    let first = world.scheduler.hold("a", options()).await.unwrap();
    assert!(resource.accept(first.token()));
    // Frozen past its ttl; neither its scheduler nor its work runs.
    world.clock.advance(secs(31));
    assert_eq!(first.state(), LeaseState::Expired, "before any call succeeds");
    assert!(!first.may_act());
    assert!(matches!(first.loss(), Some(LossReason::Expired)));
    let second = world.other().hold("a", options()).await.unwrap();
    // The successor advances the mark before it writes.
    assert!(resource.accept(second.token()));
    assert!(!resource.accept(first.token()));
    assert!(matches!(first.release(WorkResult::Good).await, Verdict::Lost(LossReason::Expired)));
    assert!(second.may_act(), "whose lease is none of the first one's business");
}

/// redisson#7272, awslabs lock client PR#116: a renewal raced release and kept a released lock alive.
#[tokio::test]
async fn once_release_has_returned_nothing_extends_the_lease() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Renew, [Fault::Late(secs(3))]);
    world.clock.pass(secs(11)).await;
    assert_eq!(world.toy.calls(Call::Renew), 1, "it is on its way");
    assert!(guard.release(WorkResult::Good).await.stood());
    assert_eq!(world.toy.holder("a"), None);
    world.clock.pass(secs(30)).await;
    assert_eq!(world.toy.holder("a"), None);
    assert_eq!(world.toy.calls(Call::Renew), 1, "and none is sent after it");
}

/// swarthy/redis-semaphore#175, redlock-rb#36: a late renewal silently took the lock again.
#[tokio::test]
async fn a_late_renewal_says_expired_and_takes_nothing() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    // The store's clock ends the lease; the holder's has 20 s to go.
    world.toy.jump_ahead(secs(25));
    world.clock.pass(secs(10)).await;
    assert!(matches!(guard.lost().await, LossReason::Expired));
    assert_eq!(world.toy.holder("a"), None);
    world.clock.pass(secs(60)).await;
    assert_eq!(world.toy.holder("a"), None, "nothing takes it again behind the work's back");
    let again = world.scheduler.hold("a", options()).await.unwrap();
    assert!(again.token() > guard.token());
    assert_eq!(world.toy.calls(Call::Reacquire), 0);
}

/// cirello-io/dynamolock#446: the loss callback never came when the store swallowed every packet.
#[tokio::test]
async fn a_store_that_swallows_everything_is_lost_by_the_local_clock() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.black_hole();
    world.clock.pass(ms(19_979)).await;
    assert_eq!(guard.state(), LeaseState::Unconfirmed);
    world.clock.pass(ms(1)).await;
    assert_eq!(guard.state(), LeaseState::AtRisk, "a third of 29.97 s before the deadline");
    assert!(guard.may_act());
    world.clock.pass(ms(9_989)).await;
    assert!(guard.may_act());
    let lost = tokio::spawn({
        let lease = guard.lease();
        async move { lease.lost().await }
    });
    world.clock.pass(ms(1)).await;
    assert!(!guard.may_act());
    assert!(lost.is_finished(), "told at the deadline, to the millisecond");
    assert!(matches!(lost.await.unwrap(), LossReason::Unreachable { last: None }));
    assert!(world.toy.calls(Call::Renew) >= 3, "{} attempts", world.toy.calls(Call::Renew));
}

/// rails/rails#58658, DistributedLock#133: the session died, the driver reconnected, the block went on without its lock.
#[tokio::test]
async fn a_connection_that_dies_inside_the_work_decides_nothing() {
    // It comes back in time: the lease goes on under its token.
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let died = Fault::Fails(ErrorKind::Unreachable);
    world.toy.plan(Call::Renew, [died, died, Fault::DoneButFails(ErrorKind::Unreachable), died]);
    world.clock.pass(secs(40)).await;
    assert!(guard.may_act());
    assert_eq!(world.toy.holder("a").unwrap().1, guard.token());

    // It does not: the work is told at the deadline, with what was said last.
    world.toy.always(Call::Renew, died);
    world.clock.pass(secs(40)).await;
    let LossReason::Unreachable { last: Some(error) } = guard.lost().await else { panic!() };
    assert_eq!(error.kind(), ErrorKind::Unreachable);

    // Another took it meanwhile: told so.
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Renew, [died]);
    world.clock.pass(secs(9)).await;
    world.toy.revoke_now("a");
    let next = world.other().hold("a", options()).await.unwrap();
    world.clock.pass(secs(4)).await;
    let LossReason::Taken { by: Some(by) } = guard.lost().await else { panic!() };
    assert_eq!(by.owner, next.owner());
}

/// reinhardt-web#2719, node-redlock#120: sub-second ttls became 0, or errors that mislead. lyokato/redlock#21: a
/// thousand times too long.
#[tokio::test]
async fn short_ttls_are_exact() {
    for ttl in [ms(2), ms(500), ms(1_500)] {
        let world = World::new();
        let guard = world.scheduler.hold("a", HoldOptions::new().ttl(ttl)).await.unwrap();
        assert_eq!(world.toy.occupant("a").unwrap().remaining, ttl);
        let drift = (ttl / 1_000).max(ms(1));
        assert_eq!(guard.remaining(), ttl - drift);
        world.clock.pass(ttl * 20).await;
        assert!(guard.may_act(), "renewed all along");
    }
    // 1 ms less 1 ms of drift allowance is nothing: never granted, and nothing stays held.
    let world = World::new();
    let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
    let hold = tokio::spawn(async move { scheduler.hold("a", HoldOptions::new().ttl(ms(1))).await });
    clock.pass(secs(1)).await;
    let error = hold.await.unwrap().unwrap_err();
    assert!(matches!(error, HoldError::Unreachable { .. }), "{error}");
    assert_eq!(world.toy.holder("a"), None);
}

/// lyokato/redlock#21: another's lock was released.
#[tokio::test]
async fn a_release_frees_nobody_elses_lease() {
    let world = World::new();
    let first = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.revoke_now("a");
    let second = world.other().hold("a", options()).await.unwrap();
    // The first one does not know yet.
    assert!(first.may_act());
    let verdict = first.release(WorkResult::Good).await;
    let Verdict::Lost(LossReason::Taken { by: Some(by) }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(by.owner, second.owner());
    assert_eq!(world.toy.holder("a").unwrap().0, second.owner());
}

/// etcd#12291, ShedLock#231: clock steps, and clocks minutes apart, gave two holders or a stuck lock.
#[tokio::test]
async fn clocks_that_are_minutes_apart_make_one_holder() {
    let world = World::new();
    world.toy.jump_ahead(secs(600));
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    assert_eq!(guard.remaining(), ms(29_970));
    world.clock.pass(secs(100)).await;
    assert!(guard.may_act());
    assert!(matches!(world.other().hold("a", options()).await, Err(HoldError::Occupied(_))));
    // The store's clock steps on by an hour: the lease ends early there, and the fence orders the writes.
    let mut resource = Fence::new(None);
    world.toy.jump_ahead(secs(3_600));
    let next = world.other().hold("a", options()).await.unwrap();
    assert!(resource.accept(next.token()));
    assert!(guard.may_act(), "it cannot know yet");
    assert!(!resource.accept(guard.token()));
    world.clock.pass(secs(12)).await;
    assert!(matches!(guard.loss(), Some(LossReason::Taken { .. })));
}

/// rust-lang/rust#87906: `Instant` stands still while the machine sleeps.
#[tokio::test]
async fn a_machine_that_slept_past_the_deadline_knows_before_anyone_sees_confirmed() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.clock.pass(secs(5)).await;
    let renewals = world.toy.calls(Call::Renew);
    world.clock.advance(secs(8 * 3_600));
    assert_eq!(guard.state(), LeaseState::Expired);
    assert!(!guard.may_act());
    assert!(matches!(guard.lost().await, LossReason::Expired));
    assert_eq!(world.toy.calls(Call::Renew), renewals, "decided by the clock before anything is sent");

    // One that slept, but not past the deadline, renews at once.
    let guard = world.scheduler.hold("b", options()).await.unwrap();
    world.clock.advance(secs(25));
    assert_eq!(guard.state(), LeaseState::AtRisk);
    world.clock.pass(ms(800)).await;
    assert_eq!(guard.state(), LeaseState::Confirmed);
}

/// kubernetes#23731: a holder that lost a race was never told.
#[tokio::test]
async fn the_first_answer_that_shows_another_holder_ends_it_once() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let lease = guard.lease();
    let count = Arc::clone(&told);
    tokio::spawn(async move {
        let mut states = lease.watch();
        while states.changed().await.is_ok() {
            if *states.borrow_and_update() == LeaseState::Expired {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    world.toy.revoke_now("a");
    let _next = world.other().hold("a", options()).await.unwrap();
    world.clock.pass(secs(9)).await;
    assert_eq!(told.load(Ordering::Relaxed), 0);
    world.clock.pass(ms(1_500)).await;
    assert_eq!(world.toy.calls(Call::Renew), 2, "one of each holder: the first one shows it");
    assert_eq!(told.load(Ordering::Relaxed), 1);
    world.clock.pass(secs(120)).await;
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert!(matches!(guard.loss(), Some(LossReason::Taken { .. })), "and the first reason counts");
}

/// kubernetes PR#139991, cilium PR#42920: released while the guarded work still ran.
#[tokio::test]
async fn work_ends_before_its_lease_does() {
    struct Work(Arc<Mutex<Vec<&'static str>>>, Arc<support::Toy>);
    impl Drop for Work {
        fn drop(&mut self) {
            let held = self.1.holder("a").is_some();
            self.0.lock().unwrap().push(if held { "ended while held" } else { "ended after release" });
        }
    }
    // It hangs: it is dropped at the deadline, before the store lets the next one in.
    let world = World::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (scheduler, clock, toy) = (world.scheduler.clone(), world.clock.clone(), Arc::clone(&world.toy));
    let work = Work(Arc::clone(&log), Arc::clone(&toy));
    let run = tokio::spawn(async move {
        let hang = |_| async move {
            let _work = work;
            std::future::pending::<Result<(), ()>>().await
        };
        scheduler.with_lease("a", options(), hang).await
    });
    clock.pass(secs(1)).await;
    toy.black_hole();
    clock.pass(secs(40)).await;
    let worked = run.await.unwrap().unwrap();
    assert!(worked.value.is_none());
    assert!(matches!(worked.verdict, Verdict::Lost(LossReason::Unreachable { .. })), "{:?}", worked.verdict);
    assert_eq!(*log.lock().unwrap(), ["ended while held"]);

    // It ends: the release comes after its last step.
    let world = World::new();
    let work = Work(Arc::clone(&log), Arc::clone(&world.toy));
    let step = |_| async move {
        let _work = work;
        Ok::<_, ()>(())
    };
    assert!(world.scheduler.with_lease("a", options(), step).await.unwrap().is_good());
    assert_eq!(*log.lock().unwrap(), ["ended while held"; 2]);
    assert_eq!(world.toy.holder("a"), None);
}

/// simstudioai/sim#6864: the answer was lost, so nobody owned the lock until its ttl.
#[tokio::test]
async fn an_acquire_whose_answer_was_lost_is_repeated_safely() {
    for lost in [Fault::Unanswered, Fault::DoneButFails(ErrorKind::Unreachable)] {
        let world = World::new();
        world.toy.plan(Call::Acquire, [lost]);
        let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
        let hold = tokio::spawn(async move { scheduler.hold("a", options()).await });
        clock.pass(secs(8)).await;
        let guard = hold.await.unwrap().unwrap();
        assert_eq!(world.toy.calls(Call::Reacquire), 1);
        assert_eq!(world.toy.holder("a"), Some((guard.owner(), guard.token())));
    }
    // A ttl of a day: whoever asked is gone, and nobody holds it longer than the first term.
    let world = World::new();
    world.toy.plan(Call::Acquire, [Fault::Unanswered]);
    world.toy.always(Call::Withdraw, Fault::Swallowed);
    let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
    let hold = tokio::spawn(async move { scheduler.hold("a", HoldOptions::new().ttl(secs(86_400))).await });
    clock.pass(secs(1)).await;
    hold.abort();
    clock.pass(secs(28)).await;
    assert!(world.toy.holder("a").is_some());
    clock.pass(secs(1)).await;
    assert_eq!(world.toy.holder("a"), None);
}

/// etcd#14857: the server granted another ttl than asked.
#[tokio::test]
async fn the_granted_ttl_is_the_one_that_counts() {
    let world = World::new();
    world.toy.grant_at_most(secs(6));
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    assert_eq!(guard.remaining(), ms(5_994));
    world.clock.pass(secs(100)).await;
    assert!(guard.may_act(), "renewed at the pace of what is granted");
    world.toy.black_hole();
    world.clock.pass(secs(6)).await;
    assert!(!guard.may_act());
}

/// solid_queue PR#761: a second release freed a slot that another held.
#[tokio::test]
async fn a_second_release_frees_nothing() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    // The store has done the first release, and takes the second only after another has come.
    world.toy.plan(Call::Release, [Fault::Unanswered, Fault::Late(ms(100))]);
    let release = tokio::spawn(guard.release(WorkResult::Good));
    world.clock.pass(secs(1)).await;
    let next = world.other().hold("a", options()).await.unwrap();
    world.clock.pass(secs(25)).await;
    assert!(release.is_finished());
    assert_eq!(world.toy.holder("a").unwrap().0, next.owner());
    assert!(next.may_act());
}
