//! The way of a request to one of a store's threads.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::StoreError;
use crate::slot::{Outcome, Overdue, Pending, Slot, Undelivered};

/// What work on the file comes to. An outer `Err` is SQLite's: nothing of the transaction counts then.
pub(super) type Worked<T> = rusqlite::Result<Outcome<T>>;

/// A request, without its types. `C` is what the thread works with.
pub(super) trait Work<C: ?Sized>: Send {
    /// Whether it is still wanted. From here on it counts as begun.
    fn begin(&mut self) -> bool;

    /// Does it, and keeps the answer. An `Err` is SQLite's: nothing of the transaction counts then.
    fn run(&mut self, context: &C) -> rusqlite::Result<()>;

    /// Gives the answer that it kept, since it counts from now on.
    fn deliver(&mut self);

    /// Gives this answer instead.
    fn fail(&mut self, error: StoreError);

    /// It was undone with its transaction and is going to be begun anew.
    fn put_back(&mut self);

    /// What a watch can end it by; `None` for work that nobody waits for.
    fn overdue(&self) -> Option<Arc<dyn Overdue>>;
}

struct Request<T, F> {
    slot: Arc<Slot<T>>,
    work: F,
    kept: Option<Outcome<T>>,
}

impl<C: ?Sized, T, F> Work<C> for Request<T, F>
where
    T: Send + 'static,
    F: FnMut(&C) -> Worked<T> + Send,
{
    fn begin(&mut self) -> bool {
        self.slot.begin()
    }

    fn run(&mut self, context: &C) -> rusqlite::Result<()> {
        self.kept = Some((self.work)(context)?);
        Ok(())
    }

    fn deliver(&mut self) {
        if let Some(answer) = self.kept.take() {
            self.slot.answer(answer);
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.slot.answer(Err(error));
    }

    fn put_back(&mut self) {
        self.kept = None;
        self.slot.put_back();
    }

    fn overdue(&self) -> Option<Arc<dyn Overdue>> {
        Some(Arc::<Slot<T>>::clone(&self.slot))
    }
}

struct Unasked<F>(F);

impl<C: ?Sized, T, F: FnMut(&C) -> Worked<T> + Send> Work<C> for Unasked<F> {
    fn begin(&mut self) -> bool {
        true
    }

    fn run(&mut self, context: &C) -> rusqlite::Result<()> {
        (self.0)(context).map(drop)
    }

    fn deliver(&mut self) {}

    fn fail(&mut self, _: StoreError) {}

    fn put_back(&mut self) {}

    fn overdue(&self) -> Option<Arc<dyn Overdue>> {
        None
    }
}

/// Work that nobody waits for.
pub(super) fn unasked<C: ?Sized, T: 'static>(
    work: impl FnMut(&C) -> Worked<T> + Send + 'static,
) -> Box<dyn Work<C>> {
    Box::new(Unasked(work))
}

/// A request, ready to be queued, and the future of its answer.
pub(super) fn request<C: ?Sized, T: Send + 'static>(
    undelivered: Undelivered<T>,
    work: impl FnMut(&C) -> Worked<T> + Send + 'static,
) -> (Box<dyn Work<C>>, Pending<T>) {
    let (slot, pending) = Slot::new(undelivered);
    (Box::new(Request { slot, work, kept: None }), pending)
}

/// When a request was made, and the request.
pub(super) type Queued<C> = (Instant, Box<dyn Work<C>>);

/// The queue before one thread, and what that thread is at.
pub(super) struct Lane<C: ?Sized> {
    queue: Mutex<Queue<C>>,
    arrived: Condvar,
    at_work: Mutex<Vec<(Instant, Arc<dyn Overdue>)>>,
}

struct Queue<C: ?Sized> {
    waiting: VecDeque<Queued<C>>,
    /// The thread sleeps and must be woken.
    parked: bool,
    nudged: bool,
    closed: Option<Instant>,
}

/// Why a thread was woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    Work,
    /// Someone wants it to look around.
    Nudge,
    Timeout,
    /// There is no work left and there will be no more.
    Closed,
}

