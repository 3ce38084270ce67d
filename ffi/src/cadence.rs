//! `LeaseMachines::Cadence`

use core::time::Duration;

use lease_machines::Cadence;
use magnus::{Error, RClass, Ruby, Value, method, prelude::*};

use crate::{build, errors, time};

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.define_private_method("_check", method!(check, 3))
}

/// The three in seconds, as the core will read them, if they are a cadence.
fn check(
    ruby: &Ruby,
    _: Value,
    ttl: Value,
    renew_every: Value,
    warn_before: Value,
) -> Result<(f64, f64, f64), Error> {
    let cadence = parse(ruby, ttl, renew_every, warn_before)?;
    Ok((
        time::to_seconds(cadence.ttl()),
        time::to_seconds(cadence.renew_every()),
        time::to_seconds(cadence.warn_before()),
    ))
}

/// Reads a Cadence of Ruby's.
pub(crate) fn from_ruby(ruby: &Ruby, name: &str, value: Value) -> Result<Cadence, Error> {
    let [ttl, renew_every, warn_before] = build::cadence_members(ruby, name, value)?;
    parse(ruby, ttl, renew_every, warn_before)
}

fn parse(ruby: &Ruby, ttl: Value, renew_every: Value, warn_before: Value) -> Result<Cadence, Error> {
    let ttl = time::from_ruby(ruby, "ttl", ttl)?;
    let renew_every = time::from_ruby(ruby, "renew_every", renew_every)?;
    let warn_before = time::from_ruby(ruby, "warn_before", warn_before)?;
    Cadence::new(ttl, renew_every, warn_before)
        .ok_or_else(|| errors::argument(ruby, unsound(ttl, renew_every, warn_before)))
}

/// Which of the rules a cadence breaks.
fn unsound(ttl: Duration, renew_every: Duration, warn_before: Duration) -> String {
    let parts = [("ttl", ttl), ("renew_every", renew_every), ("warn_before", warn_before)];
    if let Some((name, _)) = parts.iter().find(|(_, part)| part.is_zero()) {
        return format!("{name} must be more than 0");
    }
    let (name, part) =
        if renew_every >= ttl { ("renew_every", renew_every) } else { ("warn_before", warn_before) };
    format!(
        "{name} must be less than the ttl of {:?}, not {:?}",
        time::to_seconds(ttl),
        time::to_seconds(part)
    )
}
