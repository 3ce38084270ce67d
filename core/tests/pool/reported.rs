//! What has gone wrong for others, as far as a pool decides it.

use lease_machines::{Rejection, Unclaimed};

use crate::{COOL_DOWN, Stage, TTL, secs};

/// apache/shardingsphere#190: an ID that had just been freed was given out at once.
#[test]
fn a_just_freed_id_was_given_out_at_once() {
    let mut stage = Stage::of(1);
    let held = stage.get("a");
    stage.release(held, Some(stage.now));
    assert_eq!(stage.refused("b"), Unclaimed::Exhausted { next_chance: Some(stage.now + COOL_DOWN) });
    stage.pass(COOL_DOWN - secs(1));
    assert!(matches!(stage.refused("b"), Unclaimed::Exhausted { .. }));
    stage.pass(secs(1));
    assert_eq!(stage.get("b").slot, 0);
}

/// The same where nobody released: it counts from the expiry.
#[test]
fn an_id_whose_holder_died_cools_down_from_its_expiry() {
    let mut stage = Stage::of(1);
    stage.get("a");
    stage.pass(TTL + COOL_DOWN - secs(1));
    assert!(matches!(stage.refused("b"), Unclaimed::Exhausted { .. }));
    stage.pass(secs(1));
    assert_eq!(stage.get("b").slot, 0);
}

/// Leaf#84, CosId#69: dead containers used the pool up, and a restart did not get its ID back.
#[test]
fn dead_containers_used_the_pool_up() {
    let mut stage = Stage::of(3);
    for generation in 0..5 {
        for name in ["a", "b", "c"] {
            assert_eq!(
                stage.get(name).slot,
                ["a", "b", "c"].iter().position(|n| *n == name).expect("one") as u16
            );
        }
        assert!(matches!(stage.refused("d"), Unclaimed::Exhausted { .. }), "generation {generation}");
        // All are killed; nobody releases.
        stage.pass(TTL);
    }
}

/// baidu/uid-generator PR#88: every restart used up another ID.
#[test]
fn restarts_consumed_ids() {
    let mut stage = Stage::of(2);
    for _ in 0..100 {
        let held = stage.get("a");
        assert_eq!(held.slot, 0);
        stage.pass(secs(1));
        stage.release(held, Some(stage.now));
    }
    assert_eq!(stage.slots[1].last_issued(), None);
}

/// An ID came back to a node that had lost it, with the counters of its first time: every nonce was another's, too.
#[test]
fn an_id_that_came_back_began_where_its_last_holder_had_been() {
    let mut stage = Stage::of(1);
    let mut windows = Vec::new();
    for name in ["a", "b", "a"] {
        windows.push(stage.get(name).window.expect("asked for"));
        stage.pass(TTL + COOL_DOWN);
    }
    assert!(windows.windows(2).all(|pair| pair[0].until <= pair[1].after), "{windows:?}");
}

/// rails/solid_queue PR#761: a second release freed a slot that another held by then.
#[test]
fn a_second_release_freed_a_slot_that_another_held() {
    let mut stage = Stage::of(1);
    let first = stage.get("a");
    stage.release(first, None);
    stage.pass(secs(1));
    let second = stage.get("a");
    let now = stage.now;
    let again = stage.pool().release(0, first.lease.owner(), first.lease.token(), None, now);
    assert_eq!(again, Err(Rejection::WrongOwner));
    assert_eq!(stage.pool().holders(now), 1);
    assert!(stage.pool().renew(0, second.lease.owner(), second.lease.token(), now, None, TTL).is_ok());
}

/// simstudioai/sim#6864: the answer was lost, and nobody owned what had been granted.
#[test]
fn the_answer_was_lost() {
    let mut stage = Stage::of(2);
    let claim = stage.claim_of("a");
    let lost = stage.ask(&claim).expect("free");
    stage.pass(secs(1));
    let now = stage.now;
    let again = stage.pool().reclaim(&claim, now, Some(now)).expect("its own");
    assert_eq!(again.slot, lost.slot, "not a second slot");
    assert!(again.lease.token() > lost.lease.token());
    let (before, after) = (lost.window.expect("asked for"), again.window.expect("asked for"));
    assert_eq!((after.after, after.until), (before.after, now + TTL), "nothing of it was used");
    assert_eq!(stage.pool().holders(now), 1);

    // Where the request itself was lost, it is simply a claim.
    let claim = stage.claim_of("b");
    assert_eq!(stage.pool().reclaim(&claim, now, Some(now)).map(|grant| grant.slot), Ok(1));
}

/// An operator's break frees the ID for the next while the holder, which has not heard of it, goes on making IDs.
#[test]
fn a_revoked_id_was_given_out_while_its_holder_went_on() {
    let mut stage = Stage::of(1);
    let held = stage.get("a");
    let ends = held.lease.expires_at();
    stage.pass(secs(1));
    let now = stage.now;
    let burnt = stage.pool().revoke(0, Some(held.lease.token()), now).expect("it is the current one");
    assert!(burnt > held.lease.token());
    let (owner, token) = (held.lease.owner(), held.lease.token());
    assert_eq!(stage.pool().renew(0, owner, token, now, None, TTL), Err(Rejection::Vacant));
    // Closed to everybody, its own identity included, whatever it says.
    let claim = stage.claim_of("a").with_exclusive_identity();
    assert_eq!(stage.ask(&claim), Err(Unclaimed::Exhausted { next_chance: Some(ends) }));
    stage.now = ends;
    assert_eq!(stage.refused("b"), Unclaimed::Exhausted { next_chance: Some(ends + COOL_DOWN) });
    let back = stage.get("a");
    assert_eq!(back.window.map(|window| window.after), held.window.map(|window| window.until));
}

/// A semaphore whose holders exceeded its size, for any number of claimants.
#[test]
fn holders_never_exceed_the_size_of_the_pool() {
    let mut stage = Stage::of(3);
    let now = stage.now;
    let granted = (0..50).filter(|_| {
        let claim = stage.claim_of("any");
        stage.pool().claim(&claim, now, None).is_ok()
    });
    assert_eq!(granted.count(), 3);
    assert_eq!(stage.pool().holders(now), 3);
}
