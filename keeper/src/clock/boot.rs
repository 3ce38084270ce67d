//! The time since boot, sleep included.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lease_machines_os::boot_time;

use super::{Clock, Timer};

/// Without a timer of the system that counts sleep, the clock is looked at this often: what fell due while the machine
/// slept is seen within this time of its waking.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The time since boot, the time that the machine slept included.
///
/// | system | clock | timer |
/// | --- | --- | --- |
/// | Linux, Android | `CLOCK_BOOTTIME` | timerfd on that clock, due at the moment of waking |
/// | macOS, iOS | `CLOCK_MONOTONIC`, which counts sleep there | tokio's, looked at again every 500 ms |
/// | other Unix | `CLOCK_MONOTONIC`; whether it counts sleep is the system's choice | the same |
/// | elsewhere | `std::time::Instant` (on Windows it counts sleep) | the same |
///
/// It is one clock for all processes of a machine, except for those in another time namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl BootClock {
    /// The time since boot.
    #[must_use]
    pub fn now() -> Duration {
        boot_time()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Duration {
        Self::now()
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(BootTimer::new())
    }
}

/// A timer on the [`BootClock`]. It has to be made and polled within a tokio runtime that has I/O and time switched on.
///
/// Where the system gives no timerfd (or has none left), it looks at the clock every 500 ms instead of failing.
#[derive(Debug)]
pub struct BootTimer {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    alarm: Option<timerfd::Alarm>,
    glance: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl BootTimer {
    /// A timer that waits for nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            alarm: timerfd::Alarm::new().ok(),
            glance: None,
        }
    }

    /// Waits until the clock has reached `at`. May be dropped and called again, with another instant.
    pub async fn until(&mut self, at: Duration) {
        poll_fn(|cx| self.poll_until(at, cx)).await;
    }

    /// Without the system's help.
    fn poll_glances(&mut self, at: Duration, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let left = at.saturating_sub(boot_time());
            if left.is_zero() {
                self.glance = None;
                return Poll::Ready(());
            }
            // Afresh each time: the instant may be another one than before.
            let glance = self.glance.insert(Box::pin(tokio::time::sleep(left.min(LOOK_AGAIN))));
            if glance.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Default for BootTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for BootTimer {
    fn poll_until(&mut self, at: Duration, cx: &mut Context<'_>) -> Poll<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(alarm) = &mut self.alarm {
            if let Ok(poll) = alarm.poll_until(at, cx) {
                return poll;
            }
            self.alarm = None;
        }
        self.poll_glances(at, cx)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timerfd {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    #[derive(Debug)]
    pub(super) struct Alarm {
        fd: AsyncFd<OwnedFd>,
        set_for: Option<Duration>,
    }

    impl Alarm {
        // tokio 1.54 deprecates its safe constructor, since a descriptor could be closed while it is registered. This
        // one is owned by what is registered, and the unsafe constructor would buy nothing.
        #[allow(deprecated)]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
            Ok(Self { fd: AsyncFd::with_interest(timer, Interest::READABLE)?, set_for: None })
        }

        pub(super) fn poll_until(&mut self, at: Duration, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
            loop {
                let now = lease_machines_os::boot_time();
                if now >= at {
                    return Ok(Poll::Ready(()));
                }
                if self.set_for != Some(at) {
                    // An absolute instant: a process that is stopped before the next line is not late by its stop.
                    // An instant of zero would disarm the timer, but it would have passed above.
                    let once = Itimerspec { it_interval: Timespec::default(), it_value: timespec(at) };
                    timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
                    self.set_for = Some(at);
                }
                match self.fd.poll_read_ready(cx) {
                    Poll::Pending => return Ok(Poll::Pending),
                    Poll::Ready(readiness) => {
                        // For this instant or an earlier one: the clock, read again above, tells. Unread expirations
                        // do no harm: epoll reports each new one.
                        readiness?.clear_ready();
                    }
                }
            }
        }
    }

    /// Farther off the kernel may refuse to count; some ten thousand years do.
    const FARTHEST: i64 = 1 << 38;

    fn timespec(at: Duration) -> Timespec {
        let tv_sec = i64::try_from(at.as_secs()).unwrap_or(FARTHEST).min(FARTHEST);
        Timespec { tv_sec, tv_nsec: at.subsec_nanos().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn keeps_time(mut timer: BootTimer) {
        for wait in [30, 1, 0] {
            let at = BootClock::now() + Duration::from_millis(wait);
            timer.until(at).await;
            assert!(BootClock::now() >= at, "early");
        }
        // The instant of a call that was given up neither fires later nor hides the next one.
        let far = BootClock::now() + Duration::from_secs(3600);
        tokio::select! {
            biased;
            () = timer.until(far) => unreachable!("an hour early"),
            () = tokio::task::yield_now() => {}
        }
        let near = BootClock::now() + Duration::from_millis(5);
        timer.until(near).await;
        assert!((near..far).contains(&BootClock::now()));
        tokio::select! {
            biased;
            () = timer.until(far) => unreachable!("fired for an instant that is over"),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }

    #[tokio::test]
    async fn a_timer_of_the_system_keeps_time() {
        keeps_time(BootTimer::new()).await;
    }

    #[tokio::test]
    async fn a_timer_that_looks_again_and_again_keeps_time() {
        keeps_time(BootTimer {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            alarm: None,
            glance: None,
        })
        .await;
    }

    #[tokio::test]
    async fn an_instant_beyond_all_time_is_waited_for() {
        let mut timer = BootTimer::new();
        tokio::select! {
            biased;
            () = timer.until(Duration::MAX) => unreachable!(),
            () = tokio::task::yield_now() => {}
        }
    }
}
