//! How a lease ends.

use std::fmt;
use std::sync::Arc;

use lease_machines_store::{Epoch, Occupant, StoreError};

/// Why a lease is no longer held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// It ran out: by the store's word, or because this process overslept.
    Expired,
    /// The store did not answer, or decided nothing, until the deadline.
    Unreachable {
        /// What it said last, if it said anything.
        last: Option<Arc<StoreError>>,
    },
    /// Another holds the resource.
    Taken {
        /// Who, and under which token, where the store knows.
        by: Option<Occupant>,
    },
    /// An operator broke the lease.
    Revoked,
    /// The resource was vacated in another way: withdrawn or released on this owner's behalf.
    Vacated,
    /// The store has begun a new epoch: all leases of the old one are lost.
    NewEpoch {
        /// The epoch of this lease.
        held: Epoch,
        /// The store's, where it is known.
        current: Option<Epoch>,
    },
    /// The resource refused the token: a newer holder has been there.
    Fenced,
    /// This process is a fork of the one that holds the lease.
    Forked,
    /// The tokio runtime that renewed the lease was shut down.
    RuntimeGone,
}

impl LossReason {
    /// One word, as it stands in metrics: `expired`, `unreachable`, `taken`, `revoked`, `vacated`, `new_epoch`, `fenced`,
    /// `forked` or `runtime_gone`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Unreachable { .. } => "unreachable",
            Self::Taken { .. } => "taken",
            Self::Revoked => "revoked",
            Self::Vacated => "vacated",
            Self::NewEpoch { .. } => "new_epoch",
            Self::Fenced => "fenced",
            Self::Forked => "forked",
            Self::RuntimeGone => "runtime_gone",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the lease expired"),
            Self::Unreachable { last: None } => {
                f.write_str("the store could not be reached until the lease's deadline")
            }
            Self::Unreachable { last: Some(error) } => {
                write!(f, "the store could not be reached until the lease's deadline; it said last: {error}")
            }
            Self::Taken { by: None } => f.write_str("the lease was taken by another holder"),
            Self::Taken { by: Some(occupant) } => {
                write!(f, "the lease was taken by {}", Holder(occupant))
            }
            Self::Revoked => f.write_str("the lease was revoked"),
            Self::Vacated => f.write_str("the lease was withdrawn or released on the holder's behalf"),
            Self::NewEpoch { held, current: Some(current) } => {
                write!(f, "the store is in the new epoch {current}; the lease was of epoch {held}")
            }
            Self::NewEpoch { held, current: None } => {
                write!(f, "the store is in a new epoch; the lease was of epoch {held}")
            }
            Self::Fenced => f.write_str("the resource refused the token: a newer holder has been there"),
            Self::Forked => f.write_str("the lease belongs to the process that this one was forked from"),
            Self::RuntimeGone => f.write_str("the runtime that renewed the lease was shut down"),
        }
    }
}

/// Why work is to end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StopCause {
    /// The lease is lost.
    Lost(LossReason),
    /// It took longer than [`max_hold`](crate::HoldOptions::max_hold).
    MaxHold,
    /// Whoever held the guard said that the work has ended.
    Ended,
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(reason) => reason.fmt(f),
            Self::MaxHold => f.write_str("the lease was held for as long as it may be"),
            Self::Ended => f.write_str("the work has ended"),
        }
    }
}

/// Whether work was done under its lease to the end.
#[derive(Clone, Debug)]
#[must_use = "work whose lease was lost may have overlapped with the next holder's"]
#[non_exhaustive]
pub enum Verdict {
    /// The lease stood until the work had ended: the store said so in its answer to the release.
    Stood,
    /// The lease was lost before the work had ended, or had been lost when it was released.
    Lost(LossReason),
    /// The work ended before the deadline, but the store did not answer the release in the time that was left.
    Unconfirmed,
}

impl Verdict {
    /// Whether the lease stood.
    #[must_use]
    pub const fn stood(&self) -> bool {
        matches!(self, Self::Stood)
    }
}

/// "owner 5 (label) under token 8".
pub(crate) struct Holder<'a>(pub(crate) &'a Occupant);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Occupant { owner, token, label, .. } = self.0;
        write!(f, "owner {}", owner.value())?;
        if let Some(label) = label {
            write!(f, " ({label})")?;
        }
        write!(f, " under token {}", token.value())
    }
}
