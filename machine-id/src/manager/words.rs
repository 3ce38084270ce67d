//! What the machine of a manager is told, and what it says.

use std::time::Duration;

use super::{Notice, StartError};
use crate::source::Term;
use crate::{AcquireError, Acquired, LeaseHandle, Reason, RenewError, Renewed, Window};

/// Something happened. Answers name the attempt that they answer.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// `skew`: by how much the own wall clock is from the store's, as far as that is known.
    Acquired {
        attempt: u64,
        grant: Acquired,
        sent: Duration,
        skew: Duration,
    },
    NotAcquired {
        attempt: u64,
        error: AcquireError,
    },
    Renewed {
        attempt: u64,
        renewed: Renewed,
        sent: Duration,
    },
    NotRenewed {
        attempt: u64,
        error: RenewError,
    },
    Released {
        attempt: u64,
    },
    /// Nobody was asked to take it back, or whoever was has failed.
    NotReleased {
        attempt: u64,
    },
    /// What may have been granted unheard is taken back, as well as it could be.
    Withdrawn,
    /// Somebody outside says that the machine ID is lost.
    Signalled,
    StopRequested,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Acquire { attempt: u64, limit: Duration },
    Renew { attempt: u64, lease: LeaseHandle, limit: Duration },
    Release { attempt: u64, lease: LeaseHandle, used: Used, limit: Duration },
    Withdraw { limit: Duration },
    TurnOn { machine_id: u16, term: Term },
    Extend { term: Term },
    TurnOff { reason: Reason },
    Tell(Notice),
    WaitUntil(Duration),
}

/// What was used of the time that a lease reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Used {
    /// What the factories said when they were turned off.
    AsTurnedOff,
    /// They were never turned on with it.
    Nothing(Option<Window>),
}

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    Stopped,
    Failed(StartError),
    /// And there is no point in asking again.
    Lost(Reason),
}
