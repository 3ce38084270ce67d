//! Taking the resource past the owner's own lease.

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
