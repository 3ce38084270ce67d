//! What a store keeps of one resource, and what a decision does to it.

use std::time::{Duration, SystemTime};

use lease_machines::{Checkpoint, ClockPolicy, FencingToken, Lease, LeaseAuthority, OwnerId, Rejection};

use super::standing::{MAX_TOKEN, Standing, greatest_believed};
use crate::{
    End, Epoch, ErrorKind, HistoryEntry, HoldOutcome, Inspection, Occupant, Rejected, ResourceName,
    StoreError, Vacated, VacatedHow, WorkResult,
};

/// A resource: the core's checkpoint, and what a store keeps beside it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Row {
    /// `None` before the first grant.
    pub(crate) last_issued: Option<FencingToken>,
    /// When the last committed decision was made.
    pub(crate) observed: Duration,
    /// The current lease, which may be over.
    pub(crate) lease: Option<Held>,
    /// Whom the last grant went to, and in which attempt; kept when the lease is gone, to know an echo by.
    pub(crate) asker: Option<(OwnerId, u64)>,
    /// Kept while the next one holds the resource, to know a repeated release by.
    pub(crate) vacated: Option<Vacated>,
}

/// A lease as a store keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    pub(crate) granted_at: Duration,
    pub(crate) expires_at: Duration,
    /// What was granted last. After a restart of the clock a live lease gets all of it again.
    pub(crate) ttl: Duration,
    pub(crate) epoch: Epoch,
    /// The work has ended; only an `at_least` holds the resource back.
    pub(crate) retained: bool,
    /// For the history, by the wall clock.
    pub(crate) granted_wall: SystemTime,
    pub(crate) renewed_wall: SystemTime,
    pub(crate) renewals: u64,
    pub(crate) label: Option<String>,
    pub(crate) identity: Option<String>,
}

/// When a request is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// By the store's clock, read after the lock.
    pub(crate) now: Duration,
    /// For people, and for first tokens.
    pub(crate) wall: SystemTime,
}

/// What has to be written together with an answer.
#[derive(Default, Debug)]
pub(crate) struct Effects {
    pub(crate) write: Write,
    /// What goes into the history: a hold that has ended. One that goes on is in its row.
    pub(crate) ended: Option<HistoryEntry>,
    /// And a token that was burnt without a hold.
    pub(crate) burnt: Option<HistoryEntry>,
    /// Work that ended well.
    pub(crate) good: Option<End>,
    /// No request of this owner is to be granted any more.
    pub(crate) withdrawn: Option<OwnerId>,
    /// The caller knows a token of this epoch that this resource never had: history was lost, unless the store has
    /// [granted](Row::has_granted) the lease under another name.
    pub(crate) rewound: Option<(OwnerId, FencingToken)>,
}

/// How much of a row changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Write {
    #[default]
    Nothing,
    /// Deadline, ttl and observation.
    Renewal,
    /// The observation alone.
    Observation,
    Whole,
}

impl Held {
    /// The hold as the history shows it, ended like this; one that ran out did so at its own deadline.
    pub(crate) fn ended(&self, outcome: HoldOutcome, now: Duration, wall: SystemTime) -> HistoryEntry {
        let ends_at = if outcome == HoldOutcome::Expired {
            wall.checked_sub(now.saturating_sub(self.expires_at)).unwrap_or(wall)
        } else {
            wall
        };
        HistoryEntry { outcome, ends_at, ..self.going_on(now, wall) }
    }

    /// The hold as the history shows it while it lasts.
    fn going_on(&self, now: Duration, wall: SystemTime) -> HistoryEntry {
        HistoryEntry {
            token: self.token,
            owner: self.owner,
            label: self.label.clone(),
            identity: self.identity.clone(),
            granted_at: self.granted_wall,
            renewed_at: self.renewed_wall,
            renewals: self.renewals,
            ends_at: wall.checked_add(self.expires_at.saturating_sub(now)).unwrap_or(wall),
            outcome: HoldOutcome::Held,
            result: WorkResult::Unknown,
            reason: None,
        }
    }
}

/// A revoke of a resource that nobody held, as the history shows it.
pub(crate) fn burnt(token: FencingToken, reason: Option<String>, wall: SystemTime) -> HistoryEntry {
    HistoryEntry {
        token,
        owner: OwnerId::new(0),
        label: None,
        identity: None,
        granted_at: wall,
        renewed_at: wall,
        renewals: 0,
        ends_at: wall,
        outcome: HoldOutcome::Revoked,
        result: WorkResult::Unknown,
        reason,
    }
}

