//! Waiting for a lease, and giving it up.

mod support;

use std::time::Duration;

use lease_machines_keeper::{Clock, Guard, HoldError, HoldOptions};
use lease_machines_store::WorkResult;
use support::{Call, Fault, Waits, World, ms, options, secs};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

fn wait(world: &World, options: HoldOptions) -> JoinHandle<Result<Guard, HoldError>> {
    let scheduler = world.other();
    tokio::spawn(async move { scheduler.hold("a", options).await })
}

#[tokio::test]
async fn a_waiter_is_woken_by_the_release() {
    let world = World::new();
    let first = world.scheduler.hold("a", options()).await.unwrap();
    let second = wait(&world, options().wait_forever());
    world.clock.pass(ms(1_300)).await;
    assert!(!second.is_finished());
    assert!(first.release(WorkResult::Good).await.stood());
    world.clock.pass(ms(20)).await;
    let second = second.await.unwrap().unwrap();
    assert_eq!(world.toy.holder("a").unwrap().0, second.owner());
}

#[tokio::test]
async fn a_waiter_gets_what_a_dead_holder_left_when_it_runs_out() {
    let world = World::new();
    let first = world.scheduler.hold("a", options()).await.unwrap();
    world.toy.plan(Call::Renew, [Fault::Swallowed; 50]);
    let began = world.now();
    let second = wait(&world, options().wait(secs(60)));
    world.clock.pass(secs(31)).await;
    let second = second.await.unwrap().unwrap();
    assert!(second.token() > first.token());
    assert!(world.now() - began < secs(32));
    assert!(!first.may_act());
}

#[tokio::test]
async fn a_wait_ends_when_it_was_said_to_and_says_who_was_waited_for() {
    let world = World::new();
    let first = world.scheduler.hold("a", options()).await.unwrap();
    let second = wait(&world, options().wait(secs(45)));
    world.clock.pass(ms(44_999)).await;
    assert!(!second.is_finished());
    world.clock.pass(ms(1)).await;
    let Err(HoldError::Occupied(occupied)) = second.await.unwrap() else { panic!("not held") };
    assert_eq!(occupied.waited, secs(45));
    assert_eq!(occupied.by.as_ref().unwrap().owner, first.owner());
    assert!(occupied.to_string().ends_with("; waited for 45s"), "{occupied}");
}

#[tokio::test]
async fn waiting_does_not_ask_again_and_again() {
    let world = World::new();
    let _first = world.scheduler.hold("a", options()).await.unwrap();
    let _second = wait(&world, options().wait_forever());
    world.clock.pass(secs(100)).await;
    let asked = world.toy.calls(Call::Acquire);
    assert!((20..=23).contains(&asked), "every 5 s, {asked} times");
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 4, "two schedulers, the waiter, and one wait at the store");
}

#[tokio::test]
async fn a_store_that_names_nobody_is_not_asked_more_often() {
    let world = World::new();
    world.toy.name_nobody();
    let _first = world.scheduler.hold("a", options()).await.unwrap();
    let second = wait(&world, options().wait(secs(100)));
    world.clock.pass(secs(101)).await;
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "\"a\" is held by another; waited for 100s");
    let asked = world.toy.calls(Call::Acquire);
    assert!((20..=23).contains(&asked), "every 5 s, {asked} times");
}

#[tokio::test]
async fn a_store_that_wakes_for_nothing_is_not_asked_in_a_loop() {
    let world = World::new();
    world.toy.wait_like(Waits::AtOnce);
    let _first = world.scheduler.hold("a", options()).await.unwrap();
    let _second = wait(&world, options().wait_forever());
    world.clock.pass(secs(1)).await;
    let (asked, waited) = (world.toy.calls(Call::Acquire), world.toy.calls(Call::Wait));
    assert!(
        asked <= 102 && waited <= 102,
        "at most once in 10 ms: asked {asked} times, waited {waited} times"
    );
}

#[tokio::test]
async fn a_store_that_never_wakes_is_asked_all_the_same_and_leaves_no_calls_behind() {
    let world = World::new();
    world.toy.wait_like(Waits::Never);
    let _first = world.scheduler.hold("a", options()).await.unwrap();
    let _second = wait(&world, options().wait_forever());
    world.clock.pass(secs(100)).await;
    assert!((20..=23).contains(&world.toy.calls(Call::Acquire)));
    assert_eq!(
        Handle::current().metrics().num_alive_tasks(),
        4,
        "two schedulers, the waiter, and the latest wait"
    );
}

