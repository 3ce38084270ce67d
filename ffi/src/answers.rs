//! What a store answers, for Ruby: Arrays in the order of the members of the values that `lib/` makes of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_machines::{Lease, OwnerId, Rejection};
use lease_machines_store::{
    End, Finding, Grant, HistoryEntry, HoldOutcome, Inspection, Occupant, Pruned, Rejected, Severity,
    StoreError, Vacated, VacatedHow, WorkResult,
};
use magnus::time::{Offset, Timespec};
use magnus::{Error, IntoValue, RArray, Ruby, Value, prelude::*};

use crate::{build, errors, time};

/// What a store decided: a grant with its owner, and the instant until which it lasts here.
pub(crate) enum Decided {
    Granted(OwnerId, Grant, Duration),
    Renewed(OwnerId, Grant, Duration),
    Released,
    Rejected(Rejected),
}

/// `[status, lease, reason, epoch, occupant, vacated]`
pub(crate) fn decided(ruby: &Ruby, decided: Result<Decided, StoreError>) -> Result<RArray, Error> {
    let with_lease = |status: &str, owner, grant: Grant, until| {
        let lease = build::lease(ruby, Lease::new(owner, grant.token, until))?;
        let (epoch, nil) = (string(ruby, &grant.epoch.to_string()), nil(ruby));
        Ok(row(ruby, &[symbol(ruby, status), lease, nil, epoch, nil, nil]))
    };
    match decided.map_err(|error| errors::store(ruby, &error))? {
        Decided::Granted(owner, grant, until) => with_lease("granted", owner, grant, until),
        Decided::Renewed(owner, grant, until) => with_lease("renewed", owner, grant, until),
        Decided::Released => {
            let nil = nil(ruby);
            Ok(row(ruby, &[symbol(ruby, "released"), nil, nil, nil, nil, nil]))
        }
        Decided::Rejected(rejected) => self::rejected(ruby, &rejected),
    }
}

/// The answer to whoever shows a token that no store has ever issued.
pub(crate) fn never_issued(ruby: &Ruby) -> Result<RArray, Error> {
    rejected(ruby, &Rejected::new(Rejection::StaleToken))
}

fn rejected(ruby: &Ruby, rejected: &Rejected) -> Result<RArray, Error> {
    let reason = build::reason(ruby, rejected.reason)?;
    let occupant = optional(ruby, rejected.occupant.as_ref(), occupant);
    let vacated = optional(ruby, rejected.vacated.as_ref(), vacated);
    Ok(row(ruby, &[symbol(ruby, "rejected"), nil(ruby), reason, nil(ruby), occupant, vacated]))
}

/// Each of many.
pub(crate) fn each<T>(
    ruby: &Ruby,
    all: &[T],
    one: impl Fn(&Ruby, &T) -> Result<RArray, Error>,
) -> Result<RArray, Error> {
    let rows = ruby.ary_new_capa(all.len());
    for item in all {
        rows.push(one(ruby, item)?)?;
    }
    Ok(rows)
}

/// `[resource, epoch, last_issued, occupant, vacated, last_good]`
pub(crate) fn inspection(ruby: &Ruby, found: &Inspection) -> Result<RArray, Error> {
    let last_good = match &found.last_good {
        Some(end) => self::end(ruby, end)?.as_value(),
        None => nil(ruby),
    };
    Ok(row(
        ruby,
        &[
            string(ruby, found.resource.as_str()),
            string(ruby, &found.epoch.to_string()),
            found.last_issued.map(|token| token.value()).into_value_with(ruby),
            optional(ruby, found.occupant.as_ref(), occupant),
            optional(ruby, found.vacated.as_ref(), vacated),
            last_good,
        ],
    ))
}

