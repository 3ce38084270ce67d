//! Many leases of one process.

mod support;

use std::sync::Arc;

use lease_machines_keeper::{Guard, HoldOptions};
use lease_machines_store::WorkResult;
use support::{Call, Fault, World, ms, options, secs};
use tokio::runtime::Handle;

async fn hold(world: &World, leases: usize, options: &HoldOptions) -> Vec<Guard> {
    let holds: Vec<_> = (0..leases)
        .map(|number| {
            let (scheduler, options) = (world.scheduler.clone(), options.clone());
            tokio::spawn(async move { scheduler.hold(format!("lease-{number}"), options).await })
        })
        .collect();
    let mut guards = Vec::new();
    for hold in holds {
        guards.push(hold.await.expect("no panic").expect("free"));
    }
    guards
}

#[tokio::test]
async fn ten_thousand_leases_cost_one_task_and_one_call_a_tick() {
    const LEASES: usize = 10_000;
    let world = World::new();
    let guards = hold(&world, LEASES, &options()).await;
    world.clock.pass(secs(1)).await;

    let tasks = Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 1, "the scheduler's");
    assert_eq!(world.clock.timers(), 1, "and its timer");

    let before = world.toy.batches().len();
    world.clock.pass(secs(100)).await;
    let batches = world.toy.batches().split_off(before);
    assert!(batches.len() <= 11, "renewed every 10 s for 100 s: {batches:?}");
    assert!(batches.iter().sum::<usize>() >= 9 * LEASES);
    assert!(guards.iter().all(|guard| guard.may_act()));

    let releases: Vec<_> =
        guards.into_iter().map(|guard| tokio::spawn(guard.release(WorkResult::Good))).collect();
    for release in releases {
        assert!(release.await.unwrap().stood());
    }
}

#[tokio::test]
async fn leases_taken_at_different_times_are_renewed_together_all_the_same() {
    const LEASES: u64 = 200;
    let world = World::new();
    let mut guards = Vec::new();
    // One each 97 ms: they fall due all over the period.
    for number in 0..LEASES {
        guards.push(world.scheduler.hold(format!("lease-{number}"), options()).await.unwrap());
        world.clock.pass(ms(97)).await;
    }
    let before = world.toy.batches().len();
    world.clock.pass(secs(100)).await;
    let batches = world.toy.batches().split_off(before);
    // Two calls a second at the most, however many leases: half a second is what a sixteenth of 10 s allows.
    assert!(batches.len() <= 201, "{} calls", batches.len());
    assert!(batches.iter().sum::<usize>() >= 9 * 200);
    assert!(guards.iter().all(|guard| guard.may_act()));
}

#[tokio::test]
async fn one_lease_that_fails_takes_no_other_with_it() {
    let world = World::new();
    let guards = hold(&world, 100, &options()).await;
    world.toy.revoke_now("lease-42");
    world.clock.pass(secs(60)).await;
    let lost: Vec<_> = guards.iter().filter(|guard| !guard.may_act()).map(|guard| guard.resource()).collect();
    assert_eq!(lost, [&"lease-42".parse().unwrap()]);
}

#[tokio::test]
async fn a_store_that_comes_back_keeps_them_all() {
    let world = World::new();
    let guards = hold(&world, 500, &options()).await;
    // Half of it swallowed, half of it refused, for most of the ttl.
    world.clock.pass(secs(9)).await;
    world.toy.plan(Call::Renew, [Fault::Swallowed]);
    world.toy.always(Call::Renew, Fault::Fails(lease_machines_store::ErrorKind::Busy));
    world.clock.pass(secs(19)).await;
    world.toy.mend();
    world.clock.pass(secs(5)).await;
    assert!(guards.iter().all(|guard| guard.may_act()));
    assert!(world.toy.batches().len() < 500, "retried together: {} calls", world.toy.batches().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_many_threads_with_the_real_clock_nothing_is_lost() {
    let world = World::new();
    let store: Arc<dyn lease_machines_store::Store> = Arc::<support::Toy>::clone(&world.toy);
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let name = format!("lease-{}", number % 50);
                    let work = async |lease: lease_machines_keeper::Lease| {
                        tokio::task::yield_now().await;
                        Ok::<_, ()>(lease.token())
                    };
                    let options = HoldOptions::new().wait_forever();
                    let worked =
                        lease_machines_keeper::with_lease(&store, name, options, work).await.unwrap();
                    assert!(worked.is_good());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    lease_machines_keeper::shutdown(secs(10)).await.unwrap();
    for number in 0..50 {
        assert_eq!(world.toy.occupant(&format!("lease-{number}")), None);
    }
    assert_eq!(world.toy.grants(), 200 * 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_comes_to_rest_misses_no_order() {
    let world = World::new();
    let scheduler = world.scheduler.clone();
    // The next order comes from another thread, at the moment at which the scheduler finds that it has nothing to do.
    let task = tokio::spawn(async move {
        for _ in 0..20_000 {
            let guard = scheduler.hold("a", options()).await.unwrap();
            assert!(guard.release(WorkResult::Good).await.stood());
        }
    });
    tokio::time::timeout(secs(120), task).await.expect("no order is lost").unwrap();
}
