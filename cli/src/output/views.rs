//! Answers as JSON. What stands here is what docs/json.md promises: fields are added, never renamed or removed.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId, Rejection};
use lease_machines_store::{
    End, HistoryEntry, HoldOutcome, Inspection, Occupant, Rejected, Vacated, VacatedHow, WorkResult,
};
use serde::{Serialize, Serializer};

use super::rfc3339;

/// A number that may need all of its 64 bits, as a string: a reader that keeps numbers as floats would change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Big(pub(crate) u64);

impl From<FencingToken> for Big {
    fn from(token: FencingToken) -> Self {
        Self(token.value())
    }
}

impl From<OwnerId> for Big {
    fn from(owner: OwnerId) -> Self {
        Self(owner.value())
    }
}

impl Serialize for Big {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The holder of a live lease.
#[derive(Serialize, Debug)]
pub(crate) struct Holder {
    owner: Big,
    token: Big,
    label: Option<String>,
    identity: Option<String>,
    held_for_ms: u64,
    held_since: String,
    remaining_ms: u64,
    retained: bool,
}

impl Holder {
    /// `now` is this machine's wall clock; it serves `held_since` alone.
    pub(crate) fn new(occupant: &Occupant, now: SystemTime) -> Self {
        Self {
            owner: occupant.owner.into(),
            token: occupant.token.into(),
            label: occupant.label.clone(),
            identity: occupant.identity.clone(),
            held_for_ms: ms(occupant.held_for),
            held_since: rfc3339(since(occupant.held_for, now)),
            remaining_ms: ms(occupant.remaining),
            retained: occupant.retained,
        }
    }
}

/// How a resource was vacated.
#[derive(Serialize, Debug)]
pub(crate) struct VacatedView {
    owner: Big,
    token: Big,
    how: &'static str,
}

impl From<&Vacated> for VacatedView {
    fn from(vacated: &Vacated) -> Self {
        Self { owner: vacated.owner.into(), token: vacated.token.into(), how: how(vacated.how) }
    }
}

/// A good end of work.
#[derive(Serialize, Debug)]
pub(crate) struct EndView {
    owner: Big,
    token: Big,
    label: Option<String>,
    once: Option<String>,
    at: String,
}

impl From<&End> for EndView {
    fn from(end: &End) -> Self {
        Self {
            owner: end.owner.into(),
            token: end.token.into(),
            label: end.label.clone(),
            once: end.once.clone(),
            at: rfc3339(end.at),
        }
    }
}

/// How a resource stands.
#[derive(Serialize, Debug)]
pub(crate) struct ResourceView {
    resource: String,
    state: &'static str,
    epoch: String,
    last_issued: Option<Big>,
    holder: Option<Holder>,
    vacated: Option<VacatedView>,
    last_good: Option<EndView>,
}

impl ResourceView {
    /// `now` is this machine's wall clock.
    pub(crate) fn new(found: &Inspection, now: SystemTime) -> Self {
        Self {
            resource: found.resource.to_string(),
            state: state(found),
            epoch: found.epoch.to_string(),
            last_issued: found.last_issued.map(Big::from),
            holder: found.occupant.as_ref().map(|occupant| Holder::new(occupant, now)),
            vacated: found.vacated.as_ref().map(VacatedView::from),
            last_good: found.last_good.as_ref().map(EndView::from),
        }
    }
}

/// What a store decided.
#[derive(Serialize, Debug)]
pub(crate) struct DecisionView {
    resource: String,
    outcome: &'static str,
    reason: Option<&'static str>,
    owner: Option<Big>,
    token: Option<Big>,
    epoch: Option<String>,
    ttl_ms: Option<u64>,
    burnt_token: Option<Big>,
    holder: Option<Holder>,
    vacated: Option<VacatedView>,
}

impl DecisionView {
    /// A decision on a resource.
    pub(crate) fn new(resource: &lease_machines_store::ResourceName, outcome: &'static str) -> Self {
        Self {
            resource: resource.to_string(),
            outcome,
            reason: None,
            owner: None,
            token: None,
            epoch: None,
            ttl_ms: None,
            burnt_token: None,
            holder: None,
            vacated: None,
        }
    }

    /// The same, for this hold.
    pub(crate) fn of(mut self, owner: OwnerId, token: FencingToken) -> Self {
        self.owner = Some(owner.into());
        self.token = Some(token.into());
        self
    }

    /// The same, in this epoch.
    pub(crate) fn in_epoch(mut self, epoch: Option<lease_machines_store::Epoch>) -> Self {
        self.epoch = epoch.map(|epoch| epoch.to_string());
        self
    }

    /// The same, for this long.
    pub(crate) fn for_time(mut self, ttl: Duration) -> Self {
        self.ttl_ms = Some(ms(ttl));
        self
    }

