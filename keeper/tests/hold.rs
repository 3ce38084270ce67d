//! What a guard says while it is held, and when it is lost.

mod support;

use lease_machines_keeper::{HoldError, LeaseState, LossReason, StopCause, Verdict};
use lease_machines_store::{Ending, ErrorKind, Released, Store, WorkResult};
use support::{Call, Fault, World, ms, options, secs};

#[tokio::test]
async fn a_lease_is_taken_renewed_and_released() {
    let world = World::new();
    let guard = world.scheduler.hold("db/backup", options().label("me")).await.unwrap();
    assert_eq!(world.toy.holder("db/backup"), Some((guard.owner(), guard.token())));
    assert_eq!(guard.state(), LeaseState::Confirmed);
    assert!(guard.may_act());
    assert_eq!(guard.remaining(), ms(29_970), "30 s less a thousandth for drift");

    world.clock.pass(secs(300)).await;
    assert!(guard.may_act());
    assert!((28..=31).contains(&world.toy.calls(Call::Renew)), "{}", world.toy.calls(Call::Renew));

    let lease = guard.lease();
    assert!(guard.release(WorkResult::Good).await.stood());
    assert_eq!(world.toy.holder("db/backup"), None);
    assert_eq!(lease.state(), LeaseState::Ended);
    assert!(!lease.may_act());
    assert!(lease.loss().is_none());
}

#[tokio::test]
async fn dropping_the_guard_releases_in_the_background() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let lease = guard.lease();
    drop(guard);
    assert!(!lease.may_act(), "from the drop on, whatever the store says");
    world.scheduler.shutdown(secs(1)).await.unwrap();
    assert_eq!(world.toy.holder("a"), None);
    assert_eq!(world.toy.ending("a").unwrap().result, WorkResult::Unknown);
}

#[tokio::test]
async fn shutdown_waits_no_longer_than_it_may() {
    let world = World::new();
    drop(world.scheduler.hold("a", options()).await.unwrap());
    let held = world.scheduler.hold("b", options()).await.unwrap();
    world.toy.black_hole();
    drop(held);
    let (clock, scheduler) = (world.clock.clone(), world.scheduler.clone());
    let shutdown = tokio::spawn(async move { scheduler.shutdown(secs(3)).await });
    clock.pass(ms(2_999)).await;
    assert!(!shutdown.is_finished());
    clock.pass(ms(1)).await;
    assert_eq!(shutdown.await.unwrap().unwrap_err().leases, 1);
}

#[tokio::test]
async fn who_does_not_wait_is_told_who_holds_it() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options().label("first@host:1")).await.unwrap();
    world.clock.pass(secs(7)).await;
    let error = world.other().hold("a", options()).await.unwrap_err();
    let text = error.to_string();
    let HoldError::Occupied(occupied) = error else { panic!("{error:?}") };
    let by = occupied.by.unwrap();
    assert_eq!((by.owner, by.token), (guard.owner(), guard.token()));
    assert_eq!((by.held_for, by.remaining), (secs(7), secs(23)));
    assert_eq!(occupied.waited, secs(0));
    let owner = guard.owner().value();
    assert_eq!(
        text,
        format!(
            "\"a\" is held by owner {owner} (first@host:1) under token {}, for 7s already, 23s to go",
            guard.token().value()
        )
    );
}

#[tokio::test]
async fn a_revoked_lease_is_lost_at_the_next_renewal() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let stopped = guard.cancellation_token();
    world.toy.revoke_now("a");
    world.clock.pass(secs(10)).await;
    assert!(matches!(guard.lost().await, LossReason::Revoked));
    assert!(stopped.is_cancelled());
    assert!(matches!(guard.stopped().await, StopCause::Lost(LossReason::Revoked)));
    assert!(matches!(guard.release(WorkResult::Good).await, Verdict::Lost(LossReason::Revoked)));
    assert_eq!(world.toy.calls(Call::Release), 0, "what is lost is not released");
}

#[tokio::test]
async fn a_lease_that_was_taken_names_who_took_it() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.revoke_now("a");
    let next = world.other().hold("a", options().label("next")).await.unwrap();
    world.clock.pass(secs(10)).await;
    let LossReason::Taken { by: Some(by) } = guard.lost().await else { panic!("{:?}", guard.loss()) };
    assert_eq!((by.owner, by.token), (next.owner(), next.token()));
    let text = guard.loss().unwrap().to_string();
    let owner = next.owner().value();
    assert_eq!(text, format!("the lease was taken by owner {owner} (next) under token {}", by.token.value()));
}

