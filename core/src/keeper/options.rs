//! How a keeper goes about it.

use core::time::Duration;

use crate::Cadence;

/// How long to wait for a resource that another holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wait {
    /// Not at all. A store that does not answer is still asked again, until the first term asked for has passed.
    No,
    /// Until this instant on the keeper's clock. From it on nothing is accepted: a grant that comes then is given back.
    Until(Duration),
    /// For ever.
    Forever,
}

/// What a [`Keeper`](super::Keeper) is told at its start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeeperOptions {
    pub(super) cadence: Cadence,
    pub(super) first_term: Duration,
    pub(super) stop_lead: Duration,
    pub(super) wait: Wait,
    pub(super) max_hold: Option<Duration>,
    pub(super) retake: bool,
    pub(super) tick: Duration,
}

impl KeeperOptions {
    /// The longest first term that is asked for. Until a first answer has come, nobody knows of the lease that it may
    /// have been for; it dies after this long, instead of after a ttl of hours.
    pub const FIRST_TERM: Duration = Duration::from_secs(30);

    /// Waits for nobody, works as long as the lease lasts, stops at the deadline, and never takes a lost lease again.
    #[must_use]
    pub fn new(cadence: Cadence) -> Self {
        Self {
            cadence,
            first_term: cadence.ttl().min(Self::FIRST_TERM),
            stop_lead: Duration::ZERO,
            wait: Wait::No,
            max_hold: None,
            retake: false,
            tick: Duration::ZERO,
        }
    }

    /// How long to wait for a resource that another holds.
    #[must_use]
    pub const fn with_wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// The work is told to stop this long before the stop deadline, though never before the warning deadline: the time
    /// it is given to end. Renewals that failed are retried until then, not until the deadline.
    #[must_use]
    pub const fn with_stop_lead(mut self, stop_lead: Duration) -> Self {
        self.stop_lead = stop_lead;
        self
    }

    /// Work that goes on for longer than this, counted from the request that was granted, is told to stop.
    #[must_use]
    pub const fn with_max_hold(mut self, max_hold: Option<Duration>) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// After a loss, and once the work has finished, the resource is asked for again and the work started afresh.
    #[must_use]
    pub const fn with_retake(mut self, retake: bool) -> Self {
        self.retake = retake;
        self
    }

    /// For a runtime with many leases: renewals are put off to the next multiple of `tick` on the keeper's clock, so
    /// that those which fall due at about the same time are sent together. Where a sixteenth of the time until the
    /// warning (after it, until the work has to stop) is less than `tick`, half of it is taken, or a quarter, and so
    /// on: all these multiples meet. Zero, the default, puts nothing off.
    #[must_use]
    pub const fn with_tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }
}
