//! What every engine is told in the same way.

use std::time::Duration;

use crate::StoreError;
use crate::check::exact;
use crate::url::{holds, span, wrong};

/// The limits of a store. An engine's options have them, and its own beside them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Every request ends after this long.
    pub(crate) timeout: Duration,
    /// A longer ttl is refused.
    pub(crate) max_ttl: Duration,
    /// How many holds of a resource are remembered.
    pub(crate) history: Option<u32>,
}

impl Limits {
    /// The longest `max_ttl`: 365 days.
    pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

    /// How many holds of a resource are remembered unless told otherwise.
    pub(crate) const HISTORY: u32 = 100;

    /// Their names in a URL.
    pub(crate) const OPTIONS: [&str; 3] = ["timeout", "max_ttl", "history"];

    pub(crate) const DEFAULT: Self = Self {
        timeout: Duration::from_secs(5),
        max_ttl: Duration::from_secs(24 * 3600),
        history: Some(Self::HISTORY),
    };

    /// Takes an option of a URL, where it is one of these.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for a value that is none.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<bool, StoreError> {
        match name {
            "timeout" => self.timeout = span(name, value)?,
            "max_ttl" => self.max_ttl = span(name, value)?,
            "history" => self.history = holds(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) where one is out of range.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let milli = Duration::from_millis(1);
        if self.timeout < milli {
            return Err(wrong(format!("timeout is {:?}, expected at least 1ms", self.timeout)));
        }
        if self.max_ttl < milli || self.max_ttl > Self::LONGEST_TTL {
            return Err(wrong(format!("max_ttl is {}, expected 1ms to 365d", exact(self.max_ttl))));
        }
        if self.history == Some(0) {
            return Err(wrong("history keeps 0 holds, expected at least 1, or `off`".to_owned()));
        }
        Ok(())
    }
}
