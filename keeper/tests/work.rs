//! Work that runs under a lease.

mod support;

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease_machines_keeper::{
    Advanced, Clock, FenceMark, HoldError, LeaseState, LossReason, MarkError, StopCause, Verdict, sleep_until,
};
use lease_machines_store::{LeaseRef, WorkResult};
use support::{Call, Fault, World, ms, options, secs};

#[tokio::test]
async fn work_returns_its_value_under_a_lease_that_stood() {
    let world = World::new();
    let work = async |lease: lease_machines_keeper::Lease| {
        assert!(lease.may_act());
        assert_eq!(world.toy.holder("a"), Some((lease.owner(), lease.token())));
        Ok::<_, ()>(42)
    };
    let worked = world.scheduler.with_lease("a", options().once("key"), work).await.unwrap();
    assert!(worked.is_good());
    assert_eq!(worked.value, Some(Ok(42)));
    assert!(worked.stopped.is_none());
    let ending = world.toy.ending("a").unwrap();
    assert_eq!((ending.result, ending.once.as_deref()), (WorkResult::Good, Some("key")));
}

#[tokio::test]
async fn work_that_fails_is_not_done() {
    let world = World::new();
    let work = async |_| Err::<(), _>("no");
    let worked = world.scheduler.with_lease("a", options().once("key"), work).await.unwrap();
    assert!(!worked.is_good());
    assert!(worked.verdict.stood());
    assert_eq!(worked.value, Some(Err("no")));
    let ending = world.toy.ending("a").unwrap();
    assert_eq!((ending.result, ending.once), (WorkResult::Failed, None));
}

#[tokio::test]
async fn work_that_panics_releases_as_failed() {
    let world = World::new();
    let scheduler = world.scheduler.clone();
    let run = tokio::spawn(async move {
        let work = async |_| -> Result<(), ()> { panic!("of its own accord") };
        scheduler.with_lease("a", options().once("key"), work).await.map(|worked| worked.value)
    });
    assert!(run.await.unwrap_err().is_panic(), "the panic goes on to the caller");
    world.scheduler.shutdown(secs(1)).await.unwrap();
    assert_eq!(world.toy.holder("a"), None);
    assert_eq!(world.toy.ending("a").unwrap().result, WorkResult::Failed);
}

#[tokio::test]
async fn work_is_dropped_at_loss_and_told_why() {
    let world = World::new();
    let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancelled);
    let run = tokio::spawn(async move {
        let work = async |lease: lease_machines_keeper::Lease| {
            let token = lease.cancellation_token();
            tokio::spawn(async move {
                token.cancelled().await;
                flag.store(true, Ordering::Relaxed);
            });
            pending::<Result<(), ()>>().await
        };
        scheduler.with_lease("a", options(), work).await
    });
    clock.pass(secs(5)).await;
    world.toy.revoke_now("a");
    clock.pass(secs(5)).await;
    let worked = run.await.unwrap().unwrap();
    assert!(worked.value.is_none());
    assert!(matches!(worked.stopped, Some(StopCause::Lost(LossReason::Revoked))), "{:?}", worked.stopped);
    assert!(matches!(worked.verdict, Verdict::Lost(LossReason::Revoked)));
    assert!(cancelled.load(Ordering::Relaxed), "what it spawned could hear of it");
}

/// rust-lang/rust#87906: on waking past the deadline the work does not get another turn, whoever is woken first.
#[tokio::test]
async fn work_that_overslept_does_not_go_on() {
    let world = World::new();
    let steps = Rc::new(Cell::new(0));
    let count = Rc::clone(&steps);
    let clock = world.clock.clone();
    let work = async |_| {
        loop {
            count.set(count.get() + 1);
            sleep_until(&clock, clock.now() + secs(1)).await;
        }
        #[allow(unreachable_code, reason = "says what the work would return")]
        Ok::<(), ()>(())
    };
    let run = world.scheduler.with_lease("a", options(), work);
    let sleep = async {
        world.clock.pass(ms(3_500)).await;
        // The lid is shut. On waking, the work's turn comes before the scheduler's.
        world.clock.advance(secs(3_600));
        pending::<()>().await
    };
    let worked = tokio::select! {
        biased;
        () = sleep => unreachable!(),
        worked = run => worked.unwrap(),
    };
    assert_eq!(steps.get(), 4, "at 0, 1, 2 and 3 s");
    assert!(matches!(worked.stopped, Some(StopCause::Lost(LossReason::Expired))), "{:?}", worked.stopped);
    assert_eq!(world.toy.calls(Call::Renew), 0);
}

#[tokio::test]
async fn max_hold_ends_work_that_hangs() {
    let world = World::new();
    let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
    let run = tokio::spawn(async move {
        let hang = async |_| pending::<Result<(), ()>>().await;
        scheduler.with_lease("a", options().max_hold(secs(90)), hang).await
    });
    clock.pass(ms(89_999)).await;
    assert!(!run.is_finished());
    assert!(world.toy.holder("a").is_some());
    clock.pass(ms(1)).await;
    let worked = run.await.unwrap().unwrap();
    assert!(worked.value.is_none());
    assert!(matches!(worked.stopped, Some(StopCause::MaxHold)));
    assert!(worked.verdict.stood(), "it was released in order");
    assert_eq!(world.toy.ending("a").unwrap().result, WorkResult::Failed);
}

