//! Why there is no ID.

use std::fmt;
use std::time::Duration;

/// Why a factory made no ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum IdError {
    /// It has not been started: no machine ID was held so far.
    NotStarted,
    /// It was turned off, or is off by itself since what it holds is over.
    Disabled(Reason),
    /// The time bits of the layout are used up.
    EpochExhausted,
    /// The clock gives no usable time.
    Clock(ClockError),
}

/// Why a factory is off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum Reason {
    /// The time for which the machine ID was held is over, by the clock that counts sleep.
    Expired = 1,
    /// This process was forked from the one that holds the machine ID.
    Forked,
    /// Another holds the machine ID, or the lease on it was rejected.
    Lost,
    /// A lease was granted for less than 30 s.
    IllegalTtl,
    /// Somebody outside said so.
    Signalled,
    /// The manager was stopped.
    Stopped,
    /// The machine ID has no room in this factory's layout.
    MachineIdTooLarge,
}

impl Reason {
    const ALL: [Self; 7] = [
        Self::Expired,
        Self::Forked,
        Self::Lost,
        Self::IllegalTtl,
        Self::Signalled,
        Self::Stopped,
        Self::MachineIdTooLarge,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == code)
    }
}

/// What is wrong with the clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ClockError {
    /// It is behind the next stamp by more than is waited for: it stepped back, or the reserved time begins ahead of it.
    Behind(Duration),
    /// It says that the layout's time has not begun.
    BeforeEpoch,
    /// The ID time that was reserved is used up: the clock is ahead of the store's, or more was used than goes by.
    WindowUsedUp,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str("no machine ID was held so far"),
            Self::Disabled(reason) => write!(f, "disabled: {reason}"),
            Self::EpochExhausted => f.write_str("the time bits of the layout are used up"),
            Self::Clock(error) => write!(f, "clock: {error}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the time for which the machine ID was held is over",
            Self::Forked => "this process was forked from the one that holds the machine ID",
            Self::Lost => "the machine ID is another's, or its lease was rejected",
            Self::IllegalTtl => "the lease was granted for less than 30 s",
            Self::Signalled => "it was reported as lost",
            Self::Stopped => "the manager was stopped",
            Self::MachineIdTooLarge => "the machine ID has no room in the layout",
        })
    }
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind(by) => write!(f, "it is {by:?} behind the next stamp that may be used"),
            Self::BeforeEpoch => f.write_str("it says that the layout's time has not begun"),
            Self::WindowUsedUp => f.write_str("the reserved ID time is used up"),
        }
    }
}

impl std::error::Error for IdError {}
