//! What is refused before anything is sent.

use std::time::Duration;

use crate::pool::{MAX_SIZE, pool_name};
use crate::{Claim, Ending, ErrorKind, PoolClaim, StoreError};

/// The longest label, identity, once-key or reason, in bytes.
const MAX_TEXT: usize = 1_024;

/// The ttl as the store grants it: whole milliseconds, rounded up. Zero is for the core to refuse.
pub(crate) fn ttl(ttl: Duration, max_ttl: Duration) -> Result<Duration, StoreError> {
    if ttl > max_ttl {
        return Err(StoreError::new(
            ErrorKind::Request,
            format!(
                "a ttl of {} was asked for; this store grants at most {} (its max_ttl)",
                exact(ttl),
                exact(max_ttl)
            ),
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

/// A claim of a slot that can be granted.
pub(crate) fn pool_claim(mut claim: PoolClaim, max_ttl: Duration) -> Result<PoolClaim, StoreError> {
    const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
    pool_name(&claim.pool)?;
    size(claim.size)?;
    claim.ttl = ttl(claim.ttl, max_ttl)?;
    if claim.attempt == 0 {
        return Err(StoreError::new(ErrorKind::Request, "attempts are counted from 1, found 0"));
    }
    if claim.cool_down > LONGEST {
        let message = format!("a cool-down lasts at most 365d, found {}", exact(claim.cool_down));
        return Err(StoreError::new(ErrorKind::Request, message));
    }
    claim.cool_down = whole_micros(claim.cool_down);
    if claim.exclusive_identity && claim.identity.is_none() {
        let message = "a claim says that its identity is exclusive, and names none";
        return Err(StoreError::new(ErrorKind::Request, message));
    }
    text("label", claim.label.as_deref())?;
    text("identity", claim.identity.as_deref())?;
    Ok(claim)
}

/// A number of slots that a pool can have.
pub(crate) fn size(size: u32) -> Result<(), StoreError> {
    if (1..=MAX_SIZE).contains(&size) {
        return Ok(());
    }
    Err(StoreError::new(ErrorKind::Request, format!("a pool has 1 to {MAX_SIZE} slots, found {size}")))
}

/// The last stamp that a holder has used, as stores keep it.
pub(crate) fn last_used(stamp: Option<Duration>) -> Result<Option<Duration>, StoreError> {
    match stamp {
        Some(stamp) if stamp.as_micros() >= i64::MAX.unsigned_abs().into() => Err(StoreError::new(
            ErrorKind::Request,
            format!("a last stamp of {} is beyond 2^63 microseconds since Unix's origin", exact(stamp)),
        )),
        stamp => Ok(stamp.map(whole_micros)),
    }
}

/// What engines can keep of a time, never less than it.
fn whole_micros(time: Duration) -> Duration {
    let micros = time.subsec_nanos().div_ceil(1_000);
    Duration::from_secs(time.as_secs()).saturating_add(Duration::from_micros(micros.into()))
}

/// An ending that can be recorded.
pub(crate) fn ending(ending: &Ending, max_ttl: Duration) -> Result<(), StoreError> {
    if ending.at_least > max_ttl {
        return Err(StoreError::new(
            ErrorKind::Request,
            format!(
                "an at_least of {} was asked for; a store holds back for at most its max_ttl, {}",
                exact(ending.at_least),
                exact(max_ttl)
            ),
        ));
    }
    text("once-key", ending.once.as_deref())
}

/// A length of time without rounding: `24h`, and not `86400s`.
pub(crate) fn exact(time: Duration) -> String {
    let (hours, minutes) = (time.as_secs() / 3_600, time.as_secs() / 60 % 60);
    let rest = Duration::new(time.as_secs() % 60, time.subsec_nanos());
    let mut text = String::new();
    for (number, unit) in [(hours, 'h'), (minutes, 'm')] {
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    if text.is_empty() || !rest.is_zero() {
        text.push_str(&format!("{rest:?}"));
    }
    text
}

/// How much longer something lasts, in whole seconds: not shown as less than it is.
pub(crate) fn left(time: Duration) -> String {
    exact(Duration::from_secs(time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))))
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
    fn a_length_of_time_is_shown_as_it_is() {
        for (ms, shown) in [
            (0, "0ns"),
            (250, "250ms"),
            (1_500, "1.5s"),
            (90_000, "1m30s"),
            (120_000, "2m"),
            (86_400_000, "24h"),
            (90_000_000, "25h"),
            (86_400_001, "24h1ms"),
            (86_399_000, "23h59m59s"),
        ] {
            assert_eq!(exact(Duration::from_millis(ms)), shown);
        }
    }

    #[test]
    fn texts_are_bounded() {
        assert!(text("label", Some(&"x".repeat(MAX_TEXT))).is_ok());
        assert!(text("label", Some(&"x".repeat(MAX_TEXT + 1))).is_err());
        assert!(text("label", Some("a\0b")).is_err());
    }
}
