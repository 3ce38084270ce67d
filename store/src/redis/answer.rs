//! What the scripts answer.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId, Rejection};
use redis::Value;

use crate::decide::superseded;
use crate::{
    Acquired, End, Epoch, ErrorKind, Grant, HistoryEntry, HoldOutcome, Inspection, Occupant, Rejected,
    Released, Renewed, ResourceName, Revoked, StoreError, Vacated, VacatedHow, WorkResult,
};

/// A script's answer, taken apart as far as all of them are alike.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) what: String,
    pub(super) epoch: Epoch,
    /// The bucket's count of decisions as it was left, and as it was found.
    pub(super) count: u64,
    pub(super) before: u64,
    /// The caller knows of a grant that this history does not have.
    pub(super) rewound: bool,
    pub(super) rest: Vec<Value>,
}

type Read<T> = Result<T, StoreError>;

/// The text of a string.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn nonsense(found: &dyn std::fmt::Debug) -> StoreError {
    StoreError::new(
        ErrorKind::Unreachable,
        format!("the server answered {found:.200?}, which no lease store does"),
    )
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => text(value)?.parse().ok(),
    }
}

pub(super) fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

/// Nothing was ever stored there, or all of it is gone.
pub(super) fn not_set_up() -> StoreError {
    StoreError::new(
        ErrorKind::NotSetUp,
        "the store was never set up there, or was wiped: set it up with `lease migrate`, once nobody acts under a \
         lease of it any more",
    )
}

/// What is stored is of another version than when the connection was made.
pub(super) fn changed_meanwhile(found: &str) -> StoreError {
    let message = format!("the store was brought to version {found:?} at this moment: ask again");
    StoreError::new(ErrorKind::Busy, message)
}

impl Reply {
    pub(super) fn read(value: Value) -> Read<Self> {
        let Value::Array(mut parts) = value else { return Err(nonsense(&value)) };
        let what = parts.first().and_then(text).unwrap_or_default();
        if what == "none" {
            return Err(not_set_up());
        }
        let epoch = parts.get(1).and_then(text).and_then(|epoch| epoch.parse().ok());
        let counted = |index: usize| parts.get(index).and_then(number);
        let (Some(epoch), Some(count), Some(before), Some(rewound)) =
            (epoch, counted(2), counted(3), counted(4))
        else {
            return Err(nonsense(&parts));
        };
        let rest = parts.split_off(5);
        if what == "damaged" {
            let why = rest.first().and_then(text).unwrap_or_default();
            let message = format!("the store's data is damaged: {why}");
            return Err(StoreError::new(ErrorKind::Damaged, message));
        }
        Ok(Self { what, epoch, count, before, rewound: rewound == 1, rest })
    }

    pub(super) fn part<T>(&self, index: usize, read: impl Fn(&Value) -> Option<T>) -> Read<T> {
        self.rest.get(index).and_then(read).ok_or_else(|| nonsense(self))
    }

    fn grant(&self) -> Read<Grant> {
        Ok(Grant::new(self.part(0, token)?, self.part(1, micros)?, self.epoch))
    }

    pub(super) fn rejected(&self) -> Read<Rejected> {
        let reason = self.part(0, reason)?;
        let occupant = self.optional(1, occupant)?;
        Ok(Rejected::new(reason).with_occupant(occupant).with_vacated(self.optional(2, vacated)?))
    }

    pub(super) fn optional<T>(&self, index: usize, read: impl Fn(&Value) -> Option<T>) -> Read<Option<T>> {
        match self.rest.get(index) {
            None | Some(Value::Nil) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| nonsense(self)),
        }
    }

    /// The request was for another epoch than the store's, or the lease is of a former one.
    pub(super) fn epoch_is_over(&self, believed: Option<Epoch>) -> StoreError {
        match believed {
            Some(believed) => StoreError::new_epoch(believed, self.epoch),
            None => StoreError::new(
                ErrorKind::NewEpoch { current: self.epoch },
                format!("the lease is of a former epoch, the store is in {}: it is lost", self.epoch),
            ),
        }
    }

    pub(super) fn acquired(&self, about: &crate::Claim) -> Read<Acquired> {
        match self.what.as_str() {
            "granted" => Ok(Acquired::Granted(self.grant()?)),
            "done" => Ok(Acquired::AlreadyDone(self.part(0, end)?)),
            "rejected" => Ok(Acquired::Rejected(self.rejected()?)),
            "epoch" => Err(self.epoch_is_over(about.epoch)),
            "superseded" => Err(superseded(about, &self.part(0, text)?)),
            "held back" => Err(self.held_back()?),
            _ => Err(nonsense(self)),
        }
    }

    /// Nothing is granted yet in this epoch.
    pub(super) fn held_back(&self) -> Read<StoreError> {
        Ok(StoreError::new(
            ErrorKind::Busy,
            format!(
                "the store's history was lost, and leases of it may still be held: nothing is granted for another {}, \
                 unless an operator who knows that the old holders are dead says so by `lease epoch open --now`",
                crate::check::left(self.part(0, micros)?)
            ),
        ))
    }

    pub(super) fn renewed(&self, believed: Option<Epoch>) -> Read<Renewed> {
        match self.what.as_str() {
            "renewed" => Ok(Renewed::Renewed(self.grant()?)),
            "rejected" => Ok(Renewed::Rejected(self.rejected()?)),
            "epoch" => Err(self.epoch_is_over(believed)),
            _ => Err(nonsense(self)),
        }
    }

    pub(super) fn released(&self, believed: Option<Epoch>) -> Read<Released> {
        match self.what.as_str() {
            "released" => Ok(Released::Released),
            "retained" => Ok(Released::Retained(self.part(0, micros)?)),
            "already" => Ok(Released::AlreadyReleased),
            "rejected" => Ok(Released::Rejected(self.rejected()?)),
            "epoch" => Err(self.epoch_is_over(believed)),
            _ => Err(nonsense(self)),
        }
    }

    pub(super) fn revoked(&self) -> Read<Revoked> {
        match self.what.as_str() {
            "burnt" => Ok(Revoked::Burnt(self.part(0, token)?)),
            "rejected" => Ok(Revoked::Rejected(self.rejected()?)),
            _ => Err(nonsense(self)),
        }
    }

    pub(super) fn seen(&self, resource: ResourceName) -> Read<Inspection> {
        inspection(self.epoch, resource, &self.rest).ok_or_else(|| nonsense(self))
    }

    pub(super) fn list(&self) -> Read<Vec<Inspection>> {
        let read = |row: &Value| {
            let (name, rest) = array(row)?.split_first()?;
            inspection(self.epoch, ResourceName::new(text(name)?).ok()?, rest)
        };
        self.part(0, |rows| array(rows)?.iter().map(read).collect())
    }

    pub(super) fn holds(&self) -> Read<Vec<HistoryEntry>> {
        self.part(0, |rows| array(rows)?.iter().map(hold).collect())
    }

    /// Resources and holds forgotten, and the bucket's floor.
    pub(super) fn pruned(&self) -> Read<(u64, u64, u64)> {
        Ok((self.part(0, number)?, self.part(1, number)?, self.part(2, number)?))
    }

    /// A yes or no.
    pub(super) fn yes(&self) -> Read<bool> {
        Ok(self.part(0, number)? == 1)
    }
}

