//! Durations as people write them.

use std::fmt;
use std::time::Duration;

/// Reads a duration: a number and a unit, `500ms`, `1.5s`, `2m`, `24h`, `7d`, also several in a row, `1h30m`. A bare
/// number is seconds.
///
/// # Errors
///
/// [`DurationError`] for anything else, and for more than `u64::MAX` nanoseconds (some 584 years).
///
/// ```
/// use std::time::Duration;
/// use lease_machines_store::parse_duration;
///
/// assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
/// assert!(parse_duration("soon").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError { found: text.to_owned() };
    let mut rest = text;
    let mut total: u64 = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits).ok_or_else(error)?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(letters).ok_or_else(error)?;
        let scale: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            // A bare number, alone.
            "" if next.is_empty() && rest.len() == text.len() => 1_000_000_000,
            _ => return Err(error()),
        };
        let part = scaled(number, scale).ok_or_else(error)?;
        total = total.checked_add(part).ok_or_else(error)?;
        if next.is_empty() {
            return Ok(Duration::from_nanos(total));
        }
        rest = next;
    }
}

/// A decimal number times `scale`, exact but for what lies below a nanosecond; `None` if it is none or too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() {
        return None;
    }
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.chars() {
        let digit = u64::from(digit.to_digit(10)?);
        // Each digit's own remainder is below a tenth of a nanosecond's worth of the unit: units are round numbers.
        nanos = nanos.checked_add(digit.checked_mul(place)? / 10)?;
        place /= 10;
    }
    Some(nanos)
}

/// A text that is no duration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurationError {
    found: String,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "found {:?}, expected a duration: a number with ns, us, ms, s, m, h or d (a bare number is seconds)",
            self.found
        )
    }
}

impl std::error::Error for DurationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        let cases = [
            ("0", 0),
            ("30", 30_000_000_000),
            ("1ms", 1_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("0.001s", 1_000_000),
            ("2m", 120_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("7d", 604_800_000_000_000),
            ("1.25h", 4_500_000_000_000),
            ("3us", 3_000),
            ("9ns", 9),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn anything_else_says_what_was_found() {
        for text in [
            "",
            "s",
            "-1s",
            "1 s",
            "1S",
            "1.s",
            ".5s",
            "1..5s",
            "1h30",
            "1x",
            "1e3s",
            "∞",
            "99999999999999999999d",
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
