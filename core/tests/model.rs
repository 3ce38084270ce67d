//! Random histories, against a second authority that was written to be obviously right instead of fast.
//!
//! The reference below keeps everything that ever happened in a list and answers each question by reading it from the
//! start. It counts time in whole nanoseconds, shares neither code nor helpers with the crate, and learns nothing
//! from it: both are given the same requests, and must give the same answers and show the same state after each.

#![allow(clippy::panic)] // tests may

mod reference;

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;

use lease_machines::{
    Checkpoint, ClockPolicy, Decision, FencingToken, Lease, LeaseAuthority, OwnerId, Rejection,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reference::{Answer, END_OF_TIME, Held, Nanos, Reference};

const CASES: u32 = 4_000;
const LONGEST: usize = 60;

/// A history: where it begins, and what is asked of it.
#[derive(Clone, Debug)]
struct History {
    start: Start,
    clamp: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Start {
    clock: Nanos,
    last_issued: u64,
    held: Option<Held>,
}

#[derive(Clone, Debug)]
struct Step {
    /// How the clock moves before the request, in nanoseconds; it may go back.
    moves: i64,
    request: Request,
}

#[derive(Clone, Debug)]
enum Request {
    Acquire {
        owner: u64,
        ttl: Nanos,
    },
    Reacquire {
        owner: u64,
        ttl: Nanos,
    },
    Renew {
        owner: u64,
        token: Pick,
        ttl: Nanos,
    },
    Release {
        owner: u64,
        token: Pick,
    },
    Revoke {
        expect: Option<Pick>,
    },
    /// The authority is written to bytes, dropped, and read back, perhaps to go on under the other clock policy.
    Restore {
        clamp: bool,
    },
    /// The clock jumps to just before its end.
    ApproachTheEnd,
}

/// Which token a request carries, as seen from the last one issued.
#[derive(Clone, Debug)]
enum Pick {
    Last,
    OneBefore,
    NeverIssued,
    Any(u64),
}

#[test]
fn agrees_with_the_reference_on_every_history() {
    let seen = RefCell::new(BTreeMap::new());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&histories(), |history| {
            play(&history, &mut seen.borrow_mut());
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));

    // A generator that no longer reaches a rule would prove nothing about it.
    let seen = seen.into_inner();
    println!("{} decisions, by kind:", seen.values().sum::<u64>());
    seen.iter().for_each(|((request, answer), count)| println!("{count:>8}  {request} -> {answer}"));
    for kind in REACHABLE.iter().flat_map(|(request, answers)| answers.iter().map(move |a| (*request, *a))) {
        let count = seen.get(&kind).copied().unwrap_or(0);
        assert!(count >= 20, "{} -> {} was reached {count} times", kind.0, kind.1);
    }
    let kinds = REACHABLE.iter().map(|(_, answers)| answers.len()).sum::<usize>();
    assert_eq!(seen.len(), kinds, "a kind of answer that should not exist: {seen:?}");
}

/// Every pair of request and answer that the rules allow.
const REACHABLE: [(&str, &[&str]); 5] = [
    ("acquire", &["granted", "occupied", "clock regressed", "invalid ttl", "overflow", "exhausted"]),
    ("reacquire", &["granted", "occupied", "clock regressed", "invalid ttl", "overflow", "exhausted"]),
    (
        "renew",
        &[
            "renewed",
            "vacant",
            "wrong owner",
            "stale token",
            "expired",
            "clock regressed",
            "invalid ttl",
            "overflow",
        ],
    ),
    ("release", &["released", "vacant", "wrong owner", "stale token", "expired", "clock regressed"]),
    ("revoke", &["burnt", "vacant", "stale token", "exhausted"]),
];

fn play(history: &History, seen: &mut BTreeMap<(&'static str, &'static str), u64>) {
    let Start { mut clock, last_issued, held } = history.start.clone();
    let mut reference = Reference::starting_with(last_issued, held, clock, history.clamp);
    let checkpoint =
        Checkpoint::from_parts(FencingToken::new(last_issued), held.map(to_lease), duration(clock));
    let mut authority = LeaseAuthority::restore(checkpoint.expect("histories begin in a possible state"))
        .with_clock_policy(policy(history.clamp));

    for (index, step) in history.steps.iter().enumerate() {
        clock = clock.saturating_add_signed(step.moves.into()).min(END_OF_TIME);
        let now = duration(clock);
        let (name, expected, found) = match step.request {
            Request::Acquire { owner, ttl } => (
                "acquire",
                reference.acquire(owner, clock, ttl),
                answer(authority.acquire(OwnerId::new(owner), now, duration(ttl))),
            ),
            Request::Reacquire { owner, ttl } => (
                "reacquire",
                reference.reacquire(owner, clock, ttl),
                answer(authority.reacquire(OwnerId::new(owner), now, duration(ttl))),
            ),
            Request::Renew { owner, ref token, ttl } => {
                let token = number(token, &reference);
                let found = authority.renew(OwnerId::new(owner), to_token(token), now, duration(ttl));
                ("renew", reference.renew(owner, token, clock, ttl), answer(found))
            }
            Request::Release { owner, ref token } => {
                let token = number(token, &reference);
                let found = authority.release(OwnerId::new(owner), to_token(token), now);
                ("release", reference.release(owner, token, clock), answer(found))
            }
            Request::Revoke { ref expect } => {
                let expect = expect.as_ref().map(|token| number(token, &reference));
                let found = match authority.revoke(expect.map(to_token), now) {
                    Ok(burnt) => Answer::Burnt(burnt.value()),
                    Err(reason) => answer(Decision::Rejected(reason)),
                };
                ("revoke", reference.revoke(expect, clock), found)
            }
            Request::Restore { clamp } => {
                let bytes = authority.checkpoint().to_bytes();
                let state = Checkpoint::from_bytes(&bytes).expect("its own bytes");
                authority = LeaseAuthority::restore(state).with_clock_policy(policy(clamp));
                reference.clamp = clamp;
                assert_same_state(&authority, &reference, index);
                continue;
            }
            Request::ApproachTheEnd => {
                clock = END_OF_TIME - 25;
                continue;
            }
        };
        assert_eq!(found, expected, "step {index} of {history:#?}");
        assert_same_state(&authority, &reference, index);
        *seen.entry((name, expected.kind())).or_default() += 1;
    }
}

#[track_caller]
fn assert_same_state(authority: &LeaseAuthority, reference: &Reference, index: usize) {
    assert_eq!(authority.observed(), duration(reference.observed()), "observed, after step {index}");
    assert_eq!(
        authority.last_issued().map_or(0, FencingToken::value),
        reference.last_issued(),
        "last issued, after step {index}"
    );
    assert_eq!(authority.lease(), reference.held().map(to_lease), "lease, after step {index}");
}

fn histories() -> impl Strategy<Value = History> {
    (starts(), any::<bool>(), proptest::collection::vec(steps(), 1..LONGEST))
        .prop_map(|(start, clamp, steps)| History { start, clamp, steps })
}

fn starts() -> impl Strategy<Value = Start> {
    // At the origin, around a full second, anywhere, and where time ends.
    let clock = prop_oneof![
        4 => Just(0),
        2 => 999_999_980..1_000_000_020_u128,
        1 => 0..=END_OF_TIME,
        1 => END_OF_TIME - 60..=END_OF_TIME,
    ];
    let last_issued = prop_oneof![4 => Just(0), 2 => 1..20_u64, 2 => u64::MAX - 4..=u64::MAX];
    let held = proptest::option::of((owners(), 0..3_u64, 0..30_u128));
    (clock, last_issued, held).prop_map(|(clock, last_issued, held)| Start {
        clock,
        last_issued,
        // A restored lease may be over already, and may lie below the last issued token.
        held: held.filter(|_| last_issued > 0).map(|(owner, below, lasts)| Held {
            owner,
            token: last_issued.saturating_sub(below).max(1),
            until: (clock + lasts).saturating_sub(5).min(END_OF_TIME),
        }),
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let moves = prop_oneof![6 => 0..4_i64, 2 => 0..25_i64, 1 => -6..0_i64, 1 => Just(1_000_000_000)];
    (moves, requests()).prop_map(|(moves, request)| Step { moves, request })
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        30 => (owners(), ttls()).prop_map(|(owner, ttl)| Request::Acquire { owner, ttl }),
        15 => (owners(), ttls()).prop_map(|(owner, ttl)| Request::Reacquire { owner, ttl }),
        50 => (owners(), picks(), ttls())
            .prop_map(|(owner, token, ttl)| Request::Renew { owner, token, ttl }),
        20 => (owners(), picks()).prop_map(|(owner, token)| Request::Release { owner, token }),
        8 => proptest::option::of(picks()).prop_map(|expect| Request::Revoke { expect }),
        12 => any::<bool>().prop_map(|clamp| Request::Restore { clamp }),
        1 => Just(Request::ApproachTheEnd),
    ]
}

fn owners() -> impl Strategy<Value = u64> {
    prop_oneof![14 => Just(1_u64), 4 => Just(2_u64), 1 => Just(0_u64), 1 => Just(u64::MAX)]
}

fn ttls() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        1 => Just(0),
        16 => 1..30_u128,
        1 => 999_999_990..1_000_000_010_u128,
        1 => END_OF_TIME - 100..=END_OF_TIME,
    ]
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![
        8 => Just(Pick::Last),
        1 => Just(Pick::OneBefore),
        1 => Just(Pick::NeverIssued),
        1 => (1..=u64::MAX).prop_map(Pick::Any),
    ]
}

