//! What the procedures answer, read into the answers of the trait.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId, Rejection};
use mysql_async::{Row, Value};

use crate::decide::superseded;
use crate::{
    Acquired, Claim, End, Epoch, ErrorKind, Grant, HistoryEntry, Inspection, LeaseRef, Occupant, Pruned,
    Rejected, Released, Renewed, ResourceName, Revoked, StoreError, Vacated, check, codes,
};

/// A row, read by the names of its columns. One that is not as it should be is *unknown*: something was answered.
pub(super) struct Reading<'a> {
    row: &'a Row,
    place: &'a str,
}

impl<'a> Reading<'a> {
    pub(super) const fn new(row: &'a Row, place: &'a str) -> Self {
        Self { row, place }
    }

    fn value(&self, column: &str) -> Result<&Value, StoreError> {
        let at = self.row.columns_ref().iter().position(|found| found.name_str() == column);
        at.and_then(|at| self.row.as_ref(at)).ok_or_else(|| self.nonsense(&format!("no column {column}")))
    }

    /// A number, which a text protocol sends as text.
    pub(super) fn number(&self, column: &str) -> Result<Option<i64>, StoreError> {
        let wrong = |found: &Value| self.nonsense(&format!("column {column}: {}", found.as_sql(true)));
        match self.value(column)? {
            Value::NULL => Ok(None),
            Value::Int(number) => Ok(Some(*number)),
            found @ Value::UInt(number) => i64::try_from(*number).map(Some).map_err(|_| wrong(found)),
            found @ Value::Bytes(bytes) => {
                let text = std::str::from_utf8(bytes).ok();
                text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| wrong(found))
            }
            found => Err(wrong(found)),
        }
    }

    /// One that has to be there.
    pub(super) fn some(&self, column: &str) -> Result<i64, StoreError> {
        self.number(column)?.ok_or_else(|| self.nonsense(&format!("nothing in column {column}")))
    }

    pub(super) fn truth(&self, column: &str) -> Result<bool, StoreError> {
        Ok(self.number(column)?.unwrap_or(0) != 0)
    }

    pub(super) fn text(&self, column: &str) -> Result<Option<String>, StoreError> {
        match self.value(column)? {
            Value::NULL => Ok(None),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(_) => Err(self.nonsense(&format!("column {column} is not UTF-8"))),
            },
            found => Err(self.nonsense(&format!("column {column}: {}", found.as_sql(true)))),
        }
    }

    pub(super) fn epoch(&self, column: &str) -> Result<Epoch, StoreError> {
        Epoch::new(self.some(column)? as u64).ok_or_else(|| self.nonsense("an epoch of 0"))
    }

    fn span(&self, column: &str) -> Result<Duration, StoreError> {
        Ok(micros(self.some(column)?))
    }

    fn token(&self, column: &str) -> Result<Option<FencingToken>, StoreError> {
        Ok(token(self.number(column)?))
    }

    fn owner(&self, column: &str) -> Result<OwnerId, StoreError> {
        self.some(column).map(|bits| OwnerId::new(bits as u64))
    }

    /// Whoever holds the resource, or vacated it, as the row was that was looked at.
    fn standing(&self, held: [&str; 2]) -> Result<(Option<Occupant>, Option<Vacated>), StoreError> {
        let seen = self.some("seen")?;
        let Some(token) = self.token(held[0])? else { return Ok((None, self.vacated()?)) };
        let (granted, expires) = (self.some("granted_at")?, self.some("expires_at")?);
        if seen >= expires {
            return Ok((None, None));
        }
        let (for_, left) = (seen.saturating_sub(granted), expires.saturating_sub(seen));
        let mut occupant = Occupant::new(self.owner(held[1])?, token, micros(for_), micros(left));
        occupant.retained = self.truth("retained")?;
        occupant.label = self.text("label")?;
        occupant.identity = self.text("identity")?;
        Ok((Some(occupant), None))
    }

    fn vacated(&self) -> Result<Option<Vacated>, StoreError> {
        let Some(token) = self.token("vacated_token")? else { return Ok(None) };
        let how = codes::how(self.some("vacated_how")?);
        Ok(Some(Vacated::new(token, self.owner("vacated_owner")?, how)))
    }

    fn end(&self) -> Result<Option<End>, StoreError> {
        let Some(token) = self.token("end_token")? else { return Ok(None) };
        let mut end = End::new(token, self.owner("end_owner")?, instant(self.some("end_at")?));
        end.label = self.text("end_label")?;
        Ok(Some(end))
    }

    pub(super) fn nonsense(&self, what: &str) -> StoreError {
        nonsense(self.place, what)
    }
}

