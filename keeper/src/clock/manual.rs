//! A clock that stands still until it is moved.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Clock, Timer};

/// How often everything that is ready gets its turn between two instants of [`ManualClock::pass`].
const TURNS: usize = 100;

/// A clock for tests, moved by hand. Clones are the same clock.
///
/// ```
/// # use std::time::Duration;
/// use lease_machines_keeper::{Clock, ManualClock, sleep_until};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = ManualClock::new();
/// let other = clock.clone();
/// let sleeper = tokio::spawn(async move { sleep_until(&other, Duration::from_secs(60)).await });
///
/// clock.pass(Duration::from_secs(59)).await;
/// assert!(!sleeper.is_finished());
/// clock.pass(Duration::from_secs(1)).await;
/// assert!(sleeper.is_finished());
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Mutex<Hands>>);

#[derive(Default)]
struct Hands {
    now: Duration,
    /// Other clocks, moved along.
    others: Vec<Arc<dyn Fn(Duration) + Send + Sync>>,
    /// Timers that wait, by instant and number.
    waiting: BTreeMap<(Duration, u64), Waker>,
    timers: u64,
}

impl ManualClock {
    /// A clock that says zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes another clock along: `advance` is called with the time by which this one is about to move, each time that it
    /// does. So a holder and an in-memory store, which has a clock of its own, share one time.
    #[must_use]
    pub fn with_other(self, advance: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.hands().others.push(Arc::new(advance));
        self
    }

    /// Moves on by `span` **at once**, as for a machine that slept: what fell due on the way is seen only afterwards.
    pub fn advance(&self, span: Duration) {
        let to = self.now().saturating_add(span);
        self.advance_to(to);
    }

    /// Moves on to `to` at once; nothing happens where that has passed.
    pub fn advance_to(&self, to: Duration) {
        let (span, others) = {
            let hands = self.hands();
            (to.saturating_sub(hands.now), hands.others.clone())
        };
        // First, so that whoever is woken finds all clocks moved.
        others.iter().for_each(|other| other(span));
        let due = {
            let mut hands = self.hands();
            hands.now = hands.now.max(to);
            let first_that_waits_on = (hands.now.saturating_add(Duration::from_nanos(1)), 0);
            let waiting_on = hands.waiting.split_off(&first_that_waits_on);
            mem::replace(&mut hands.waiting, waiting_on)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Lets `span` go by as it does for a machine that is awake: every timer fires at its own instant, and everything
    /// that is ready gets its turn before the clock moves on.
    ///
    /// For tokio's `current_thread` runtime, and for stores that answer without waiting for anything but this clock,
    /// as one in memory does. Whether a task that waits for something else is done, the clock cannot know.
    pub async fn pass(&self, span: Duration) {
        let end = self.now().saturating_add(span);
        loop {
            settle().await;
            let next = self.hands().waiting.keys().next().map(|(at, _)| *at);
            match next {
                Some(at) if at <= end => self.advance_to(at),
                _ => break,
            }
        }
        self.advance_to(end);
        settle().await;
    }

    /// How many timers wait for an instant to come.
    #[must_use]
    pub fn timers(&self) -> usize {
        self.hands().waiting.len()
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.hands().now
    }

    fn timer(&self) -> Box<dyn Timer> {
        let number = {
            let mut hands = self.hands();
            hands.timers = hands.timers.wrapping_add(1);
            hands.timers
        };
        Box::new(ManualTimer { clock: self.clone(), number, waits_for: None })
    }
}

struct ManualTimer {
    clock: ManualClock,
    number: u64,
    waits_for: Option<Duration>,
}

impl ManualTimer {
    fn forget(&mut self, hands: &mut Hands) {
        if let Some(at) = self.waits_for.take() {
            hands.waiting.remove(&(at, self.number));
        }
    }
}

impl Timer for ManualTimer {
    fn poll_until(&mut self, at: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut hands = clock.hands();
        self.forget(&mut hands);
        if hands.now >= at {
            return Poll::Ready(());
        }
        self.waits_for = Some(at);
        hands.waiting.insert((at, self.number), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ManualTimer {
    fn drop(&mut self) {
        let clock = self.clock.clone();
        let mut hands = clock.hands();
        self.forget(&mut hands);
    }
}

/// Every task that is ready gets its turn, and what these made ready in turn.
async fn settle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::sleep_until;

    const SECOND: Duration = Duration::from_secs(1);

    fn ticker(clock: &ManualClock) -> Arc<Mutex<Vec<Duration>>> {
        let (clock, ticks) = (clock.clone(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&ticks);
        tokio::spawn(async move {
            for second in 1.. {
                sleep_until(&clock, SECOND * second).await;
                seen.lock().unwrap().push(clock.now());
            }
        });
        ticks
    }

    #[tokio::test]
    async fn time_that_passes_is_seen_instant_by_instant() {
        let clock = ManualClock::new();
        let ticks = ticker(&clock);
        clock.pass(SECOND * 3).await;
        assert_eq!(*ticks.lock().unwrap(), [SECOND, SECOND * 2, SECOND * 3]);
    }

    #[tokio::test]
    async fn time_that_was_slept_is_seen_on_waking() {
        let clock = ManualClock::new();
        let ticks = ticker(&clock);
        clock.pass(Duration::ZERO).await;
        clock.advance(SECOND * 2);
        settle().await;
        assert_eq!(*ticks.lock().unwrap(), [SECOND * 2, SECOND * 2]);
    }

    #[test]
    fn another_clock_is_taken_along() {
        let other = Arc::new(Mutex::new(Duration::ZERO));
        let moved = Arc::clone(&other);
        let clock = ManualClock::new().with_other(move |span| *moved.lock().unwrap() += span);
        clock.advance(SECOND);
        clock.advance_to(SECOND * 5);
        clock.advance_to(SECOND * 3);
        assert_eq!((clock.now(), *other.lock().unwrap()), (SECOND * 5, SECOND * 5));
    }

    #[tokio::test]
    async fn a_dropped_timer_wakes_nobody() {
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let clock = ManualClock::new();
        let (mut kept, mut dropped) = (clock.timer(), clock.timer());
        for timer in [&mut kept, &mut dropped] {
            assert!(timer.poll_until(SECOND, &mut Context::from_waker(&waker)).is_pending());
        }
        drop(dropped);
        clock.advance(SECOND);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
