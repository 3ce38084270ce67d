//! The clock of the process that asks.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::clock::since_boot;
use crate::{Clock, ErrorKind, StoreError};

/// What the time between a request and its answer is counted by.
#[derive(Clone)]
pub(crate) struct Here(Arc<dyn Clock>);

impl Here {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self(clock)
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.now()
    }

    /// The wall clock.
    #[cfg(feature = "etcd")]
    pub(crate) fn wall(&self) -> SystemTime {
        self.0.wall()
    }

    /// An answer that comes when the lease is over by the caller's own clock says nothing any more.
    ///
    /// # Errors
    ///
    /// [`Unreachable`](ErrorKind::Unreachable), and so *unknown*, where what was asked at `sent` lasted no longer than it took.
    pub(crate) fn in_time(
        &self,
        sent: Duration,
        ttl: Duration,
        place: &dyn fmt::Display,
    ) -> Result<(), StoreError> {
        if self.now().saturating_sub(sent) < ttl {
            return Ok(());
        }
        let message = format!("{place} answered when the lease of {ttl:?} was over");
        Err(StoreError::new(ErrorKind::Unreachable, message))
    }
}

impl Default for Here {
    fn default() -> Self {
        Self(Arc::new(SinceBoot))
    }
}

impl fmt::Debug for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Here({:?})", self.now())
    }
}

/// A clock that goes on while the machine sleeps.
struct SinceBoot;

impl Clock for SinceBoot {
    fn now(&self) -> Duration {
        since_boot()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn identity(&self) -> String {
        String::new()
    }
}
