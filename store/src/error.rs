//! When a store did not decide.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::{Epoch, NameError};

/// What is known after a call that brought no decision. The three are never mixed up: a retry is right after the first
/// two and pointless after the third, and only the second may have changed something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Undecided {
    /// Nothing was changed: a dead-lock, a serialization failure, a lock wait over its limit, a superseded attempt.
    NotDone,
    /// Nobody knows: no answer, or a commit whose outcome was not seen.
    Unknown,
    /// The store will not do it however often it is asked: rights, schema, configuration, a wrong request, a new epoch.
    Refused,
}

/// What went wrong, by what a caller can do about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Others were in the way for as long as the caller allowed. *Not done*.
    Busy,
    /// The attempt is an old one of its owner, and its grant no longer stands. *Not done*.
    Superseded,
    /// The store could not be reached, or answered too late.
    Unreachable,
    /// The disk is full, or failed.
    Storage,
    /// The store's history is another one than the caller believes in: its lease is lost. *Refused*.
    NewEpoch {
        /// The epoch that the store is in now.
        current: Epoch,
    },
    /// The store was never set up, or was wiped, or is not the one any more that was opened. *Refused*.
    NotSetUp,
    /// The schema is newer than this program, or lacks a part, or is not a lease store's at all. *Refused*.
    Schema,
    /// The store's data is damaged. *Refused*.
    Damaged,
    /// The store refused the caller: rights, password, read-only. *Refused*.
    Permission,
    /// The URL or a setting is wrong. *Refused*.
    Configuration,
    /// The request itself is wrong: a name or a ttl out of range. *Refused*.
    Request,
    /// The pool has fewer slots than the claim names. *Refused*.
    PoolSize {
        /// How many it has.
        size: u32,
    },
    /// The store does not offer this call, see its capabilities. *Refused*.
    Unsupported,
}

/// A call that brought no decision: what was found, where, and what was expected. It never shows a password.
#[derive(Clone)]
pub struct StoreError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    undecided: Undecided,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind. Where a kind leaves open whether something was changed
    /// ([`Unreachable`](ErrorKind::Unreachable), [`Storage`](ErrorKind::Storage)), it is taken as *unknown*: a store
    /// that knows better says [`nothing_changed`](Self::nothing_changed).
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let undecided = match kind {
            ErrorKind::Busy | ErrorKind::Superseded => Undecided::NotDone,
            ErrorKind::Unreachable | ErrorKind::Storage => Undecided::Unknown,
            ErrorKind::NewEpoch { .. }
            | ErrorKind::NotSetUp
            | ErrorKind::Schema
            | ErrorKind::Damaged
            | ErrorKind::Permission
            | ErrorKind::Configuration
            | ErrorKind::Request
            | ErrorKind::PoolSize { .. }
            | ErrorKind::Unsupported => Undecided::Refused,
        };
        Self(Box::new(Inner { kind, undecided, message: message.into(), source: None }))
    }

    /// The request carried `believed`, the store is in `current`.
    #[must_use]
    pub fn new_epoch(believed: Epoch, current: Epoch) -> Self {
        let message = format!(
            "the store is in epoch {current}, the request was made for epoch {believed}: every lease of that epoch is lost"
        );
        Self::new(ErrorKind::NewEpoch { current }, message)
    }

    /// The same error, by a store that knows that nothing was changed.
    #[must_use]
    pub fn nothing_changed(mut self) -> Self {
        if self.0.undecided == Undecided::Unknown {
            self.0.undecided = Undecided::NotDone;
        }
        self
    }

    /// The same error, by a store that cannot know whether something was changed.
    #[must_use]
    pub fn outcome_unknown(mut self) -> Self {
        self.0.undecided = Undecided::Unknown;
        self
    }

    /// The same error, with what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether something may have been changed, and whether to try again.
    #[must_use]
    pub fn undecided(&self) -> Undecided {
        self.0.undecided
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("kind", &self.0.kind)
            .field("undecided", &self.0.undecided)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<NameError> for StoreError {
    fn from(error: NameError) -> Self {
        Self::new(ErrorKind::Request, error.to_string())
    }
}
