//! What a store is asked.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use crate::{Epoch, ResourceName};

/// A request for a lease, for [`Store::acquire`](crate::Store::acquire) and [`reacquire`](crate::Store::reacquire).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// What is asked for.
    pub resource: ResourceName,
    /// Who asks: [`fresh_owner`](crate::fresh_owner), drawn for this hold and no other.
    pub owner: OwnerId,
    /// For how long: from 1 ms to the store's `max_ttl`.
    pub ttl: Duration,
    /// Counts this owner's requests for the resource, from 1. One that is not greater than the recorded one is an echo:
    /// it changes nothing, and is answered with the recorded grant if that still stands, else *not done*.
    pub attempt: u64,
    /// The epoch that the caller believes in; `None` before it knows one.
    pub epoch: Option<Epoch>,
    /// Shown to people who ask who holds the resource.
    pub label: Option<String>,
    /// A name for the claimant that survives restarts. The store never takes it for the owner.
    pub identity: Option<String>,
    /// Work that has ended well under this key is not to be done again.
    pub once: Option<String>,
}

impl Claim {
    /// A first attempt, without label, identity, epoch and once-key.
    #[must_use]
    pub const fn new(resource: ResourceName, owner: OwnerId, ttl: Duration) -> Self {
        Self { resource, owner, ttl, attempt: 1, epoch: None, label: None, identity: None, once: None }
    }

    /// The same request, as the owner's attempt number `attempt`.
    #[must_use]
    pub const fn with_attempt(mut self, attempt: u64) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same request, valid in this epoch alone.
    #[must_use]
    pub const fn with_epoch(mut self, epoch: Option<Epoch>) -> Self {
        self.epoch = epoch;
        self
    }

    /// The same request, with a label.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same request, with an identity.
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The same request, for work that is done only once under `key`.
    #[must_use]
    pub fn with_once(mut self, key: impl Into<String>) -> Self {
        self.once = Some(key.into());
        self
    }
}

/// Names a lease that was granted, for [`Store::renew`](crate::Store::renew) and [`release`](crate::Store::release).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct LeaseRef {
    /// What it is on.
    pub resource: ResourceName,
    /// Who it was granted to.
    pub owner: OwnerId,
    /// The token it was granted under.
    pub token: FencingToken,
    /// The epoch it was granted in; `None` takes whatever epoch the store is in.
    pub epoch: Option<Epoch>,
}

impl LeaseRef {
    /// Puts the parts together.
    #[must_use]
    pub const fn new(
        resource: ResourceName,
        owner: OwnerId,
        token: FencingToken,
        epoch: Option<Epoch>,
    ) -> Self {
        Self { resource, owner, token, epoch }
    }
}

/// How work under a lease ended, for [`Store::release`](crate::Store::release).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Ending {
    /// Whether the work reached its purpose; recorded with the lease.
    pub result: WorkResult,
    /// With [`WorkResult::Good`]: the key under which it need not be done again.
    pub once: Option<String>,
    /// The lease ends no sooner than this long after its grant, by the store's clock. Zero: it is vacated at once.
    pub at_least: Duration,
}

impl Ending {
    /// Work that ended like this; the resource is free at once.
    #[must_use]
    pub const fn new(result: WorkResult) -> Self {
        Self { result, once: None, at_least: Duration::ZERO }
    }

    /// The same ending, recorded under a once-key.
    #[must_use]
    pub fn with_once(mut self, key: Option<String>) -> Self {
        self.once = key;
        self
    }

    /// The same ending, but nobody else gets the resource before `grant + at_least`.
    #[must_use]
    pub const fn with_at_least(mut self, at_least: Duration) -> Self {
        self.at_least = at_least;
        self
    }
}

/// A request for a new epoch, for [`Store::open_epoch`](crate::Store::open_epoch).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Opening {
    /// The epoch that is to end. Where the store is in another one by now, nothing happens: of twenty callers, one
    /// opens an epoch.
    pub instead_of: Epoch,
    /// Nobody acts under a lease of the old epoch any more: they end now, and grants begin at once. Otherwise they
    /// run out unrenewed, and nothing is granted before `max_ttl` has passed, since some may be missing here.
    pub old_holders_are_dead: bool,
    /// A token that a fence has seen: the new epoch's are above it.
    pub above: Option<FencingToken>,
}

impl Opening {
    /// Ends this epoch, and waits for the leases of it.
    #[must_use]
    pub const fn new(instead_of: Epoch) -> Self {
        Self { instead_of, old_holders_are_dead: false, above: None }
    }

    /// The same, on an operator's word that no old holder acts any more.
    #[must_use]
    pub const fn with_dead_holders(mut self) -> Self {
        self.old_holders_are_dead = true;
        self
    }

    /// The same, with tokens above one that a fence has seen.
    #[must_use]
    pub const fn with_tokens_above(mut self, token: Option<FencingToken>) -> Self {
        self.above = token;
        self
    }
}

/// What became of the work under a lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum WorkResult {
    /// It reached its purpose.
    Good,
    /// It ran and failed.
    Failed,
    /// Nobody said.
    #[default]
    Unknown,
}
