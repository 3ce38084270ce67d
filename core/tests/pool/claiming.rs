//! Which slot a claim gets, and when it gets none.

use std::time::Duration;

use lease_machines::{
    Checkpoint, Gone, OwnerId, Pool, Rejection, Slot, SlotClaim, SlotRange, SlotRecord, Unclaimed,
};

use crate::{COOL_DOWN, Stage, TTL, secs, token};

#[test]
fn a_pool_has_one_to_65536_slots() {
    let slots = |n| (0..n).map(|_| Slot::<u8>::new()).collect::<Vec<_>>();
    for (size, possible) in [(0, false), (1, true), (65_536, true), (65_537, false)] {
        assert_eq!(Pool::over(&mut slots(size), COOL_DOWN).is_some(), possible, "{size}");
    }
    let mut all = slots(65_536);
    let mut pool = Pool::over(&mut all, COOL_DOWN).expect("the largest");
    let last = SlotRange::new(u16::MAX, u16::MAX).expect("one slot");
    let claim = SlotClaim::new(OwnerId::new(1), TTL).with_range(last);
    assert_eq!(pool.claim(&claim, secs(1), None).map(|grant| grant.slot), Ok(65_535));
}

#[test]
fn the_own_slot_comes_first_then_a_fresh_one_then_the_one_free_for_longest() {
    let mut stage = Stage::of(3);
    let (first, second) = (stage.get("a"), stage.get("b"));
    assert_eq!((first.slot, second.slot), (0, 1));
    stage.release(second, None);
    stage.pass(secs(1));
    stage.release(first, None);
    stage.pass(COOL_DOWN * 3);
    assert_eq!(stage.get("a").slot, 0, "its own, though 2 is fresh and 1 is free for longer");
    assert_eq!(stage.get("c").slot, 2, "fresh, though 1 is free");
    assert_eq!(stage.get("d").slot, 1, "what is left");
}

#[test]
fn of_free_slots_the_one_free_for_longest_comes_first_and_of_equals_the_lowest() {
    let mut stage = Stage::of(3);
    let grants = [stage.get("a"), stage.get("b"), stage.get("c")];
    stage.release(grants[2], None);
    stage.release(grants[1], None);
    stage.pass(secs(1));
    stage.release(grants[0], None);
    stage.pass(COOL_DOWN * 3);
    assert_eq!([stage.get("x").slot, stage.get("y").slot, stage.get("z").slot], [1, 2, 0]);
}

#[test]
fn several_may_share_an_identity_and_each_gets_back_one_of_its_slots() {
    let mut stage = Stage::of(4);
    let workers = [stage.get("puma"), stage.get("puma"), stage.get("puma")];
    for (worker, wait) in workers.into_iter().zip(1..) {
        stage.pass(secs(wait));
        stage.release(worker, None);
    }
    // The one left last comes first; none of them takes the fourth slot.
    assert_eq!([stage.get("puma").slot, stage.get("puma").slot, stage.get("puma").slot], [2, 1, 0]);
}

#[test]
fn a_range_limits_a_claim() {
    let mut stage = Stage::of(4);
    let range = SlotRange::new(2, 3).expect("a range");
    assert_eq!(SlotRange::new(3, 2), None);
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let claim = stage.claim_of("east").with_range(range);
        numbers.push(stage.ask(&claim).expect("free").slot);
    }
    assert_eq!(numbers, [2, 3]);
    let claim = stage.claim_of("east").with_range(range);
    assert!(
        matches!(stage.ask(&claim), Err(Unclaimed::Exhausted { .. })),
        "0 and 1 are none of its business"
    );
    let beyond = stage.claim_of("east").with_range(SlotRange::new(4, 9).expect("a range"));
    assert_eq!(stage.ask(&beyond), Err(Unclaimed::NoSuchSlot));
}

