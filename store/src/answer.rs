//! What a store answers: decisions, always from one version of a resource's history.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId, Rejection};

use crate::{Epoch, ResourceName, WorkResult};

/// A lease that stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// Greater than every earlier token of the resource.
    pub token: FencingToken,
    /// The time *remaining* by the store's clock when it decided. This counts, not what was asked for: also where an
    /// earlier grant is answered again. Count it from before the request was sent.
    pub ttl: Duration,
    /// The epoch that the lease belongs to.
    pub epoch: Epoch,
}

impl Grant {
    /// Puts the parts together.
    #[must_use]
    pub const fn new(token: FencingToken, ttl: Duration, epoch: Epoch) -> Self {
        Self { token, ttl, epoch }
    }
}

/// The answer to `acquire` and `reacquire`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an answer says whether the caller may act"]
#[non_exhaustive]
pub enum Acquired {
    /// The caller holds the resource.
    Granted(Grant),
    /// Work has ended well under this once-key before; nothing was granted.
    AlreadyDone(End),
    /// Nothing was granted.
    Rejected(Rejected),
}

/// The answer to `renew`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an answer says whether the caller may go on"]
#[non_exhaustive]
pub enum Renewed {
    /// The lease goes on, under the same token.
    Renewed(Grant),
    /// The lease is not (or no longer) the caller's.
    Rejected(Rejected),
}

/// The answer to `release` and `withdraw`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an answer says whether the lease still stood"]
#[non_exhaustive]
pub enum Released {
    /// The lease stood until now, and the resource is free.
    Released,
    /// The lease stood until now. It ends by itself after this long, since a longer one had been asked for.
    Retained(Duration),
    /// This very token had been released before: an echo of a call whose answer was lost. Where an `at_least` holds
    /// the resource back, it goes on doing so.
    AlreadyReleased,
    /// The lease was not (or no longer) the caller's; for `withdraw`, there was nothing to vacate.
    Rejected(Rejected),
}

/// The answer to `revoke`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an answer says whether the lease was broken"]
#[non_exhaustive]
pub enum Revoked {
    /// The resource is vacant, and this token burnt.
    Burnt(FencingToken),
    /// Nothing was broken, or (with `TokensExhausted`) it was, but there is no token left to burn.
    Rejected(Rejected),
}

/// Why nothing was granted, renewed or released, with what the caller will want to know next.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// The core's reason.
    pub reason: Rejection,
    /// Who holds the resource instead, by the version of the row that the decision was made on.
    pub occupant: Option<Occupant>,
    /// Who vacated it last, and how, where nobody holds it.
    pub vacated: Option<Vacated>,
}

impl Rejected {
    /// A reason with nothing more to say.
    #[must_use]
    pub const fn new(reason: Rejection) -> Self {
        Self { reason, occupant: None, vacated: None }
    }

    /// The same, naming the holder.
    #[must_use]
    pub fn with_occupant(mut self, occupant: Option<Occupant>) -> Self {
        self.occupant = occupant;
        self
    }

    /// The same, saying how the resource became vacant.
    #[must_use]
    pub fn with_vacated(mut self, vacated: Option<Vacated>) -> Self {
        self.vacated = vacated;
        self
    }
}

/// The holder of a live lease.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Occupant {
    /// Who.
    pub owner: OwnerId,
    /// Under which token.
    pub token: FencingToken,
    /// How long the lease has been held.
    pub held_for: Duration,
    /// How long it goes on if it is not renewed. Waiting longer than this without asking again is never needed.
    pub remaining: Duration,
    /// Set where the work has ended and only an `at_least` holds the resource back.
    pub retained: bool,
    /// What the holder calls itself.
    pub label: Option<String>,
    /// The holder's lasting name.
    pub identity: Option<String>,
}

impl Occupant {
    /// A holder without label and identity, whose work goes on.
    #[must_use]
    pub const fn new(owner: OwnerId, token: FencingToken, held_for: Duration, remaining: Duration) -> Self {
        Self { owner, token, held_for, remaining, retained: false, label: None, identity: None }
    }
}

