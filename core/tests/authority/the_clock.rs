//! A `now` before the latest observation.

use super::*;

/// Every request that takes part in the clock rule, as a function of `now`, in a form that is else rejected.
fn rejected_requests() -> [fn(&mut LeaseAuthority, Duration) -> Decision; 4] {
    [
        |authority, now| authority.acquire(BOB, now, Duration::ZERO),
        |authority, now| authority.reacquire(BOB, now, Duration::ZERO),
        |authority, now| authority.renew(BOB, token(1), now, secs(1)),
        |authority, now| authority.release(BOB, token(1), now),
    ]
}

#[test]
fn is_observed_also_when_the_request_is_rejected() {
    for request in rejected_requests() {
        let mut authority = held_until(secs(10));
        assert!(request(&mut authority, secs(7)).rejection().is_some());
        assert_eq!(authority.observed(), secs(7));
        assert_eq!(authority.renew(ALICE, token(1), secs(6), secs(1)), Rejected(ClockRegressed));
    }
}

#[test]
fn that_went_back_is_refused_and_leaves_no_trace_under_reject() {
    for request in rejected_requests() {
        let mut authority = held_until(secs(10));
        let _ = authority.acquire(BOB, secs(5), secs(1));
        let before = authority.checkpoint();
        assert_eq!(request(&mut authority, secs(5) - TICK), Rejected(ClockRegressed));
        assert_eq!(authority.checkpoint(), before);
    }
}

#[test]
fn that_stands_still_is_no_regression() {
    let mut authority = LeaseAuthority::new();
    take(&mut authority, ALICE, secs(5), secs(5));
    assert_eq!(authority.renew(ALICE, token(1), secs(5), secs(5)), Renewed(lease(ALICE, 1, secs(10))));
}

#[test]
fn that_went_back_counts_as_the_latest_observation_under_clamp() {
    let mut authority = LeaseAuthority::new().with_clock_policy(ClockPolicy::Clamp);
    assert_eq!(authority.acquire(ALICE, secs(5), secs(5)), Granted(lease(ALICE, 1, secs(10))));
    assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(6)), Renewed(lease(ALICE, 1, secs(11))));
    assert_eq!(authority.observed(), secs(5));
    assert_eq!(authority.release(ALICE, token(1), secs(0)), Released);
    assert_eq!(authority.acquire(BOB, secs(0), secs(2)), Granted(lease(BOB, 2, secs(7))));
    assert_eq!(authority.reacquire(BOB, secs(0), secs(3)), Granted(lease(BOB, 3, secs(8))));
}

#[test]
fn that_went_back_never_revives_a_lease_under_clamp() {
    let mut authority = held_until(secs(10)).with_clock_policy(ClockPolicy::Clamp);
    assert_eq!(authority.renew(ALICE, token(1), secs(10), secs(10)), Rejected(Expired));
    assert_eq!(authority.renew(ALICE, token(1), secs(9), secs(10)), Rejected(Expired));
    assert_eq!(authority.release(ALICE, token(1), secs(9)), Rejected(Expired));
    assert_eq!(authority.acquire(BOB, secs(9), secs(1)), Granted(lease(BOB, 2, secs(11))));
}

#[test]
fn that_went_back_never_shortens_a_lease_under_clamp() {
    let mut authority = LeaseAuthority::new().with_clock_policy(ClockPolicy::Clamp);
    take(&mut authority, ALICE, secs(5), secs(5));
    assert_eq!(authority.renew(ALICE, token(1), secs(0), secs(1)), Renewed(lease(ALICE, 1, secs(10))));
    assert_eq!(authority.acquire(BOB, secs(0), secs(1)), Rejected(Occupied));
}

#[test]
fn is_not_mended_by_a_change_of_policy() {
    let mut authority = held_until(secs(10));
    let _ = authority.acquire(BOB, secs(8), secs(1));
    let mut authority = authority.with_clock_policy(ClockPolicy::Clamp);
    assert_eq!(authority.observed(), secs(8));
    assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(3)), Renewed(lease(ALICE, 1, secs(11))));
    let mut authority = authority.with_clock_policy(ClockPolicy::Reject);
    assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(3)), Rejected(ClockRegressed));
}