/// The answer of a decision.
pub(super) struct Told {
    row: Row,
    place: String,
    code: String,
}

impl Told {
    pub(super) fn read(rows: Vec<Row>, place: &str) -> Result<Self, StoreError> {
        let row = rows.into_iter().next().ok_or_else(|| nonsense(place, "no row at all"))?;
        let code = Reading::new(&row, place).text("code")?.unwrap_or_default();
        Ok(Self { row, place: place.to_owned(), code })
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }

    pub(super) fn row(&self) -> Reading<'_> {
        Reading::new(&self.row, &self.place)
    }

    /// The server is another one: what was answered before may be lost.
    pub(super) fn is_lost(&self) -> bool {
        self.code == "lost"
    }

    /// The caller's token shows that history was lost.
    pub(super) fn is_rewound(&self) -> Result<bool, StoreError> {
        self.row().truth("rewound")
    }

    pub(super) fn epoch(&self) -> Result<Epoch, StoreError> {
        self.row().epoch("epoch")
    }

    pub(super) fn grant(&self) -> Result<Grant, StoreError> {
        let token =
            self.row().token("token")?.ok_or_else(|| self.row().nonsense("a grant without a token"))?;
        Ok(Grant::new(token, self.row().span("remaining")?, self.epoch()?))
    }

    pub(super) fn acquired(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        match self.code.as_str() {
            "granted" => Ok(Acquired::Granted(self.grant()?)),
            "done" => {
                let mut end =
                    self.row().end()?.ok_or_else(|| self.row().nonsense("an end without a token"))?;
                end.once.clone_from(&claim.once);
                Ok(Acquired::AlreadyDone(end))
            }
            "held back" => Err(self.held_back()?),
            "withdrawn" => Err(superseded(claim, "the owner has withdrawn")),
            "run out" => Err(superseded(claim, "its lease has run out")),
            "answered before" => {
                Err(superseded(claim, "a later attempt of the owner was answered, or this one was"))
            }
            _ => self.rejected().map(Acquired::Rejected),
        }
    }

    /// Nothing is granted yet.
    pub(super) fn held_back(&self) -> Result<StoreError, StoreError> {
        Ok(StoreError::new(
            ErrorKind::Busy,
            format!(
                "the store's history was lost, and leases of it may still be held: nothing is granted for another {}, \
                 unless an operator who knows that the old holders are dead says so by `lease epoch open --now`",
                check::left(self.row().span("remaining")?)
            ),
        ))
    }

    /// The error of an answer that refuses the request.
    pub(super) fn refused(&self) -> Result<StoreError, StoreError> {
        match self.code.as_str() {
            "new epoch" => Ok(StoreError::new_epoch(self.row().epoch("believed")?, self.epoch()?)),
            other => Ok(self.row().nonsense(&format!("the answer {other:?}"))),
        }
    }

    pub(super) fn renewed(&self) -> Result<Renewed, StoreError> {
        match self.code.as_str() {
            "renewed" => Ok(Renewed::Renewed(self.grant()?)),
            _ => self.rejected().map(Renewed::Rejected),
        }
    }

    pub(super) fn released(&self) -> Result<Released, StoreError> {
        match self.code.as_str() {
            "released" => Ok(Released::Released),
            "retained" => Ok(Released::Retained(self.row().span("remaining")?)),
            "already released" => Ok(Released::AlreadyReleased),
            _ => self.rejected().map(Released::Rejected),
        }
    }

    pub(super) fn revoked(&self) -> Result<Revoked, StoreError> {
        match self.code.as_str() {
            "burnt" => {
                let token =
                    self.row().token("token")?.ok_or_else(|| self.row().nonsense("a token that is none"))?;
                Ok(Revoked::Burnt(token))
            }
            _ => self.rejected().map(Revoked::Rejected),
        }
    }

    pub(super) fn rejected(&self) -> Result<Rejected, StoreError> {
        let reason = match self.code.as_str() {
            "occupied" => Rejection::Occupied,
            "vacant" => Rejection::Vacant,
            "wrong owner" => Rejection::WrongOwner,
            "stale token" => Rejection::StaleToken,
            "expired" => Rejection::Expired,
            "invalid ttl" => Rejection::InvalidTtl,
            "exhausted" => Rejection::TokensExhausted,
            _ => return Err(self.refused()?),
        };
        let (occupant, vacated) = self.row().standing(["held_token", "held_owner"])?;
        // A lease that is held back was released: whoever still renews it hears how.
        let vacated = match (reason, &occupant) {
            (Rejection::Vacant, Some(occupant)) if occupant.retained => self.row().vacated()?,
            _ => vacated,
        };
        Ok(Rejected::new(reason).with_occupant(occupant).with_vacated(vacated))
    }
}

