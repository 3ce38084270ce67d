//! What is refused before anything is sent.

use std::time::Duration;

use crate::{Claim, Ending, ErrorKind, StoreError};

/// The longest label, identity, once-key or reason, in bytes.
const MAX_TEXT: usize = 1_024;

/// The ttl as the store grants it: whole milliseconds, rounded up. Zero is for the core to refuse.
pub(crate) fn ttl(ttl: Duration, max_ttl: Duration) -> Result<Duration, StoreError> {
    if ttl > max_ttl {
        return Err(StoreError::new(
            ErrorKind::Request,
            format!("a ttl of {ttl:?} was asked for; this store grants at most {max_ttl:?} (its max_ttl)"),
        ));
    }
    let millis = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Ok(Duration::from_millis(millis))
}

/// A claim that can be granted.
pub(crate) fn claim(mut claim: Claim, max_ttl: Duration) -> Result<Claim, StoreError> {
    claim.ttl = ttl(claim.ttl, max_ttl)?;
    if claim.attempt == 0 {
        return Err(StoreError::new(ErrorKind::Request, "attempts are counted from 1, found 0"));
    }
    text("label", claim.label.as_deref())?;
    text("identity", claim.identity.as_deref())?;
    text("once-key", claim.once.as_deref())?;
    Ok(claim)
}

/// An ending that can be recorded.
pub(crate) fn ending(ending: &Ending, max_ttl: Duration) -> Result<(), StoreError> {
    if ending.at_least > max_ttl {
        return Err(StoreError::new(
            ErrorKind::Request,
            format!(
                "an at_least of {:?} was asked for; a store holds back for at most its max_ttl, {max_ttl:?}",
                ending.at_least
            ),
        ));
    }
    text("once-key", ending.once.as_deref())
}

/// A text that goes into a row.
pub(crate) fn text(what: &str, text: Option<&str>) -> Result<(), StoreError> {
    match text {
        Some(text) if text.len() > MAX_TEXT || text.contains('\0') => Err(StoreError::new(
            ErrorKind::Request,
            format!("a {what} has at most {MAX_TEXT} bytes and no NUL, found {} bytes", text.len()),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_whole_milliseconds_and_never_less_than_asked() {
        let max = Duration::from_secs(10);
        let cases = [(0, 0), (1, 1_000_000), (1_000_000, 1_000_000), (1_500_001, 2_000_000)];
        for (asked, granted) in cases {
            assert_eq!(ttl(Duration::from_nanos(asked), max).unwrap(), Duration::from_nanos(granted));
        }
        assert_eq!(ttl(max, max).unwrap(), max);
        let error = ttl(max + Duration::from_nanos(1), max).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request);
        assert!(error.to_string().contains("max_ttl"), "{error}");
    }

    #[test]
    fn texts_are_bounded() {
        assert!(text("label", Some(&"x".repeat(MAX_TEXT))).is_ok());
        assert!(text("label", Some(&"x".repeat(MAX_TEXT + 1))).is_err());
        assert!(text("label", Some("a\0b")).is_err());
    }
}
