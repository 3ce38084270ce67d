//! Releases, withdrawals and revokes.

use std::time::Duration;

use lease_machines::{Decision, FencingToken, OwnerId, Rejection};

use super::renew::{refused, rewound, usable};
use super::row::burnt;
use super::{At, Decided, Effects, Row, Standing, Write};
use crate::{
    End, Ending, HistoryEntry, HoldOutcome, LeaseRef, Rejected, Released, Revoked, Vacated, VacatedHow,
    WorkResult,
};

/// Decides `release`.
pub(crate) fn release(
    row: &mut Row,
    standing: &Standing,
    at: &At,
    lease: &LeaseRef,
    ending: &Ending,
) -> Decided<Released> {
    if let Err(error) = usable(row, standing, lease) {
        return Decided::only(Err(error));
    }
    if row.vacated.as_ref().is_some_and(|last| {
        last.token == lease.token && last.owner == lease.owner && last.how == VacatedHow::Released
    }) {
        return Decided::only(Ok(Released::AlreadyReleased));
    }
    let rewound = rewound(row, standing, at, lease);
    let mut authority = match row.authority(standing, at) {
        Ok(authority) => authority,
        Err(error) => return Decided::only(Err(error)),
    };
    match authority.release(lease.owner, lease.token, at.now) {
        Decision::Released => {
            row.record(&authority);
            let good = (ending.result == WorkResult::Good).then(|| {
                let mut end = End::new(lease.token, lease.owner, at.wall);
                end.label = row.lease.as_ref().and_then(|held| held.label.clone());
                end.once.clone_from(&ending.once);
                end
            });
            let ended = row.lease.as_ref().map(|held| HistoryEntry {
                result: ending.result,
                ..held.ended(HoldOutcome::Released, row.observed, at.wall)
            });
            let effects = Effects { write: Write::Whole, ended, good, ..Effects::default() };
            let answer = match retain(row, ending) {
                Some(remaining) => Released::Retained(remaining),
                None => {
                    row.vacate(VacatedHow::Released);
                    Released::Released
                }
            };
            Decided { answer: Ok(answer), effects }
        }
        Decision::Rejected(reason) => {
            let effects = refused(row, at, authority.observed(), reason, rewound);
            Decided { answer: Ok(Released::Rejected(row.rejected(reason, authority.observed()))), effects }
        }
        // The core answers a release or a rejection.
        Decision::Granted(_) | Decision::Renewed(_) => {
            Decided::only(Ok(Released::Rejected(row.rejected(Rejection::Vacant, authority.observed()))))
        }
    }
}

/// Lets the lease run on where its holder asked that nobody else has the resource so soon.
fn retain(row: &mut Row, ending: &Ending) -> Option<Duration> {
    let held = row.lease.as_mut()?;
    let until = held.granted_at.checked_add(ending.at_least)?;
    let remaining = until.checked_sub(row.observed).filter(|left| !left.is_zero())?;
    held.expires_at = until;
    held.ttl = remaining;
    held.retained = true;
    row.vacated = Some(Vacated::new(held.token, held.owner, VacatedHow::Released));
    Some(remaining)
}

/// Decides `withdraw`, by which an owner takes back whatever it asked for.
pub(crate) fn withdraw(row: &mut Row, standing: &Standing, at: &At, owner: OwnerId) -> Decided<Released> {
    let mut decided = vacate_own(row, standing, at, owner);
    decided.effects.withdrawn = Some(owner);
    decided
}

fn vacate_own(row: &mut Row, standing: &Standing, at: &At, owner: OwnerId) -> Decided<Released> {
    let now = at.now.max(row.observed);
    let rejected = |row: &Row, reason| Decided::only(Ok(Released::Rejected(row.rejected(reason, now))));
    let already =
        row.vacated.as_ref().is_some_and(|last| last.owner == owner && last.how != VacatedHow::Revoked);
    match &row.lease {
        Some(held) if held.owner == owner && !held.retained => {
            let token = held.token;
            let mut authority = match row.authority(standing, at) {
                Ok(authority) => authority,
                Err(error) => return Decided::only(Err(error)),
            };
            match authority.release(owner, token, at.now) {
                Decision::Released => {
                    row.record(&authority);
                    let ended = row
                        .lease
                        .as_ref()
                        .map(|held| held.ended(HoldOutcome::Withdrawn, row.observed, at.wall));
                    row.vacate(VacatedHow::Withdrawn);
                    Decided {
                        answer: Ok(Released::Released),
                        effects: Effects { write: Write::Whole, ended, ..Effects::default() },
                    }
                }
                _ => {
                    let effects = refused(row, at, now, Rejection::Expired, None);
                    Decided { answer: Ok(Released::Rejected(row.rejected(Rejection::Expired, now))), effects }
                }
            }
        }
        _ if already => Decided::only(Ok(Released::AlreadyReleased)),
        Some(_) => rejected(row, Rejection::WrongOwner),
        None => rejected(row, Rejection::Vacant),
    }
}

/// Decides `revoke`, the operator's break.
pub(crate) fn revoke(
    row: &mut Row,
    standing: &Standing,
    at: &At,
    expect: Option<FencingToken>,
    reason: Option<String>,
) -> Decided<Revoked> {
    let mut authority = match row.authority(standing, at) {
        Ok(authority) => authority,
        Err(error) => return Decided::only(Err(error)),
    };
    let answer = authority.revoke(expect, at.now);
    if let Err(reason @ (Rejection::Vacant | Rejection::StaleToken)) = answer {
        return Decided::only(Ok(Revoked::Rejected(row.rejected(reason, authority.observed()))));
    }
    row.record(&authority);
    let live = row.live(row.observed).is_some_and(|held| !held.retained);
    let mut ended = row.lease.as_ref().filter(|held| !held.retained).map(|held| {
        let outcome = if live { HoldOutcome::Revoked } else { HoldOutcome::Expired };
        held.ended(outcome, row.observed, at.wall)
    });
    let mut burnt_alone = None;
    if live {
        if let Some(entry) = &mut ended {
            entry.reason = reason;
        }
    } else if let Ok(token) = answer {
        burnt_alone = Some(burnt(token, reason, at.wall));
    }
    if row.lease.as_ref().is_some_and(|held| held.retained) {
        // Its holder had released it, and may ask again whether it did.
        row.lease = None;
    } else {
        row.vacate(VacatedHow::Revoked);
    }
    Decided {
        answer: Ok(match answer {
            Ok(burnt) => Revoked::Burnt(burnt),
            Err(reason) => Revoked::Rejected(Rejected::new(reason)),
        }),
        effects: Effects { write: Write::Whole, ended, burnt: burnt_alone, ..Effects::default() },
    }
}
