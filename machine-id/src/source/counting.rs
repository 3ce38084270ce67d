//! Stamps for who counts: wherever the stream is.

use std::time::Duration;

use super::{Source, Taken};
use crate::sync::Ordering;
use crate::{Clock, ClockError, Id, IdError};

impl<I: Id, C: Clock> Source<I, C> {
    /// Takes up to `count` stamps in a row, wherever `next` is: behind the clock where time was saved up. Fewer are they where
    /// the clock would have to be waited for for too long.
    #[inline]
    pub(crate) fn take_counting(&self, count: u64) -> Result<Taken, IdError> {
        self.take_counting_within(count, 1, self.patience)
    }

    /// Takes `count` stamps in a row, and no fewer, without waiting for the clock; none where it would have to be waited for
    /// `all` that the caller wants.
    #[inline]
    pub(crate) fn try_counting(&self, count: u64, all: u64) -> Result<Taken, IdError> {
        self.take_counting_within(count, all, 0)
    }

    /// Takes up to `count` stamps, if `least` can be given after so many nanoseconds.
    #[inline]
    fn take_counting_within(&self, count: u64, least: u64, patience: u64) -> Result<Taken, IdError> {
        loop {
            let version = self.state.version.load(Ordering::Acquire);
            let machine = self.state.machine.load(Ordering::Relaxed);
            let limit = self.state.limit.load(Ordering::Relaxed);
            let next = self.next.0.load(Ordering::Relaxed);
            let now = self.clock.boot();
            let count = match self.are_due(next, count.max(least), limit, now) {
                true => count,
                false => self.in_time(next, count, least, now, version, patience)?,
            };
            let first = match count {
                0 => continue,
                // Behind others who came between, if need be: it is not far.
                1 => self.next.0.fetch_add(1, Ordering::AcqRel),
                _ => match self.next.0.compare_exchange(
                    next,
                    next + count,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(first) => first,
                    Err(_) => continue,
                },
            };
            self.still_on(now)?;
            let last = first + (count - 1);
            if last >= limit {
                self.refuse(last, now, version)?;
                continue;
            }
            let due = self.begin_of(last);
            if due > self.since_epoch(now)? && last >= self.state.ahead.load(Ordering::Relaxed) {
                self.wait_for(due, version, patience)?;
            }
            if self.unchanged(version) {
                return Ok(Taken { first, count, machine });
            }
        }
    }

    /// Whether so many stamps from `next` on can be given at once.
    #[inline]
    fn are_due(&self, next: u64, count: u64, limit: u64, now: u64) -> bool {
        let last = next.saturating_add(count - 1);
        last < limit
            && now < self.state.deadline.load(Ordering::Relaxed)
            && self.since_epoch(now).is_ok_and(|since| self.begin_of(last) <= since)
    }

    /// How many of `count` stamps can be given once the clock has been waited for, `least` at least; none where the term has
    /// changed.
    #[cold]
    fn in_time(
        &self,
        next: u64,
        count: u64,
        least: u64,
        now: u64,
        version: u64,
        patience: u64,
    ) -> Result<u64, IdError> {
        self.still_on(now)?;
        let last = next.saturating_add(count.max(least) - 1);
        if last >= self.state.limit.load(Ordering::Relaxed) {
            self.refuse(last, now, version)?;
            return Ok(0);
        }
        let since = self.since_epoch(now)?;
        let by_then = self.first_of(self.ticks(since.saturating_add(patience)) + 1);
        let in_time = by_then.max(self.state.ahead.load(Ordering::Relaxed)).saturating_sub(next);
        if !self.unchanged(version) {
            return Ok(0);
        }
        if in_time < least {
            let due = self.begin_of(next.saturating_add(least - 1));
            return Err(IdError::Clock(ClockError::Behind(Duration::from_nanos(due.saturating_sub(since)))));
        }
        Ok(count.min(in_time))
    }
}
