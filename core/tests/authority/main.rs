//! Every rule of the authority, by name. Each test states one sentence of its contract.

mod acquire;
mod reacquire;
mod release;
mod renew;
mod reported;
mod restore;
mod revoke;
#[path = "../support/mod.rs"]
mod support;
mod the_clock;

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
