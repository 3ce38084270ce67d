//! Every rule of the authority, by name. Each test states one sentence of its contract.

mod support;

use core::time::Duration;

use lease_machines::{
    Checkpoint, ClockPolicy,
    Decision::{self, Granted, Rejected, Released, Renewed},
    LeaseAuthority, OwnerId,
    Rejection::{
        ClockRegressed, DeadlineOverflow, Expired, InvalidTtl, Occupied, StaleToken, TokensExhausted, Vacant,
        WrongOwner,
    },
};
use support::{ALICE, BOB, TICK, lease, millis, secs, take, token};

/// An authority that has issued `last` tokens, and where nobody holds the resource.
fn issued(last: u64) -> LeaseAuthority {
    restored(last, None, Duration::ZERO)
}

fn restored(last: u64, held: Option<lease_machines::Lease>, observed: Duration) -> LeaseAuthority {
    let last = lease_machines::FencingToken::new(last);
    LeaseAuthority::restore(Checkpoint::from_parts(last, held, observed).expect("a possible state"))
}

/// Token 1, Alice's, from second 0 to `until`.
fn held_until(until: Duration) -> LeaseAuthority {
    let mut authority = LeaseAuthority::new();
    take(&mut authority, ALICE, Duration::ZERO, until);
    authority
}

mod a_new_authority {
    use super::*;

    #[test]
    fn is_vacant_without_history_at_the_origin_of_time() {
        let authority = LeaseAuthority::new();
        assert_eq!((authority.lease(), authority.last_issued()), (None, None));
        assert_eq!(authority.observed(), Duration::ZERO);
        assert_eq!(authority, LeaseAuthority::default());
    }

    #[test]
    fn rejects_a_regressed_clock_unless_told_otherwise() {
        assert_eq!(ClockPolicy::default(), ClockPolicy::Reject);
        assert_eq!(LeaseAuthority::new(), LeaseAuthority::new().with_clock_policy(ClockPolicy::Reject));
        assert_ne!(LeaseAuthority::new(), LeaseAuthority::new().with_clock_policy(ClockPolicy::Clamp));
    }

    #[test]
    fn fits_with_its_lease_into_64_bytes() {
        assert!(size_of::<LeaseAuthority>() <= 64, "{} bytes", size_of::<LeaseAuthority>());
        assert!(size_of::<Checkpoint>() <= 56, "{} bytes", size_of::<Checkpoint>());
        assert!(size_of::<Decision>() <= 40, "{} bytes", size_of::<Decision>());
    }
}

mod the_walk_through {
    use super::*;

    #[test]
    fn a_lease_keeps_others_out_until_its_deadline_and_not_at_it() {
        let mut authority = LeaseAuthority::new();
        assert_eq!(authority.acquire(ALICE, secs(0), secs(2)), Granted(lease(ALICE, 1, secs(2))));
        assert_eq!(authority.acquire(BOB, secs(1), secs(2)), Rejected(Occupied));
        assert_eq!(authority.acquire(BOB, secs(2), secs(2)), Granted(lease(BOB, 2, secs(4))));
    }

    #[test]
    fn a_lease_is_renewed_under_its_own_token_only_and_then_released() {
        let mut authority = held_until(secs(2));
        assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(3)), Renewed(lease(ALICE, 1, secs(4))));
        assert_eq!(authority.renew(ALICE, token(2), secs(1), secs(3)), Rejected(StaleToken));
        assert_eq!(authority.release(ALICE, token(1), secs(2)), Released);
    }

    #[test]
    fn a_lease_that_is_over_is_not_released() {
        let mut authority = held_until(secs(1));
        assert_eq!(authority.release(ALICE, token(1), secs(3)), Rejected(Expired));
    }

    #[test]
    fn a_clock_that_goes_back_is_named() {
        let mut authority = LeaseAuthority::new();
        take(&mut authority, ALICE, secs(2), secs(1));
        assert_eq!(authority.acquire(ALICE, secs(1), secs(1)), Rejected(ClockRegressed));
    }

    #[test]
    fn tokens_go_on_after_a_checkpoint() {
        let mut restored = LeaseAuthority::restore(held_until(secs(2)).checkpoint());
        assert_eq!(restored.acquire(BOB, secs(2), secs(1)), Granted(lease(BOB, 2, secs(3))));
    }
}