#[test]
fn exhausted_says_when_to_come_back() {
    let mut stage = Stage::of(2);
    let now = stage.now;
    stage.get("a");
    stage.pass(secs(5));
    stage.get("b");
    let for_stranger = Unclaimed::Exhausted { next_chance: Some(now + TTL + COOL_DOWN) };
    assert_eq!(stage.refused("c"), for_stranger);
    let for_own = Unclaimed::Exhausted { next_chance: Some(now + TTL) };
    assert_eq!(stage.refused("a"), for_own, "its own slot need not cool down for it");
    stage.now = now + TTL + COOL_DOWN;
    assert_eq!(stage.get("c").slot, 0);
}

#[test]
fn locked_slots_are_passed_over_and_only_where_nothing_else_is_left_it_is_busy() {
    let mut stage = Stage::of(2);
    let now = stage.now;
    let claim = stage.claim_of("a");
    let got = stage.pool().claim_past(&claim, now, None, |slot| slot == 0).expect("the other one");
    assert_eq!(got.slot, 1);
    let claim = stage.claim_of("b");
    assert_eq!(stage.pool().claim_past(&claim, now, None, |slot| slot == 0), Err(Unclaimed::Busy));
    stage.get("b");
    let claim = stage.claim_of("c");
    let exhausted = stage.pool().claim_past(&claim, now, None, |_| true);
    assert!(matches!(exhausted, Err(Unclaimed::Exhausted { .. })), "a lock on what is held says nothing");
}

#[test]
fn a_live_slot_is_not_taken_over_by_identity_alone() {
    let mut stage = Stage::of(2);
    let first = stage.get("pod-0");
    assert_eq!(stage.get("pod-0").slot, 1, "another one");
    assert!(matches!(stage.refused("pod-0"), Unclaimed::Exhausted { .. }));
    stage.pass(secs(1));
    let claim = stage.claim_of("pod-0").with_exclusive_identity();
    let taken = stage.ask(&claim).expect("it says that there is no other");
    assert_eq!(taken.slot, 0);
    assert!(taken.lease.token() > first.lease.token());
    let now = stage.now;
    let late = stage.pool().renew(0, first.lease.owner(), first.lease.token(), now, None, TTL);
    assert_eq!(late, Err(Rejection::WrongOwner), "who had it hears of it");
}

#[test]
fn proof_that_the_holder_is_gone_counts_for_that_lease_and_that_identity_alone() {
    let mut stage = Stage::of(1);
    let held = stage.get("worker");
    stage.pass(secs(1));
    let gone = |token| Gone { slot: 0, token };
    let stranger = stage.claim_of("stranger").with_gone(gone(held.lease.token()));
    assert!(stage.ask(&stranger).is_err());
    let wrong = stage.claim_of("worker").with_gone(gone(token(9)));
    assert!(stage.ask(&wrong).is_err(), "a later holder is not meant");
    let elsewhere = stage.claim_of("worker").with_gone(Gone { slot: 1, token: held.lease.token() });
    assert!(stage.ask(&elsewhere).is_err());
    let proven = stage.claim_of("worker").with_gone(gone(held.lease.token()));
    assert_eq!(stage.ask(&proven).map(|grant| grant.slot), Ok(0));
    let again = stage.claim_of("worker").with_gone(gone(held.lease.token()));
    assert!(stage.ask(&again).is_err(), "the same proof says nothing of the next");
}

#[test]
fn without_an_identity_every_slot_is_a_strangers() {
    let mut stage = Stage::of(1);
    let now = stage.now;
    let nameless = |owner| SlotClaim::new(OwnerId::new(owner), TTL);
    let held = stage.pool().claim(&nameless(1), now, None).expect("free");
    stage.release(held, None);
    assert!(stage.ask(&nameless(2)).is_err(), "it cools down for it, too");
    stage.pass(COOL_DOWN);
    assert!(stage.pool().claim(&nameless(3).with_exclusive_identity(), now + COOL_DOWN, None).is_ok());
    assert!(stage.ask(&nameless(4).with_exclusive_identity()).is_err(), "no name is no identity");
}

