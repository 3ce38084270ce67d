//! Marks that are advanced before work begins.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lease_machines::FencingToken;
use lease_machines_store::LeaseRef;

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