mod acquire {
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
}

mod reacquire {
    use super::*;

    #[test]
    fn of_a_free_resource_is_an_acquire() {
        let mut authority = LeaseAuthority::new();
        assert_eq!(authority.reacquire(ALICE, secs(0), secs(2)), Granted(lease(ALICE, 1, secs(2))));
        assert_eq!(authority.reacquire(BOB, secs(2), secs(2)), Granted(lease(BOB, 2, secs(4))));
    }

    #[test]
    fn rotates_the_owners_own_live_lease_to_a_greater_token() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.reacquire(ALICE, secs(1), secs(2)), Granted(lease(ALICE, 2, secs(3))));
        assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(2)), Rejected(StaleToken));
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Rejected(StaleToken));
        assert_eq!(authority.release(ALICE, token(2), secs(1)), Released);
    }

    #[test]
    fn does_not_pass_another_owners_live_lease() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.reacquire(BOB, secs(10) - TICK, secs(1)), Rejected(Occupied));
        assert_eq!(authority.reacquire(BOB, secs(10), secs(1)), Granted(lease(BOB, 2, secs(11))));
    }

    #[test]
    fn that_fails_leaves_the_owners_lease_as_it_was() {
        let mut authority = held_until(secs(10));
        let before = authority.lease();
        assert_eq!(authority.reacquire(ALICE, secs(1), Duration::ZERO), Rejected(InvalidTtl));
        assert_eq!(authority.reacquire(ALICE, secs(1), Duration::MAX), Rejected(DeadlineOverflow));
        assert_eq!(authority.lease(), before);
        assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(20)), Renewed(lease(ALICE, 1, secs(21))));

        let mut last = restored(u64::MAX, Some(lease(ALICE, u64::MAX, secs(9))), secs(0));
        assert_eq!(last.reacquire(ALICE, secs(1), secs(1)), Rejected(TokensExhausted));
        assert_eq!(last.lease(), Some(lease(ALICE, u64::MAX, secs(9))));
    }

    #[test]
    fn can_be_retried_until_an_answer_arrives() {
        let mut authority = LeaseAuthority::new();
        for (attempt, n) in (0..5).zip(1..) {
            let answer = authority.reacquire(ALICE, secs(attempt), secs(10));
            assert_eq!(answer, Granted(lease(ALICE, n, secs(attempt + 10))));
        }
        assert_eq!(authority.renew(ALICE, token(5), secs(5), secs(10)), Renewed(lease(ALICE, 5, secs(15))));
    }
}

mod renew {
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
        assert_eq!(
            authority.renew(ALICE, token(1), secs(1), longer),
            Renewed(lease(ALICE, 1, secs(10) + TICK))
        );
    }

    #[test]
    fn succeeds_up_to_the_deadline_and_never_at_it() {
        let mut authority = held_until(secs(10));
        assert_eq!(
            authority.renew(ALICE, token(1), secs(10) - TICK, TICK),
            Renewed(lease(ALICE, 1, secs(10)))
        );
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
        assert_eq!(
            authority.renew(ALICE, token(1), secs(1), furthest),
            Renewed(lease(ALICE, 1, Duration::MAX))
        );
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
}

mod release {
    use super::*;