#[tokio::test]
async fn max_hold_tells_a_guard_and_takes_nothing_from_it() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options().max_hold(secs(90))).await.unwrap();
    let token = guard.cancellation_token();
    world.clock.pass(ms(89_999)).await;
    assert!(!token.is_cancelled());
    world.clock.pass(secs(100)).await;
    assert!(token.is_cancelled());
    assert!(matches!(guard.stopped().await, StopCause::MaxHold));
    assert!(guard.may_act(), "renewed until it has ended");
    assert!(guard.release(WorkResult::Good).await.stood());
}

#[tokio::test]
async fn work_whose_release_is_not_answered_is_unconfirmed() {
    let world = World::new();
    world.toy.always(Call::Release, Fault::Unanswered);
    let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
    let run =
        tokio::spawn(async move { scheduler.with_lease("a", options(), async |_| Ok::<_, ()>(7)).await });
    clock.pass(secs(31)).await;
    let worked = run.await.unwrap().unwrap();
    assert_eq!(worked.value, Some(Ok(7)));
    assert!(matches!(worked.verdict, Verdict::Unconfirmed));
    assert!(!worked.is_good());
}

#[tokio::test]
async fn work_is_not_begun_without_the_lease() {
    let world = World::new();
    let _other = world.other().hold("a", options()).await.unwrap();
    let work = async |_| -> Result<(), ()> { unreachable!("not begun") };
    let error = world.scheduler.with_lease("a", options(), work).await.unwrap_err();
    assert!(matches!(error, HoldError::Occupied(_)));
}

#[tokio::test]
async fn the_lease_outlives_its_work_as_a_word_only() {
    let world = World::new();
    let kept = Rc::new(Cell::new(None));
    let keep = Rc::clone(&kept);
    let work = async |lease: lease_machines_keeper::Lease| {
        keep.set(Some(lease));
        Ok::<_, ()>(())
    };
    assert!(world.scheduler.with_lease("a", options(), work).await.unwrap().is_good());
    let lease = kept.take().unwrap();
    assert_eq!(lease.state(), LeaseState::Ended);
    assert!(!lease.may_act() && lease.remaining().is_zero());
    assert!(lease.cancellation_token().is_cancelled());
    assert!(matches!(lease.stopped().await, StopCause::Ended));
}

/// What a mark does when it is to be advanced.
enum Mark {
    Rises(Arc<AtomicBool>),
    Stale,
    Fails,
    Hangs,
}

impl FenceMark for Mark {
    fn advance(&self, lease: LeaseRef) -> Advanced<'_> {
        Box::pin(async move {
            match self {
                Self::Rises(risen) => {
                    assert!(!risen.swap(true, Ordering::Relaxed), "once");
                    Ok(())
                }
                Self::Stale => Err(MarkError::Stale { held: lease.token, highest: None }),
                Self::Fails => Err(MarkError::Unavailable("no route".into())),
                Self::Hangs => pending().await,
            }
        })
    }
}

#[tokio::test]
async fn marks_are_advanced_before_the_work_begins() {
    let world = World::new();
    let risen = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
    let mut options = options();
    for risen in &risen {
        options = options.fence(Arc::new(Mark::Rises(Arc::clone(risen))));
    }
    let work = async |_| {
        assert!(risen.iter().all(|risen| risen.load(Ordering::Relaxed)));
        Ok::<_, ()>(())
    };
    assert!(world.scheduler.with_lease("a", options, work).await.unwrap().is_good());
}

#[tokio::test]
async fn without_its_mark_no_work_begins_and_nothing_stays_held() {
    for (mark, text) in [
        (Mark::Stale, "\"a\" was not begun: the fence has seen a newer token than "),
        (Mark::Fails, "\"a\" was not begun: the fence's mark could not be advanced: no route"),
    ] {
        let world = World::new();
        let options = options().fence(Arc::new(mark)).at_least(secs(600));
        let error = world.scheduler.hold("a", options).await.unwrap_err();
        assert!(matches!(error, HoldError::Fence { .. }));
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(world.toy.holder("a"), None);
    }
}

#[tokio::test]
async fn a_mark_that_hangs_is_waited_for_during_the_first_term() {
    let world = World::new();
    let options = options().ttl(secs(600)).fence(Arc::new(Mark::Hangs));
    let (scheduler, clock) = (world.scheduler.clone(), world.clock.clone());
    let hold = tokio::spawn(async move { scheduler.hold("a", options).await });
    clock.pass(secs(29)).await;
    assert!(!hold.is_finished());
    clock.pass(secs(1)).await;
    let error = hold.await.unwrap().unwrap_err();
    assert!(matches!(error, HoldError::Fence { .. }), "{error}");
    assert_eq!(world.toy.holder("a"), None);
    assert_eq!(world.toy.calls(Call::Renew), 0);
}
