//! Extending a lease.

use super::*;

#[test]
fn keeps_the_token_and_counts_from_now() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.renew(ALICE, token(1), secs(4), secs(10)), Renewed(lease(ALICE, 1, secs(14))));
    assert_eq!(authority.last_issued(), Some(token(1)));
}

#[test]
fn never_shortens_a_lease() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(2)), Renewed(lease(ALICE, 1, secs(10))));
    assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(9)), Renewed(lease(ALICE, 1, secs(10))));
    let longer = secs(9) + TICK;
    assert_eq!(authority.renew(ALICE, token(1), secs(1), longer), Renewed(lease(ALICE, 1, secs(10) + TICK)));
}

#[test]
fn succeeds_up_to_the_deadline_and_never_at_it() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.renew(ALICE, token(1), secs(10) - TICK, TICK), Renewed(lease(ALICE, 1, secs(10))));
    assert_eq!(authority.renew(ALICE, token(1), secs(10), secs(10)), Rejected(Expired));
    assert_eq!(authority.renew(ALICE, token(1), secs(99), secs(10)), Rejected(Expired));
}

#[test]
fn refuses_a_zero_ttl_of_a_live_lease() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.renew(ALICE, token(1), secs(1), Duration::ZERO), Rejected(InvalidTtl));
}

#[test]
fn of_nothing_says_vacant() {
    let mut authority = LeaseAuthority::new();
    assert_eq!(authority.renew(ALICE, token(1), secs(0), secs(1)), Rejected(Vacant));
}

#[test]
fn by_another_owner_is_refused_even_with_the_right_token() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.renew(BOB, token(1), secs(1), secs(1)), Rejected(WrongOwner));
}

#[test]
fn under_an_older_or_a_never_issued_token_is_stale() {
    let mut authority = restored(7, Some(lease(ALICE, 7, secs(10))), secs(0));
    for other in [1, 6, 8, u64::MAX] {
        assert_eq!(authority.renew(ALICE, token(other), secs(1), secs(1)), Rejected(StaleToken));
    }
}

#[test]
fn that_would_overflow_leaves_the_lease_as_it_was() {
    let mut authority = held_until(secs(10));
    let before = authority.lease();
    assert_eq!(authority.renew(ALICE, token(1), secs(1), Duration::MAX), Rejected(DeadlineOverflow));
    assert_eq!(authority.lease(), before);
    let furthest = Duration::MAX - secs(1);
    assert_eq!(authority.renew(ALICE, token(1), secs(1), furthest), Renewed(lease(ALICE, 1, Duration::MAX)));
}

#[test]
fn works_under_the_last_token_there_is() {
    let mut authority = restored(u64::MAX, Some(lease(ALICE, u64::MAX, secs(9))), secs(0));
    let answer = authority.renew(ALICE, token(u64::MAX), secs(1), secs(9));
    assert_eq!(answer, Renewed(lease(ALICE, u64::MAX, secs(10))));
}

#[test]
fn works_for_a_restored_lease_below_the_last_issued_token() {
    let mut authority = restored(9, Some(lease(ALICE, 7, secs(9))), secs(0));
    assert_eq!(authority.renew(ALICE, token(9), secs(1), secs(9)), Rejected(StaleToken));
    assert_eq!(authority.renew(ALICE, token(7), secs(1), secs(9)), Renewed(lease(ALICE, 7, secs(10))));
    assert_eq!(authority.acquire(BOB, secs(10), secs(1)), Granted(lease(BOB, 10, secs(11))));
}
