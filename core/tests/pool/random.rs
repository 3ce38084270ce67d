//! Random histories of a pool beside the naive reference.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use lease_machines::{
    FencingToken, Gone, OwnerId, Pool, Rejection, Slot, SlotClaim, SlotGrant, SlotRange, Unclaimed,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::reference::{Answer, Got, Reference, Wish};

const CASES: u32 = 3_000;
const COOL_DOWN: u64 = 4;

#[derive(Clone, Debug)]
enum Request {
    Claim(Wish),
    Reclaim(Wish),
    Renew { slot: u16, by: Option<u64>, back: u64, reserve: bool, ttl: u64 },
    Release { slot: u16, by: Option<u64>, back: u64, used: Option<i64> },
    Withdraw { owner: u64 },
    Revoke { slot: u16, expect: Option<u64> },
    Restore,
}

#[derive(Clone, Debug)]
struct Step {
    clock: i64,
    wall: i64,
    request: Request,
}

/// What has to be seen, each at least so often.
const REACHABLE: [(&str, &[&str]); 6] = [
    ("claim", &["got", "exhausted", "busy", "invalid ttl", "no such slot"]),
    ("reclaim", &["got", "exhausted", "invalid ttl", "no such slot"]),
    ("renew", &["got", "vacant", "wrong owner", "stale token", "expired", "invalid ttl"]),
    ("release", &["done", "vacant", "wrong owner", "stale token", "expired"]),
    ("withdraw", &["burnt"]),
    ("revoke", &["burnt", "vacant", "stale token"]),
];