    #[test]
    fn vacates_and_keeps_the_history_of_tokens() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Released);
        assert_eq!((authority.lease(), authority.last_issued()), (None, Some(token(1))));
        assert_eq!(authority.acquire(BOB, secs(1), secs(1)), Granted(lease(BOB, 2, secs(2))));
    }

    #[test]
    fn a_second_time_says_vacant() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Released);
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Rejected(Vacant));
    }

    #[test]
    fn is_refused_to_another_owner_and_under_another_token() {
        let mut authority = restored(7, Some(lease(ALICE, 7, secs(10))), secs(0));
        assert_eq!(authority.release(BOB, token(7), secs(1)), Rejected(WrongOwner));
        for other in [6, 8] {
            assert_eq!(authority.release(ALICE, token(other), secs(1)), Rejected(StaleToken));
        }
        assert_eq!(authority.lease(), Some(lease(ALICE, 7, secs(10))));
    }

    #[test]
    fn succeeds_up_to_the_deadline_and_never_at_it() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(10)), Rejected(Expired));
        let mut authority = held_until(secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(10) - TICK), Released);
    }
}

mod revoke {
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
            let mut authority =
                restored(1, Some(lease(ALICE, 1, secs(99))), secs(50)).with_clock_policy(policy);
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
}

mod the_first_rule_that_fails_is_the_reason {
    use super::*;

    /// Breaks every rule at once, then mends them one by one in the documented order.
    #[test]
    fn of_acquire_and_reacquire() {
        type Grant = fn(&mut LeaseAuthority, OwnerId, Duration, Duration) -> Decision;
        let calls: [Grant; 2] = [LeaseAuthority::acquire, LeaseAuthority::reacquire];
        for call in calls {
            // Bob's lease is live until the end of time, no token is left, the clock stands near its end.
            let observed = Duration::MAX - secs(2);
            let held = Some(lease(BOB, u64::MAX, Duration::MAX));
            let mut authority = restored(u64::MAX, held, observed);
            assert_eq!(call(&mut authority, ALICE, secs(0), secs(0)), Rejected(ClockRegressed));
            assert_eq!(call(&mut authority, ALICE, observed, secs(0)), Rejected(InvalidTtl));
            assert_eq!(call(&mut authority, ALICE, observed, secs(9)), Rejected(Occupied));
            assert_eq!(call(&mut authority, ALICE, Duration::MAX, secs(9)), Rejected(DeadlineOverflow));
            let mut authority = restored(u64::MAX, None, observed);
            assert_eq!(call(&mut authority, ALICE, observed, secs(9)), Rejected(DeadlineOverflow));
            assert_eq!(call(&mut authority, ALICE, observed, secs(1)), Rejected(TokensExhausted));
            let mut authority = restored(u64::MAX - 1, None, observed);
            assert!(matches!(call(&mut authority, ALICE, observed, secs(1)), Granted(_)));
        }
    }

    #[test]
    fn of_renew() {
        let observed = Duration::MAX - secs(2);
        let (right, wrong) = (token(7), token(6));
        let mut vacant = restored(7, None, observed);
        assert_eq!(vacant.renew(BOB, wrong, secs(0), secs(0)), Rejected(ClockRegressed));
        assert_eq!(vacant.renew(BOB, wrong, observed, secs(0)), Rejected(InvalidTtl));
        assert_eq!(vacant.renew(BOB, wrong, observed, secs(9)), Rejected(Vacant));
        let mut over = restored(7, Some(lease(ALICE, 7, secs(1))), observed);
        assert_eq!(over.renew(BOB, wrong, observed, secs(9)), Rejected(WrongOwner));
        assert_eq!(over.renew(ALICE, wrong, observed, secs(9)), Rejected(StaleToken));
        assert_eq!(over.renew(ALICE, right, observed, secs(9)), Rejected(Expired));
        let mut live = restored(7, Some(lease(ALICE, 7, Duration::MAX)), observed);
        assert_eq!(live.renew(ALICE, right, observed, secs(9)), Rejected(DeadlineOverflow));
        assert_eq!(live.renew(ALICE, right, observed, secs(1)), Renewed(lease(ALICE, 7, Duration::MAX)));
    }

