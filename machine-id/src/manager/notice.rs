//! What a manager says of itself.

use std::fmt;
use std::time::Duration;

use crate::{AcquireError, Left, OptionsError, Reason};

/// Something that happened to a manager's machine ID.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// It has one; the factories are on.
    Acquired {
        /// Which.
        machine_id: u16,
        /// For how long it was granted.
        ttl: Duration,
    },
    /// It got none, and tries again unless it is starting and no try would do better.
    NotAcquired {
        /// Why.
        why: StartError,
    },
    /// Another identity has the machine ID that this one was to have: two are set up for one number. The start fails.
    Conflict {
        /// Which, and whose it is.
        why: String,
    },
    /// The lease goes on.
    Renewed {
        /// Which.
        machine_id: u16,
        /// For how long it was granted.
        ttl: Duration,
    },
    /// Nobody knows whether it goes on; the factories stay on, and it is tried again.
    NotRenewed {
        /// Which.
        machine_id: u16,
        /// Why.
        why: String,
    },
    /// It is lost; the factories are off.
    Lost {
        /// Which.
        machine_id: u16,
        /// The reason that the factories give.
        reason: Reason,
        /// More of it, for people.
        why: String,
    },
    /// It was given back, after a stop, or after a loss where no other holds it yet. As well as the strategy could: what a store
    /// does not hear of ends by itself.
    Released {
        /// Which.
        machine_id: u16,
    },
    /// After the machine ID was granted, less than a tenth of all were left for others.
    RunsShort {
        /// How many.
        left: Left,
    },
    /// The time bits of the layout for IDs of so many bits run out.
    TimeRunsOut {
        /// The width of the IDs.
        bits: u32,
        /// The time that is left.
        left: Duration,
    },
}

#[cfg(feature = "tracing")]
impl Notice {
    /// Tells whoever collects events.
    pub(super) fn trace(&self) {
        macro_rules! tell {
            ($level:ident, $($rest:tt)*) => { tracing::$level!(target: "lease_id", $($rest)*) };
        }
        match self {
            Self::Acquired { machine_id, ttl } => tell!(info, machine_id, ?ttl, "acquired"),
            Self::NotAcquired { why } => tell!(warn, error = %why, "not acquired"),
            Self::Renewed { machine_id, ttl } => tell!(debug, machine_id, ?ttl, "renewed"),
            Self::NotRenewed { machine_id, why } => tell!(warn, machine_id, error = why, "not renewed"),
            Self::Lost { machine_id, reason, why } => {
                tell!(error, machine_id, ?reason, error = why, "lost");
            }
            Self::Conflict { why } => tell!(error, error = why, "conflict"),
            Self::Released { machine_id } => tell!(info, machine_id, "released"),
            Self::RunsShort { left } => tell!(warn, free = left.free, of = left.of, "the pool runs short"),
            Self::TimeRunsOut { bits, left } => tell!(warn, bits, ?left, "the layout's time runs out"),
        }
    }
}

/// Why a manager did not start.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Its options make no sense.
    Options(OptionsError),
    /// The strategy gave it no machine ID.
    Acquire(AcquireError),
    /// A lease was granted for less than 30 s.
    IllegalTtl(Duration),
    /// This machine's wall clock is too far from the store's.
    ClockSkew {
        /// How far at least.
        found: Duration,
        /// How far it may be.
        most: Duration,
    },
    /// The system gave it no thread.
    NoThread(String),
    /// It was stopped before it held anything.
    Stopped,
}

impl StartError {
    /// Whether another try may do better without anybody doing something about it.
    pub(super) const fn is_passing(&self) -> bool {
        match self {
            Self::Acquire(error) => error.is_passing(),
            Self::IllegalTtl(_) => true,
            _ => false,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::Acquire(error) => error.fmt(f),
            Self::IllegalTtl(found) => write!(f, "a lease was granted for {found:?}, expected at least 30 s"),
            Self::ClockSkew { found, most } => {
                write!(f, "this machine's clock is {found:?} from the store's, expected at most {most:?}")
            }
            Self::NoThread(why) => write!(f, "the system gave it no thread: {why}"),
            Self::Stopped => f.write_str("it was stopped before it held anything"),
        }
    }
}

impl std::error::Error for StartError {}
