//! The fence where the write is: what every engine's guard has in common.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId};

use crate::{Answer, ErrorKind, LeaseRef, ResourceName, StoreError};

/// Names the mark of a protected thing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct MarkKey {
    /// Whose tokens they are, for a database that is written under leases of several stores. Empty where there is one.
    pub store: String,
    /// The resource whose lease protects it.
    pub resource: ResourceName,
    /// Tells several protected things under one lease apart. 0 where there is one.
    pub slot: i64,
}

impl MarkKey {
    /// The mark of a resource, in the only store, in slot 0.
    #[must_use]
    pub const fn new(resource: ResourceName) -> Self {
        Self { store: String::new(), resource, slot: 0 }
    }

    /// The same, of a store with this name: any text, the same for everyone who writes here.
    #[must_use]
    pub fn in_store(mut self, store: impl Into<String>) -> Self {
        self.store = store.into();
        self
    }

    /// The same, in another slot.
    #[must_use]
    pub const fn in_slot(mut self, slot: i64) -> Self {
        self.slot = slot;
        self
    }
}

impl fmt::Display for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.resource)?;
        if !self.store.is_empty() {
            write!(f, " of store {:?}", self.store)?;
        }
        if self.slot != 0 {
            write!(f, " slot {}", self.slot)?;
        }
        Ok(())
    }
}

/// The highest token that a fence has seen.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Mark {
    /// Of what.
    pub key: MarkKey,
    /// The token.
    pub token: FencingToken,
    /// Whose it is.
    pub owner: OwnerId,
    /// When it was written last, by the database's wall clock: for people.
    pub at: SystemTime,
}

/// Which guard to run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum GuardMode {
    /// The strict one where the leases are in this database and of this epoch, else the plain one. A lease that the store
    /// in this database granted in a former epoch is refused, as far as it is remembered there.
    #[default]
    Auto,
    /// The plain one: the token is compared with the mark.
    Plain,
    /// The strict one, or an error: the lease is also looked up among the latest committed grants.
    Strict,
}

/// Which guard ran.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GuardKind {
    /// A newer holder is refused nothing, an older one everything, from the moment the newer one's token was seen here.
    Plain,
    /// Also refused is a holder whose lease was released, revoked or granted to another, from the moment that was
    /// committed.
    Strict,
}

/// The marks of a database, for those who only advance and look after them; [`open_marks`](crate::open_marks) opens
/// them. The guard itself runs in the transaction of the protected write: see the engine's own type.
pub trait Marks: Send + Sync {
    /// Raises a mark to the lease's token, in a transaction of its own: from then on every older holder is refused. A
    /// mark that stands there already is fine.
    fn advance(&self, key: MarkKey, lease: LeaseRef) -> Advance<'_>;

    /// The mark, if there is one.
    fn look(&self, key: MarkKey) -> Answer<'_, Option<Mark>>;

    /// Sets a mark back, below tokens that it has seen, and writes that down with the reason. For an operator: a token
    /// that was never issued may have raised it. Without a token the mark is removed.
    fn reset(&self, key: MarkKey, to: Option<FencingToken>, reason: String) -> Answer<'_, ()>;

    /// Forgets marks that nobody has written for so long, and that are not ahead of the clock. A floor is raised to the greatest of
    /// them first, for each name of a store its own: a token below it that has no mark of its own is refused from then on, whatever
    /// its resource. Says how many there were.
    ///
    /// *Refused* as [`Unsupported`](ErrorKind::Unsupported) where there is no such floor: on Redis and etcd.
    fn prune(&self, older_than: Duration) -> Answer<'_, u64> {
        let _ = older_than;
        Box::pin(async {
            let message =
                "marks cannot be pruned on this engine, which keeps no floor above those that are forgotten";
            Err(StoreError::new(ErrorKind::Unsupported, message))
        })
    }
}

/// The future of [`Marks::advance`].
pub type Advance<'a> = Pin<Box<dyn Future<Output = Result<(), GuardError>> + Send + 'a>>;

/// A guard that did not let a write pass. Roll the transaction back.
///
/// A fence trusts its callers: it stops the one who overslept, not one who makes tokens up.
pub struct GuardError {
    kind: GuardErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Why a guard refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GuardErrorKind {
    /// A newer holder has been here: the lease is lost.
    StaleToken {
        /// The token shown.
        held: FencingToken,
        /// The highest one seen.
        highest: FencingToken,
    },
    /// The same token was shown by another owner: the lease store lost history and issued it twice.
    Rewound {
        /// The token.
        token: FencingToken,
        /// Who showed it first.
        first: OwnerId,
    },
    /// The token lies above 2^63 − 1, or more than a year of microseconds ahead of the clock: no store issued it.
    OutOfRange {
        /// The token.
        token: FencingToken,
    },
    /// The mark itself is more than a year of microseconds ahead of the clock, so that no honest token can pass. An
    /// operator can [reset](Marks::reset) it.
    Poisoned {
        /// The token shown.
        held: FencingToken,
        /// The mark.
        highest: FencingToken,
    },
    /// The lease was released or revoked, or its epoch is over, as the store in this database knows.
    Lost,
    /// The lease is on another resource than the mark: their tokens say nothing of each other.
    OtherResource,
    /// The resource has a mark, and the write carries no token.
    Unfenced,
    /// There is no transaction that the guard could belong to.
    OutsideTransaction,
    /// The strict guard was asked for where it cannot run.
    NotStrict,
    /// Somebody else's write was in the way for as long as the connection waits. Try the whole transaction again.
    Busy,
    /// The transaction has read a state that is no longer the latest. Try it again from its beginning.
    Serialization,
    /// The table of marks is missing.
    NotSetUp,
    /// The database does not let this user look at the mark, or write it.
    Permission,
    /// The database that is named is not there, or is none in which marks could be. Said by [`Marks`] alone.
    Configuration,
    /// The database failed.
    Database,
}

impl GuardError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: GuardErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same error, with what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Why.
    #[must_use]
    pub const fn kind(&self) -> GuardErrorKind {
        self.kind
    }

