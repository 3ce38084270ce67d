//! The time since boot, the same for every process and container of a machine.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::clock::since_boot;
use crate::{Clock, ErrorKind, StoreError};

/// Counts from the machine's start, also while it sleeps; nobody can set it.
///
/// On Linux that is `CLOCK_BOOTTIME`, less the offset of the process's time namespace: a container may see a shifted
/// boot time under the same boot id, and two holders would be the result. Elsewhere it is the clock that counts sleep.
#[derive(Debug)]
pub(super) struct BootClock {
    identity: String,
    /// What the time namespace adds.
    shift: Duration,
    /// Whether the shift is to be added instead of taken off: the namespace set the clock back.
    shifted_back: bool,
}

impl BootClock {
    /// Reads the boot's identity, once.
    pub(super) fn read() -> Result<Self, StoreError> {
        let identity = identity()?;
        let (shift, shifted_back) = match fs::read_to_string("/proc/self/timens_offsets") {
            Ok(offsets) => namespace_shift(&offsets)?,
            // A kernel without time namespaces, or another system.
            Err(_) => (Duration::ZERO, false),
        };
        Ok(Self { identity, shift, shifted_back })
    }
}

impl Clock for BootClock {
    fn now(&self) -> Duration {
        let now = since_boot();
        if self.shifted_back { now.saturating_add(self.shift) } else { now.saturating_sub(self.shift) }
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn identity() -> Result<String, StoreError> {
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    match fs::read_to_string(BOOT_ID) {
        Ok(text) if text.trim().len() == 36 => Ok(text.trim().to_owned()),
        Ok(text) => Err(no_identity(format!("{BOOT_ID} has {text:?}, expected 36 characters"))),
        Err(error) => Err(no_identity(format!("{BOOT_ID}: {error}")).with_source(error)),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn identity() -> Result<String, StoreError> {
    let variable = if cfg!(target_vendor = "apple") { "kern.bootsessionuuid" } else { "kern.boottime" };
    match std::process::Command::new("/usr/sbin/sysctl").args(["-n", variable]).output() {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            // FreeBSD adds a date for people, in the reader's time zone.
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.split('}').next().unwrap_or_default().trim().to_owned())
        }
        Ok(output) => Err(no_identity(format!("sysctl {variable} ended with {}", output.status))),
        Err(error) => Err(no_identity(format!("sysctl {variable}: {error}")).with_source(error)),
    }
}

fn no_identity(found: String) -> StoreError {
    StoreError::new(
        ErrorKind::Configuration,
        format!("this boot of the machine cannot be told from others: {found}"),
    )
}

/// The offset of the boot clock in `/proc/self/timens_offsets`, and whether it is negative.
fn namespace_shift(offsets: &str) -> Result<(Duration, bool), StoreError> {
    let unreadable = || {
        StoreError::new(
            ErrorKind::Configuration,
            format!(
                "/proc/self/timens_offsets has {offsets:?}, expected a line `boottime SECONDS NANOSECONDS`"
            ),
        )
    };
    let mut words = offsets
        .lines()
        .map(str::split_whitespace)
        // Numbered in some kernels' files, named in others'.
        .find_map(|mut words| matches!(words.next(), Some("boottime" | "7")).then_some(words))
        .ok_or_else(unreadable)?;
    let seconds: i64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(unreadable)?;
    let nanos: u32 = words.next().and_then(|word| word.parse().ok()).ok_or_else(unreadable)?;
    // The nanoseconds count forward, also from negative seconds.
    if seconds >= 0 {
        Ok((Duration::new(seconds.unsigned_abs(), nanos), false))
    } else {
        Ok((
            Duration::from_secs(seconds.unsigned_abs()).saturating_sub(Duration::from_nanos(nanos.into())),
            true,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_offset_is_read_with_its_sign() {
        let read = |text| namespace_shift(text).unwrap();
        let line = "monotonic           5         0\nboottime         3600        250\n";
        assert_eq!(read(line), (Duration::new(3600, 250), false));
        assert_eq!(read("boottime -10 0"), (Duration::from_secs(10), true));
        // -10 s + 1 ns
        assert_eq!(read("boottime -10 1"), (Duration::new(9, 999_999_999), true));
        for wrong in ["", "monotonic 0 0", "boottime", "boottime x 0", "boottime 1"] {
            assert!(namespace_shift(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn it_goes_on() {
        let clock = BootClock::read().unwrap();
        let first = clock.now();
        assert!(first > Duration::ZERO);
        assert!(clock.now() >= first);
        assert!(!clock.identity().is_empty());
    }
}
