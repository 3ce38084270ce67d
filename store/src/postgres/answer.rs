//! What the functions answer, read into the answers of the trait.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId, Rejection};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::failure::Place;
use crate::decide::superseded;
use crate::{
    Acquired, Claim, End, Epoch, ErrorKind, Grant, HistoryEntry, Inspection, LeaseRef, Occupant, Pruned,
    Rejected, Released, Renewed, ResourceName, Revoked, StoreError, Vacated, check, codes,
};

/// One row of an answer, as the function gave it.
pub(super) struct Told {
    row: Row,
    place: Place,
    pub(super) code: String,
}

impl Told {
    pub(super) fn read(row: Row, place: &Place) -> Result<Self, StoreError> {
        let mut told = Self { row, place: place.clone(), code: String::new() };
        told.code = told.get("code")?;
        Ok(told)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn get<'a, T: FromSql<'a>>(&'a self, column: &str) -> Result<T, StoreError> {
        self.row.try_get(column).map_err(|error| nonsense(&self.place, &error.to_string()))
    }

    fn span(&self, column: &str) -> Result<Duration, StoreError> {
        Ok(micros(self.get::<Option<i64>>(column)?.unwrap_or(0)))
    }

    /// Its history was lost: the server's timeline is another one.
    pub(super) fn is_lost(&self) -> bool {
        self.code == "lost"
    }

    /// The caller's token shows that history was lost.
    pub(super) fn is_rewound(&self) -> Result<bool, StoreError> {
        Ok(self.get::<Option<bool>>("rewound")?.unwrap_or(false))
    }

    /// Which of the renewals asked for this answers, counted from 0; and what remains of each, where they are simply
    /// renewed.
    pub(super) fn places(&self) -> Result<Vec<(usize, Option<Duration>)>, StoreError> {
        let (numbers, remains): (Vec<i64>, Option<Vec<i64>>) = (self.get("n")?, self.get("remains")?);
        let place = |number: i64| {
            usize::try_from(number.saturating_sub(1))
                .map_err(|_| nonsense(&self.place, "a renewal nobody asked for"))
        };
        let Some(remains) = remains else {
            return numbers.into_iter().map(|number| Ok((place(number)?, None))).collect();
        };
        if numbers.len() != remains.len() {
            return Err(nonsense(&self.place, "not as many remaining times as renewals"));
        }
        numbers
            .into_iter()
            .zip(remains)
            .map(|(number, left)| Ok((place(number)?, Some(micros(left)))))
            .collect()
    }

    pub(super) fn epoch(&self) -> Result<Epoch, StoreError> {
        epoch(&self.place, self.get("epoch")?)
    }

    pub(super) fn grant(&self) -> Result<Grant, StoreError> {
        let token =
            token(self.get("token")?).ok_or_else(|| nonsense(&self.place, "a grant without a token"))?;
        Ok(Grant::new(token, self.span("remaining")?, self.epoch()?))
    }

    pub(super) fn acquired(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        match self.code.as_str() {
            "granted" => Ok(Acquired::Granted(self.grant()?)),
            "done" => {
                let mut end = end(self.get("end_token")?, self.get("end_owner")?, self.get("end_at")?)
                    .ok_or_else(|| nonsense(&self.place, "an end without a token"))?;
                end.label = self.get("end_label")?;
                end.once = self.get("end_once")?;
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
                check::left(self.span("remaining")?)
            ),
        ))
    }

    /// The error of an answer that refuses the request.
    pub(super) fn refused(&self) -> Result<StoreError, StoreError> {
        match self.code.as_str() {
            "new epoch" => {
                let believed = epoch(&self.place, self.get("believed")?)?;
                Ok(StoreError::new_epoch(believed, self.epoch()?))
            }
            other => Ok(nonsense(&self.place, &format!("the answer {other:?}"))),
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
            "retained" => Ok(Released::Retained(self.span("remaining")?)),
            "already released" => Ok(Released::AlreadyReleased),
            _ => self.rejected().map(Released::Rejected),
        }
    }