fn number(pick: &Pick, reference: &Reference) -> u64 {
    let last = reference.last_issued();
    match pick {
        Pick::Last => last.max(1),
        Pick::OneBefore => last.saturating_sub(1).max(1),
        Pick::NeverIssued => last.saturating_add(1),
        Pick::Any(token) => *token,
    }
}

fn policy(clamp: bool) -> ClockPolicy {
    if clamp { ClockPolicy::Clamp } else { ClockPolicy::Reject }
}

fn duration(nanos: Nanos) -> Duration {
    let secs = u64::try_from(nanos / 1_000_000_000).expect("within the range of time");
    Duration::new(secs, (nanos % 1_000_000_000) as u32)
}

fn to_token(token: u64) -> FencingToken {
    FencingToken::new(token).expect("no request carries token 0")
}

fn to_lease(held: Held) -> Lease {
    Lease::new(OwnerId::new(held.owner), to_token(held.token), duration(held.until))
}

/// The crate's answer in the words of the reference.
fn answer(decision: Decision) -> Answer {
    let held = |lease: Lease| Held {
        owner: lease.owner().value(),
        token: lease.token().value(),
        until: lease.expires_at().as_nanos(),
    };
    match decision {
        Decision::Granted(lease) => Answer::Granted(held(lease)),
        Decision::Renewed(lease) => Answer::Renewed(held(lease)),
        Decision::Released => Answer::Released,
        Decision::Rejected(reason) => Answer::No(match reason {
            Rejection::Occupied => "occupied",
            Rejection::Vacant => "vacant",
            Rejection::WrongOwner => "wrong owner",
            Rejection::StaleToken => "stale token",
            Rejection::Expired => "expired",
            Rejection::ClockRegressed => "clock regressed",
            Rejection::InvalidTtl => "invalid ttl",
            Rejection::DeadlineOverflow => "overflow",
            Rejection::TokensExhausted => "exhausted",
            other => panic!("a reason that the reference does not know: {other:?}"),
        }),
    }
}