    #[test]
    fn of_release() {
        let (right, wrong) = (token(7), token(6));
        let mut vacant = restored(7, None, secs(5));
        assert_eq!(vacant.release(BOB, wrong, secs(4)), Rejected(ClockRegressed));
        assert_eq!(vacant.release(BOB, wrong, secs(5)), Rejected(Vacant));
        let mut over = restored(7, Some(lease(ALICE, 7, secs(5))), secs(5));
        assert_eq!(over.release(BOB, wrong, secs(5)), Rejected(WrongOwner));
        assert_eq!(over.release(ALICE, wrong, secs(5)), Rejected(StaleToken));
        assert_eq!(over.release(ALICE, right, secs(5)), Rejected(Expired));
    }
}

mod the_clock {
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
}

mod restore {
    use super::*;

    #[test]
    fn goes_on_exactly_where_the_checkpoint_was_taken() {
        let mut authority = held_until(secs(10));
        let _ = authority.acquire(BOB, secs(4), secs(1));
        let restored = LeaseAuthority::restore(authority.checkpoint());
        assert_eq!(restored, authority);
        assert_eq!(restored.lease(), Some(lease(ALICE, 1, secs(10))));
        assert_eq!(restored.observed(), secs(4));
    }

    #[test]
    fn rejects_a_regressed_clock_whatever_the_policy_was() {
        let clamping = held_until(secs(10)).with_clock_policy(ClockPolicy::Clamp);
        let mut restored = LeaseAuthority::restore(clamping.checkpoint());
        assert_eq!(restored.renew(ALICE, token(1), secs(4), secs(1)), Renewed(lease(ALICE, 1, secs(10))));
        assert_eq!(restored.renew(ALICE, token(1), secs(3), secs(1)), Rejected(ClockRegressed));
    }

    #[test]
    fn does_not_let_a_lease_that_was_over_be_renewed() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.renew(ALICE, token(1), secs(10), secs(1)), Rejected(Expired));
        let mut restored =
            LeaseAuthority::restore(authority.checkpoint()).with_clock_policy(ClockPolicy::Clamp);
        assert_eq!(restored.renew(ALICE, token(1), secs(0), secs(1)), Rejected(Expired));
    }

    #[test]
    fn after_release_expiry_and_revoke_still_counts_up() {
        let mut authority = LeaseAuthority::new();
        let mut last = 0;
        let mut grown = |authority: &mut LeaseAuthority, now| {
            *authority = LeaseAuthority::restore(authority.checkpoint());
            let next = take(authority, ALICE, now, secs(1)).token().value();
            assert!(next > last, "token {next} after {last}");
            last = next;
            *authority = LeaseAuthority::restore(authority.checkpoint());
        };
        grown(&mut authority, secs(0));
        assert_eq!(authority.release(ALICE, token(1), secs(0)), Released);
        grown(&mut authority, secs(0));
        grown(&mut authority, secs(1)); // the one before ran out
        assert_eq!(authority.revoke(None, secs(1)), Ok(token(4)));
        grown(&mut authority, secs(1));
    }
}

mod reported_elsewhere {
    //! Faults that other systems had, as far as they concern the decisions alone.
    use super::*;

    /// etcd-io/etcd#11456 and #9921: a waiter was granted the lock after its own lease had ended.
    #[test]
    fn a_granted_deadline_always_lies_in_the_future() {
        for (now, ttl) in [(secs(0), TICK), (secs(7), millis(1)), (Duration::MAX - TICK, TICK)] {
            let mut authority = LeaseAuthority::new();
            assert!(take(&mut authority, ALICE, now, ttl).is_live(now));
        }
    }