#[tokio::test]
async fn a_new_epoch_ends_every_lease_of_the_old_one() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let held = guard.epoch();
    let opened = world.toy.new_epoch();
    world.clock.pass(secs(10)).await;
    let LossReason::NewEpoch { held: of, current } = guard.lost().await else { panic!("{:?}", guard.loss()) };
    assert_eq!(of, held);
    assert_eq!(current, Some(opened));
    drop(guard);
    let next = world.scheduler.hold("a", options()).await.unwrap();
    assert_eq!(Some(next.epoch()), current);
}

/// "Already released" counts as *stood* only where it may be the echo of a release of the guard's own.
#[tokio::test]
async fn a_lease_that_somebody_else_released_did_not_stand() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let released = world.toy.release(guard.lease_ref().clone(), Ending::default()).await.unwrap();
    assert_eq!(released, Released::Released);
    let verdict = guard.release(WorkResult::Good).await;
    assert!(matches!(verdict, Verdict::Lost(_)), "{verdict:?}");
}

#[tokio::test]
async fn a_refused_token_ends_the_lease_at_once() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    guard.fenced();
    assert_eq!(guard.state(), LeaseState::Fenced);
    assert!(!guard.may_act());
    assert!(matches!(guard.lost().await, LossReason::Fenced));
    assert!(matches!(guard.release(WorkResult::Good).await, Verdict::Lost(LossReason::Fenced)));
}

#[tokio::test]
async fn states_are_told_as_they_come() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let mut states = guard.watch();
    let seen = tokio::spawn(async move {
        let mut seen = vec![*states.borrow_and_update()];
        while states.changed().await.is_ok() {
            seen.push(*states.borrow_and_update());
            if *seen.last().unwrap() == LeaseState::Expired {
                break;
            }
        }
        seen
    });
    world.clock.pass(secs(12)).await;
    world.toy.black_hole();
    world.clock.pass(secs(60)).await;
    use LeaseState::{AtRisk, Confirmed, Expired, Unconfirmed};
    assert_eq!(seen.await.unwrap(), [Confirmed, Unconfirmed, Confirmed, Unconfirmed, AtRisk, Expired]);
}

#[tokio::test]
async fn a_release_without_an_answer_is_unconfirmed() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.always(Call::Release, Fault::Swallowed);
    let release = tokio::spawn(guard.release(WorkResult::Good));
    world.clock.pass(secs(31)).await;
    assert!(matches!(release.await.unwrap(), Verdict::Unconfirmed));
    assert!(world.toy.calls(Call::Release) >= 3, "{}", world.toy.calls(Call::Release));
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_still_stood() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Release, [Fault::Unanswered, Fault::DoneButFails(ErrorKind::Unreachable)]);
    let release = tokio::spawn(guard.release(WorkResult::Good));
    world.clock.pass(secs(29)).await;
    assert!(release.await.unwrap().stood());
    assert_eq!(world.toy.calls(Call::Release), 3);
}

#[tokio::test]
async fn a_release_that_is_dropped_goes_on() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Release, [Fault::Fails(ErrorKind::Busy)]);
    tokio::select! {
        biased;
        _ = guard.release(WorkResult::Good) => unreachable!("it has to try again first"),
        () = tokio::task::yield_now() => {}
    }
    world.clock.pass(secs(1)).await;
    assert_eq!(world.toy.holder("a"), None);
    assert_eq!(world.toy.ending("a").unwrap().result, WorkResult::Good);
}

#[tokio::test]
async fn an_engine_that_panics_costs_one_attempt() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Renew, [Fault::Panics]);
    world.clock.pass(secs(29)).await;
    assert!(guard.may_act());
    assert_eq!(guard.state(), LeaseState::Confirmed);
    assert!(guard.release(WorkResult::Good).await.stood());
}

#[tokio::test]
async fn a_store_that_refuses_ends_the_question_and_not_the_lease() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Renew, [Fault::Fails(ErrorKind::Permission)]);
    world.toy.plan(Call::Acquire, [Fault::Fails(ErrorKind::Permission)]);
    let error = world.scheduler.hold("b", options()).await.unwrap_err();
    assert!(matches!(error, HoldError::Refused { .. }), "{error}");
    world.clock.pass(secs(29)).await;
    assert!(guard.may_act(), "rights can come back until the deadline");
}

