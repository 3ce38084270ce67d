//! What every engine is told in the same way.

use std::time::Duration;

use crate::StoreError;
use crate::check::exact;
use crate::duration::LONGEST;
use crate::url::{holds, span, wrong};

/// The limits of a store. An engine's options have them, and its own beside them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Every request ends after this long. At most what a URL can say: the end of a longer one is no instant.
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
        if self.timeout < milli || self.timeout > LONGEST {
            return Err(wrong(format!("timeout is {}, expected 1ms to 36500d", exact(self.timeout))));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_timeout_is_long_enough_to_be_answered_and_ends() {
        let with = |timeout| Limits { timeout, ..Limits::DEFAULT }.check();
        for good in [Duration::from_millis(1), LONGEST] {
            assert!(with(good).is_ok(), "{good:?}");
        }
        let nano = Duration::from_nanos(1);
        for wrong in [Duration::ZERO, Duration::from_millis(1) - nano, LONGEST + nano, Duration::MAX] {
            let error = with(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{wrong:?}");
            assert!(error.to_string().contains("expected 1ms to 36500d"), "{error}");
        }
    }
}