    /// redisson/redisson#7272 and the AWS lock client's pull request 116: a renewal raced release and kept a released
    /// lock alive.
    #[test]
    fn nothing_in_flight_extends_a_lease_once_it_is_released() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Released);
        assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(10)), Rejected(Vacant));
        take(&mut authority, BOB, secs(1), secs(10));
        assert_eq!(authority.renew(ALICE, token(1), secs(1), secs(10)), Rejected(WrongOwner));
    }

    /// swarthy/redis-semaphore#175 and leandromoreira/redlock-rb#36: a late renewal silently took the lock again.
    #[test]
    fn a_late_renewal_says_expired_and_taking_it_again_gives_a_greater_token() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.renew(ALICE, token(1), secs(11), secs(10)), Rejected(Expired));
        assert_eq!(authority.acquire(ALICE, secs(11), secs(10)), Granted(lease(ALICE, 2, secs(21))));
    }

    /// mike-marcacci/node-redlock#120 and its kind: ttls under a second became 0, or errors that mislead.
    #[test]
    fn a_ttl_under_a_second_is_exact() {
        for ttl in [TICK, millis(1), millis(500), millis(1500)] {
            let mut authority = LeaseAuthority::new();
            let granted = take(&mut authority, ALICE, secs(3), ttl);
            assert_eq!(granted.expires_at() - secs(3), ttl);
            assert_eq!(authority.acquire(BOB, secs(3) + ttl - TICK, ttl), Rejected(Occupied));
            assert!(matches!(authority.acquire(BOB, secs(3) + ttl, ttl), Granted(_)));
        }
    }

    /// lyokato/redlock#21: a release took away another's lock.
    #[test]
    fn a_release_never_takes_away_anothers_lease() {
        let mut authority = held_until(secs(1));
        let next = take(&mut authority, BOB, secs(1), secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(2)), Rejected(WrongOwner));
        // Nor does an owner's own earlier release, delayed on the way, end its own later lease.
        assert_eq!(authority.release(BOB, token(1), secs(2)), Rejected(StaleToken));
        assert_eq!(authority.lease(), Some(next));
    }

    /// etcd-io/etcd#12291 and lukas-krecan/ShedLock#231: clock steps gave two holders, or a lock that stuck.
    #[test]
    fn a_step_of_the_clock_by_an_hour_gives_neither_two_holders_nor_a_token_twice() {
        let hour = secs(3600);
        for policy in [ClockPolicy::Reject, ClockPolicy::Clamp] {
            let mut authority = LeaseAuthority::new().with_clock_policy(policy);
            take(&mut authority, ALICE, hour, secs(60));
            // Back: Alice's lease holds, for the clock that is counted on stands still.
            assert!(authority.acquire(BOB, Duration::ZERO, secs(60)).rejection().is_some());
            assert!(authority.lease().is_some_and(|lease| lease.owner() == ALICE));
            // Forward: it ends early, and the token orders the writes.
            assert_eq!(
                authority.acquire(BOB, 2 * hour, secs(60)),
                Granted(lease(BOB, 2, 2 * hour + secs(60)))
            );
            assert_eq!(authority.renew(ALICE, token(1), 2 * hour, secs(60)), Rejected(WrongOwner));
        }
    }

    /// simstudioai/sim#6864: the answer was lost, so nobody owned the lock until its ttl.
    #[test]
    fn a_lost_grant_is_taken_again_at_once_by_the_same_owner() {
        let mut authority = LeaseAuthority::new();
        let lost = take(&mut authority, ALICE, secs(0), secs(60));
        let Granted(again) = authority.reacquire(ALICE, secs(1), secs(60)) else { panic!("no second grant") };
        assert!(again.token() > lost.token());
        assert_eq!(authority.acquire(BOB, secs(1), secs(60)), Rejected(Occupied));
    }

    /// DistributedLock's MongoDB provider and its kind: the counter was deleted with the lock, so tokens began at 1 again.
    #[test]
    fn no_release_starts_the_tokens_over() {
        let mut authority = LeaseAuthority::new();
        for n in 1..=50 {
            assert_eq!(take(&mut authority, ALICE, secs(n), secs(1)).token(), token(n));
            assert_eq!(authority.release(ALICE, token(n), secs(n)), Released);
        }
    }

    /// rails/solid_queue's pull request 761: a second release freed what another held.
    #[test]
    fn a_second_release_frees_nobody_elses_lease() {
        let mut authority = held_until(secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Released);
        let next = take(&mut authority, BOB, secs(1), secs(10));
        assert_eq!(authority.release(ALICE, token(1), secs(1)), Rejected(WrongOwner));
        assert_eq!(authority.lease(), Some(next));
    }
}
