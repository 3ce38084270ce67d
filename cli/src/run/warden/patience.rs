//! How long a run asks for the lease before it gives up.

use std::time::Duration;

use lease_machines::{Event, NotHeld, Rejection, Wait};

/// Whoever does not wait gives a store that answers "not done" this long: a collision is over by then.
const NOT_DONE: Duration = Duration::from_secs(1);
/// The least time for a first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// The ends of asking that the keeper does not know.
///
/// A wait is one for another holder. It does not cut short the first answer of a store: `--wait 1ms` gets a resource
/// that is free. The keeper's own wait is therefore long enough for an answer, and the shorter one ends here, once
/// another holder was met; from that instant on a grant is given back.
#[derive(Debug)]
pub(crate) struct Patience {
    wait: Wait,
    met_another: bool,
    not_done_since: Option<Duration>,
    over: Option<NotHeld>,
}

impl Patience {
    pub(crate) fn new(wait: Wait) -> Self {
        Self { wait, met_another: false, not_done_since: None, over: None }
    }

    /// The keeper's wait for this one: a quarter of the first term is what it gives to one attempt.
    pub(crate) fn of_keeper(wait: Wait, first_term: Duration, now: Duration) -> Wait {
        match wait {
            Wait::Until(until) => {
                Wait::Until(until.max(now.saturating_add((first_term / 4).max(FIRST_ANSWER))))
            }
            wait => wait,
        }
    }

    /// Takes in an answer to a request for the lease.
    pub(crate) fn heard(&mut self, event: Event, now: Duration) {
        match event {
            Event::Rejected { reason: Rejection::Occupied, .. } => {
                self.met_another = true;
                self.not_done_since = None;
            }
            Event::NotDone { .. } => {
                let since = *self.not_done_since.get_or_insert(now);
                if self.wait == Wait::No && now.saturating_sub(since) >= NOT_DONE {
                    self.over.get_or_insert(NotHeld::Unreachable);
                }
            }
            _ => {}
        }
    }

    /// It is another holder that only ends after us: there is nothing to wait for.
    pub(crate) fn end(&mut self) {
        self.over.get_or_insert(NotHeld::Occupied);
    }

    /// Why it is over, if it is at `now`.
    pub(crate) fn over(&mut self, now: Duration) -> Option<NotHeld> {
        if now >= self.until() {
            self.over.get_or_insert(NotHeld::Occupied);
        }
        self.over
    }

    /// When to look again.
    pub(crate) fn until(&self) -> Duration {
        match self.wait {
            Wait::Until(until) if self.met_another && self.over.is_none() => until,
            _ => Duration::MAX,
        }
    }
}
