//! The clock that deadlines are counted on: it goes on while the machine sleeps.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` stands still in suspend on Linux (and so does `Instant`); on macOS it counts sleep, and elsewhere
/// there is nothing better.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

/// The time since boot, sleep included. Both processes of a run see the same clock.
pub(crate) fn now() -> Duration {
    // A clock that exists cannot fail. Were it to, every deadline has passed: work stops rather than runs on.
    clock_gettime(BOOT).map_or(Duration::MAX, Duration::from)
}
