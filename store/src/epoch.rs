//! Which life of a store an answer comes from.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::StoreError;
use crate::owner::random;

/// The random identity of a store's history.
///
/// It is created with the data, and again whenever history may have been lost: a wiped or restored server must not
/// pass for the one that granted a lease. A request that carries another epoch than the store's changes nothing, and
/// every holder that hears of a new epoch treats its lease as lost.
///
/// Written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(NonZeroU64);

impl Epoch {
    /// `None` for zero, which no store ever draws.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0.get()
    }

    /// A new one, drawn at random.
    pub(crate) fn draw() -> Result<Self, StoreError> {
        loop {
            if let Some(epoch) = Self::new(random()?) {
                return Ok(epoch);
            }
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({self})")
    }
}

impl FromStr for Epoch {
    type Err = EpochError;

    fn from_str(text: &str) -> Result<Self, EpochError> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = if digits { u64::from_str_radix(text, 16).ok() } else { None };
        value.and_then(Self::new).ok_or_else(|| EpochError { found: text.to_owned() })
    }
}

/// A text that is no [`Epoch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpochError {
    found: String,
}

impl fmt::Display for EpochError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an epoch has 16 hexadecimal digits, not all of them 0; found {:?}", self.found)
    }
}

impl std::error::Error for EpochError {}