#[tokio::test]
async fn many_waiters_get_it_one_after_the_other() {
    let world = World::new();
    let first = world.scheduler.hold("a", options()).await.unwrap();
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let scheduler = world.scheduler.clone();
            let clock = world.clock.clone();
            tokio::spawn(async move {
                let guard = scheduler.hold("a", options().wait_forever()).await.unwrap();
                let from = clock.now();
                lease_machines_keeper::sleep_until(&clock, from + ms(500)).await;
                let until = clock.now();
                let token = guard.token().value();
                assert!(guard.release(WorkResult::Good).await.stood());
                (token, from, until)
            })
        })
        .collect();
    world.clock.pass(secs(1)).await;
    drop(first);
    world.clock.pass(secs(60)).await;
    let mut turns = Vec::new();
    for waiter in waiters {
        turns.push(waiter.await.unwrap());
    }
    turns.sort_unstable();
    for pair in turns.windows(2) {
        let ((before, _, until), (after, from, _)) = (pair[0], pair[1]);
        assert!(before < after && until <= from, "{turns:?}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_waited_for_beyond_the_first_term() {
    let world = World::new();
    world.toy.black_hole();
    let hold = wait(&world, options());
    world.clock.pass(ms(29_900)).await;
    assert!(!hold.is_finished());
    world.clock.pass(ms(1_200)).await;
    let Err(HoldError::Unreachable { waited, last, .. }) = hold.await.unwrap() else { panic!("nobody") };
    assert!((secs(30)..=secs(31)).contains(&waited));
    assert!(last.is_none());
    assert!(world.toy.calls(Call::Acquire) + world.toy.calls(Call::Reacquire) >= 3);
}

#[tokio::test]
async fn at_least_keeps_it_from_the_next_one() {
    let world = World::new();
    let guard = world.scheduler.hold("a", options().at_least(secs(10))).await.unwrap();
    world.clock.pass(secs(2)).await;
    assert!(guard.release(WorkResult::Good).await.stood());
    let Err(HoldError::Occupied(occupied)) = world.other().hold("a", options()).await else { panic!() };
    assert!(occupied.by.as_ref().unwrap().retained);
    assert!(occupied.to_string().contains("at_least"), "{occupied}");
    let next = wait(&world, options().wait_forever());
    world.clock.pass(ms(7_990)).await;
    assert!(!next.is_finished());
    world.clock.pass(ms(100)).await;
    assert!(next.is_finished());
}

#[tokio::test]
async fn at_least_does_not_hold_for_work_that_was_never_begun() {
    let world = World::new();
    world.toy.plan(Call::Acquire, [Fault::AnsweredLate(ms(300))]);
    let hold = wait(&world, options().at_least(secs(3_600)));
    world.clock.pass(ms(100)).await;
    hold.abort();
    world.clock.pass(ms(400)).await;
    assert!(world.other().hold("a", options()).await.is_ok());
}

#[tokio::test]
async fn once_runs_nothing_twice_and_says_who_did_it() {
    let world = World::new();
    let first = world.scheduler.hold("a", options().once("2024-02-29").label("first")).await.unwrap();
    let (owner, token) = (first.owner(), first.token());
    // A waiter with the same key is told when the work is done.
    let waiter = wait(&world, options().once("2024-02-29").wait_forever());
    world.clock.pass(secs(1)).await;
    assert!(first.release(WorkResult::Good).await.stood());
    world.clock.pass(secs(1)).await;
    let Err(HoldError::AlreadyDone(done)) = waiter.await.unwrap() else { panic!("done before") };
    assert_eq!((done.end.owner, done.end.token), (owner, token));
    assert!(done.to_string().contains("\"2024-02-29\""), "{done}");
    assert!(done.to_string().contains("(first)"), "{done}");
    // Another key is other work.
    assert!(world.other().hold("a", options().once("2024-03-01")).await.is_ok());
}

#[tokio::test]
async fn work_that_failed_or_said_nothing_is_done_again() {
    let world = World::new();
    for result in [WorkResult::Failed, WorkResult::Unknown] {
        let guard = world.scheduler.hold("a", options().once("key")).await.unwrap();
        assert!(guard.release(result).await.stood());
    }
    drop(world.scheduler.hold("a", options().once("key")).await.unwrap());
    world.scheduler.shutdown(secs(1)).await.unwrap();
    assert!(world.scheduler.hold("a", options().once("key")).await.is_ok());
}

#[tokio::test]
async fn options_out_of_range_are_refused_before_anything_is_sent() {
    let world = World::new();
    let year = Duration::from_secs(31_536_000);
    let new = HoldOptions::new;
    for (options, expected) in [
        (new().ttl(secs(0)), "ttl is 0ns; expected 1ms to 31536000s, the store's max_ttl"),
        (
            new().ttl(Duration::from_micros(999)),
            "ttl is 999µs; expected 1ms to 31536000s, the store's max_ttl",
        ),
        (new().ttl(year + ms(1)), "ttl is 31536000.001s; expected 1ms to 31536000s, the store's max_ttl"),
        (
            new().renew_every(secs(60)),
            "renew_every is 60s; expected more than zero and less than the ttl of 60s",
        ),
        (
            new().warn_before(secs(0)),
            "warn_before is 0ns; expected more than zero and less than the ttl of 60s",
        ),
        (new().max_hold(secs(0)), "max_hold is 0ns; expected more than zero, or none"),
        (new().at_least(year * 2), "at_least is 63072000s; expected at most 31536000s, the store's max_ttl"),
    ] {
        let error = world.scheduler.hold("a", options).await.unwrap_err();
        assert!(matches!(error, HoldError::Options(_)), "{error:?}");
        assert_eq!(error.to_string(), expected);
    }
    for name in ["", "a\0b", &"x".repeat(256)] {
        let error = world.scheduler.hold(name, new()).await.unwrap_err();
        assert!(matches!(error, HoldError::Name(_)), "{error:?}");
    }
    assert_eq!(world.toy.calls(Call::Acquire), 0);
}
