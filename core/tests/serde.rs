//! What goes in and out under the feature `serde`: the same values, and nothing that a constructor refuses.
#![cfg(feature = "serde")]

mod support;

use core::fmt::Debug;
use core::time::Duration;

use lease_machines::{Checkpoint, Decision, FencingToken, Lease, OwnerId, Rejection};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{from_str, from_value, json, to_value};
use support::{ALICE, lease, secs, token};

#[track_caller]
fn assert_form<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, form: serde_json::Value) {
    assert_eq!(to_value(&value).expect("it can be written"), form);
    assert_eq!(from_value::<T>(form).expect("it can be read"), value);
}

#[track_caller]
fn assert_refused<T: DeserializeOwned + Debug>(form: serde_json::Value, because: &str) {
    let error = from_value::<T>(form).expect_err("it must be refused").to_string();
    assert!(error.contains(because), "{error:?} does not say {because:?}");
}

fn lease_form() -> serde_json::Value {
    json!({"owner": 1, "token": 3, "expires_at": {"secs": 9, "nanos": 5}})
}

#[test]
fn an_owner_and_a_token_are_their_numbers() {
    for n in [0, 1, 1 << 53, u64::MAX] {
        assert_form(OwnerId::new(n), json!(n));
    }
    for n in [1, (1 << 53) + 1, u64::MAX] {
        assert_form(token(n), json!(n));
    }
}

#[test]
fn token_zero_is_refused() {
    assert_refused::<FencingToken>(json!(0), "a fencing token is at least 1, found 0");
}

#[test]
fn numbers_out_of_range_are_refused() {
    for form in ["-1", "18446744073709551616", "1.5", "\"1\"", "null"] {
        assert!(from_str::<OwnerId>(form).is_err(), "{form}");
        assert!(from_str::<FencingToken>(form).is_err(), "{form}");
    }
}

#[test]
fn a_lease_is_its_three_parts() {
    assert_form(lease(ALICE, 3, Duration::new(9, 5)), lease_form());
    assert_form(
        Lease::new(OwnerId::new(u64::MAX), token(u64::MAX), Duration::MAX),
        json!({"owner": u64::MAX, "token": u64::MAX, "expires_at": {"secs": u64::MAX, "nanos": 999_999_999}}),
    );
}

#[test]
fn a_lease_under_token_zero_is_refused() {
    let mut form = lease_form();
    form["token"] = json!(0);
    assert_refused::<Lease>(form, "at least 1");
}

#[test]
fn a_lease_with_a_missing_or_an_unknown_part_is_refused() {
    for part in ["owner", "token", "expires_at"] {
        let mut form = lease_form();
        form.as_object_mut().expect("an object").remove(part);
        assert_refused::<Lease>(form, part);
    }
    let mut form = lease_form();
    form["ttl"] = json!(3);
    assert_refused::<Lease>(form, "ttl");
}

#[test]
fn a_decision_is_its_name_with_its_lease_or_reason() {
    let held = lease(ALICE, 3, Duration::new(9, 5));
    assert_form(Decision::Granted(held), json!({"granted": lease_form()}));
    assert_form(Decision::Renewed(held), json!({"renewed": lease_form()}));
    assert_form(Decision::Released, json!("released"));
    assert_form(Decision::Rejected(Rejection::Occupied), json!({"rejected": "occupied"}));
}

#[test]
fn every_reason_has_its_name() {
    let names = [
        (Rejection::Occupied, "occupied"),
        (Rejection::Vacant, "vacant"),
        (Rejection::WrongOwner, "wrong_owner"),
        (Rejection::StaleToken, "stale_token"),
        (Rejection::Expired, "expired"),
        (Rejection::ClockRegressed, "clock_regressed"),
        (Rejection::InvalidTtl, "invalid_ttl"),
        (Rejection::DeadlineOverflow, "deadline_overflow"),
        (Rejection::TokensExhausted, "tokens_exhausted"),
    ];
    for (reason, name) in names {
        assert_form(reason, json!(name));
    }
    assert_refused::<Rejection>(json!("tired"), "tired");
}

#[test]
fn a_checkpoint_is_its_three_parts() {
    let held = lease(ALICE, 3, Duration::new(9, 5));
    assert_form(
        Checkpoint::from_parts(Some(token(4)), Some(held), secs(1)).expect("possible"),
        json!({"last_issued": 4, "lease": lease_form(), "observed": {"secs": 1, "nanos": 0}}),
    );
    assert_form(
        Checkpoint::from_parts(None, None, secs(1)).expect("possible"),
        json!({"last_issued": null, "lease": null, "observed": {"secs": 1, "nanos": 0}}),
    );
}

#[test]
fn a_checkpoint_whose_lease_was_never_issued_is_refused() {
    for last in [json!(null), json!(2)] {
        let form = json!({"last_issued": last, "lease": lease_form(), "observed": {"secs": 1, "nanos": 0}});
        assert_refused::<Checkpoint>(form, "the lease is under a token that was never issued");
    }
}

#[test]
fn a_checkpoint_with_an_unknown_part_is_refused() {
    let form = json!({"last_issued": 4, "lease": null, "observed": {"secs": 1, "nanos": 0}, "epoch": 1});
    assert_refused::<Checkpoint>(form, "epoch");
}

#[test]
fn a_time_beyond_the_range_of_time_is_refused() {
    let mut form = lease_form();
    form["expires_at"] = json!({"secs": u64::MAX, "nanos": 1_000_000_000});
    assert_refused::<Lease>(form, "overflow");
}
