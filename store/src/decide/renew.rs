//! Renewals.

use std::time::Duration;

use lease_machines::{Decision, FencingToken, OwnerId, Rejection};

use super::{At, Decided, Effects, Row, Standing, Write, same_epoch};
use crate::{Grant, HoldOutcome, LeaseRef, Renewed, StoreError};

/// Decides `renew`.
pub(crate) fn renew(
    row: &mut Row,
    standing: &Standing,
    at: &At,
    lease: &LeaseRef,
    ttl: Duration,
) -> Decided<Renewed> {
    if let Err(error) = usable(row, standing, lease) {
        return Decided::only(Err(error));
    }
    let rewound = rewound(row, standing, at, lease);
    let mut authority = match row.authority(standing, at) {
        Ok(authority) => authority,
        Err(error) => return Decided::only(Err(error)),
    };
    let retained = row.lease.as_ref().is_some_and(|held| held.retained && held.token == lease.token);
    if retained && !ttl.is_zero() {
        // It was released; nothing extends it, whatever was in flight.
        let mut rejected = row.rejected(Rejection::Vacant, at.now.max(row.observed));
        rejected.vacated.clone_from(&row.vacated);
        return Decided::only(Ok(Renewed::Rejected(rejected)));
    }
    match authority.renew(lease.owner, lease.token, at.now, ttl) {
        Decision::Renewed(renewed) => {
            row.record(&authority);
            let remaining = renewed.expires_at().saturating_sub(row.observed);
            if let Some(held) = &mut row.lease {
                held.expires_at = renewed.expires_at();
                held.ttl = remaining;
                held.renewed_wall = at.wall;
                held.renewals = held.renewals.saturating_add(1);
            }
            Decided {
                answer: Ok(Renewed::Renewed(Grant::new(lease.token, remaining, standing.epoch))),
                effects: Effects { write: Write::Renewal, ..Effects::default() },
            }
        }
        Decision::Rejected(reason) => {
            let effects = refused(row, at, authority.observed(), reason, rewound);
            Decided { answer: Ok(Renewed::Rejected(row.rejected(reason, authority.observed()))), effects }
        }
        // The core answers a renewal or a rejection.
        Decision::Granted(_) | Decision::Released => {
            Decided::only(Ok(Renewed::Rejected(row.rejected(Rejection::Vacant, authority.observed()))))
        }
    }
}

/// A lease of a former epoch is lost, also for a caller who does not say which one it believes in.
pub(super) fn usable(row: &Row, standing: &Standing, lease: &LeaseRef) -> Result<(), StoreError> {
    same_epoch(lease.epoch, standing)?;
    match &row.lease {
        Some(held) if held.token == lease.token && held.owner == lease.owner => {
            same_epoch(Some(held.epoch), standing)
        }
        _ => Ok(()),
    }
}

/// The caller's lease, where its token shows that history was lost.
pub(super) fn rewound(
    row: &Row,
    standing: &Standing,
    at: &At,
    lease: &LeaseRef,
) -> Option<(OwnerId, FencingToken)> {
    let is_behind = lease.epoch.is_some() && row.is_behind(lease.token, standing, at);
    is_behind.then_some((lease.owner, lease.token))
}

/// What a refusal leaves behind: an expiry that was told stays told.
pub(super) fn refused(
    row: &mut Row,
    at: &At,
    observed: Duration,
    reason: Rejection,
    rewound: Option<(OwnerId, FencingToken)>,
) -> Effects {
    if reason != Rejection::Expired {
        return Effects { rewound, ..Effects::default() };
    }
    row.observed = observed;
    Effects {
        write: Write::Observation,
        ended: row.lease.as_ref().map(|held| held.ended(HoldOutcome::Expired, observed, at.wall)),
        rewound,
        ..Effects::default()
    }
}
