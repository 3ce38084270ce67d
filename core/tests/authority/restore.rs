//! Going on from a checkpoint.

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
    let mut restored = LeaseAuthority::restore(authority.checkpoint()).with_clock_policy(ClockPolicy::Clamp);
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