#[test]
fn agrees_with_the_reference_on_every_history() {
    let seen = RefCell::new(BTreeMap::<(&str, &str), u64>::new());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let histories = (1..5_u16, proptest::collection::vec(steps(), 1..60));
    TestRunner::new(config)
        .run(&histories, |(size, steps)| {
            play(size, &steps, &mut seen.borrow_mut());
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    let seen = seen.into_inner();
    seen.iter().for_each(|((request, answer), count)| println!("{count:>8}  {request} -> {answer}"));
    for (request, answer) in REACHABLE.iter().flat_map(|(r, answers)| answers.iter().map(move |a| (*r, *a))) {
        let count = seen.get(&(request, answer)).copied().unwrap_or(0);
        assert!(count >= 20, "{request} -> {answer} was reached {count} times");
    }
    assert_eq!(seen.len(), REACHABLE.iter().map(|(_, answers)| answers.len()).sum::<usize>(), "{seen:?}");
}

fn play(size: u16, steps: &[Step], seen: &mut BTreeMap<(&'static str, &'static str), u64>) {
    let mut slots: Vec<Slot<u8>> = (0..size).map(|_| Slot::new()).collect();
    let mut reference = Reference::new(size, COOL_DOWN);
    let (mut clock, mut wall) = (100_u64, 1_000_u64);
    for (index, step) in steps.iter().enumerate() {
        clock = clock.saturating_add_signed(step.clock);
        wall = wall.saturating_add_signed(step.clock + step.wall);
        // The clock of a store that is opened again is what its rows have seen, which is less than it may have said.
        let now = secs(clock);
        let mut pool = Pool::over(&mut slots, secs(COOL_DOWN)).expect("a possible size");
        let standing = |slot: u16| reference.held(slot % size);
        let (name, expected, found) = match step.request.clone() {
            Request::Claim(wish) => {
                let wish = fit(wish, wall);
                let found = pool
                    .claim_past(&claim(wish), now, wish.wall.map(secs), |slot| wish.locked >> slot & 1 == 1);
                ("claim", reference.claim(wish, clock), granted(found))
            }
            Request::Reclaim(wish) => {
                let wish = Wish { locked: 0, ..fit(wish, wall) };
                (
                    "reclaim",
                    reference.reclaim(wish, clock),
                    granted(pool.reclaim(&claim(wish), now, wish.wall.map(secs))),
                )
            }
            Request::Renew { slot, by, back, reserve, ttl } => {
                let (slot, held) = (slot % size, standing(slot));
                let owner = by.or(held.map(|held| held.owner)).unwrap_or(1);
                let token = held.map_or(1, |held| held.token).saturating_sub(back).max(1);
                let wall = Some(wall).filter(|_| reserve);
                let found =
                    pool.renew(slot, OwnerId::new(owner), to_token(token), now, wall.map(secs), secs(ttl));
                let found = found.map_or_else(|reason| Answer::No(name_of(reason)), got);
                ("renew", reference.renew(slot, owner, token, clock, wall, ttl), found)
            }
            Request::Release { slot, by, back, used } => {
                let (slot, held) = (slot % size, standing(slot));
                let owner = by.or(held.map(|held| held.owner)).unwrap_or(1);
                let token = held.map_or(1, |held| held.token).saturating_sub(back).max(1);
                let used = used.map(|used| wall.saturating_add_signed(used));
                let found = pool.release(slot, OwnerId::new(owner), to_token(token), used.map(secs), now);
                let found = found.map_or_else(|reason| Answer::No(name_of(reason)), |()| Answer::Done);
                ("release", reference.release(slot, owner, token, used, clock), found)
            }
            Request::Withdraw { owner } => {
                let found = pool.withdraw(OwnerId::new(owner), now);
                ("withdraw", reference.withdraw(owner, clock), Answer::Burnt(found as u64))
            }
            Request::Revoke { slot, expect } => {
                let (slot, held) = (slot % size, standing(slot));
                let expect = expect.map(|back| held.map_or(1, |held| held.token).saturating_sub(back).max(1));
                let found = match pool.revoke(slot, expect.map(to_token), now) {
                    Ok(burnt) => Answer::Burnt(burnt.value()),
                    Err(reason) => Answer::No(name_of(reason)),
                };
                ("revoke", reference.revoke(slot, expect, clock), found)
            }
            Request::Restore => {
                slots =
                    slots.iter().map(|slot| Slot::restore(slot.record()).expect("its own record")).collect();
                continue;
            }
        };
        assert_eq!(found, expected, "step {index} of {steps:#?}");
        *seen.entry((name, kind(expected))).or_default() += 1;
        for (number, slot) in (0..).zip(&slots) {
            let context = || format!("slot {number} after step {index} of {steps:#?}");
            let held =
                slot.lease().map(|lease| (lease.owner().value(), lease.token().value(), lease.expires_at()));
            let expected = reference.held(number).map(|held| (held.owner, held.token, secs(held.until)));
            assert_eq!(held, expected, "{}", context());
            assert_eq!(slot.mark(), secs(reference.mark(number)), "{}", context());
            assert_eq!(
                slot.last_issued().map_or(0, FencingToken::value),
                reference.last_token(number),
                "{}",
                context()
            );
        }
        // What the pool saw last stays seen: the reference remembers it, the rows need not.
        clock = clock
            .max(slots.iter().map(|slot| slot.record().checkpoint.observed().as_secs()).max().unwrap_or(0));
    }
}

fn steps() -> impl Strategy<Value = Step> {
    // The clock of the leases only goes on: what a pool does with one that steps back has tests of its own.
    let clock = prop_oneof![6 => 0..3_i64, 3 => 3..12_i64];
    let wall = prop_oneof![8 => Just(0_i64), 1 => -15..15_i64];
    (clock, wall, requests()).prop_map(|(clock, wall, request)| Step { clock, wall, request })
}

fn requests() -> impl Strategy<Value = Request> {
    let by = || prop_oneof![6 => Just(None), 1 => owners().prop_map(Some)];
    let back = || prop_oneof![6 => Just(0_u64), 1 => 1..3_u64];
    prop_oneof![
        8 => wishes().prop_map(Request::Claim),
        2 => wishes().prop_map(Request::Reclaim),
        4 => (0..4_u16, by(), back(), any::<bool>(), ttls())
            .prop_map(|(slot, by, back, reserve, ttl)| Request::Renew { slot, by, back, reserve, ttl }),
        4 => (0..4_u16, by(), back(), proptest::option::of(-20..40_i64))
            .prop_map(|(slot, by, back, used)| Request::Release { slot, by, back, used }),
        1 => owners().prop_map(|owner| Request::Withdraw { owner }),
        1 => (0..4_u16, proptest::option::of(back())).prop_map(|(slot, expect)| Request::Revoke { slot, expect }),
        1 => Just(Request::Restore),
    ]
}

fn owners() -> impl Strategy<Value = u64> {
    1..4_u64
}

fn ttls() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0_u64), 20 => 1..20_u64]
}

