//! The thread on which connections are served, whatever runtime the callers are on, or none.

use std::future::Future;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::{ErrorKind, StoreError};

/// A runtime of the store's own. It ends when this is dropped, and drops what still runs on it.
#[derive(Debug)]
pub(super) struct Driver {
    handle: Handle,
    _alive: oneshot::Sender<()>,
}

impl Driver {
    pub(super) fn start() -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(ErrorKind::Configuration, format!("no thread can be started: {error}"))
                .with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("lease-postgres".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
            })
            .map_err(failed)?;
        Ok(Self { handle, _alive: alive })
    }

    /// Has the work done there, whoever waits for it.
    pub(super) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Has the work done there. A caller that leaves before it has begun takes it back; afterwards it goes on to its
    /// end, so that no connection is left in the middle of an answer.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (slot, answer) = oneshot::channel();
        self.handle.spawn(async move {
            if !slot.is_closed() {
                let _ = slot.send(work.await);
            }
        });
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::new(ErrorKind::Unreachable, "the store was closed before the server answered"))
        })
    }
}
