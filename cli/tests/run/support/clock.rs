//! Time, as the program under test counts it, and waiting for a condition.

use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

/// The boot clock.
pub(crate) fn now() -> Duration {
    clock_gettime(BOOT).unwrap().into()
}

/// Waits until the condition gives something, and fails when it has not within `limit`.
#[track_caller]
pub(crate) fn until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(now() < begun + limit, "waited {limit:?} in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Lets an instant of the boot clock pass: for what must *not* happen until then.
pub(crate) fn pass_until(at: Duration) {
    while let Some(left) = at.checked_sub(now()).filter(|left| !left.is_zero()) {
        thread::sleep(left);
    }
}
