//! Why a lease was not got.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_machines::Rejection;
use lease_machines_store::{End, NameError, Occupant, ResourceName, StoreError};

use crate::loss::Holder;
use crate::{LossReason, MarkError, OptionsError};

/// Why a lease was not got. No work was begun, and nothing stays held beyond what the variant says.
#[derive(Debug)]
#[non_exhaustive]
pub enum HoldError {
    /// Another holds it, and the wait is over.
    Occupied(Box<Occupied>),
    /// The work was done before, under the same once-key.
    AlreadyDone(Box<AlreadyDone>),
    /// The store did not answer, or decided nothing, in the time there was. What it may have granted all the same was
    /// withdrawn, or ends with its first term of at most 30 s.
    Unreachable {
        /// What was asked for.
        resource: ResourceName,
        /// For how long.
        waited: Duration,
        /// What the store said last, if it said anything.
        last: Option<Arc<StoreError>>,
    },
    /// The store refused: rights, schema, configuration, a wrong request.
    Refused {
        /// What was asked for.
        resource: ResourceName,
        /// What the store said.
        error: Arc<StoreError>,
    },
    /// The store cannot grant it: `InvalidTtl`, `DeadlineOverflow` or `TokensExhausted`.
    Invalid {
        /// What was asked for.
        resource: ResourceName,
        /// Why.
        reason: Rejection,
    },
    /// The lease was granted, but a mark could not be advanced, and the lease was given back.
    Fence {
        /// What was asked for.
        resource: ResourceName,
        /// Why.
        error: MarkError,
    },
    /// The lease was granted, and lost before the work could begin.
    Lost {
        /// What was asked for.
        resource: ResourceName,
        /// Why.
        reason: LossReason,
    },
    /// An option cannot be met. Nothing was sent.
    Options(OptionsError),
    /// The name is none. Nothing was sent.
    Name(NameError),
    /// The operating system gives no random numbers to draw an owner from. Nothing was sent.
    NoOwner(StoreError),
    /// This is not a tokio runtime, or it is being shut down.
    NoRuntime,
    /// The scheduler belongs to the process that this one was forked from. Make another one.
    Forked,
}

/// Who holds a resource instead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Occupied {
    /// What was asked for.
    pub resource: ResourceName,
    /// Who holds it, under which token, how long already, and for how long at most if it is not renewed; as the store
    /// said last. `None` where it could not be asked to the end.
    pub by: Option<Occupant>,
    /// How long it was waited for.
    pub waited: Duration,
}

/// Who has done the work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AlreadyDone {
    /// What was asked for.
    pub resource: ResourceName,
    /// The once-key.
    pub key: String,
    /// By whom, under which token, and when.
    pub end: End,
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied(occupied) => occupied.fmt(f),
            Self::AlreadyDone(done) => done.fmt(f),
            Self::Unreachable { resource, waited, last } => {
                write!(f, "the store did not decide about {resource:?} within {waited:?}")?;
                match last {
                    Some(error) => write!(f, "; it said last: {error}"),
                    None => f.write_str("; it did not answer at all"),
                }
            }
            Self::Refused { resource, error } => write!(f, "the store refused {resource:?}: {error}"),
            Self::Invalid { resource, reason } => write!(f, "the store cannot grant {resource:?}: {reason}"),
            Self::Fence { resource, error } => write!(f, "{resource:?} was not begun: {error}"),
            Self::Lost { resource, reason } => {
                write!(f, "{resource:?} was lost before the work could begin: {reason}")
            }
            Self::Options(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::NoOwner(error) => error.fmt(f),
            Self::NoRuntime => f.write_str(
                "leases are held within a running tokio runtime with I/O and time enabled; there is none",
            ),
            Self::Forked => f.write_str(
                "this scheduler belongs to the process that this one was forked from; a child makes its own",
            ),
        }
    }
}

impl fmt::Display for Occupied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, by, waited } = self;
        write!(f, "{resource:?} is held by ")?;
        match by {
            Some(by) => {
                write!(f, "{}, for {:?} already, {:?} to go", Holder(by), by.held_for, by.remaining)?;
                if by.retained {
                    f.write_str(" (its work has ended; at_least keeps it)")?;
                }
            }
            None => f.write_str("another")?,
        }
        if waited.is_zero() { Ok(()) } else { write!(f, "; waited for {waited:?}") }
    }
}

impl fmt::Display for AlreadyDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, key, end } = self;
        write!(f, "{resource:?} was done under the key {key:?} by owner {}", end.owner.value())?;
        if let Some(label) = &end.label {
            write!(f, " ({label})")?;
        }
        write!(f, " under token {}", end.token.value())?;
        match SystemTime::now().duration_since(end.at) {
            Ok(ago) => write!(f, ", {} s ago", ago.as_secs()),
            Err(_) => Ok(()),
        }
    }
}

impl Error for HoldError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreachable { last: Some(error), .. } | Self::Refused { error, .. } => error.source(),
            Self::Fence { error, .. } => error.source(),
            Self::NoOwner(error) => error.source(),
            _ => None,
        }
    }
}