fn inspection(epoch: Epoch, resource: ResourceName, parts: &[Value]) -> Option<Inspection> {
    let [last, who, gone, good] = parts else { return None };
    let some = |value: &Value| !matches!(value, Value::Nil);
    let mut inspection = Inspection::unseen(resource, epoch);
    inspection.last_issued = token(last);
    if some(who) {
        inspection.occupant = Some(occupant(who)?);
    }
    if some(gone) {
        inspection.vacated = Some(vacated(gone)?);
    }
    if some(good) {
        inspection.last_good = Some(end(good)?);
    }
    Some(inspection)
}

pub(super) fn token(value: &Value) -> Option<FencingToken> {
    FencingToken::new(number(value)?)
}

fn owner(value: &Value) -> Option<OwnerId> {
    u64::from_str_radix(&text(value)?, 16).ok().map(OwnerId::new)
}

pub(super) fn micros(value: &Value) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}

pub(super) fn wall(value: &Value) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(micros(value)?)
}

/// A text that may be missing is stored with a sign before it.
#[allow(clippy::option_option)]
pub(super) fn optional(value: &Value) -> Option<Option<String>> {
    let text = text(value)?;
    Some(text.strip_prefix('=').map(str::to_owned))
}

pub(super) fn reason(value: &Value) -> Option<Rejection> {
    Some(match text(value)?.as_str() {
        "Occupied" => Rejection::Occupied,
        "Vacant" => Rejection::Vacant,
        "WrongOwner" => Rejection::WrongOwner,
        "StaleToken" => Rejection::StaleToken,
        "Expired" => Rejection::Expired,
        "InvalidTtl" => Rejection::InvalidTtl,
        "TokensExhausted" => Rejection::TokensExhausted,
        _ => return None,
    })
}

pub(super) fn occupant(value: &Value) -> Option<Occupant> {
    let [who, under, held_for, remaining, kept, label, identity] = array(value)? else { return None };
    let mut occupant = Occupant::new(owner(who)?, token(under)?, micros(held_for)?, micros(remaining)?);
    occupant.retained = number(kept)? == 1;
    occupant.label = optional(label)?;
    occupant.identity = optional(identity)?;
    Some(occupant)
}

fn vacated(value: &Value) -> Option<Vacated> {
    let [under, who, how] = array(value)? else { return None };
    let how = match text(how)?.as_str() {
        "released" => VacatedHow::Released,
        "revoked" => VacatedHow::Revoked,
        "withdrawn" => VacatedHow::Withdrawn,
        _ => return None,
    };
    Some(Vacated::new(token(under)?, owner(who)?, how))
}

fn end(value: &Value) -> Option<End> {
    let [under, who, label, once, at] = array(value)? else { return None };
    let mut end = End::new(token(under)?, owner(who)?, wall(at)?);
    end.label = optional(label)?;
    end.once = optional(once)?;
    Some(end)
}

fn hold(value: &Value) -> Option<HistoryEntry> {
    let [under, who, label, identity, granted, renewed, renewals, ends, how, result, reason] = array(value)?
    else {
        return None;
    };
    Some(HistoryEntry {
        token: token(under)?,
        owner: owner(who)?,
        label: optional(label)?,
        identity: optional(identity)?,
        granted_at: wall(granted)?,
        renewed_at: wall(renewed)?,
        renewals: number(renewals)?,
        ends_at: wall(ends)?,
        outcome: match text(how)?.as_str() {
            "held" => HoldOutcome::Held,
            "released" => HoldOutcome::Released,
            "revoked" => HoldOutcome::Revoked,
            "withdrawn" => HoldOutcome::Withdrawn,
            "rotated" => HoldOutcome::Rotated,
            "lost" => HoldOutcome::EpochLost,
            _ => HoldOutcome::Expired,
        },
        result: match text(result)?.as_str() {
            "good" => WorkResult::Good,
            "failed" => WorkResult::Failed,
            _ => WorkResult::Unknown,
        },
        reason: optional(reason)?,
    })
}
