//! The clock that an embedded store decides by.

use std::time::{Duration, SystemTime};

/// A clock that counts while the machine sleeps and that nobody sets: the time since boot, say.
///
/// Stores that live in the process read it themselves; engines with a server of their own use that server's. Give one
/// that a test moves to try what happens after an hour, a reboot or a step of the wall clock.
pub trait Clock: Send + Sync {
    /// Time since an origin that stays the same as long as [`identity`](Self::identity) does. It never goes backwards,
    /// and every process that shares the store must read the same.
    fn now(&self) -> Duration;

    /// The wall clock. It marks the history for people, and keeps first tokens above those of a store that this one
    /// replaces; no lease ends by it.
    fn wall(&self) -> SystemTime;

    /// Names the origin of [`now`](Self::now): another machine, or the same one after a restart, has another name. It
    /// is asked once, when the store is opened.
    fn identity(&self) -> String;
}

/// What this machine's clock that nobody can set shows. It goes on while the machine sleeps, but for what is said of `BOOT`.
#[cfg(any(feature = "sqlite", feature = "_server"))]
pub(crate) fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(BOOT);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(all(any(feature = "sqlite", feature = "_server"), any(target_os = "linux", target_os = "android")))]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// Apple's monotonic clock counts sleep. FreeBSD's and NetBSD's do not: there a lease lasts longer by the time slept.
#[cfg(all(
    any(feature = "sqlite", feature = "_server"),
    not(any(target_os = "linux", target_os = "android"))
))]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
