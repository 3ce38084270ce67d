//! Sentences about holders.

use lease_machines_store::{Occupant, Rejected, Vacated, VacatedHow};

use super::visible;
use crate::duration;

/// The holder's name: its label, else its identity, else its number.
pub(crate) fn name(label: Option<&str>, identity: Option<&str>, owner: lease_machines::OwnerId) -> String {
    match label.or(identity) {
        Some(name) if !name.is_empty() => visible(name),
        _ => format!("owner {owner}"),
    }
}

/// Who holds a resource.
pub(crate) fn holder(occupant: &Occupant) -> String {
    name(occupant.label.as_deref(), occupant.identity.as_deref(), occupant.owner)
}

/// "is held by … under token …, since 3m12s, for at most 27s unless it is renewed".
pub(crate) fn held(occupant: &Occupant) -> String {
    let (who, token) = (holder(occupant), occupant.token);
    let since = duration::show(occupant.held_for);
    let left = duration::show(occupant.remaining);
    if occupant.retained {
        format!("is held back for {left} more after the work of {who} under token {token}, which has ended")
    } else {
        format!(
            "is held by {who} under token {token}, for {since} so far and at most {left} more unless renewed"
        )
    }
}

/// How it was vacated.
pub(crate) fn vacated(vacated: &Vacated) -> String {
    let how = match vacated.how {
        VacatedHow::Revoked => "revoked by an operator",
        VacatedHow::Withdrawn => "withdrawn by its owner",
        _ => "released",
    };
    format!("token {} was {how}", vacated.token)
}

/// Why a lease is not the caller's, with what the store said of its fate.
pub(crate) fn rejected(rejected: &Rejected) -> String {
    let mut text = rejected.reason.to_string();
    if let Some(occupant) = &rejected.occupant {
        text.push_str(": it ");
        text.push_str(&held(occupant));
    } else if let Some(last) = &rejected.vacated {
        text.push_str(": ");
        text.push_str(&vacated(last));
    }
    text
}
