//! Random schedules: keepers that compete for one lease through a bad network, on clocks that drift and in processes
//! that pause. What must hold of every schedule is asserted in the simulation, where it happens:
//!
//! - No work acts at or past its deadline by the store's clock, nor under another's lease.
//! - No release or withdrawal is sent before the work has finished.
//! - No work is started twice, unless a retake was asked for, and then only after the last one has finished.
//! - Every keeper ends with an outcome, also where nothing at all gets through any more.
//! - Every grant that arrives is worked under, given back, or superseded by a later request.

#![allow(clippy::panic)] // tests may

mod simulation;

use core::time::Duration;
use std::cell::RefCell;

use lease_machines::{Cadence, KeeperOptions, Wait};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use simulation::{KeeperPlan, Network, Plan, Simulation, Tally};

/// How many schedules each test runs, where `LEASE_MACHINES_CASES` does not say.
const CASES: u32 = 6_000;

#[test]
fn no_schedule_breaks_a_promise() {
    let tally = explore(plans(Just(Vec::new())));
    // A simulation in which nothing happens would prove nothing: each of these did, and often.
    for kind in [
        "Acquire",
        "Reacquire",
        "Renew",
        "Release",
        "ReleaseStray",
        "Withdraw",
        "StartWork",
        "Warn",
        "AwaitVacancy",
        "StopWork Requested",
        "StopWork MaxHold",
        "StopWork Lost(Unreachable)",
        "StopWork Lost(Expired)",
        "acted under its lease",
        "in the end Stood",
        "in the end Unconfirmed",
        "in the end Lost(Expired)",
        "in the end Lost(Unreachable)",
        "in the end NotHeld(Occupied)",
        "in the end NotHeld(Unreachable)",
        "in the end NotHeld(Stopped)",
    ] {
        let count = tally.counts.get(kind).copied().unwrap_or(0);
        assert!(count >= 20, "{kind} happened {count} times");
    }
}

/// Here the lease may be gone while the work goes on; that is what a fence is for. All other promises hold.
#[test]
fn no_schedule_with_an_operator_who_revokes_breaks_any_other_promise() {
    let revokes = proptest::collection::vec((0..60_000_u64).prop_map(Duration::from_millis), 1..6);
    let tally = explore(plans(revokes));
    for kind in ["revoked", "StopWork Lost(Vacated)", "StopWork Lost(Taken)", "in the end Lost(Vacated)"] {
        let count = tally.counts.get(kind).copied().unwrap_or(0);
        assert!(count >= 20, "{kind} happened {count} times");
    }
}

fn explore(plans: impl Strategy<Value = Plan>) -> Tally {
    let tally = RefCell::new(Tally::default());
    let cases = std::env::var("LEASE_MACHINES_CASES").map_or(CASES, |cases| cases.parse().expect("a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    TestRunner::new(config)
        .run(&plans, |plan| {
            Simulation::run(&plan, &mut tally.borrow_mut(), false);
            Ok(())
        })
        .unwrap_or_else(|failure| {
            if let TestError::Fail(_, plan) = &failure {
                println!("the smallest plan that fails runs like this:");
                Simulation::run(plan, &mut Tally::default(), true);
            }
            panic!("{failure}")
        });
    let tally = tally.into_inner();
    tally.counts.iter().for_each(|(kind, count)| println!("{count:>9}  {kind}"));
    tally
}

fn plans(revokes: impl Strategy<Value = Vec<Duration>>) -> impl Strategy<Value = Plan> {
    let ttl =
        prop_oneof![Just(100), Just(1_000), 100..60_000_u64, Just(90_000)].prop_map(Duration::from_millis);
    (ttl, 1..=3_usize, any::<bool>(), revokes, any::<u64>()).prop_flat_map(
        |(ttl, count, blackout, revokes, seed)| {
            (proptest::collection::vec(keepers(ttl), count), networks(ttl), 1..12_u32).prop_map(
                move |(keepers, network, terms)| Plan {
                    keepers,
                    network,
                    end: ttl * terms,
                    blackout,
                    revokes: revokes.clone(),
                    seed,
                },
            )
        },
    )
}

fn keepers(ttl: Duration) -> impl Strategy<Value = KeeperPlan> {
    let part = move |percent: std::ops::Range<u32>| percent.prop_map(move |percent| ttl * percent / 100);
    let wait = prop_oneof![
        2 => Just(None),
        3 => Just(Some(Wait::Forever)),
        2 => part(0..500).prop_map(|until| Some(Wait::Until(until))),
    ];
    let options = (
        part(1..60),
        part(1..60),
        part(0..40),
        wait,
        proptest::option::of(part(20..400)),
        any::<bool>(),
        part(0..10),
    );
    // Slower than the store's clock by the drift allowance at most; faster is safe.
    let clock = (prop_oneof![Just(0), Just(-999), -999..=5_000_i64], 0..100_000_u64);
    let pauses = proptest::collection::vec((part(0..900), part(1..400)), 0..3);
    (options, clock, part(0..150), part(0..600), part(0..150), pauses).prop_map(
        move |(options, (faster, origin), starts, work, ending, pauses)| {
            let (renew, warn, lead, wait, max_hold, retake, tick) = options;
            let origin = Duration::from_millis(origin);
            let cadence = Cadence::new(ttl, renew, warn).expect("parts of the ttl");
            // It is told of its wait by its own clock.
            let wait = match wait {
                None => Wait::No,
                Some(Wait::Until(until)) => Wait::Until(origin + until),
                Some(other) => other,
            };
            let options = KeeperOptions::new(cadence)
                .with_stop_lead(lead)
                .with_wait(wait)
                .with_max_hold(max_hold)
                .with_retake(retake)
                .with_tick(tick);
            KeeperPlan { options, ttl, retake, faster, origin, starts, work, ending, pauses }
        },
    )
}

fn networks(ttl: Duration) -> impl Strategy<Value = Network> {
    let rarely = || prop_oneof![2 => Just(0), 2 => 0..15_u64, 1 => 15..60_u64];
    (rarely(), rarely(), rarely(), rarely(), 0..200_u32).prop_map(
        move |(drops, doubles, unknown, not_done, delay)| Network {
            drops,
            doubles,
            unknown,
            not_done,
            longest_delay: ttl * delay / 100,
        },
    )
}