    /// Whether the same transaction may pass when it is run again from its beginning.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, GuardErrorKind::Busy | GuardErrorKind::Serialization)
    }
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("source", &self.source)
            .finish()
    }
}

impl Error for GuardError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Checks that the lease is on what the mark is of.
///
/// # Errors
///
/// [`OtherResource`](GuardErrorKind::OtherResource).
pub(crate) fn same_resource(key: &MarkKey, lease: &LeaseRef) -> Result<(), GuardError> {
    if key.resource == lease.resource {
        return Ok(());
    }
    let message = format!("the lease is on {:?}, the mark is of {key}", lease.resource);
    Err(GuardError::new(GuardErrorKind::OtherResource, message))
}

/// The lease's token as databases keep it, for this mark.
///
/// # Errors
///
/// As [`same_resource`]; [`OutOfRange`](GuardErrorKind::OutOfRange) above 2^63 − 1.
pub(crate) fn shown(key: &MarkKey, lease: &LeaseRef) -> Result<i64, GuardError> {
    same_resource(key, lease)?;
    i64::try_from(lease.token.value()).map_err(|_| out_of_range(lease.token))
}

/// Checks that a store can have issued this token, by this machine's clock.
///
/// # Errors
///
/// [`OutOfRange`](GuardErrorKind::OutOfRange).
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"))]
pub(crate) fn believed(token: FencingToken) -> Result<(), GuardError> {
    let greatest = crate::decide::greatest_believed(SystemTime::now());
    if token.value() > greatest { Err(out_of_range(token)) } else { Ok(()) }
}

/// The mark is above the token: a newer holder's, or one that no store has issued.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"))]
pub(crate) fn below(key: &MarkKey, held: FencingToken, highest: FencingToken) -> GuardError {
    if believed(highest).is_ok() { stale(key, held, highest) } else { poisoned(key, held, highest) }
}

/// The token is the mark's, and its owner is another.
pub(crate) fn rewound(key: &MarkKey, lease: &LeaseRef, first: OwnerId) -> GuardError {
    let LeaseRef { token, owner, .. } = *lease;
    GuardError::new(
        GuardErrorKind::Rewound { token, first },
        format!(
            "token {token} of {key} was first shown by owner {first}, now by owner {owner}: the lease store has lost \
             history and issued it twice"
        ),
    )
}

pub(crate) fn stale(key: &MarkKey, held: FencingToken, highest: FencingToken) -> GuardError {
    GuardError::new(
        GuardErrorKind::StaleToken { held, highest },
        format!(
            "token {held} of {key} is stale: {highest} is the highest seen, a newer holder has been here"
        ),
    )
}

pub(crate) fn poisoned(key: &MarkKey, held: FencingToken, highest: FencingToken) -> GuardError {
    GuardError::new(
        GuardErrorKind::Poisoned { held, highest },
        format!(
            "the mark of {key} is {highest}, more than a year of microseconds ahead of the clock, so that {held} cannot \
             pass: reset the mark, or set this machine's clock"
        ),
    )
}

pub(crate) fn out_of_range(token: FencingToken) -> GuardError {
    GuardError::new(
        GuardErrorKind::OutOfRange { token },
        format!(
            "token {token} was not issued by a store: expected at most 2^63 - 1, and at most a year of microseconds ahead \
             of the clock"
        ),
    )
}

/// What a refusal means to those who only look after marks.
pub(crate) fn refused(error: GuardError) -> StoreError {
    let kind = match error.kind() {
        GuardErrorKind::Busy | GuardErrorKind::Serialization => ErrorKind::Busy,
        GuardErrorKind::NotSetUp => ErrorKind::NotSetUp,
        GuardErrorKind::Permission => ErrorKind::Permission,
        GuardErrorKind::Configuration => ErrorKind::Configuration,
        GuardErrorKind::OutOfRange { .. } => ErrorKind::Request,
        _ => ErrorKind::Storage,
    };
    StoreError::new(kind, error.to_string()).with_source(error)
}

/// A database that could not even be asked.
pub(crate) fn not_asked(error: StoreError) -> GuardError {
    let kind = match error.kind() {
        ErrorKind::Busy => GuardErrorKind::Busy,
        ErrorKind::Permission => GuardErrorKind::Permission,
        ErrorKind::NotSetUp => GuardErrorKind::NotSetUp,
        ErrorKind::Configuration | ErrorKind::Schema | ErrorKind::Damaged => GuardErrorKind::Configuration,
        _ => GuardErrorKind::Database,
    };
    GuardError::new(kind, error.to_string()).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_could_not_ask_hears_why_as_of_a_store() {
        for (kind, guard) in [
            (ErrorKind::Busy, GuardErrorKind::Busy),
            (ErrorKind::Permission, GuardErrorKind::Permission),
            (ErrorKind::NotSetUp, GuardErrorKind::NotSetUp),
            (ErrorKind::Configuration, GuardErrorKind::Configuration),
            (ErrorKind::Schema, GuardErrorKind::Configuration),
            (ErrorKind::Damaged, GuardErrorKind::Configuration),
            (ErrorKind::Unreachable, GuardErrorKind::Database),
            (ErrorKind::Storage, GuardErrorKind::Database),
        ] {
            let told = not_asked(StoreError::new(kind, "the server"));
            assert_eq!((told.kind(), told.to_string().as_str()), (guard, "the server"));
        }
    }
}
