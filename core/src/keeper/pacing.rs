//! When a keeper tries again, and when it stops trying.

use core::time::Duration;

use super::{Flight, Keeper, Outcome, Phase, Wait};
use crate::holder::from_nanos;

/// Without a word from the store, a waiting keeper asks again after this long.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The first pause after a failed attempt is at most this long; each further one at most twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No pause is longer than this: what a caller who asks for a lost lease again can be kept waiting.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Two acquires are at least this far apart, however often a store wakes the waiter.
pub(super) const ACQUIRE_SPACING: Duration = Duration::from_millis(10);
/// How long the withdrawal of an unanswered acquire is waited for. The lease it may have brought ends by itself.
pub(super) const WITHDRAW_LIMIT: Duration = Duration::from_secs(1);
/// The least time for one attempt, so that quarters of what is left do not become too small to be answered.
pub(super) const LEAST_ATTEMPT: Duration = Duration::from_millis(1);
/// A renewal is put off by at most this part of the time in which it has to succeed.
const SLACK_PARTS: u32 = 16;
/// Finer ticks would bring no two renewals together.
const LEAST_TICK: Duration = Duration::from_millis(1);

impl Keeper {
    pub(super) fn start_waiting(&mut self, now: Duration) {
        self.occupied = false;
        self.unanswered = false;
        self.failures = 0;
        self.next_try = now;
        self.give_up_at = match self.options.wait {
            Wait::No => now.saturating_add(self.options.first_term),
            Wait::Until(until) => until,
            Wait::Forever => Duration::MAX,
        };
    }

    /// Whether this answers the request in flight, which it then no longer is.
    pub(super) fn landed(&mut self, attempt: u64) -> bool {
        let awaited = self.in_flight.is_some_and(|flight| flight.attempt == attempt);
        if awaited {
            self.in_flight = None;
        }
        awaited
    }

    pub(super) fn take_off(&mut self, limit: Duration) -> u64 {
        self.attempts = self.attempts.saturating_add(1);
        self.in_flight = Some(Flight { attempt: self.attempts, limit });
        self.attempts
    }

    pub(super) fn confirmed(&mut self) {
        self.failures = 0;
        self.next_try = Duration::ZERO;
        self.warned = false;
        self.short_first_term &= self.phase == Phase::Starting;
    }

    pub(super) fn went_unanswered(&mut self, now: Duration) {
        match self.phase {
            Phase::Acquiring => {
                self.unanswered = true;
                self.occupied = false;
                self.failed(now);
            }
            _ => {
                self.release_in_doubt |= self.phase == Phase::Releasing;
                self.failed(now);
            }
        }
    }

    /// Schedules the next attempt: a random part of a pause that doubles, and at most a quarter of the time left.
    pub(super) fn failed(&mut self, now: Duration) {
        if let Phase::Withdrawing(why) = self.phase {
            return self.finish(Outcome::NotHeld(why), now);
        }
        let doubled = 2_u32.checked_pow(self.failures).and_then(|factor| FIRST_PAUSE.checked_mul(factor));
        self.failures = self.failures.saturating_add(1);
        let mut pause = doubled.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        if let Some(holder) = &self.holder {
            if let (Some(deadline), Some(warning)) = (holder.stop_deadline(), holder.warning_deadline()) {
                pause = pause.min(quarter(self.retry_until(deadline, warning).saturating_sub(now)));
            }
        }
        self.next_try = now.saturating_add(self.random_part_of(pause));
    }

    /// When work has to be told to stop for want of a confirmation.
    pub(super) fn stop_at(&self, deadline: Duration, warning: Duration) -> Duration {
        deadline.saturating_sub(self.options.stop_lead).max(warning).min(deadline)
    }

    /// Attempts are spread over the time until work has to stop; once it was told to, until the deadline.
    pub(super) fn retry_until(&self, deadline: Duration, warning: Duration) -> Duration {
        if self.phase == Phase::Working && self.loss.is_none() {
            self.stop_at(deadline, warning)
        } else {
            deadline
        }
    }

    /// When a renewal that falls due at `due` is sent: with others, at the next tick.
    pub(super) fn on_tick(&self, due: Duration, deadline: Duration, warning: Duration) -> Duration {
        // Never before the warning, and after it for as long as attempts are made.
        let stop = self.retry_until(deadline, warning);
        let needed = if due < warning { warning } else { stop };
        let slack = needed.saturating_sub(due).checked_div(SLACK_PARTS).unwrap_or_default();
        let mut tick = self.options.tick;
        while tick > slack {
            tick = tick.checked_div(2).unwrap_or_default();
        }
        if tick < LEAST_TICK {
            return due;
        }
        due.as_nanos().checked_next_multiple_of(tick.as_nanos()).map_or(due, from_nanos)
    }

    /// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). It spreads retries,
    /// nothing else.
    pub(super) fn random_part_of(&mut self, whole: Duration) -> Duration {
        self.jitter = self.jitter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.jitter;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let whole = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
        let part = u128::from(bits).saturating_mul(u128::from(whole)) >> 64;
        Duration::from_nanos(u64::try_from(part).unwrap_or(whole))
    }
}

/// Until when one attempt is waited for, with this much time left.
pub(super) fn attempt_limit(now: Duration, left: Duration) -> Duration {
    now.saturating_add(quarter(left).max(LEAST_ATTEMPT))
}

fn quarter(time: Duration) -> Duration {
    time.checked_div(4).unwrap_or_default()
}
