//! The thread on which connections live, so that a store's calls can be awaited on any runtime, or on none.

use std::future::Future;
use std::sync::mpsc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::home::Home;
use crate::{Answer, ErrorKind, StoreError};

/// A runtime of the store's own. It ends when this is dropped, and drops what still runs on it.
///
/// A fork copies it without its thread. So whatever is to be done goes through here, and is refused in the child: nothing
/// is sent on connections that are the parent's.
pub(crate) struct Driver {
    place: String,
    home: Home,
    handle: Handle,
    _alive: oneshot::Sender<()>,
}

impl Driver {
    /// Starts the thread. `place` is the server, as errors name it: without a password.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) where the process may have no thread more.
    pub(crate) fn start(place: String) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(ErrorKind::Configuration, format!("no thread can be started: {error}"))
                .with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("lease-driver".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
            })
            .map_err(failed)?;
        Ok(Self { place, home: Home::here(), handle, _alive: alive })
    }

    /// Has the work done there, once the answer is polled. A caller that leaves before it has begun takes it back;
    /// afterwards it goes on to its end, so that no connection is left in the middle of an answer.
    pub(crate) fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'a + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.home.check(&self.place)?;
            let (slot, answer) = oneshot::channel();
            self.handle.spawn(async move {
                if !slot.is_closed() {
                    let _ = slot.send(work.await);
                }
            });
            answer.await.unwrap_or_else(|_| Err(Self::closed()))
        })
    }

    /// Has the work done there, and blocks this thread until it is.
    pub(crate) fn block<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (slot, answer) = mpsc::sync_channel(1);
        self.detach(async move {
            let _ = slot.send(work.await);
        })?;
        answer.recv().unwrap_or_else(|_| Err(Self::closed()))
    }

    /// Has the work done there, whoever waits for it.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) in a forked child.
    pub(crate) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<(), StoreError> {
        self.home.check(&self.place)?;
        self.handle.spawn(work);
        Ok(())
    }

    fn closed() -> StoreError {
        StoreError::new(ErrorKind::Unreachable, "the store was closed before the server answered")
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    fn driver() -> Driver {
        Driver::start("a server".to_owned()).unwrap()
    }

    /// Holds the thread of the driver until it is told to go on.
    fn hold(driver: &Driver) -> mpsc::Sender<()> {
        let (go_on, wait) = mpsc::channel();
        let (slot, begun) = mpsc::channel();
        driver
            .detach(async move {
                slot.send(()).unwrap();
                let _ = wait.recv();
            })
            .unwrap();
        begun.recv().unwrap();
        go_on
    }

    fn is_pending<T>(answer: &mut Answer<'_, T>) -> bool {
        pin!(answer).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Nothing that was asked before it is still to be done.
    fn drained(driver: &Driver) {
        driver.block(async { Ok(()) }).unwrap();
    }

    #[test]
    fn a_caller_that_leaves_before_it_has_begun_takes_it_back() {
        let (driver, done) = (driver(), Arc::new(AtomicBool::new(false)));
        let go_on = hold(&driver);
        let told = Arc::clone(&done);
        let mut answer = driver.run(async move {
            told.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(is_pending(&mut answer), "it waits behind what holds the thread");
        drop(answer);
        drop(go_on);
        drained(&driver);
        assert!(!done.load(Ordering::SeqCst));
    }

    #[test]
    fn what_has_begun_goes_on_to_its_end() {
        let (driver, done) = (driver(), Arc::new(AtomicBool::new(false)));
        let (begun, is_begun) = mpsc::channel();
        let (go_on, wait) = oneshot::channel::<()>();
        let told = Arc::clone(&done);
        let mut answer = driver.run(async move {
            begun.send(()).unwrap();
            let _ = wait.await;
            told.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(is_pending(&mut answer));
        is_begun.recv().unwrap();
        drop(answer);
        drop(go_on);
        drained(&driver);
        assert!(done.load(Ordering::SeqCst));
    }

    #[test]
    fn work_that_the_driver_does_not_outlive_is_answered() {
        let driver = driver();
        let handle = driver.handle.clone();
        let (slot, answer) = oneshot::channel::<()>();
        handle.spawn(async move {
            let _slot = slot;
            tokio::time::sleep(Duration::from_secs(3600)).await;
        });
        drained(&driver);
        drop(driver);
        assert!(answer.blocking_recv().is_err(), "dropped with the runtime");
    }

    #[test]
    fn nothing_is_begun_that_nobody_polls() {
        let (driver, done) = (driver(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&done);
        let answer = driver.run(async move {
            told.store(true, Ordering::SeqCst);
            Ok(())
        });
        drained(&driver);
        assert!(!done.load(Ordering::SeqCst));
        assert!(matches!(conclude(answer), Poll::Ready(Ok(()))));
        assert!(done.load(Ordering::SeqCst));
    }

    fn conclude<T>(mut answer: Answer<'_, T>) -> Poll<Result<T, StoreError>> {
        let runtime = Builder::new_current_thread().build().unwrap();
        Poll::Ready(runtime.block_on(&mut answer))
    }
}
