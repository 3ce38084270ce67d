//! When a command under a lease is told to end, and when it is made to.

use std::time::Duration;

const LEAST_MARGIN: Duration = Duration::from_millis(200);
const GREATEST_MARGIN: Duration = Duration::from_secs(1);

/// The times of one run, all of them before the lease's deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    margin: Duration,
    kill_after: Duration,
}

impl Times {
    /// `kill_after` is the time from TERM to KILL. The margin between KILL and the deadline is a twentieth of the ttl,
    /// at least 200 ms (a loaded machine kills that much late) and at most 1 s.
    pub(crate) fn new(ttl: Duration, kill_after: Duration) -> Self {
        Self { margin: (ttl / 20).clamp(LEAST_MARGIN, GREATEST_MARGIN), kill_after }
    }

    /// How long before the deadline the command is told to end, where the warning deadline does not come later.
    pub(crate) fn stop_lead(self) -> Duration {
        self.margin.saturating_add(self.kill_after)
    }

    /// When a command that was told to end at `since` is killed. Early: it had less time to clean up. Late: the next
    /// holder may be at work.
    pub(crate) fn kill_at(self, since: Duration, deadline: Option<Duration>) -> Duration {
        let patient = since.saturating_add(self.kill_after);
        deadline.map_or(patient, |deadline| patient.min(self.last_kill(deadline)))
    }

    /// The latest instant for KILL.
    pub(crate) fn last_kill(self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.margin)
    }

    /// When the front kills by itself, since the warden evidently did not.
    pub(crate) fn second_kill(self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.margin / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_margin_is_a_twentieth_of_the_ttl_within_bounds() {
        for (ttl, margin) in [(1_000, 200), (4_000, 200), (10_000, 500), (20_000, 1_000), (3_600_000, 1_000)]
        {
            let times = Times::new(ms(ttl), ms(5_000));
            assert_eq!(times.last_kill(ms(100_000)), ms(100_000 - margin));
            assert_eq!(times.second_kill(ms(100_000)), ms(100_000 - margin / 2));
            assert_eq!(times.stop_lead(), ms(margin + 5_000));
        }
    }

    #[test]
    fn kill_comes_after_kill_after_but_never_past_the_last_instant() {
        let times = Times::new(ms(10_000), ms(5_000));
        assert_eq!(times.kill_at(ms(1_000), None), ms(6_000));
        assert_eq!(times.kill_at(ms(1_000), Some(ms(6_500))), ms(6_000));
        assert_eq!(times.kill_at(ms(1_000), Some(ms(6_499))), ms(5_999));
        assert_eq!(times.kill_at(ms(1_000), Some(ms(100))), ms(0), "a deadline that has passed: at once");
    }
}
