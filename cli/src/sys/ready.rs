//! Descriptors that tokio waits for.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for what owns its descriptor to become readable.
pub(crate) struct Ready<T: AsRawFd>(AsyncFd<T>);

impl<T: AsRawFd> Ready<T> {
    /// Within a runtime.
    // The safe constructor is deprecated since a descriptor could be closed while it is registered. What is registered
    // here owns its own, and the unsafe constructor would buy nothing.
    #[allow(deprecated)]
    pub(crate) fn new(inner: T) -> io::Result<Self> {
        AsyncFd::with_interest(inner, Interest::READABLE).map(Self)
    }

    /// What is waited for.
    pub(crate) fn get(&self) -> &T {
        self.0.get_ref()
    }

    /// Returns once it has become readable. What made it so is to be taken after this, not before.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
