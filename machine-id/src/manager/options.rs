//! How a manager goes about it.

use std::fmt;
use std::time::Duration;

use crate::{Id64, Id96, Id128, Layout};

/// The shortest lease that counts as one.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_secs(30);
/// The shortest interval between renewals that can be asked for.
pub(crate) const SHORTEST_INTERVAL: Duration = Duration::from_secs(20);

/// What a manager is told at its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_interval: Duration,
    pub(crate) acquire_timeout: Option<Duration>,
    pub(crate) max_clock_skew: Duration,
    pub(crate) patience: Duration,
    pub(crate) id64: Layout<Id64>,
    pub(crate) id96: Layout<Id96>,
    pub(crate) id128: Layout<Id128>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(8 * 3_600),
            renew_interval: Duration::from_secs(30 * 60),
            acquire_timeout: Some(Duration::from_secs(60)),
            max_clock_skew: Duration::from_secs(10),
            patience: Duration::from_secs(1),
            id64: Layout::default(),
            id96: Layout::default(),
            id128: Layout::default(),
        }
    }
}

impl Options {
    /// Leases of 8 h, renewed every 30 min; a start waits for 60 s; clocks may be 10 s apart; a clock that is behind is
    /// waited for for 1 s.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For how long each lease is asked for: at least 30 s.
    #[must_use]
    pub const fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// How long a lease goes on before it is renewed: at least 20 s, and less than the duration.
    #[must_use]
    pub const fn renew_interval(mut self, interval: Duration) -> Self {
        self.renew_interval = interval;
        self
    }

    /// How long a start waits for a machine ID; `None` for ever.
    #[must_use]
    pub const fn acquire_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.acquire_timeout = timeout;
        self
    }

    /// How far this machine's wall clock may be from the store's: no further than a slot's cool-down is long.
    #[must_use]
    pub const fn max_clock_skew(mut self, skew: Duration) -> Self {
        self.max_clock_skew = skew;
        self
    }

    /// How long one call for an ID waits for a clock that is behind the next stamp.
    #[must_use]
    pub const fn clock_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The layout of IDs of 64 bits.
    #[must_use]
    pub const fn layout64(mut self, layout: Layout<Id64>) -> Self {
        self.id64 = layout;
        self
    }

    /// The layout of IDs of 96 bits.
    #[must_use]
    pub const fn layout96(mut self, layout: Layout<Id96>) -> Self {
        self.id96 = layout;
        self
    }

    /// The layout of IDs of 128 bits.
    #[must_use]
    pub const fn layout128(mut self, layout: Layout<Id128>) -> Self {
        self.id128 = layout;
        self
    }

    /// The greatest machine ID that a layout has room for.
    #[must_use]
    pub fn max_machine_id(&self) -> u16 {
        let all = [self.id64.max_machine_id(), self.id96.max_machine_id(), self.id128.max_machine_id()];
        all.into_iter().fold(0, u16::max)
    }

    /// Refuses nonsense. `cool_down` is the strategy's.
    pub(crate) fn check(&self, cool_down: Option<Duration>) -> Result<(), OptionsError> {
        if self.lease_duration < SHORTEST_LEASE {
            return Err(OptionsError::LeaseDuration(self.lease_duration));
        }
        if self.renew_interval < SHORTEST_INTERVAL {
            return Err(OptionsError::RenewInterval(self.renew_interval));
        }
        if self.renew_interval >= self.lease_duration {
            return Err(OptionsError::NeverRenewed {
                interval: self.renew_interval,
                duration: self.lease_duration,
            });
        }
        if self.acquire_timeout == Some(Duration::ZERO) {
            return Err(OptionsError::AcquireTimeout);
        }
        match cool_down {
            Some(cool_down) if cool_down < self.max_clock_skew => {
                Err(OptionsError::CoolDown { cool_down, skew: self.max_clock_skew })
            }
            _ => Ok(()),
        }
    }
}

/// Options that make no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OptionsError {
    /// A lease duration of less than 30 s.
    LeaseDuration(Duration),
    /// A renew interval of less than 20 s.
    RenewInterval(Duration),
    /// A renew interval that is not less than the lease duration.
    NeverRenewed {
        /// The interval.
        interval: Duration,
        /// The duration.
        duration: Duration,
    },
    /// No time at all to acquire in.
    AcquireTimeout,
    /// The strategy's machine IDs rest for less time than clocks may be apart: whoever has one next might stamp what its last
    /// holder stamped.
    CoolDown {
        /// How long they rest.
        cool_down: Duration,
        /// How far clocks may be apart.
        skew: Duration,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseDuration(found) => {
                write!(f, "the lease duration is {found:?}, expected at least 30 s")
            }
            Self::RenewInterval(found) => {
                write!(f, "the renew interval is {found:?}, expected at least 20 s")
            }
            Self::NeverRenewed { interval, duration } => {
                write!(
                    f,
                    "the renew interval, {interval:?}, is not less than the lease duration, {duration:?}"
                )
            }
            Self::AcquireTimeout => {
                f.write_str("the acquire timeout is zero, expected some time, or none for ever")
            }
            Self::CoolDown { cool_down, skew } => {
                write!(
                    f,
                    "the cool-down is {cool_down:?}, expected at least what clocks may be apart, {skew:?}"
                )
            }
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_and_says_what_was_found() {
        let secs = Duration::from_secs;
        let all = Options::new();
        assert_eq!(all.check(None), Ok(()));
        let (under, least) = (secs(30) - Duration::from_nanos(1), secs(30));
        assert_eq!(all.lease_duration(under).check(None), Err(OptionsError::LeaseDuration(under)));
        assert_eq!(all.lease_duration(least).renew_interval(secs(20)).check(None), Ok(()));
        assert_eq!(all.renew_interval(secs(19)).check(None), Err(OptionsError::RenewInterval(secs(19))));
        let never = all.lease_duration(secs(60)).renew_interval(secs(60));
        let error = never.check(None).expect_err("never renewed");
        assert_eq!(error, OptionsError::NeverRenewed { interval: secs(60), duration: secs(60) });
        assert!(error.to_string().contains("60s"), "{error}");
        assert_eq!(all.acquire_timeout(Some(secs(0))).check(None), Err(OptionsError::AcquireTimeout));
        assert_eq!(all.acquire_timeout(None).check(None), Ok(()));
        assert_eq!(all.check(Some(secs(10))), Ok(()));
        let short =
            all.check(Some(secs(10) - Duration::from_millis(1))).expect_err("clocks may be 10 s apart");
        assert!(matches!(short, OptionsError::CoolDown { .. }), "{short}");
        let said = short.to_string();
        assert!(said.contains("9.999s") && said.contains("10s"), "{said}");
        assert_eq!(all.max_clock_skew(secs(9)).check(Some(secs(9))), Ok(()));
    }
}