/// A row of `Inspect` or `List`; the name is the one asked for, or the row's.
pub(super) fn inspection(
    row: &Row,
    place: &str,
    asked: Option<ResourceName>,
) -> Result<Inspection, StoreError> {
    let row = Reading::new(row, place);
    let name = match asked {
        Some(name) => name,
        None => ResourceName::new(row.text("name")?.unwrap_or_default())
            .map_err(|error| row.nonsense(&error.to_string()))?,
    };
    let mut seen = Inspection::unseen(name, row.epoch("epoch")?);
    seen.last_issued = token(row.number("last_issued")?.filter(|last| *last > 0));
    (seen.occupant, seen.vacated) = row.standing(["token", "owner"])?;
    seen.last_good = row.end()?;
    if let Some(end) = &mut seen.last_good {
        end.once = row.text("end_once")?;
    }
    Ok(seen)
}

/// A row of `History`.
pub(super) fn hold(row: &Row, place: &str) -> Result<HistoryEntry, StoreError> {
    let row = Reading::new(row, place);
    Ok(HistoryEntry {
        token: row.token("token")?.ok_or_else(|| row.nonsense("a hold without a token"))?,
        owner: row.owner("owner")?,
        label: row.text("label")?,
        identity: row.text("identity")?,
        granted_at: instant(row.some("granted_at")?),
        renewed_at: instant(row.some("renewed_at")?),
        renewals: u64::try_from(row.some("renewals")?).unwrap_or(0),
        ends_at: instant(row.some("ends_at")?),
        outcome: codes::outcome(row.some("outcome")?),
        result: codes::result(row.some("result")?),
        reason: row.text("reason")?,
    })
}

/// The row of `Prune`, and whether there is more to prune.
pub(super) fn pruned(rows: &[Row], place: &str) -> Result<(Pruned, bool), StoreError> {
    let row = Reading::new(one(rows, place)?, place);
    let count = |column| row.some(column).map(|count| u64::try_from(count).unwrap_or(0));
    let pruned =
        Pruned { resources: count("resources")?, history: count("history")?, floor: count("floor")? };
    Ok((pruned, row.truth("more")?))
}

pub(super) fn one<'a>(rows: &'a [Row], place: &str) -> Result<&'a Row, StoreError> {
    rows.first().ok_or_else(|| nonsense(place, "no row at all"))
}

/// An answer that no version of the procedures gives.
pub(super) fn nonsense(place: &str, what: &str) -> StoreError {
    StoreError::new(ErrorKind::Schema, format!("{place} answered what this program does not know: {what}"))
        .outcome_unknown()
}

/// The lease's token, for the procedures; one that is greater than any is no token at all.
pub(super) fn shown(lease: &LeaseRef) -> i64 {
    i64::try_from(lease.token.value()).unwrap_or(-1)
}

pub(super) fn token(value: Option<i64>) -> Option<FencingToken> {
    value.and_then(|value| u64::try_from(value).ok()).and_then(FencingToken::new)
}

pub(super) fn micros(value: i64) -> Duration {
    Duration::from_micros(u64::try_from(value).unwrap_or(0))
}

pub(super) fn instant(value: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(micros(value)).unwrap_or(SystemTime::UNIX_EPOCH)
}