#[tokio::test]
async fn the_store_is_let_go_with_its_last_lease() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    let World { clock, toy, scheduler } = world;
    drop(scheduler);
    assert!(guard.release(WorkResult::Good).await.stood());
    clock.pass(secs(1)).await;
    assert_eq!(std::sync::Arc::strong_count(&toy), 1);
}

#[test]
fn a_runtime_that_is_shut_down_takes_its_leases_with_it() {
    let world = World::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let guard = first.block_on(world.scheduler.hold("a", options())).unwrap();
    assert!(guard.may_act());
    drop(first);
    assert!(!guard.may_act(), "nobody renews it any more");
    runtime().block_on(async {
        assert!(matches!(guard.lost().await, LossReason::RuntimeGone));
        assert!(matches!(guard.release(WorkResult::Good).await, Verdict::Lost(LossReason::RuntimeGone)));
        // The scheduler goes on in the runtime that asks next.
        let next = world.scheduler.hold("b", options()).await.unwrap();
        world.clock.pass(secs(60)).await;
        assert!(next.may_act());
    });
    let error = futures_blocking(world.scheduler.hold("c", options())).unwrap_err();
    assert!(matches!(error, HoldError::NoRuntime), "{error}");
}

#[test]
fn a_runtime_that_stands_still_keeps_nobody_elses_leases_from_going_on() {
    let world = World::new();
    let store: std::sync::Arc<dyn lease_machines_store::Store> =
        std::sync::Arc::<support::Toy>::clone(&world.toy);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stands, runs) = (runtime(), runtime());
    let _first = stands.block_on(lease_machines_keeper::hold(&store, "a", options())).unwrap();
    // From here on nobody polls the first runtime.
    runs.block_on(async {
        let second = lease_machines_keeper::hold(&store, "b", options());
        let second =
            tokio::time::timeout(secs(30), second).await.expect("it has a scheduler of its own").unwrap();
        assert!(second.release(WorkResult::Good).await.stood());
    });
}

/// etcd-io/etcd#11456: a grant that was looked at too late.
#[tokio::test]
async fn who_comes_for_a_lease_after_its_first_term_does_not_get_it() {
    let world = World::new();
    let mut hold = std::pin::pin!(world.scheduler.hold("a", options()));
    tokio::select! {
        biased;
        _ = hold.as_mut() => unreachable!("the store has not been asked yet"),
        () = std::future::ready(()) => {}
    }
    world.clock.pass(secs(31)).await;
    let error = hold.await.unwrap_err();
    assert!(matches!(error, HoldError::Lost { reason: LossReason::Expired, .. }), "{error}");
    assert_eq!(world.toy.calls(Call::Renew), 0);
    assert_eq!(world.toy.holder("a"), None);
}

#[tokio::test]
async fn calls_are_given_up_at_their_limits() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.black_hole();
    world.clock.pass(secs(29)).await;
    assert!(guard.may_act());
    assert!(world.toy.calls(Call::Renew) > 3);
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks <= 2, "the scheduler and the latest call, if one is under way; {tasks} tasks");
}

#[tokio::test]
async fn an_engine_that_forgets_what_ran_out_is_read_as_expired() {
    let world = World::forgetful();
    let guard = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.jump_ahead(secs(25));
    world.clock.pass(secs(10)).await;
    assert!(matches!(guard.lost().await, LossReason::Expired), "{:?}", guard.loss());
}

/// A runtime that cannot keep leases says so to whoever asks, and not to the first one alone.
#[test]
fn a_runtime_without_io_is_no_silent_one() {
    let store = lease_machines_store::open("sqlite::memory:").unwrap();
    let scheduler = lease_machines_keeper::Scheduler::new(store);
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let ask = || runtime.block_on(scheduler.hold("a", options())).is_ok();
            let _ = said.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask)).is_err());
        }
    });
    for time in ["first", "second"] {
        let answer = heard.recv_timeout(secs(30));
        assert_eq!(answer, Ok(true), "the {time} who asked");
    }
}

/// Polls a future once, outside of any runtime.
fn futures_blocking<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => unreachable!("it has nothing to wait for"),
    }
}
