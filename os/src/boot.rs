//! The time since boot, sleep included.

use std::time::Duration;

/// The time since boot, the time that the machine slept included.
///
/// | system | clock |
/// | --- | --- |
/// | Linux, Android | `CLOCK_BOOTTIME` |
/// | macOS, iOS | `CLOCK_MONOTONIC`, which counts sleep there |
/// | other Unix | `CLOCK_MONOTONIC`; whether it counts sleep is the system's choice |
/// | elsewhere | `std::time::Instant` (on Windows it counts sleep), since the first call |
///
/// It is one clock for all processes of a machine (but on Windows), except for those in another time namespace. A reading
/// that makes no sense is [`Duration::MAX`]: every deadline has passed then, so that what was to end ends.
#[must_use]
pub fn boot_time() -> Duration {
    read()
}

/// The same in nanoseconds. `u64::MAX`, after 584 years, also stands for a reading that makes no sense.
#[must_use]
#[inline]
pub fn boot_nanos() -> u64 {
    let time = read();
    time.as_secs()
        .checked_mul(1_000_000_000)
        .and_then(|nanos| nanos.checked_add(u64::from(time.subsec_nanos())))
        .unwrap_or(u64::MAX)
}

#[cfg(unix)]
#[inline]
fn read() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const BOOT: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const BOOT: ClockId = ClockId::Monotonic;

    let time = clock_gettime(BOOT);
    match (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
        (Ok(secs), Ok(nanos)) => Duration::new(secs, nanos),
        _ => Duration::MAX,
    }
}

#[cfg(not(unix))]
fn read() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_the_same_time() {
        let (before, nanos, after) = (boot_time(), boot_nanos(), boot_time());
        assert!((before..=after).contains(&Duration::from_nanos(nanos)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_counts_what_the_machine_slept() {
        let uptime = std::fs::read_to_string("/proc/uptime").expect("Linux has it");
        let uptime: f64 = uptime.split(' ').next().and_then(|secs| secs.parse().ok()).expect("seconds");
        // The kernel counts it on the boot clock, to a hundredth of a second.
        assert!((boot_time().as_secs_f64() - uptime).abs() < 5.0);
    }
}
