//! The strict half of a guard: what the lease store in the same database has committed.

use rusqlite::Connection;

use super::refusal::database;
use crate::fence::stale;
use crate::sqlite::{history, row};
use crate::{Epoch, GuardError, GuardErrorKind, LeaseRef, MarkKey, VacatedHow};

/// The epoch of the lease store in this very database, if there is one.
pub(super) fn epoch_here(connection: &Connection) -> Result<Option<Epoch>, GuardError> {
    let error = |error| database("looking for a lease store", error);
    let there = connection
        .prepare_cached("SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'lease_store'")
        .and_then(|mut statement| statement.exists([]))
        .map_err(error)?;
    if !there {
        return Ok(None);
    }
    row::load_base(connection).map(|base| base.map(|base| base.standing.epoch)).map_err(error)
}

pub(super) fn insist(here: Option<Epoch>, lease: &LeaseRef) -> Result<(), GuardError> {
    let message = match (here, lease.epoch) {
        (None, _) => "no lease store is in this database".to_owned(),
        (Some(_), None) => "the lease does not say of which epoch it is".to_owned(),
        (Some(here), Some(epoch)) if here != epoch => {
            let message =
                format!("the lease is of epoch {epoch}, the store in this database is in {here}: it is lost");
            return Err(GuardError::new(GuardErrorKind::Lost, message));
        }
        _ => return Ok(()),
    };
    Err(GuardError::new(GuardErrorKind::NotStrict, format!("the strict guard cannot run: {message}")))
}

/// Refuses a lease of a former epoch that the store in this database knows to have granted. Of one that it does not know
/// nothing can be said: it may be another store's.
pub(super) fn refuse_former(
    connection: &Connection,
    lease: &LeaseRef,
    here: Epoch,
) -> Result<(), GuardError> {
    let error = |error| database("reading the lease", error);
    let found = row::load(connection, &lease.resource).map_err(error)?;
    let known = found.has_granted(lease.owner, lease.token)
        || history::has(connection, &lease.resource, lease.owner, lease.token).map_err(error)?;
    if !known {
        return Ok(());
    }
    let message = format!(
        "the store in this database, which granted the lease on {:?} under token {}, has opened epoch {here} since: it is lost",
        lease.resource, lease.token
    );
    Err(GuardError::new(GuardErrorKind::Lost, message))
}

/// Refuses a lease that is not the latest grant any more. The transaction holds the write lock: no grant, release or
/// revoke can be committed beside it, and the leases' own rows are not touched.
pub(super) fn look_up(connection: &Connection, lease: &LeaseRef) -> Result<(), GuardError> {
    let found =
        row::load(connection, &lease.resource).map_err(|error| database("reading the lease", error))?;
    if let Some(held) = &found.lease {
        if held.token == lease.token && held.owner == lease.owner && !held.retained {
            return Ok(());
        }
    }
    let key = MarkKey::new(lease.resource.clone());
    match found.last_issued {
        Some(last) if last > lease.token => return Err(stale(&key, lease.token, last)),
        _ => {}
    }
    let how = match found.vacated.filter(|vacated| vacated.token == lease.token).map(|vacated| vacated.how) {
        Some(VacatedHow::Released) => "was released",
        Some(VacatedHow::Revoked) => "was revoked",
        Some(VacatedHow::Withdrawn) => "was withdrawn",
        None => "is not known to the store",
    };
    let message = format!("the lease on {key} under token {} {how}", lease.token);
    Err(GuardError::new(GuardErrorKind::Lost, message))
}
