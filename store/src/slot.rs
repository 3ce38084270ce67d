//! How one answer gets from a store's thread to the future that waits for it, on any runtime.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::StoreError;

/// What the caller waits for.
pub(crate) type Outcome<T> = Result<T, StoreError>;

/// What is to be done with an answer that nobody is left to hear.
pub(crate) type Undelivered<T> = Box<dyn Fn(Outcome<T>) + Send + Sync>;

/// The place where one answer is laid down. Shared by the caller's future, the thread that works for it, and the watch
/// that ends it in time.
pub(crate) struct Slot<T> {
    state: Mutex<State<T>>,
    undelivered: Undelivered<T>,
}

enum State<T> {
    /// Nobody has begun: leaving or ending it now means that nothing was done.
    Queued(Option<Waker>),
    /// A thread is at it: ending it now means that nobody knows.
    Running(Option<Waker>),
    Answered(Outcome<T>),
    /// The answer was taken, or the caller left.
    Closed,
}

impl<T: Send + 'static> Slot<T> {
    /// A place, and the future that waits for what is laid there. An answer that the future was dropped without
    /// taking goes to `undelivered`.
    pub(crate) fn new(undelivered: Undelivered<T>) -> (Arc<Self>, Pending<T>) {
        let slot = Arc::new(Self { state: Mutex::new(State::Queued(None)), undelivered });
        (Arc::clone(&slot), Pending(slot))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the work is still wanted. From here on it counts as begun.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state();
        match &mut *state {
            State::Queued(waker) => {
                let waker = waker.take();
                *state = State::Running(waker);
                true
            }
            State::Running(_) => true,
            State::Answered(_) | State::Closed => false,
        }
    }

    /// Takes the work as not begun again: it was undone before anyone could see it.
    pub(crate) fn put_back(&self) {
        let mut state = self.state();
        if let State::Running(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Queued(waker);
        }
    }

    /// Lays the answer down.
    pub(crate) fn answer(&self, answer: Outcome<T>) {
        let mut state = self.state();
        match &mut *state {
            State::Queued(waker) | State::Running(waker) => {
                let waker = waker.take();
                *state = State::Answered(answer);
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Answered(_) | State::Closed => {
                drop(state);
                (self.undelivered)(answer);
            }
        }
    }
}

/// A request that can be ended from outside, without knowing what it is about.
pub(crate) trait Overdue: Send + Sync {
    /// Ends it with `waiting` where nobody has begun, with `running` where somebody has.
    fn end(&self, waiting: &dyn Fn() -> StoreError, running: &dyn Fn() -> StoreError);
}

impl<T: Send + 'static> Overdue for Slot<T> {
    fn end(&self, waiting: &dyn Fn() -> StoreError, running: &dyn Fn() -> StoreError) {
        let mut state = self.state();
        let (waker, error) = match &mut *state {
            State::Queued(waker) => (waker.take(), waiting()),
            State::Running(waker) => (waker.take(), running()),
            State::Answered(_) | State::Closed => return,
        };
        *state = State::Answered(Err(error));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Resolves to the answer. Dropped before, it leaves the slot, so that work not begun is never done.
pub(crate) struct Pending<T: Send + 'static>(Arc<Slot<T>>);

impl<T: Send + 'static> Future for Pending<T> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        match &mut *state {
            State::Queued(waker) | State::Running(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Answered(_) => match mem::replace(&mut *state, State::Closed) {
                State::Answered(answer) => Poll::Ready(answer),
                State::Queued(_) | State::Running(_) | State::Closed => Poll::Pending,
            },
            // Polled again after its end, which a future need not support.
            State::Closed => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> Drop for Pending<T> {
    fn drop(&mut self) {
        let state = mem::replace(&mut *self.0.state(), State::Closed);
        if let State::Answered(answer) = state {
            (self.0.undelivered)(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{ErrorKind, Undecided};

    fn poll<T: Send + 'static>(pending: &mut Pending<T>) -> Poll<Outcome<T>> {
        Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn counted() -> (Arc<AtomicUsize>, Undelivered<u8>) {
        let count = Arc::new(AtomicUsize::new(0));
        let inner = Arc::clone(&count);
        (
            count,
            Box::new(move |_| {
                inner.fetch_add(1, Ordering::SeqCst);
            }),
        )
    }

    #[test]
    fn an_answer_is_delivered_once() {
        let (lost, undelivered) = counted();
        let (slot, mut pending) = Slot::new(undelivered);
        assert!(poll(&mut pending).is_pending());
        assert!(slot.begin());
        slot.answer(Ok(7));
        assert!(matches!(poll(&mut pending), Poll::Ready(Ok(7))));
        drop(pending);
        assert_eq!(lost.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn work_that_nobody_waits_for_is_not_begun() {
        let (lost, undelivered) = counted();
        let (slot, pending) = Slot::new(undelivered);
        drop(pending);
        assert!(!slot.begin());
        assert_eq!(lost.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn an_answer_that_nobody_takes_is_handed_back() {
        let (lost, undelivered) = counted();
        let (slot, pending) = Slot::new(undelivered);
        assert!(slot.begin());
        slot.answer(Ok(7));
        drop(pending);
        assert_eq!(lost.load(Ordering::SeqCst), 1, "decided, laid down, never polled");

        let (lost, undelivered) = counted();
        let (slot, pending) = Slot::new(undelivered);
        assert!(slot.begin());
        drop(pending);
        slot.answer(Ok(7));
        assert_eq!(lost.load(Ordering::SeqCst), 1, "the caller left while it was decided");
    }

    #[test]
    fn an_overdue_request_says_whether_it_was_begun() {
        let waiting = || StoreError::new(ErrorKind::Busy, "not begun");
        let running = || StoreError::new(ErrorKind::Unreachable, "begun");
        for (begin, expected) in [(false, Undecided::NotDone), (true, Undecided::Unknown)] {
            let (lost, undelivered) = counted();
            let (slot, mut pending) = Slot::new(undelivered);
            assert!(!begin || slot.begin());
            slot.end(&waiting, &running);
            assert!(!slot.begin(), "an overdue request is not begun any more");
            let Poll::Ready(Err(error)) = poll(&mut pending) else { panic!("not ended") };
            assert_eq!(error.undecided(), expected);
            slot.answer(Ok(7));
            assert_eq!(lost.load(Ordering::SeqCst), 1, "the late answer is handed back");
        }
    }
}
