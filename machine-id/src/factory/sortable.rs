//! Unique, and in the order of their making.

use std::sync::Arc;

use super::{batch, room};
use crate::source::Source;
use crate::{Clock, Id, IdError, Layout, SystemClock};

/// Makes IDs whose time bits are the tick in which they were made, so that they sort by it, across machines as far as
/// their clocks agree. Faster than the layout has numbers in a tick, it waits for the next.
///
/// It makes none before the reserved time begins. That is up to one lease away after a machine ID was taken over from a life
/// that had not given it back (an exclusive identity, `Guarded`): who sorts by IDs takes short leases.
///
/// Clones, and all other factories of the same manager and width, take from one stream of stamps. So no two of them make
/// the same ID.
#[derive(Debug)]
pub struct Sortable<I, C = SystemClock> {
    source: Arc<Source<I, C>>,
}

impl<I: Id, C: Clock> Sortable<I, C> {
    pub(crate) fn new(source: Arc<Source<I, C>>) -> Self {
        Self { source }
    }

    /// The next ID, greater than all that this factory has made under this lease.
    ///
    /// # Errors
    ///
    /// [`IdError`]; the lease, the process and the reserved time are looked at on every call. A clock that has stepped back
    /// behind the last ID is waited for, holding nothing, though no longer than a bound: then [`ClockError::Behind`].
    ///
    /// [`ClockError::Behind`]: crate::ClockError::Behind
    #[inline]
    pub fn next(&self) -> Result<I, IdError> {
        self.source.take_sorted(1).map(|taken| self.source.id(taken, 0))
    }

    /// The same without waiting for the clock, for callers that must not block: where [`next`](Self::next) would,
    /// [`ClockError::Behind`](crate::ClockError::Behind) says for how long.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next).
    #[inline]
    pub fn try_next(&self) -> Result<I, IdError> {
        self.source.take_sorted_within(1, 0).map(|taken| self.source.id(taken, 0))
    }

    /// The next `count` IDs, in rising order. They are taken in parts, each of one tick; each part is one call as far as the
    /// lease is concerned.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next). Then what was taken for earlier parts is lost.
    pub fn next_batch(&self, count: usize) -> Result<Vec<I>, IdError> {
        let mut ids = Vec::with_capacity(room(count));
        batch(&self.source, count, |part, _| self.source.take_sorted(part), |id| ids.push(id))?;
        Ok(ids)
    }

    /// The same without waiting for the clock, as [`try_next`](Self::try_next).
    ///
    /// # Errors
    ///
    /// As for [`next_batch`](Self::next_batch).
    pub fn try_next_batch(&self, count: usize) -> Result<Vec<I>, IdError> {
        let mut ids = Vec::with_capacity(room(count));
        batch(&self.source, count, |part, _| self.source.take_sorted_within(part, 0), |id| ids.push(id))?;
        Ok(ids)
    }

    /// How its IDs are laid out.
    #[must_use]
    pub fn layout(&self) -> &Layout<I> {
        self.source.layout()
    }
}

impl<I, C> Clone for Sortable<I, C> {
    fn clone(&self) -> Self {
        Self { source: Arc::clone(&self.source) }
    }
}
