//! `LeaseMachines::Lease`, as a caller makes one. What the authority grants is built in `build`.

use lease_machines::Lease;
use magnus::{Error, RClass, Ruby, Value, method, prelude::*};

use crate::{build, numbers, time};

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.define_private_method("_check", method!(check, 3))
}

/// Reads a Lease of Ruby's.
pub(crate) fn from_ruby(ruby: &Ruby, name: &str, value: Value) -> Result<Lease, Error> {
    let [owner, token, expires_at] = build::lease_members(ruby, name, value)?;
    parse(ruby, owner, token, expires_at)
}

/// The deadline as an authority would give it, if all three can be parts of a lease.
fn check(ruby: &Ruby, _: Value, owner: Value, token: Value, expires_at: Value) -> Result<f64, Error> {
    Ok(time::to_seconds(parse(ruby, owner, token, expires_at)?.expires_at()))
}

fn parse(ruby: &Ruby, owner: Value, token: Value, expires_at: Value) -> Result<Lease, Error> {
    Ok(Lease::new(
        numbers::owner(ruby, owner)?,
        numbers::issued_token(ruby, "token", token)?,
        time::from_ruby(ruby, "expires_at", expires_at)?,
    ))
}
