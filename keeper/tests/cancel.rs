//! The futures may be dropped at any point.

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease_machines_keeper::{Advanced, FenceMark};
use lease_machines_store::{ErrorKind, LeaseRef, WorkResult};
use support::{Call, Fault, World, ms, options, secs};

/// A mark that takes its time.
struct SlowMark(lease_machines_keeper::ManualClock);

impl FenceMark for SlowMark {
    fn advance(&self, _: LeaseRef) -> Advanced<'_> {
        Box::pin(async {
            let at = lease_machines_keeper::Clock::now(&self.0) + ms(300);
            lease_machines_keeper::sleep_until(&self.0, at).await;
            Ok(())
        })
    }
}

/// Polls a future up to `turns` times, letting everything else run, and 20 ms pass, after each of them; then drops it.
/// True where it was done before.
async fn drop_after<F: Future>(world: &World, turns: usize, future: F) -> bool {
    let mut future = pin!(future);
    for _ in 0..turns {
        let done = tokio::select! {
            biased;
            _ = future.as_mut() => true,
            () = std::future::ready(()) => false,
        };
        if done {
            return true;
        }
        world.clock.pass(ms(20)).await;
    }
    false
}

type Plan = &'static [(Call, Fault)];

const PLANS: &[Plan] = &[
    &[],
    &[(Call::Acquire, Fault::Late(ms(200)))],
    &[(Call::Acquire, Fault::AnsweredLate(ms(200)))],
    &[(Call::Acquire, Fault::Unanswered)],
    &[(Call::Acquire, Fault::Fails(ErrorKind::Busy)), (Call::Acquire, Fault::AnsweredLate(ms(200)))],
    &[
        (Call::Acquire, Fault::DoneButFails(ErrorKind::Unreachable)),
        (Call::Reacquire, Fault::AnsweredLate(ms(200))),
    ],
    &[(Call::Acquire, Fault::Late(ms(200))), (Call::Withdraw, Fault::Late(ms(100)))],
];

#[tokio::test]
async fn a_dropped_hold_leaves_nothing_held() {
    let mut dropped = 0;
    for (number, plan) in PLANS.iter().enumerate() {
        for turns in 0..40 {
            let world = World::new();
            for (call, fault) in *plan {
                world.toy.plan(*call, [*fault]);
            }
            let mark = Arc::new(SlowMark(world.clock.clone()));
            let hold = world.scheduler.hold("a", options().fence(mark).at_least(secs(3_600)));
            if drop_after(&world, turns, hold).await {
                break;
            }
            dropped += 1;
            world.clock.pass(ms(600)).await;
            assert_eq!(world.toy.holder("a"), None, "plan {number}, dropped after {turns} turns");
            world.scheduler.shutdown(secs(0)).await.unwrap();
            world.toy.mend();
            assert!(world.other().hold("a", options()).await.is_ok());
        }
    }
    assert!(dropped > PLANS.len() * 10, "{dropped}");
}

#[tokio::test]
async fn a_dropped_hold_leaves_nothing_held_beyond_its_first_term_without_a_store() {
    for (number, plan) in PLANS.iter().enumerate() {
        for turns in 0..40 {
            let world = World::new();
            for (call, fault) in *plan {
                world.toy.plan(*call, [*fault]);
            }
            let hold = world.scheduler.hold("a", options().ttl(secs(3_600)));
            if drop_after(&world, turns, hold).await {
                break;
            }
            world.toy.black_hole();
            world.clock.pass(secs(31)).await;
            assert_eq!(world.toy.holder("a"), None, "plan {number}, dropped after {turns} turns");
        }
    }
}

#[tokio::test]
async fn a_dropped_wait_leaves_the_holder_alone() {
    for turns in 0..40 {
        let world = World::new();
        let first = world.scheduler.hold("a", options()).await.unwrap();
        let other = world.other();
        assert!(!drop_after(&world, turns, other.hold("a", options().wait_forever())).await);
        world.clock.pass(ms(100)).await;
        assert_eq!(world.toy.holder("a").unwrap().0, first.owner());
        assert!(first.release(WorkResult::Good).await.stood());
        world.clock.pass(secs(1)).await;
        assert_eq!(world.toy.holder("a"), None, "nobody waits any more");
    }
}

#[tokio::test]
async fn dropped_work_ends_before_its_lease_does() {
    struct Held<'a>(&'a World, &'a AtomicBool);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.1.store(self.0.toy.holder("a").is_some(), Ordering::Relaxed);
        }
    }
    for turns in 1..40 {
        let world = World::new();
        let held = AtomicBool::new(false);
        let work = |_| async {
            let _held = Held(&world, &held);
            lease_machines_keeper::sleep_until(
                &world.clock,
                lease_machines_keeper::Clock::now(&world.clock) + ms(500),
            )
            .await;
            Ok::<_, ()>(())
        };
        let done = drop_after(&world, turns, world.scheduler.with_lease("a", options(), work)).await;
        world.clock.pass(ms(20)).await;
        assert_eq!(world.toy.holder("a"), None, "released all the same");
        assert!(turns == 1 || held.load(Ordering::Relaxed), "held to the end, {turns} turns");
        if done {
            return;
        }
        // The work begins in the second turn and ends in the 27th: from then on it is the release that is dropped.
        let result = world.toy.ending("a").map(|ending| ending.result);
        let expected = if turns > 26 { WorkResult::Good } else { WorkResult::Unknown };
        assert!(turns == 1 || result == Some(expected), "{result:?} after {turns} turns");
    }
    unreachable!("it is done within 40 turns");
}
