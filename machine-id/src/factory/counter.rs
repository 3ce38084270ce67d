//! Unique, and as fast as can be.

use std::sync::Arc;

use super::{batch, room};
use crate::source::Source;
use crate::{Clock, Id, IdError, Layout, SystemClock};

/// Makes IDs that are unique, by counting: faster than the clock for as long as there is time left over from when it was
/// idle. Their time bits say when they were made at the latest.
///
/// Clones, and all other factories of the same manager and width, take from one stream of stamps. So no two of them make
/// the same ID.
#[derive(Debug)]
pub struct Counter<I, C = SystemClock> {
    source: Arc<Source<I, C>>,
}

impl<I: Id, C: Clock> Counter<I, C> {
    pub(crate) fn new(source: Arc<Source<I, C>>) -> Self {
        Self { source }
    }

    /// The next ID, greater than all that this factory has made under this lease.
    ///
    /// # Errors
    ///
    /// [`IdError`]; the lease, the process and the reserved time are looked at on every call. Where stamps have run ahead of the
    /// clock it waits for it, holding nothing, though no longer than a bound: then [`ClockError::Behind`]. However often it is
    /// tried, a call that fails takes nothing: who comes next is not put off by it.
    ///
    /// [`ClockError::Behind`]: crate::ClockError::Behind
    #[inline]
    pub fn next(&self) -> Result<I, IdError> {
        self.source.take_counting(1).map(|taken| self.source.id(taken, 0))
    }

    /// The same without waiting for the clock, for callers that must not block: where [`next`](Self::next) would,
    /// [`ClockError::Behind`](crate::ClockError::Behind) says for how long.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next).
    #[inline]
    pub fn try_next(&self) -> Result<I, IdError> {
        self.source.try_counting(1, 1).map(|taken| self.source.id(taken, 0))
    }

    /// The next `count` IDs, in rising order. They are taken in parts of up to some thousand, as many as come due while the clock
    /// is waited for; each part is one call as far as the lease is concerned.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next). Then what was taken for earlier parts is lost.
    pub fn next_batch(&self, count: usize) -> Result<Vec<I>, IdError> {
        let mut ids = Vec::with_capacity(room(count));
        batch(&self.source, count, |part, _| self.source.take_counting(part), |id| ids.push(id))?;
        Ok(ids)
    }

    /// The same without waiting for the clock, as [`try_next`](Self::try_next): nothing is taken unless there is time for all.
    ///
    /// # Errors
    ///
    /// As for [`next_batch`](Self::next_batch).
    pub fn try_next_batch(&self, count: usize) -> Result<Vec<I>, IdError> {
        let mut ids = Vec::with_capacity(room(count));
        let take = |part, left| self.source.try_counting(part, left);
        batch(&self.source, count, take, |id| ids.push(id))?;
        Ok(ids)
    }

    /// How its IDs are laid out.
    #[must_use]
    pub fn layout(&self) -> &Layout<I> {
        self.source.layout()
    }
}

impl<I, C> Clone for Counter<I, C> {
    fn clone(&self) -> Self {
        Self { source: Arc::clone(&self.source) }
    }
}
