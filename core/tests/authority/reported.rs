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
        assert_eq!(authority.acquire(BOB, 2 * hour, secs(60)), Granted(lease(BOB, 2, 2 * hour + secs(60))));
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
