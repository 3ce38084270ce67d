//! The operator's break.

use super::*;

#[test]
fn vacates_and_burns_one_token() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.revoke(None, secs(1)), Ok(token(2)));
    assert_eq!((authority.lease(), authority.last_issued()), (None, Some(token(2))));
    assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(1)), Rejected(Vacant));
    assert_eq!(authority.acquire(BOB, secs(1), secs(1)), Granted(lease(BOB, 3, secs(2))));
}

#[test]
fn of_a_vacant_resource_burns_a_token_too() {
    let mut authority = LeaseAuthority::new();
    assert_eq!(authority.revoke(None, secs(0)), Ok(token(1)));
    assert_eq!(authority.acquire(ALICE, secs(0), secs(1)), Granted(lease(ALICE, 2, secs(1))));
}

#[test]
fn with_the_expected_token_breaks_that_lease_live_or_over() {
    for now in [secs(1), secs(10), secs(11)] {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.revoke(Some(token(1)), now), Ok(token(2)));
        assert_eq!(authority.lease(), None);
    }
}

#[test]
fn with_another_token_expected_changes_neither_lease_nor_tokens() {
    let mut authority = restored(7, Some(lease(ALICE, 7, secs(10))), secs(0));
    for other in [1, 6, 8, u64::MAX] {
        assert_eq!(authority.revoke(Some(token(other)), secs(1)), Err(StaleToken));
    }
    assert_eq!(authority.lease(), Some(lease(ALICE, 7, secs(10))));
    assert_eq!(authority.last_issued(), Some(token(7)));
}

#[test]
fn with_a_token_expected_of_a_vacant_resource_says_vacant_and_burns_nothing() {
    let mut authority = issued(7);
    assert_eq!(authority.revoke(Some(token(7)), secs(1)), Err(Vacant));
    assert_eq!(authority.last_issued(), Some(token(7)));
}

#[test]
fn is_not_repeated_by_accident_against_the_next_holder() {
    let mut authority = held_until(secs(10));
    assert_eq!(authority.revoke(Some(token(1)), secs(1)), Ok(token(2)));
    let next = take(&mut authority, BOB, secs(1), secs(10));
    assert_eq!(authority.revoke(Some(token(1)), secs(2)), Err(StaleToken));
    assert_eq!(authority.lease(), Some(next));
}

#[test]
fn is_never_refused_by_the_clock() {
    for policy in [ClockPolicy::Reject, ClockPolicy::Clamp] {
        let mut authority = restored(1, Some(lease(ALICE, 1, secs(99))), secs(50)).with_clock_policy(policy);
        assert_eq!(authority.revoke(None, secs(1)), Ok(token(2)));
        assert_eq!(authority.observed(), secs(50), "a regressed now is taken as the latest observation");
    }
}

#[test]
fn observes_its_now_also_when_it_is_rejected() {
    let mut authority = issued(1);
    assert_eq!(authority.revoke(Some(token(1)), secs(7)), Err(Vacant));
    assert_eq!(authority.observed(), secs(7));
    assert_eq!(authority.revoke(None, secs(8)), Ok(token(2)));
    assert_eq!(authority.observed(), secs(8));
}

#[test]
fn burns_the_last_token_and_leaves_none() {
    let mut authority = restored(u64::MAX - 1, Some(lease(ALICE, u64::MAX - 1, secs(9))), secs(0));
    assert_eq!(authority.revoke(None, secs(1)), Ok(token(u64::MAX)));
    assert_eq!(authority.acquire(BOB, secs(1), secs(1)), Rejected(TokensExhausted));
}

#[test]
fn with_no_token_left_vacates_all_the_same() {
    for expect in [None, Some(token(u64::MAX))] {
        let mut authority = restored(u64::MAX, Some(lease(ALICE, u64::MAX, secs(9))), secs(0));
        assert_eq!(authority.revoke(expect, secs(1)), Err(TokensExhausted));
        assert_eq!((authority.lease(), authority.last_issued()), (None, Some(token(u64::MAX))));
    }
}

#[test]
fn with_no_token_left_still_spares_the_holder_that_was_not_meant() {
    let mut authority = restored(u64::MAX, Some(lease(ALICE, u64::MAX, secs(9))), secs(0));
    assert_eq!(authority.revoke(Some(token(1)), secs(1)), Err(StaleToken));
    assert_eq!(authority.lease(), Some(lease(ALICE, u64::MAX, secs(9))));
}
