//! Which ID time is whose.

use std::time::Duration;

use lease_machines::{OwnerId, Rejection, SlotClaim, Unclaimed, Window};

use crate::{COOL_DOWN, Stage, TTL, secs};

#[test]
fn a_grant_and_each_renewal_reserve_to_the_wall_clock_and_the_ttl() {
    let mut stage = Stage::of(1);
    let start = stage.now;
    let held = stage.get("a");
    assert_eq!(held.window, Some(Window { after: Duration::ZERO, until: start + TTL }));
    assert_eq!(stage.slots[0].mark(), start + TTL, "it rises at the grant");
    stage.pass(secs(20));
    let now = stage.now;
    let (owner, token) = (held.lease.owner(), held.lease.token());
    let renewed = stage.pool().renew(0, owner, token, now, Some(now), TTL).expect("live");
    assert_eq!(
        renewed.window,
        Some(Window { after: Duration::ZERO, until: now + TTL }),
        "it began where it began"
    );
    // A wall clock that stepped back takes nothing away.
    let renewed = stage.pool().renew(0, owner, token, now, Some(secs(1)), TTL).expect("live");
    assert_eq!(renewed.window, Some(Window { after: Duration::ZERO, until: now + TTL }));
}

#[test]
fn the_next_holder_begins_above_whatever_the_last_may_have_used() {
    let mut stage = Stage::of(1);
    let until = stage.get("a").window.expect("asked for").until;
    stage.pass(TTL + COOL_DOWN);
    let next = stage.get("b").window.expect("asked for");
    assert_eq!(next, Window { after: until, until: stage.now + TTL });
    assert!(!next.contains(until) && next.contains(until + Duration::from_nanos(1)));
    assert!(next.contains(next.until) && !next.contains(next.until + Duration::from_nanos(1)));
}

#[test]
fn a_release_that_names_the_last_stamp_gives_the_rest_back() {
    let mut stage = Stage::of(1);
    let held = stage.get("a");
    stage.pass(secs(5));
    let used = stage.now;
    stage.release(held, Some(used));
    assert_eq!(stage.get("a").window.map(|window| window.after), Some(used));
}

#[test]
fn without_a_word_everything_counts_as_used() {
    let mut stage = Stage::of(1);
    let held = stage.get("a");
    let until = held.window.expect("asked for").until;
    stage.pass(secs(5));
    stage.release(held, None);
    assert_eq!(stage.get("a").window.map(|window| window.after), Some(until), "though that lies ahead");
}

#[test]
fn nothing_is_given_back_from_below_the_own_window_and_what_was_used_is_used() {
    let mut stage = Stage::of(1);
    let held = stage.get("a");
    stage.pass(secs(5));
    let used = stage.now;
    stage.release(held, Some(used));
    let held = stage.get("a");
    stage.release(held, Some(secs(1)));
    assert_eq!(stage.slots[0].mark(), used, "that was another's");
    let held = stage.get("a");
    let beyond = held.window.expect("asked for").until + secs(1);
    stage.release(held, Some(beyond));
    assert_eq!(stage.slots[0].mark(), beyond, "it broke its word, but the stamp is spent");
    assert_eq!(stage.refused("a"), Unclaimed::Exhausted { next_chance: None }, "nothing to reserve as yet");
    stage.pass(secs(3));
    assert_eq!(stage.get("a").window.map(|window| window.after), Some(beyond));
}

#[test]
fn a_release_that_is_refused_gives_nothing_back() {
    let mut stage = Stage::of(1);
    let held = stage.get("a");
    let until = held.window.expect("asked for").until;
    stage.pass(TTL);
    let now = stage.now;
    let (owner, token) = (held.lease.owner(), held.lease.token());
    let late = stage.pool().release(0, owner, token, Some(secs(1_001)), now);
    assert_eq!(late, Err(Rejection::Expired));
    assert_eq!(stage.slots[0].mark(), until);
}

#[test]
fn a_wall_clock_that_stepped_back_closes_a_slot_for_ids_and_not_for_a_semaphore() {
    let mut stage = Stage::of(1);
    stage.get("a");
    stage.pass(TTL + COOL_DOWN);
    let (now, stepped) = (stage.now, secs(10));
    let claim = stage.claim_of("b");
    let refused = stage.pool().claim(&claim, now, Some(stepped));
    assert_eq!(refused, Err(Unclaimed::Exhausted { next_chance: None }));
    let granted = stage.pool().claim(&claim, now, None).expect("nothing is to be reserved");
    assert_eq!(granted.window, None);
}

#[test]
fn a_withdrawal_gives_back_slots_and_not_their_time() {
    let mut stage = Stage::of(3);
    let now = stage.now;
    let claim = SlotClaim::new(OwnerId::new(7), TTL).with_identity("a");
    let one = stage.ask(&claim).expect("free");
    let two = stage.ask(&claim).expect("free");
    stage.get("b");
    assert_eq!(stage.pool().withdraw(OwnerId::new(7), now), 2);
    assert_eq!(stage.pool().withdraw(OwnerId::new(7), now), 0);
    assert_eq!(stage.pool().holders(now), 1);
    for grant in [one, two] {
        let slot = &stage.slots[usize::from(grant.slot)];
        assert_eq!((slot.lease(), slot.free_from(), slot.mark()), (None, Some(now), now + TTL));
    }
}

#[test]
fn a_renewal_may_be_the_first_to_reserve() {
    let mut stage = Stage::of(1);
    let now = stage.now;
    let claim = stage.claim_of("a");
    let held = stage.pool().claim(&claim, now, None).expect("free");
    assert_eq!(held.window, None);
    let (owner, token) = (held.lease.owner(), held.lease.token());
    let renewed = stage.pool().renew(0, owner, token, now, Some(now), TTL).expect("live");
    assert_eq!(renewed.window, Some(Window { after: Duration::ZERO, until: now + TTL }));
}
