//! The few connections of a store.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ErrorKind, StoreError};

/// Connections that are made when they are needed and kept. Each is used for one request at a time: requests on several
/// of them share a flush of the server's log, those on one do not.
pub(crate) struct Pool<L> {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<L>>,
}

/// A connection out of the pool. Dropped, it is closed; see [`Pool::put_back`].
pub(crate) struct Taken<L> {
    pub(crate) link: L,
    permit: OwnedSemaphorePermit,
}

impl<L> Pool<L> {
    pub(crate) fn new(connections: u16) -> Self {
        Self { permits: Arc::new(Semaphore::new(usize::from(connections))), idle: Mutex::default() }
    }

    /// With one that is there already.
    pub(crate) fn of(link: L) -> Self {
        Self { permits: Arc::new(Semaphore::new(1)), idle: Mutex::new(vec![link]) }
    }

    /// Waits for one that is not closed, or makes it.
    pub(crate) async fn take<F>(
        &self,
        is_closed: impl Fn(&L) -> bool,
        connect: impl FnOnce() -> F,
    ) -> Result<Taken<L>, StoreError>
    where
        F: Future<Output = Result<L, StoreError>>,
    {
        let closed = || StoreError::new(ErrorKind::Unreachable, "the store is closed").nothing_changed();
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        while let Some(link) = self.pop() {
            if !is_closed(&link) {
                return Ok(Taken { link, permit });
            }
        }
        Ok(Taken { link: connect().await?, permit })
    }

    fn pop(&self) -> Option<L> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(crate) fn put_back(&self, taken: Taken<L>) {
        let Taken { link, permit } = taken;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        drop(permit);
    }
}