#[test]
fn an_impossible_request_changes_nothing() {
    let mut stage = Stage::of(1);
    let now = stage.now;
    for (ttl, wall, why) in [
        (Duration::ZERO, None, Rejection::InvalidTtl),
        (Duration::MAX, None, Rejection::DeadlineOverflow),
        (TTL, Some(Duration::MAX), Rejection::DeadlineOverflow),
    ] {
        let claim = SlotClaim::new(OwnerId::new(1), ttl).with_identity("a");
        assert_eq!(stage.pool().claim(&claim, now, wall), Err(Unclaimed::Invalid(why)));
        assert_eq!(stage.pool().reclaim(&claim, now, wall), Err(Unclaimed::Invalid(why)));
        assert_eq!(stage.slots[0], Slot::new());
    }
    let held = stage.get("a");
    let (owner, token) = (held.lease.owner(), held.lease.token());
    let mut pool = stage.pool();
    assert_eq!(pool.renew(0, owner, token, now, Some(Duration::MAX), TTL), Err(Rejection::DeadlineOverflow));
    assert_eq!(pool.renew(0, owner, token, now, None, Duration::ZERO), Err(Rejection::InvalidTtl));
    assert_eq!(pool.renew(1, owner, token, now, None, TTL), Err(Rejection::Vacant), "no such slot");
    assert_eq!(pool.release(1, owner, token, None, now), Err(Rejection::Vacant));
    assert_eq!(pool.revoke(1, None, now), Err(Rejection::Vacant));
}

#[test]
fn a_slot_without_tokens_is_closed_for_good_and_hinders_nobody() {
    let checkpoint = Checkpoint::from_parts(Some(token(u64::MAX)), None, Duration::ZERO).expect("possible");
    let record =
        SlotRecord { checkpoint, identity: Some("a"), freed_at: None, mark: secs(0), window_after: None };
    let mut stage = Stage::of(1);
    stage.slots.insert(0, Slot::restore(record).expect("possible"));
    assert_eq!(stage.get("a").slot, 1);
    stage.slots.truncate(1);
    assert_eq!(stage.refused("a"), Unclaimed::Exhausted { next_chance: None });
}

#[test]
fn a_pool_goes_on_from_what_its_slots_have_seen() {
    let mut stage = Stage::of(2);
    let held = stage.get("a");
    let now = stage.now;
    // The store's clock steps back by a minute: it is taken as standing still.
    let (owner, token) = (held.lease.owner(), held.lease.token());
    let renewed = stage.pool().renew(0, owner, token, now - secs(60), None, TTL).expect("live");
    assert_eq!(renewed.lease.expires_at(), now + TTL);
    assert_eq!(stage.pool().observed(), now);
    assert_eq!(stage.pool().holders(now - secs(60)), 1);
    assert_eq!(stage.pool().holders(now + TTL), 0);
}

#[test]
fn a_pool_shows_its_slots_and_each_who_has_it_or_had_it_last() {
    let mut stage = Stage::of(3);
    let (first, _) = (stage.get("a"), stage.get("b"));
    stage.release(first, None);
    let pool = stage.pool();
    let shown: Vec<_> =
        pool.slots().iter().map(|slot| (slot.identity().copied(), slot.lease().is_some())).collect();
    assert_eq!(shown, [(Some("a"), false), (Some("b"), true), (None, false)]);
}

#[test]
fn why_a_claim_got_nothing_can_be_read() {
    for (why, text) in [
        (Unclaimed::Exhausted { next_chance: None }, "every slot is held, closed or cooling down"),
        (Unclaimed::Busy, "others are deciding on every slot that could be had"),
        (Unclaimed::NoSuchSlot, "the range begins beyond the end of the pool"),
        (Unclaimed::Invalid(Rejection::InvalidTtl), &Rejection::InvalidTtl.to_string()),
    ] {
        assert_eq!(why.to_string(), text);
    }
}
