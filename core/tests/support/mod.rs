//! Short names for the values that tests are made of.
#![allow(dead_code, clippy::panic)] // each test file takes what it needs; a test may panic

use core::time::Duration;

use lease_machines::{Decision, FencingToken, Lease, LeaseAuthority, OwnerId};

pub(crate) const ALICE: OwnerId = OwnerId::new(1);
pub(crate) const BOB: OwnerId = OwnerId::new(2);

/// The smallest step of time.
pub(crate) const TICK: Duration = Duration::from_nanos(1);

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[track_caller]
pub(crate) fn token(n: u64) -> FencingToken {
    FencingToken::new(n).expect("a token is at least 1")
}

#[track_caller]
pub(crate) fn lease(owner: OwnerId, n: u64, expires_at: Duration) -> Lease {
    Lease::new(owner, token(n), expires_at)
}

/// Acquires, and insists.
#[track_caller]
pub(crate) fn take(authority: &mut LeaseAuthority, owner: OwnerId, now: Duration, ttl: Duration) -> Lease {
    match authority.acquire(owner, now, ttl) {
        Decision::Granted(lease) => lease,
        other => panic!("expected a grant, found {other:?}"),
    }
}
