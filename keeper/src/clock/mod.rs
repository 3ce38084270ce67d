//! What deadlines are counted on.

mod boot;
mod manual;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

pub use boot::{BootClock, BootTimer};
pub use manual::ManualClock;

/// A clock that a lease can be held by: it never goes backwards, and it goes on while the machine sleeps.
///
/// `std::time::Instant` and tokio's timers do not qualify: on Linux they stand still in suspend, and a laptop that was
/// shut for an hour would wake up sure of a lease that ended long ago.
///
/// [`BootClock`] is the real one, [`ManualClock`] the one that tests move.
pub trait Clock: Send + Sync + 'static {
    /// The time since an origin that stays the same while the process runs.
    fn now(&self) -> Duration;

    /// A new timer on this clock.
    fn timer(&self) -> Box<dyn Timer>;
}

/// Waits for instants of the clock that made it, one at a time.
pub trait Timer: Send {
    /// Ready once the clock has reached `at`, at once where that has passed. Otherwise the task is woken then; the
    /// instant of an earlier call is forgotten, and so is its waker.
    fn poll_until(&mut self, at: Duration, cx: &mut Context<'_>) -> Poll<()>;
}

/// Waits until `clock` has reached `at`.
pub async fn sleep_until(clock: &dyn Clock, at: Duration) {
    let mut timer = clock.timer();
    poll_fn(|cx| timer.poll_until(at, cx)).await;
}
