//! What all values have in common, and what each says of itself.

mod support;

use core::fmt::Debug;
use core::hash::Hash;
use core::time::Duration;
use std::collections::HashSet;

use lease_machines::{
    Cadence, Checkpoint, CheckpointError, ClockPolicy, Decision, Fence, FencingToken, Holder, HolderState,
    Lease, LeaseAuthority, OwnerId, Rejection,
};
use support::{ALICE, TICK, lease, secs, token};

const REASONS: [Rejection; 9] = [
    Rejection::Occupied,
    Rejection::Vacant,
    Rejection::WrongOwner,
    Rejection::StaleToken,
    Rejection::Expired,
    Rejection::ClockRegressed,
    Rejection::InvalidTtl,
    Rejection::DeadlineOverflow,
    Rejection::TokensExhausted,
];

#[test]
fn every_value_is_copy_eq_hash_debug_and_crosses_threads() {
    fn value<T: Copy + Eq + Hash + Debug + Send + Sync + Unpin + 'static>() {}
    value::<OwnerId>();
    value::<FencingToken>();
    value::<Lease>();
    value::<Decision>();
    value::<Rejection>();
    value::<Checkpoint>();
    value::<CheckpointError>();
    value::<ClockPolicy>();
    value::<Cadence>();
    value::<HolderState>();
}

#[test]
fn every_machine_is_eq_hash_debug_and_crosses_threads() {
    fn machine<T: Eq + Hash + Debug + Send + Sync + Unpin + 'static>() {}
    machine::<LeaseAuthority>();
    machine::<Fence>();
    machine::<Holder>();
}

#[test]
fn an_error_is_an_error() {
    fn error<T: core::error::Error + Send + Sync + 'static>() {}
    error::<Rejection>();
    error::<CheckpointError>();
}

#[test]
fn an_owner_is_any_number() {
    for n in [0, 1, u64::MAX] {
        assert_eq!(OwnerId::new(n).value(), n);
    }
    assert!(OwnerId::new(1) < OwnerId::new(2));
}

#[test]
fn owners_and_tokens_are_shown_as_their_numbers_in_any_format() {
    assert_eq!(OwnerId::new(7).to_string(), "7");
    assert_eq!(token(u64::MAX).to_string(), "18446744073709551615");
    assert_eq!(format!("{:>4}|{:04}", OwnerId::new(7), token(7)), "   7|0007");
}

#[test]
fn a_lease_is_live_up_to_its_deadline_and_not_at_it() {
    let held = lease(ALICE, 3, secs(9));
    assert_eq!((held.owner(), held.token(), held.expires_at()), (ALICE, token(3), secs(9)));
    assert!(held.is_live(Duration::ZERO));
    assert!(held.is_live(secs(9) - TICK));
    assert!(!held.is_live(secs(9)));
    assert!(!held.is_live(Duration::MAX));
    assert!(!lease(ALICE, 3, Duration::ZERO).is_live(Duration::ZERO));
}

#[test]
fn a_decision_has_a_lease_or_a_reason_or_neither() {
    let held = lease(ALICE, 3, secs(9));
    for granted in [Decision::Granted(held), Decision::Renewed(held)] {
        assert_eq!((granted.lease(), granted.rejection()), (Some(held), None));
    }
    assert_eq!((Decision::Released.lease(), Decision::Released.rejection()), (None, None));
    for reason in REASONS {
        let rejected = Decision::Rejected(reason);
        assert_eq!((rejected.lease(), rejected.rejection()), (None, Some(reason)));
    }
}

#[test]
fn every_reason_says_something_of_its_own() {
    let texts: HashSet<String> = REASONS.iter().map(Rejection::to_string).collect();
    assert_eq!(texts.len(), REASONS.len());
    assert_eq!(Rejection::Expired.to_string(), "the lease is over");
    assert_eq!(Rejection::TokensExhausted.to_string(), "no greater token is left");
}
