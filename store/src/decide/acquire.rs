//! Grants.

use std::time::Duration;

use lease_machines::{Decision, Rejection};

use super::{At, Decided, Effects, Held, Row, Standing, Write, same_epoch};
use crate::check;
use crate::{Acquired, Claim, End, ErrorKind, Grant, HoldOutcome, StoreError};

/// What a store has found out about a claim beside the row.
pub(crate) struct Known {
    /// The good end under the claim's once-key.
    pub(crate) done: Option<End>,
    /// The owner has withdrawn.
    pub(crate) withdrawn: bool,
}

/// Decides `acquire`, or `reacquire` where `again`.
pub(crate) fn acquire(
    row: &mut Row,
    standing: &Standing,
    at: &At,
    claim: &Claim,
    again: bool,
    known: Known,
) -> Decided<Acquired> {
    if let Err(error) = same_epoch(claim.epoch, standing) {
        return Decided::only(Err(error));
    }
    if let Some(end) = known.done {
        return Decided::only(Ok(Acquired::AlreadyDone(end)));
    }
    if known.withdrawn {
        return Decided::only(Err(superseded(claim, "the owner has withdrawn")));
    }
    if let Some((owner, attempt)) = row.asker {
        if owner == claim.owner && claim.attempt <= attempt {
            return echo(row, standing, at, claim, attempt);
        }
    }
    let mut authority = match row.authority(standing, at) {
        Ok(authority) => authority,
        Err(error) => return Decided::only(Err(error)),
    };
    // Work that has ended holds its resource back from everyone, its own owner included.
    let decision = if again && !row.lease.as_ref().is_some_and(|held| held.retained) {
        authority.reacquire(claim.owner, at.now, claim.ttl)
    } else {
        authority.acquire(claim.owner, at.now, claim.ttl)
    };
    match decision {
        Decision::Granted(lease) => {
            if authority.observed() < standing.grants_from {
                return Decided::only(Err(held_back(standing, authority.observed())));
            }
            // One that is held back has ended before, when it was released.
            let ended = row.lease.as_ref().filter(|old| !old.retained).map(|old| {
                let now = authority.observed();
                let live = now < old.expires_at;
                let outcome = if live { HoldOutcome::Rotated } else { HoldOutcome::Expired };
                old.ended(outcome, now, at.wall)
            });
            row.record(&authority);
            let ttl = lease.expires_at().saturating_sub(row.observed);
            row.lease = Some(Held {
                owner: claim.owner,
                token: lease.token(),
                granted_at: row.observed,
                expires_at: lease.expires_at(),
                ttl,
                epoch: standing.epoch,
                retained: false,
                granted_wall: at.wall,
                renewed_wall: at.wall,
                renewals: 0,
                label: claim.label.clone(),
                identity: claim.identity.clone(),
            });
            row.asker = Some((claim.owner, claim.attempt));
            Decided {
                answer: Ok(Acquired::Granted(Grant::new(lease.token(), ttl, standing.epoch))),
                effects: Effects { write: Write::Whole, ended, ..Effects::default() },
            }
        }
        Decision::Rejected(reason) => {
            Decided::only(Ok(Acquired::Rejected(row.rejected(reason, authority.observed()))))
        }
        // The core answers a grant or a rejection to either call.
        Decision::Renewed(_) | Decision::Released => {
            Decided::only(Ok(Acquired::Rejected(row.rejected(Rejection::Occupied, authority.observed()))))
        }
    }
}

/// A doubled or delayed request: it is told what its owner already has, or that it is too late.
fn echo(row: &mut Row, standing: &Standing, at: &At, claim: &Claim, attempt: u64) -> Decided<Acquired> {
    let now = at.now.max(row.observed);
    if let Some(held) = &row.lease {
        let own = held.owner == claim.owner && held.epoch == standing.epoch && !held.retained;
        if own && now < held.expires_at {
            let remaining = held.expires_at.saturating_sub(now);
            let grant = Grant::new(held.token, remaining, standing.epoch);
            return Decided::only(Ok(Acquired::Granted(grant)));
        }
        if own {
            // The answer says that the lease is over: that has to stay so.
            let ended = Some(held.ended(HoldOutcome::Expired, now, at.wall));
            row.observed = now;
            return Decided {
                answer: Err(superseded(claim, "its lease has run out")),
                effects: Effects { write: Write::Observation, ended, ..Effects::default() },
            };
        }
    }
    Decided::only(Err(superseded(claim, &format!("attempt {attempt} of the owner was answered before"))))
}

/// The claim comes too late, for this reason.
pub(crate) fn superseded(claim: &Claim, why: &str) -> StoreError {
    StoreError::new(
        ErrorKind::Superseded,
        format!(
            "attempt {} of owner {} for {:?} comes too late: {why}",
            claim.attempt, claim.owner, claim.resource
        ),
    )
}

/// Nothing is granted yet.
pub(super) fn held_back(standing: &Standing, now: Duration) -> StoreError {
    let left = standing.grants_from.saturating_sub(now);
    StoreError::new(
        ErrorKind::Busy,
        format!(
            "the store's history was lost, and leases of it may still be held: nothing is granted for another {}, \
             unless an operator who knows that the old holders are dead says so by `lease epoch open --now`",
            check::left(left)
        ),
    )
}
