//! The clocks that IDs are made by.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a factory reads.
///
/// [`SystemClock`], except in tests.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds on a clock that counts sleep, and that nobody sets. `u64::MAX` is later than every deadline.
    fn boot(&self) -> u64;

    /// Nanoseconds since Unix's origin on the wall clock. It is read when a lease begins or goes on; in between, time goes on
    /// as [`boot`](Self::boot) does.
    fn wall(&self) -> u64;

    /// Passes some of the time that a factory has to wait for: `left` nanoseconds.
    fn pause(&self, left: u64);
}

/// The system's clocks: the time since boot, sleep included, and the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SystemClock;

/// Shorter than this it is not worth to sleep.
const SPIN: u64 = 50_000;
/// How long at most before a factory looks again whether it is still on.
const LOOK_AGAIN: u64 = 1_000_000;

impl Clock for SystemClock {
    #[inline]
    fn boot(&self) -> u64 {
        lease_machines_os::boot_nanos()
    }

    fn wall(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn pause(&self, left: u64) {
        if left <= SPIN {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(Duration::from_nanos(left.min(LOOK_AGAIN)));
        }
    }
}