fn wishes() -> impl Strategy<Value = Wish> {
    let identity = prop_oneof![1 => Just(None), 5 => (0..3_u8).prop_map(Some)];
    let range =
        prop_oneof![5 => Just((0, u16::MAX)), 1 => (0..4_u16, 0..4_u16).prop_map(|(a, b)| (a, a.max(b)))];
    let gone = proptest::option::weighted(0.2, (0..4_u16, 1..4_u64));
    let locked = prop_oneof![3 => Just(0_u8), 1 => 0..16_u8];
    (owners(), identity, ttls(), range, proptest::bool::weighted(0.2), gone, any::<bool>(), locked).prop_map(
        |(owner, identity, ttl, (first, last), exclusive, gone, reserve, locked)| Wish {
            owner,
            identity,
            ttl,
            first,
            last,
            exclusive,
            gone,
            wall: reserve.then_some(0),
            locked,
        },
    )
}

fn fit(wish: Wish, wall: u64) -> Wish {
    Wish { wall: wish.wall.map(|_| wall), ..wish }
}

fn claim(wish: Wish) -> SlotClaim<u8> {
    let mut claim = SlotClaim::new(OwnerId::new(wish.owner), secs(wish.ttl))
        .with_range(SlotRange::new(wish.first, wish.last).expect("a range"));
    if let Some(identity) = wish.identity {
        claim = claim.with_identity(identity);
    }
    if wish.exclusive {
        claim = claim.with_exclusive_identity();
    }
    if let Some((slot, token)) = wish.gone {
        claim = claim.with_gone(Gone { slot, token: to_token(token) });
    }
    claim
}

fn granted(answer: Result<SlotGrant, Unclaimed>) -> Answer {
    match answer {
        Ok(grant) => got(grant),
        Err(Unclaimed::Exhausted { next_chance }) => Answer::Exhausted(next_chance.map(|at| at.as_secs())),
        Err(Unclaimed::Busy) => Answer::Busy,
        Err(Unclaimed::NoSuchSlot) => Answer::No("no such slot"),
        Err(Unclaimed::Invalid(reason)) => Answer::No(name_of(reason)),
        Err(other) => panic!("an answer that the reference does not know: {other:?}"),
    }
}

fn got(grant: SlotGrant) -> Answer {
    Answer::Got(Got {
        slot: grant.slot,
        token: grant.lease.token().value(),
        until: grant.lease.expires_at().as_secs(),
        window: grant.window.map(|window| (window.after.as_secs(), window.until.as_secs())),
    })
}

fn name_of(reason: Rejection) -> &'static str {
    match reason {
        Rejection::Vacant => "vacant",
        Rejection::WrongOwner => "wrong owner",
        Rejection::StaleToken => "stale token",
        Rejection::Expired => "expired",
        Rejection::InvalidTtl => "invalid ttl",
        other => panic!("a reason that the reference does not know: {other:?}"),
    }
}

fn kind(answer: Answer) -> &'static str {
    match answer {
        Answer::Got(_) => "got",
        Answer::Exhausted(_) => "exhausted",
        Answer::Busy => "busy",
        Answer::Done => "done",
        Answer::Burnt(_) => "burnt",
        Answer::No(reason) => reason,
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn to_token(token: u64) -> FencingToken {
    FencingToken::new(token).expect("not zero")
}
