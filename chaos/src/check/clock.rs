//! What the store's clock may have shown, where it is stepped.

/// An instant of the store's clock, in nanoseconds of this machine's where it is not stepped.
pub(super) type Instant = i64;

pub(super) const NEVER: Instant = i64::MAX / 4;

/// How far ahead the store's clock was, and when.
#[derive(Default)]
pub(super) struct Clock {
    /// From some instant between the first two on, until some between those of the next one.
    steps: Vec<(u64, u64, i64)>,
}

impl Clock {
    pub(super) fn new(mut steps: Vec<(u64, u64, i64)>) -> Self {
        steps.sort_unstable();
        for step in &mut steps {
            step.2 *= 1_000_000_000;
        }
        Self { steps }
    }

    /// The earliest and the latest instant that a decision within a call can have counted as.
    ///
    /// A clock that was put back stands still for a resource until it has caught up with what was seen there before:
    /// `first` is when anything was asked about it.
    pub(super) fn span(&self, first: u64, began: u64, ended: u64) -> (Instant, Instant) {
        let (mut earliest, mut latest) = (NEVER, -NEVER);
        let base = [(0, 0, 0)];
        let steps: Vec<_> = base.iter().chain(&self.steps).collect();
        for (index, (from, _, ahead)) in steps.iter().enumerate() {
            let until = steps.get(index + 1).map_or(u64::MAX, |next| next.1);
            if *from <= ended && began <= until {
                earliest = earliest.min(signed(began.max(*from)) + ahead);
            }
            if *from <= ended && first <= until {
                latest = latest.max(signed(ended.min(until)) + ahead);
            }
        }
        (earliest, latest)
    }

    /// Whether nothing was stepped between these.
    pub(super) fn is_steady(&self, from: u64, until: u64) -> bool {
        self.steps.iter().all(|(begun, ended, _)| *ended < from || until < *begun)
    }
}

pub(super) fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(NEVER).min(NEVER)
}
