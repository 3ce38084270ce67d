//! What falls due when.

use std::collections::BTreeMap;
use std::time::Duration;

/// A place in the queue: an instant, and a number that tells two of the same instant apart.
pub(super) type Place = (Duration, u64);

/// Things by the instant at which they fall due. One queue, and one timer, serve all leases.
pub(super) struct Queue<T> {
    due: BTreeMap<Place, T>,
    numbers: u64,
}

impl<T> Queue<T> {
    pub(super) const fn new() -> Self {
        Self { due: BTreeMap::new(), numbers: 0 }
    }

    pub(super) fn push(&mut self, at: Duration, what: T) -> Place {
        self.numbers = self.numbers.wrapping_add(1);
        let place = (at, self.numbers);
        self.due.insert(place, what);
        place
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.due.remove(&place);
    }

    /// The first instant at which something falls due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Duration) -> Option<T> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