/// The last time that a resource was vacated by a request. An expiry vacates nothing: it only makes way.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Vacated {
    /// The token whose lease it was.
    pub token: FencingToken,
    /// Whose lease it was.
    pub owner: OwnerId,
    /// How it ended.
    pub how: VacatedHow,
}

impl Vacated {
    /// Puts the parts together.
    #[must_use]
    pub const fn new(token: FencingToken, owner: OwnerId, how: VacatedHow) -> Self {
        Self { token, owner, how }
    }
}

/// How a resource became vacant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum VacatedHow {
    /// By its holder.
    Released,
    /// By an operator.
    Revoked,
    /// By its owner, who did not know whether it held anything.
    Withdrawn,
}

/// Work that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct End {
    /// Under which token.
    pub token: FencingToken,
    /// Whose work it was.
    pub owner: OwnerId,
    /// What its holder called itself.
    pub label: Option<String>,
    /// The key that it need not be done again under.
    pub once: Option<String>,
    /// When, by the store's wall clock: for people.
    pub at: SystemTime,
}

impl End {
    /// An end without label and once-key.
    #[must_use]
    pub const fn new(token: FencingToken, owner: OwnerId, at: SystemTime) -> Self {
        Self { token, owner, label: None, once: None, at }
    }
}

/// How a resource stands: a snapshot, not a decision. It may be out of date before it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Which resource.
    pub resource: ResourceName,
    /// The store's epoch.
    pub epoch: Epoch,
    /// The greatest token issued or burnt; `None` for a resource that the store has not seen, or has pruned.
    pub last_issued: Option<FencingToken>,
    /// Who holds it, if the lease is live by the store's clock.
    pub occupant: Option<Occupant>,
    /// How it was vacated last, where nobody holds it and the last lease did not just run out.
    pub vacated: Option<Vacated>,
    /// The last time that work under it ended well.
    pub last_good: Option<End>,
}

impl Inspection {
    /// A resource of which nothing is known.
    #[must_use]
    pub const fn unseen(resource: ResourceName, epoch: Epoch) -> Self {
        Self { resource, epoch, last_issued: None, occupant: None, vacated: None, last_good: None }
    }
}

/// One hold in a resource's history. Times are by the store's wall clock, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The token of the grant; for a revoke of a vacant resource, the token burnt.
    pub token: FencingToken,
    /// Who held it.
    pub owner: OwnerId,
    /// What the holder called itself.
    pub label: Option<String>,
    /// The holder's lasting name.
    pub identity: Option<String>,
    /// When it was granted.
    pub granted_at: SystemTime,
    /// When it was renewed last; the grant itself where it never was.
    pub renewed_at: SystemTime,
    /// How many times it was renewed.
    pub renewals: u64,
    /// When it ended, or is going to end unless it is renewed.
    pub ends_at: SystemTime,
    /// How it ended.
    pub outcome: HoldOutcome,
    /// What became of the work.
    pub result: WorkResult,
    /// What an operator said on revoking it.
    pub reason: Option<String>,
}

/// How a hold ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HoldOutcome {
    /// It has not: the lease is live.
    Held,
    /// By its holder.
    Released,
    /// By running out.
    Expired,
    /// By an operator.
    Revoked,
    /// By its owner, who did not know whether it held anything.
    Withdrawn,
    /// Its owner took it again under a newer token.
    Rotated,
    /// The store's epoch changed under it.
    EpochLost,
}

/// What a prune removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// Resources forgotten.
    pub resources: u64,
    /// Rows of history forgotten.
    pub history: u64,
    /// No token at or below this will ever be issued again, for any resource.
    pub floor: u64,
}

#[cfg(any(feature = "sqlite", feature = "_server"))]
impl Pruned {
    /// What an error is where it went no further than this: what was forgotten by then stays so.
    pub(crate) fn up_to(self, error: crate::StoreError) -> crate::StoreError {
        if self.resources == 0 && self.history == 0 { error } else { error.outcome_unknown() }
    }
}