    /// The same, with a token that nobody will hold.
    pub(crate) fn burning(mut self, token: Option<FencingToken>) -> Self {
        self.burnt_token = token.map(Big::from);
        self
    }

    /// The same, for this reason.
    pub(crate) fn because(mut self, rejected: &Rejected) -> Self {
        self.reason = Some(reason(rejected.reason));
        self.holder = rejected.occupant.as_ref().map(|occupant| Holder::new(occupant, SystemTime::now()));
        self.vacated = rejected.vacated.as_ref().map(VacatedView::from);
        self
    }
}

/// One hold in a history.
#[derive(Serialize, Debug)]
pub(crate) struct HoldView {
    token: Big,
    owner: Big,
    label: Option<String>,
    identity: Option<String>,
    granted_at: String,
    renewed_at: String,
    renewals: u64,
    ends_at: String,
    outcome: &'static str,
    result: &'static str,
    reason: Option<String>,
}

impl From<&HistoryEntry> for HoldView {
    fn from(entry: &HistoryEntry) -> Self {
        Self {
            token: entry.token.into(),
            owner: entry.owner.into(),
            label: entry.label.clone(),
            identity: entry.identity.clone(),
            granted_at: rfc3339(entry.granted_at),
            renewed_at: rfc3339(entry.renewed_at),
            renewals: entry.renewals,
            ends_at: rfc3339(entry.ends_at),
            outcome: outcome(entry.outcome),
            result: result(entry.result),
            reason: entry.reason.clone(),
        }
    }
}

/// The word for how a resource stands, in tables and in JSON.
pub(crate) fn state(found: &Inspection) -> &'static str {
    match (&found.occupant, &found.vacated, found.last_issued) {
        (Some(occupant), ..) if occupant.retained => "retained",
        (Some(_), ..) => "held",
        (None, Some(vacated), _) => how(vacated.how),
        // Kept back by --at-least after work that ended well: its time was up, and nothing was lost.
        (None, None, Some(token)) if found.last_good.as_ref().is_some_and(|end| end.token == token) => {
            "released"
        }
        (None, None, Some(_)) => "expired",
        (None, None, None) => "unseen",
    }
}

/// The word for how a hold ended.
pub(crate) const fn outcome(outcome: HoldOutcome) -> &'static str {
    match outcome {
        HoldOutcome::Held => "held",
        HoldOutcome::Released => "released",
        HoldOutcome::Expired => "expired",
        HoldOutcome::Revoked => "revoked",
        HoldOutcome::Withdrawn => "withdrawn",
        HoldOutcome::Rotated => "rotated",
        HoldOutcome::EpochLost => "epoch_lost",
        _ => "unknown",
    }
}

/// The word for what became of the work.
pub(crate) const fn result(result: WorkResult) -> &'static str {
    match result {
        WorkResult::Good => "good",
        WorkResult::Failed => "failed",
        _ => "unknown",
    }
}

/// The word for a reason.
pub(crate) const fn reason(reason: Rejection) -> &'static str {
    match reason {
        Rejection::Occupied => "occupied",
        Rejection::Vacant => "vacant",
        Rejection::WrongOwner => "wrong_owner",
        Rejection::StaleToken => "stale_token",
        Rejection::Expired => "expired",
        Rejection::ClockRegressed => "clock_regressed",
        Rejection::InvalidTtl => "invalid_ttl",
        Rejection::DeadlineOverflow => "deadline_overflow",
        Rejection::TokensExhausted => "tokens_exhausted",
        _ => "unknown",
    }
}

/// Whole milliseconds; time left is never shown as more than it is.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The instant that lies so far back.
pub(crate) fn since(age: Duration, now: SystemTime) -> SystemTime {
    now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)
}

const fn how(how: VacatedHow) -> &'static str {
    match how {
        VacatedHow::Released => "released",
        VacatedHow::Revoked => "revoked",
        VacatedHow::Withdrawn => "withdrawn",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use lease_machines::{FencingToken, OwnerId};
    use lease_machines_store::{End, Epoch, Inspection, ResourceName};

    use super::state;

    #[test]
    fn what_at_least_kept_back_after_good_work_is_not_said_to_be_lost() {
        let token = |number| FencingToken::new(number).unwrap();
        let mut found = Inspection::unseen(ResourceName::new("r").unwrap(), Epoch::new(1).unwrap());
        assert_eq!(state(&found), "unseen");
        found.last_issued = Some(token(8));
        assert_eq!(state(&found), "expired");
        for (good, said) in [(7, "expired"), (8, "released")] {
            found.last_good = Some(End::new(token(good), OwnerId::new(1), SystemTime::UNIX_EPOCH));
            assert_eq!(state(&found), said);
        }
    }
}
