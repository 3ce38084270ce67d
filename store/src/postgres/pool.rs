//! The few connections of a store.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::link::{Link, Target};
use crate::{ErrorKind, StoreError};

/// Connections that are made when they are needed and kept. Each is used for one request at a time: requests on several
/// of them share a flush of the server's log, those on one do not.
pub(super) struct Pool {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Link>>,
    /// There is one connection, the user's own; no other is made.
    lent: bool,
}

/// A connection out of the pool. Dropped, it is closed; see [`Pool::put_back`].
pub(super) struct Taken {
    pub(super) link: Link,
    permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(connections: u16) -> Self {
        let permits = Arc::new(Semaphore::new(usize::from(connections)));
        Self { permits, idle: Mutex::default(), lent: false }
    }

    pub(super) fn lent(link: Link) -> Self {
        Self { permits: Arc::new(Semaphore::new(1)), idle: Mutex::new(vec![link]), lent: true }
    }

    /// Waits for one, or makes it.
    pub(super) async fn take(&self, target: &Target) -> Result<Taken, StoreError> {
        let closed = || StoreError::new(ErrorKind::Unreachable, "the store is closed").nothing_changed();
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        while let Some(link) = self.pop() {
            if !link.is_closed() {
                return Ok(Taken { link, permit });
            }
        }
        if self.lent {
            let message = format!("the connection to {} that was lent to this store is closed", target.place);
            return Err(StoreError::new(ErrorKind::Unreachable, message).nothing_changed());
        }
        Ok(Taken { link: Link::connect(target).await?, permit })
    }

    pub(super) fn put_back(&self, taken: Taken) {
        let Taken { link, permit } = taken;
        if !link.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        }
        drop(permit);
    }

    fn pop(&self) -> Option<Link> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
