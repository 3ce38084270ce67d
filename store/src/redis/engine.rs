//! The thread on which a store's connection lives, so that its calls can be awaited on any runtime, or on none.

use std::future::Future;
use std::process;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::{ErrorKind, StoreError};

/// Ends with the store.
pub(super) struct Engine {
    handle: Handle,
    process: u32,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Engine {
    pub(super) fn start() -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(ErrorKind::Configuration, format!("no thread can be started: {error}"))
                .with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("lease-redis".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
            })
            .map_err(failed)?;
        Ok(Self { handle, process: process::id(), _stop: stop })
    }

    /// Does something on the thread. It goes on to its end where its caller leaves.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.here()?;
        self.handle.spawn(work).await.unwrap_or_else(|error| Err(Self::closed().with_source(error)))
    }

    /// The same, without anybody to hear how it ended.
    pub(super) fn start_work(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), StoreError> {
        self.here()?;
        self.handle.spawn(work);
        Ok(())
    }

    pub(super) fn closed() -> StoreError {
        StoreError::new(ErrorKind::Unreachable, "the store was closed before it answered")
    }

    fn here(&self) -> Result<(), StoreError> {
        if process::id() == self.process {
            return Ok(());
        }
        Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "the store was opened by process {}, and this is its child {}: a store does not survive a fork",
                self.process,
                process::id()
            ),
        ))
    }
}