/// `[token, owner, label, identity, granted_at, renewed_at, renewals, ends_at, outcome, result, reason]`
pub(crate) fn history_entry(ruby: &Ruby, entry: &HistoryEntry) -> Result<RArray, Error> {
    let outcome = match entry.outcome {
        HoldOutcome::Held => "held",
        HoldOutcome::Released => "released",
        HoldOutcome::Expired => "expired",
        HoldOutcome::Revoked => "revoked",
        HoldOutcome::Withdrawn => "withdrawn",
        HoldOutcome::Rotated => "rotated",
        HoldOutcome::EpochLost => "epoch_lost",
        _ => "unknown",
    };
    let result = match entry.result {
        WorkResult::Good => symbol(ruby, "good"),
        WorkResult::Failed => symbol(ruby, "failed"),
        _ => nil(ruby),
    };
    Ok(row(
        ruby,
        &[
            entry.token.value().into_value_with(ruby),
            entry.owner.value().into_value_with(ruby),
            text(ruby, entry.label.as_deref()),
            text(ruby, entry.identity.as_deref()),
            instant(ruby, entry.granted_at)?,
            instant(ruby, entry.renewed_at)?,
            entry.renewals.into_value_with(ruby),
            instant(ruby, entry.ends_at)?,
            symbol(ruby, outcome),
            result,
            text(ruby, entry.reason.as_deref()),
        ],
    ))
}

/// `[resources, history, floor]`
pub(crate) fn pruned(ruby: &Ruby, pruned: &Pruned) -> RArray {
    row(ruby, &[pruned.resources, pruned.history, pruned.floor].map(|number| number.into_value_with(ruby)))
}

/// `[severity, check, found, mend]`
pub(crate) fn finding(ruby: &Ruby, finding: &Finding) -> Result<RArray, Error> {
    let severity = match finding.severity {
        Severity::Fine => "fine",
        Severity::Note => "note",
        Severity::Warning => "warning",
        _ => "error",
    };
    Ok(row(
        ruby,
        &[
            symbol(ruby, severity),
            string(ruby, finding.check),
            string(ruby, &finding.found),
            text(ruby, finding.mend.as_deref()),
        ],
    ))
}

/// `[owner, token, held_for, remaining, retained, label, identity]`
fn occupant(ruby: &Ruby, occupant: &Occupant) -> RArray {
    row(
        ruby,
        &[
            occupant.owner.value().into_value_with(ruby),
            occupant.token.value().into_value_with(ruby),
            time::to_seconds(occupant.held_for).into_value_with(ruby),
            time::to_seconds(occupant.remaining).into_value_with(ruby),
            occupant.retained.into_value_with(ruby),
            text(ruby, occupant.label.as_deref()),
            text(ruby, occupant.identity.as_deref()),
        ],
    )
}

/// `[token, owner, how]`
fn vacated(ruby: &Ruby, vacated: &Vacated) -> RArray {
    let how = match vacated.how {
        VacatedHow::Released => "released",
        VacatedHow::Revoked => "revoked",
        VacatedHow::Withdrawn => "withdrawn",
        _ => "unknown",
    };
    let (token, owner) = (vacated.token.value(), vacated.owner.value());
    row(ruby, &[token.into_value_with(ruby), owner.into_value_with(ruby), symbol(ruby, how)])
}

/// `[token, owner, label, once, at]`
fn end(ruby: &Ruby, end: &End) -> Result<RArray, Error> {
    Ok(row(
        ruby,
        &[
            end.token.value().into_value_with(ruby),
            end.owner.value().into_value_with(ruby),
            text(ruby, end.label.as_deref()),
            text(ruby, end.once.as_deref()),
            instant(ruby, end.at)?,
        ],
    ))
}

/// On the stack they are where Ruby's collector looks for them, and in the Array then.
fn row(ruby: &Ruby, values: &[Value]) -> RArray {
    ruby.ary_new_from_values(values)
}

fn optional<T>(ruby: &Ruby, value: Option<&T>, array: impl FnOnce(&Ruby, &T) -> RArray) -> Value {
    value.map_or_else(|| nil(ruby), |value| array(ruby, value).as_value())
}

/// Frozen, so that what has it can be shared between Ractors.
fn string(ruby: &Ruby, text: &str) -> Value {
    let string = ruby.str_new(text);
    string.freeze();
    string.as_value()
}

fn text(ruby: &Ruby, text: Option<&str>) -> Value {
    text.map_or_else(|| nil(ruby), |text| string(ruby, text))
}

fn symbol(ruby: &Ruby, name: &str) -> Value {
    ruby.to_symbol(name).as_value()
}

fn nil(ruby: &Ruby) -> Value {
    ruby.qnil().as_value()
}

/// A Time in UTC.
fn instant(ruby: &Ruby, at: SystemTime) -> Result<Value, Error> {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let tv_sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let time =
        ruby.time_timespec_new(Timespec { tv_sec, tv_nsec: since.subsec_nanos().into() }, Offset::utc())?;
    time.freeze();
    Ok(time.as_value())
}