    pub(super) fn revoked(&self) -> Result<Revoked, StoreError> {
        match self.code.as_str() {
            "burnt" => Ok(Revoked::Burnt(self.grant()?.token)),
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
        let holder: Option<i64> = self.get("holder")?;
        let occupant = match (holder, token(self.get("holder_token")?)) {
            (Some(owner), Some(token)) => {
                let mut occupant = Occupant::new(
                    OwnerId::new(owner as u64),
                    token,
                    self.span("holder_for")?,
                    self.span("holder_remaining")?,
                );
                occupant.retained = self.get::<Option<bool>>("holder_retained")?.unwrap_or(false);
                occupant.label = self.get("holder_label")?;
                occupant.identity = self.get("holder_identity")?;
                Some(occupant)
            }
            _ => None,
        };
        let vacated =
            vacated(self.get("vacated_token")?, self.get("vacated_owner")?, self.get("vacated_how")?);
        Ok(Rejected::new(reason).with_occupant(occupant).with_vacated(vacated))
    }
}

/// A row of `Inspect` or `List`; `None` where the name has no row of its own.
pub(super) fn inspection(
    row: &Row,
    place: &Place,
    asked: Option<ResourceName>,
) -> Result<Inspection, StoreError> {
    let read = || -> Result<Option<Inspection>, tokio_postgres::Error> {
        let Some(here) = Epoch::new(row.try_get::<_, i64>(0)? as u64) else { return Ok(None) };
        let name = match asked {
            Some(name) => name,
            None => {
                let bytes: &[u8] = row.try_get(2)?;
                match std::str::from_utf8(bytes).ok().and_then(|name| ResourceName::new(name).ok()) {
                    Some(name) => name,
                    None => return Ok(None),
                }
            }
        };
        let mut seen = Inspection::unseen(name, here);
        seen.last_issued = token(row.try_get::<_, Option<i64>>(3)?.filter(|last| *last > 0));
        let now: i64 = row.try_get(1)?;
        match (token(row.try_get(4)?), row.try_get::<_, Option<i64>>(5)?) {
            (Some(token), Some(owner)) => {
                let (granted, expires): (i64, i64) = (row.try_get(6)?, row.try_get(7)?);
                if now < expires {
                    let (held, left) = (now.saturating_sub(granted), expires.saturating_sub(now));
                    let mut occupant =
                        Occupant::new(OwnerId::new(owner as u64), token, micros(held), micros(left));
                    occupant.retained = row.try_get(8)?;
                    occupant.label = row.try_get(9)?;
                    occupant.identity = row.try_get(10)?;
                    seen.occupant = Some(occupant);
                }
            }
            _ => seen.vacated = vacated(row.try_get(11)?, row.try_get(12)?, row.try_get(13)?),
        }
        seen.last_good = match end(row.try_get(14)?, row.try_get(15)?, row.try_get(18)?) {
            Some(mut end) => {
                end.label = row.try_get(16)?;
                end.once = row.try_get(17)?;
                Some(end)
            }
            None => None,
        };
        Ok(Some(seen))
    };
    match read() {
        Ok(Some(seen)) => Ok(seen),
        Ok(None) => Err(nonsense(place, "a row with an epoch of 0 or a name that is none")),
        Err(error) => Err(nonsense(place, &error.to_string())),
    }
}

/// A row of `History`.
pub(super) fn hold(row: &Row, place: &Place) -> Result<HistoryEntry, StoreError> {
    let read = || -> Result<Option<HistoryEntry>, tokio_postgres::Error> {
        let Some(token) = token(row.try_get(0)?) else { return Ok(None) };
        Ok(Some(HistoryEntry {
            token,
            owner: OwnerId::new(row.try_get::<_, i64>(1)? as u64),
            label: row.try_get(2)?,
            identity: row.try_get(3)?,
            granted_at: instant(row.try_get(4)?),
            renewed_at: instant(row.try_get(5)?),
            renewals: u64::try_from(row.try_get::<_, i64>(6)?).unwrap_or(0),
            ends_at: instant(row.try_get(7)?),
            outcome: codes::outcome(row.try_get::<_, i32>(8)?.into()),
            result: codes::result(row.try_get::<_, i32>(9)?.into()),
            reason: row.try_get(10)?,
        }))
    };
    match read() {
        Ok(Some(hold)) => Ok(hold),
        Ok(None) => Err(nonsense(place, "a hold without a token")),
        Err(error) => Err(nonsense(place, &error.to_string())),
    }
}

/// The row of `Prune`, and whether there is more to prune.
pub(super) fn pruned(row: &Row, place: &Place) -> Result<(Pruned, bool), StoreError> {
    let read = || -> Result<(Pruned, bool), tokio_postgres::Error> {
        let count = |column| row.try_get::<_, i64>(column).map(|count| u64::try_from(count).unwrap_or(0));
        let pruned = Pruned { resources: count(0)?, history: count(1)?, floor: count(2)? };
        Ok((pruned, row.try_get(3)?))
    };
    read().map_err(|error| nonsense(place, &error.to_string()))
}

pub(super) fn epoch(place: &Place, bits: i64) -> Result<Epoch, StoreError> {
    Epoch::new(bits as u64).ok_or_else(|| nonsense(place, "an epoch of 0"))
}

/// An answer that no version of the functions gives.
pub(super) fn nonsense(place: &Place, what: &str) -> StoreError {
    StoreError::new(ErrorKind::Schema, format!("{place} answered what this program does not know: {what}"))
        .outcome_unknown()
}

/// Whether the server refused because of this index.
pub(super) fn violates(error: &StoreError, index: &str) -> bool {
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    source.and_then(tokio_postgres::Error::as_db_error).is_some_and(|told| told.constraint() == Some(index))
}

/// The lease's token, for the functions; one that is greater than any is no token at all.
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

fn end(number: Option<i64>, owner: Option<i64>, at: Option<i64>) -> Option<End> {
    Some(End::new(token(number)?, OwnerId::new(owner? as u64), instant(at?)))
}

fn vacated(number: Option<i64>, owner: Option<i64>, how: Option<i32>) -> Option<Vacated> {
    Some(Vacated::new(token(number)?, OwnerId::new(owner? as u64), codes::how(how?.into())))
}