impl<C: ?Sized> Lane<C> {
    pub(super) fn new() -> Self {
        let queue = Queue { waiting: VecDeque::new(), parked: false, nudged: false, closed: None };
        Self { queue: Mutex::new(queue), arrived: Condvar::new(), at_work: Mutex::new(Vec::new()) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<C>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a request over.
    pub(super) fn push(&self, work: Box<dyn Work<C>>) {
        self.tell(|queue| queue.waiting.push_back((Instant::now(), work)));
    }

    /// Has the thread look around.
    pub(super) fn nudge(&self) {
        self.tell(|queue| queue.nudged = true);
    }

    /// The thread ends when it has done what is queued.
    pub(super) fn close(&self) {
        self.tell(|queue| queue.closed = Some(Instant::now()));
    }

    fn tell(&self, change: impl FnOnce(&mut Queue<C>)) {
        let mut queue = self.queue();
        change(&mut queue);
        let parked = mem::take(&mut queue.parked);
        drop(queue);
        if parked {
            self.arrived.notify_one();
        }
    }

    /// Sleeps until there is something to do, or `limit` has passed. For the thread alone.
    pub(super) fn sleep(&self, limit: Option<Duration>) -> Wake {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut queue = self.queue();
        loop {
            if !queue.waiting.is_empty() {
                return Wake::Work;
            }
            if mem::take(&mut queue.nudged) {
                return Wake::Nudge;
            }
            if queue.closed.is_some() {
                return Wake::Closed;
            }
            queue.parked = true;
            queue = match until {
                None => self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        queue.parked = false;
                        return Wake::Timeout;
                    }
                    self.arrived.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes what is queued, up to `limit`, as begun; requests that nobody wants any more are dropped.
    pub(super) fn take(&self, limit: usize) -> Vec<Queued<C>> {
        let mut queue = self.queue();
        let count = queue.waiting.len().min(limit);
        let mut taken: Vec<Queued<C>> = queue.waiting.drain(..count).collect();
        drop(queue);
        taken.retain_mut(|(_, work)| work.begin());
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.extend(taken.iter().filter_map(|(since, work)| Some((*since, work.overdue()?))));
        taken
    }

    /// Whether there is anything to do. Once it is closed nobody waits for an answer any more: what could not be begun
    /// within `timeout` from then on, grants to take back among it, is left to the ends of their terms.
    pub(super) fn is_wanted(&self, timeout: Duration) -> bool {
        let mut queue = self.queue();
        let is_over = queue.closed.is_some_and(|since| since.elapsed() >= timeout);
        let left = if is_over { mem::take(&mut queue.waiting) } else { VecDeque::new() };
        let is_wanted = !queue.waiting.is_empty();
        drop(queue);
        drop(left);
        is_wanted
    }

    /// Queues again, before all others, what was undone.
    pub(super) fn put_back(&self, undone: Vec<Queued<C>>) {
        let mut queue = self.queue();
        for (since, mut work) in undone.into_iter().rev() {
            work.put_back();
            queue.waiting.push_front((since, work));
        }
    }

    /// What was taken is done with.
    pub(super) fn done(&self) {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends every request that was made `timeout` ago or earlier. Says whether any is left.
    pub(super) fn end_overdue(
        &self,
        timeout: Duration,
        waiting: &dyn Fn() -> StoreError,
        running: &dyn Fn() -> StoreError,
    ) -> bool {
        let now = Instant::now();
        let is_over = |since: Instant| now.saturating_duration_since(since) >= timeout;
        let mut over = Vec::new();
        let mut queue = self.queue();
        queue.waiting.retain(|(since, work)| match work.overdue() {
            Some(overdue) if is_over(*since) => {
                over.push(overdue);
                false
            }
            _ => true,
        });
        let queued = !queue.waiting.is_empty();
        drop(queue);
        for overdue in over {
            overdue.end(waiting, running);
        }
        // Clones, since an answer wakes its caller, who may do anything.
        let at_work: Vec<_> = {
            let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
            at_work.iter().cloned().collect()
        };
        for (_, overdue) in at_work.iter().filter(|(since, _)| is_over(*since)) {
            overdue.end(waiting, running);
        }
        queued || !at_work.is_empty()
    }
}
