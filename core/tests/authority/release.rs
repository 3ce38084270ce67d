//! Giving the resource back.

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
