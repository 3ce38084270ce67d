//! A timer on the clock of [`clock`](super::clock), as a descriptor that becomes readable.
//!
//! tokio's timers and `Instant` stand still while the machine sleeps: a deadline waited for with them is missed by as
//! long as it slept.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use timerfd::BootTimer;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use thread::BootTimer;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
    use std::time::Duration;

    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

    /// Farther off the kernel may refuse to count; some ten thousand years do.
    const FARTHEST: Duration = Duration::from_secs(1 << 38);

    /// Becomes readable at an instant of the boot clock, also when that passed in the machine's sleep.
    pub(crate) struct BootTimer(TimerFd);

    impl BootTimer {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
            Ok(Self(TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?))
        }

        /// Fires once at `at`, at once where it has passed; never with `None`. What fired before is forgotten.
        pub(crate) fn set(&self, at: Option<Duration>) -> io::Result<()> {
            let Some(at) = at else { return Ok(self.0.unset()?) };
            // An instant of zero would disarm the timer.
            let at = TimeSpec::from_duration(at.clamp(Duration::from_nanos(1), FARTHEST));
            Ok(self.0.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
        }
    }

    impl AsFd for BootTimer {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl AsRawFd for BootTimer {
        fn as_raw_fd(&self) -> RawFd {
            self.as_fd().as_raw_fd()
        }
    }
}

/// For systems without timerfd: a thread that compares the clock, so a deadline that passed in sleep is seen within
/// half a second of waking.
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
#[cfg_attr(any(target_os = "linux", target_os = "android"), allow(dead_code))]
mod thread {
    use std::io::{self, Read, Write};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Condvar, Mutex, PoisonError};
    use std::thread;
    use std::time::Duration;

    use crate::sys::clock;

    const LOOK_AGAIN: Duration = Duration::from_millis(500);

    /// Becomes readable at an instant of the boot clock.
    pub(crate) struct BootTimer {
        shared: Arc<Shared>,
        fired: UnixStream,
    }

    #[derive(Default)]
    struct Shared {
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct State {
        at: Option<Duration>,
        over: bool,
    }

    impl BootTimer {
        pub(crate) fn new() -> io::Result<Self> {
            let (fired, mut fire) = UnixStream::pair()?;
            fired.set_nonblocking(true)?;
            let shared = Arc::new(Shared::default());
            let watched = Arc::clone(&shared);
            thread::Builder::new().name("timer".into()).spawn(move || watched.run(&mut fire))?;
            Ok(Self { shared, fired })
        }

        /// Fires once at `at`, at once where it has passed; never with `None`. What fired before is forgotten.
        pub(crate) fn set(&self, at: Option<Duration>) -> io::Result<()> {
            // Under the lock, so that the thread cannot fire for the old instant after this has drained it.
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            while matches!((&self.fired).read(&mut [0; 16]), Ok(read) if read > 0) {}
            state.at = at;
            drop(state);
            self.shared.changed.notify_one();
            Ok(())
        }
    }

    impl Shared {
        fn run(&self, fire: &mut UnixStream) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !state.over {
                let left = state.at.map_or(LOOK_AGAIN, |at| at.saturating_sub(clock::now()));
                if left.is_zero() {
                    state.at = None;
                    if fire.write_all(&[1]).is_err() {
                        return;
                    }
                    continue;
                }
                let waited = self.changed.wait_timeout(state, left.min(LOOK_AGAIN));
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    impl Drop for BootTimer {
        fn drop(&mut self) {
            self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).over = true;
            self.shared.changed.notify_one();
        }
    }

    impl AsFd for BootTimer {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.fired.as_fd()
        }
    }

    impl AsRawFd for BootTimer {
        fn as_raw_fd(&self) -> RawFd {
            self.fired.as_raw_fd()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use crate::sys::clock;

    fn readable(fd: impl AsFd, limit_ms: u16) -> bool {
        poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], PollTimeout::from(limit_ms)).unwrap() == 1
    }

    macro_rules! keeps_time {
        ($name:ident, $timer:ty) => {
            #[test]
            fn $name() {
                let timer = <$timer>::new().unwrap();
                assert!(!readable(&timer, 0));
                let at = clock::now() + Duration::from_millis(30);
                timer.set(Some(at)).unwrap();
                assert!(readable(&timer, 5_000));
                assert!(clock::now() >= at, "fired early");

                timer.set(None).unwrap();
                assert!(!readable(&timer, 0), "a cleared timer is not readable");
                timer.set(Some(Duration::ZERO)).unwrap();
                assert!(readable(&timer, 5_000), "an instant that has passed fires at once");
                timer.set(Some(clock::now() + Duration::from_secs(3600))).unwrap();
                assert!(!readable(&timer, 0), "setting it anew forgets what fired");
            }
        };
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    keeps_time!(timerfd_keeps_time, super::timerfd::BootTimer);
    keeps_time!(thread_keeps_time, super::thread::BootTimer);
}