impl Row {
    /// The core's authority on this row. Tokens go on above the floor, and a resource without any begins above the
    /// wall clock in microseconds.
    pub(crate) fn authority(&self, standing: &Standing, at: &At) -> Result<LeaseAuthority, StoreError> {
        let base = match self.last_issued {
            Some(token) => token.value(),
            None => micros(at.wall),
        };
        // At the engines' last token the core must find none left either.
        let last = match base.max(standing.floor) {
            last if last >= MAX_TOKEN => u64::MAX,
            last => last,
        };
        let lease = self.lease.as_ref().map(|held| Lease::new(held.owner, held.token, held.expires_at));
        Checkpoint::from_parts(FencingToken::new(last), lease, self.observed)
            .map(|checkpoint| LeaseAuthority::restore(checkpoint).with_clock_policy(ClockPolicy::Clamp))
            .ok_or_else(|| {
                StoreError::new(
                    ErrorKind::Damaged,
                    "a resource's row has a lease under a token greater than the last one issued",
                )
            })
    }

    /// Whether a caller who shows this token knows of a grant that this history does not have. Only a number that a
    /// store can have issued by now counts, so that a wrong one does not end everybody's leases.
    pub(crate) fn is_behind(&self, token: FencingToken, standing: &Standing, at: &At) -> bool {
        let last = self.last_issued.map_or(0, FencingToken::value).max(standing.floor);
        token.value() > last && token.value() <= greatest_believed(at.wall)
    }

    /// Whether the last lease here, or the last that was given back, is this one. Owners are drawn for every hold, so that
    /// one which is shown under another name was not lost: whoever shows it has the name wrong.
    pub(crate) fn has_granted(&self, owner: OwnerId, token: FencingToken) -> bool {
        let held = self.lease.as_ref().map(|held| (held.owner, held.token));
        let vacated = self.vacated.as_ref().map(|vacated| (vacated.owner, vacated.token));
        [held, vacated].contains(&Some((owner, token)))
    }

    /// The lease, if it is live.
    pub(crate) fn live(&self, now: Duration) -> Option<&Held> {
        self.lease.as_ref().filter(|held| now < held.expires_at)
    }

    /// The current hold for the history, unless it has been put there already: it goes on, or has run out and nobody
    /// was told yet.
    pub(crate) fn current_hold(&self, now: Duration, wall: SystemTime) -> Option<HistoryEntry> {
        let now = now.max(self.observed);
        let held = self.lease.as_ref().filter(|held| !held.retained)?;
        Some(if now >= held.expires_at {
            held.ended(HoldOutcome::Expired, now, wall)
        } else {
            held.going_on(now, wall)
        })
    }

    /// Who holds the resource.
    pub(crate) fn occupant(&self, now: Duration) -> Option<Occupant> {
        self.live(now).map(|held| {
            let mut occupant = Occupant::new(
                held.owner,
                held.token,
                now.saturating_sub(held.granted_at),
                held.expires_at.saturating_sub(now),
            );
            occupant.retained = held.retained;
            occupant.label.clone_from(&held.label);
            occupant.identity.clone_from(&held.identity);
            occupant
        })
    }

    /// A refusal for this reason, with who holds the resource, or who vacated it.
    pub(crate) fn rejected(&self, reason: Rejection, now: Duration) -> Rejected {
        Rejected::new(reason).with_occupant(self.occupant(now)).with_vacated(if self.lease.is_none() {
            self.vacated.clone()
        } else {
            None
        })
    }

    /// The snapshot that people are shown.
    pub(crate) fn inspection(
        &self,
        resource: ResourceName,
        epoch: Epoch,
        now: Duration,
        last_good: Option<End>,
    ) -> Inspection {
        let now = now.max(self.observed);
        let mut inspection = Inspection::unseen(resource, epoch);
        inspection.last_issued = self.last_issued;
        inspection.occupant = self.occupant(now);
        inspection.vacated = if self.lease.is_none() { self.vacated.clone() } else { None };
        inspection.last_good = last_good;
        inspection
    }

    /// The lease is gone, and this is who to tell how.
    pub(crate) fn vacate(&mut self, how: VacatedHow) {
        if let Some(held) = self.lease.take() {
            self.vacated = Some(Vacated::new(held.token, held.owner, how));
        }
    }

    /// Takes over what an authority has recorded of tokens and time.
    pub(crate) fn record(&mut self, authority: &LeaseAuthority) {
        self.observed = authority.observed();
        self.last_issued =
            authority.last_issued().and_then(|token| FencingToken::new(token.value().min(MAX_TOKEN)));
    }
}

/// Microseconds since the beginning of 1970; 0 for anything earlier.
pub(crate) fn micros(wall: SystemTime) -> u64 {
    wall.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
