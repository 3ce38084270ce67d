//! Marks that are advanced before work begins.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use lease_machines::FencingToken;
use lease_machines_store::{GuardError, GuardErrorKind, LeaseRef, MarkKey, Marks};

/// The future of [`FenceMark::advance`].
pub type Advanced<'a> = Pin<Box<dyn Future<Output = Result<(), MarkError>> + Send + 'a>>;

/// The mark of a resource at the place where the protected writes go.
///
/// [`HoldOptions::fence`](crate::HoldOptions::fence) takes it: once a lease is granted, and before the holder hears of
/// it, its token is recorded there, in a transaction of its own. From that commit on the last holder's writes are
/// refused, also before the new one has written anything.
pub trait FenceMark: Send + Sync {
    /// Raises the mark to the lease's token. A mark that stands there already is raised, too: a retry does no harm.
    ///
    /// The future is dropped where the lease is lost meanwhile, or where its first term ends, after 30 s at most.
    fn advance(&self, lease: LeaseRef) -> Advanced<'_>;
}

/// The marks of a database as a fence: [`open_marks`](lease_machines_store::open_marks) opens them.
///
/// ```
/// use std::sync::Arc;
/// use lease_machines_keeper::{DatabaseMark, HoldOptions, hold};
/// use lease_machines_store::{MarkKey, WorkResult, open, open_marks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.db");
/// # std::fs::write(&path, "")?;
/// # let (store, url) = (open("sqlite::memory:")?, format!("sqlite:{}", path.display()));
/// let marks = open_marks(&url)?; // of the database that the work writes to
/// let options = HoldOptions::new().fence(Arc::new(DatabaseMark::new(Arc::clone(&marks))));
/// let guard = hold(&store, "report", options).await?;
/// let mark = marks.look(MarkKey::new(guard.resource().clone())).await?;
/// assert_eq!(mark.map(|mark| mark.token), Some(guard.token()));
/// # let _ = guard.release(WorkResult::Good).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DatabaseMark {
    marks: Arc<dyn Marks>,
    store: String,
    slot: i64,
}

impl DatabaseMark {
    /// The mark of whatever resource is held.
    #[must_use]
    pub const fn new(marks: Arc<dyn Marks>) -> Self {
        Self { marks, store: String::new(), slot: 0 }
    }

    /// The same, in a database that is written under leases of several stores: see [`MarkKey::store`].
    #[must_use]
    pub fn in_store(mut self, store: impl Into<String>) -> Self {
        self.store = store.into();
        self
    }

    /// The same, in another slot: see [`MarkKey::slot`].
    #[must_use]
    pub const fn in_slot(mut self, slot: i64) -> Self {
        self.slot = slot;
        self
    }
}

impl FenceMark for DatabaseMark {
    fn advance(&self, lease: LeaseRef) -> Advanced<'_> {
        let key = MarkKey::new(lease.resource.clone()).in_store(self.store.clone()).in_slot(self.slot);
        Box::pin(async move { self.marks.advance(key, lease).await.map_err(MarkError::from) })
    }
}

impl fmt::Debug for DatabaseMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseMark")
            .field("store", &self.store)
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

/// Why a mark was not advanced.
#[derive(Debug)]
#[non_exhaustive]
pub enum MarkError {
    /// The mark is higher than the token: a newer holder has been there. The lease counts as lost.
    Stale {
        /// The token offered.
        held: FencingToken,
        /// The mark, where it is known.
        highest: Option<FencingToken>,
    },
    /// The place cannot be reached, or refused for another reason; the mark may or may not have risen.
    Unavailable(Box<dyn Error + Send + Sync>),
}

impl From<GuardError> for MarkError {
    fn from(error: GuardError) -> Self {
        match error.kind() {
            GuardErrorKind::StaleToken { held, highest } => Self::Stale { held, highest: Some(highest) },
            _ => Self::Unavailable(Box::new(error)),
        }
    }
}

impl fmt::Display for MarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { held, highest: Some(highest) } => {
                write!(f, "the fence has seen token {}, a newer one than {}", highest.value(), held.value())
            }
            Self::Stale { held, highest: None } => {
                write!(f, "the fence has seen a newer token than {}", held.value())
            }
            Self::Unavailable(error) => write!(f, "the fence's mark could not be advanced: {error}"),
        }
    }
}

impl Error for MarkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Stale { .. } => None,
            Self::Unavailable(error) => Some(error.as_ref()),
        }
    }
}
