//! Taking a free resource.

use super::*;

#[test]
fn grants_token_1_first_and_counts_up_by_one() {
    let mut authority = LeaseAuthority::new();
    for n in 1..=100 {
        let start = secs(n);
        assert_eq!(take(&mut authority, OwnerId::new(n), start, secs(1)).token(), token(n));
        assert_eq!(authority.last_issued(), Some(token(n)));
    }
}

#[test]
fn expires_at_now_plus_ttl_to_the_nanosecond() {
    let mut authority = LeaseAuthority::new();
    let now = Duration::new(5, 999_999_999);
    assert_eq!(take(&mut authority, ALICE, now, TICK).expires_at(), secs(6));
    for ttl in [millis(1), millis(500), millis(1500)] {
        let mut authority = LeaseAuthority::new();
        assert_eq!(take(&mut authority, ALICE, now, ttl).expires_at(), now + ttl);
    }
}

#[test]
fn refuses_a_zero_ttl() {
    let mut authority = LeaseAuthority::new();
    assert_eq!(authority.acquire(ALICE, secs(1), Duration::ZERO), Rejected(InvalidTtl));
    assert_eq!((authority.lease(), authority.last_issued()), (None, None));
}

#[test]
fn refuses_while_a_lease_is_live_even_to_its_own_owner() {
    let mut authority = held_until(secs(10));
    let before = authority.lease();
    for owner in [ALICE, BOB] {
        assert_eq!(authority.acquire(owner, secs(10) - TICK, secs(1)), Rejected(Occupied));
    }
    assert_eq!((authority.lease(), authority.last_issued()), (before, Some(token(1))));
}

#[test]
fn grants_at_the_deadline_itself() {
    for owner in [ALICE, BOB] {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.acquire(owner, secs(10), secs(1)), Granted(lease(owner, 2, secs(11))));
    }
}

#[test]
fn reaches_the_end_of_time_and_not_beyond() {
    let mut authority = LeaseAuthority::new();
    let now = Duration::MAX - secs(1);
    assert_eq!(authority.acquire(ALICE, now, secs(1) + TICK), Rejected(DeadlineOverflow));
    assert_eq!((authority.lease(), authority.last_issued()), (None, None));
    assert_eq!(authority.acquire(ALICE, now, secs(1)), Granted(lease(ALICE, 1, Duration::MAX)));

    let mut authority = LeaseAuthority::new();
    assert_eq!(
        authority.acquire(ALICE, Duration::ZERO, Duration::MAX),
        Granted(lease(ALICE, 1, Duration::MAX))
    );
    // At the last instant there is everything but a later one.
    assert_eq!(authority.acquire(ALICE, Duration::MAX, TICK), Rejected(DeadlineOverflow));
}

#[test]
fn takes_any_owner() {
    for owner in [OwnerId::new(0), OwnerId::new(u64::MAX)] {
        let mut authority = LeaseAuthority::new();
        assert_eq!(take(&mut authority, owner, secs(0), secs(1)).owner(), owner);
    }
}

#[test]
fn issues_the_last_token_and_then_fails_closed() {
    let mut authority = issued(u64::MAX - 1);
    assert_eq!(authority.acquire(ALICE, secs(0), secs(1)), Granted(lease(ALICE, u64::MAX, secs(1))));
    for now in [secs(1), secs(2), Duration::MAX - secs(1)] {
        assert_eq!(authority.acquire(BOB, now, secs(1)), Rejected(TokensExhausted));
        assert_eq!(authority.last_issued(), Some(token(u64::MAX)));
    }
}

#[test]
fn that_finds_no_token_leaves_the_last_lease_in_place() {
    let mut authority = issued(u64::MAX - 1);
    let last = take(&mut authority, ALICE, secs(0), secs(1));
    assert_eq!(authority.acquire(BOB, secs(1), secs(1)), Rejected(TokensExhausted));
    assert_eq!(authority.lease(), Some(last));
}
