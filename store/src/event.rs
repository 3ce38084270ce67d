//! What an answer means to the core's [`Keeper`](lease_machines::Keeper): one reading, for every runtime.

use std::time::Duration;

use lease_machines::Event;

use crate::{Acquired, ErrorKind, Rejected, Released, Renewed, StoreError, Undecided};

impl Acquired {
    /// What a keeper is told of the answer to its acquire or reacquire number `attempt`, which left at `sent`.
    ///
    /// The claim must not have named an epoch: what is granted next may be of any, so that an error which speaks of a
    /// new one is about an earlier request, and only means *not done*.
    #[must_use]
    pub fn event(answer: &Result<Self, StoreError>, attempt: u64, sent: Duration) -> Event {
        match answer {
            Ok(Self::Granted(grant)) => Event::Granted { attempt, token: grant.token, ttl: grant.ttl, sent },
            Ok(Self::AlreadyDone(_)) => Event::AlreadyDone { attempt },
            Ok(Self::Rejected(rejected)) => rejected.event(attempt),
            Err(error) if matches!(error.kind(), ErrorKind::NewEpoch { .. }) => Event::NotDone { attempt },
            Err(error) => error.event(attempt),
        }
    }
}

impl Renewed {
    /// What a keeper is told of the answer to its renewal number `attempt`, which left at `sent`.
    #[must_use]
    pub fn event(answer: &Result<Self, StoreError>, attempt: u64, sent: Duration) -> Event {
        match answer {
            Ok(Self::Renewed(grant)) => Event::Renewed { attempt, token: grant.token, ttl: grant.ttl, sent },
            Ok(Self::Rejected(rejected)) => rejected.event(attempt),
            Err(error) => error.event(attempt),
        }
    }
}

impl Released {
    /// What a keeper is told of the answer to its release or withdrawal number `attempt`.
    #[must_use]
    pub fn event(answer: &Result<Self, StoreError>, attempt: u64) -> Event {
        match answer {
            Ok(Self::Released | Self::Retained(_)) => Event::Released { attempt },
            Ok(Self::AlreadyReleased) => Event::AlreadyReleased { attempt },
            Ok(Self::Rejected(rejected)) => rejected.event(attempt),
            Err(error) => error.event(attempt),
        }
    }
}

impl Rejected {
    fn event(&self, attempt: u64) -> Event {
        // A store that does not say how long is asked again when the keeper would have anyway.
        let remaining = self.occupant.as_ref().map_or(Duration::MAX, |occupant| occupant.remaining);
        Event::Rejected { attempt, reason: self.reason, remaining }
    }
}

impl StoreError {
    fn event(&self, attempt: u64) -> Event {
        match (self.kind(), self.undecided()) {
            (ErrorKind::NewEpoch { .. }, _) => Event::NewEpoch,
            (_, Undecided::NotDone) => Event::NotDone { attempt },
            (_, Undecided::Unknown) => Event::NoAnswer { attempt },
            (_, Undecided::Refused) => Event::Refused { attempt },
        }
    }
}

#[cfg(test)]
mod tests {
    use lease_machines::Rejection;

    use super::*;
    use crate::Epoch;

    fn new_epoch() -> StoreError {
        let epoch = |number| Epoch::new(number).unwrap();
        StoreError::new_epoch(epoch(1), epoch(2))
    }

    #[test]
    fn a_new_epoch_ends_a_lease_and_not_the_asking() {
        assert_eq!(Acquired::event(&Err(new_epoch()), 1, Duration::ZERO), Event::NotDone { attempt: 1 });
        assert_eq!(Renewed::event(&Err(new_epoch()), 2, Duration::ZERO), Event::NewEpoch);
        assert_eq!(Released::event(&Err(new_epoch()), 3), Event::NewEpoch);
    }

    #[test]
    fn whoever_is_not_told_how_long_does_not_ask_at_once() {
        let rejected = Acquired::Rejected(Rejected::new(Rejection::Occupied));
        let event = Acquired::event(&Ok(rejected), 1, Duration::ZERO);
        let remaining = Duration::MAX;
        assert_eq!(event, Event::Rejected { attempt: 1, reason: Rejection::Occupied, remaining });
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_a_no() {
        let unreachable = || StoreError::new(ErrorKind::Unreachable, "lost");
        assert_eq!(Released::event(&Err(unreachable()), 1), Event::NoAnswer { attempt: 1 });
        assert_eq!(Released::event(&Err(unreachable().nothing_changed()), 1), Event::NotDone { attempt: 1 });
        let refused = StoreError::new(ErrorKind::Permission, "no");
        assert_eq!(Released::event(&Err(refused), 1), Event::Refused { attempt: 1 });
    }
}
