//! Owners and tokens: Integers in `0..=u64::MAX`, and nothing that merely resembles one.

use lease_machines::{FencingToken, OwnerId};
use magnus::{Error, Integer, Ruby, Value, prelude::*, value::Fixnum};

use crate::errors;

/// An owner: any number in range.
pub(crate) fn owner(ruby: &Ruby, value: Value) -> Result<OwnerId, Error> {
    number(ruby, "owner", value).map(OwnerId::new)
}

/// A token as a caller may show it: `None` is the zero, which is in range and was never issued.
pub(crate) fn shown_token(ruby: &Ruby, name: &str, value: Value) -> Result<Option<FencingToken>, Error> {
    number(ruby, name, value).map(FencingToken::new)
}

/// A token that was issued: zero is out of range.
pub(crate) fn issued_token(ruby: &Ruby, name: &str, value: Value) -> Result<FencingToken, Error> {
    shown_token(ruby, name, value)?.ok_or_else(|| {
        errors::range(ruby, format!("{name} must be in 1..2**64-1, not 0: a token is never zero"))
    })
}

/// `nil`, or a token that was issued.
pub(crate) fn optional_token(ruby: &Ruby, name: &str, value: Value) -> Result<Option<FencingToken>, Error> {
    if value.is_nil() { Ok(None) } else { issued_token(ruby, name, value).map(Some) }
}

/// A number of things.
pub(crate) fn count(ruby: &Ruby, name: &str, value: Value) -> Result<u64, Error> {
    number(ruby, name, value)
}

#[inline(always)]
fn number(ruby: &Ruby, name: &str, value: Value) -> Result<u64, Error> {
    match Fixnum::from_value(value).map(|small| small.to_u64()) {
        Some(Ok(number)) => Ok(number),
        _ => from_any(ruby, name, value),
    }
}

/// All but a small Integer; kept apart so that the way of the small one is short.
#[cold]
fn from_any(ruby: &Ruby, name: &str, value: Value) -> Result<u64, Error> {
    // Not `u64::try_convert`, which takes a Float and cuts its fraction off.
    let Some(integer) = Integer::from_value(value) else {
        return Err(errors::wrong_type(ruby, name, "an Integer", value));
    };
    integer.to_u64().map_err(|_| {
        errors::range(ruby, format!("{name} must be in 0..2**64-1, not {}", errors::shortened(integer)))
    })
}
