//! Durations as people write them.

use std::fmt;
use std::time::Duration;

/// How the accepted form is described in errors.
const FORM: &str = "a number of seconds, or numbers with units (d h m s ms) such as 1m30s, 500ms, 2h";

/// The longest length that is accepted: a hundred years. What is longer is a slip, and would overflow deadlines.
const LONGEST_MS: u64 = 36_500 * 86_400_000;

/// The same.
#[cfg(any(feature = "sqlite", feature = "_server"))]
pub(crate) const LONGEST: Duration = Duration::from_millis(LONGEST_MS);

/// The units from the longest to the shortest, with their milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a length of time: numbers with the units `d`, `h`, `m`, `s` and `ms`, from the longest to the shortest, as
/// `500ms`, `1.5s` or `1h30m`. A bare number is seconds.
///
/// What is finer than a millisecond is an error and is not rounded: a ttl that became 0 by rounding would be another
/// ttl. The longest is 36,500 d.
///
/// # Errors
///
/// [`DurationError`] says what was found, and where.
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
    let fail = |why: Why| DurationError { found: text.to_owned(), why };
    if text.is_empty() {
        return Err(fail(Why::Empty));
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut units = UNITS.as_slice();
    while !rest.is_empty() {
        let number = take(&mut rest, |c| c.is_ascii_digit() || c == '.');
        let unit = take(&mut rest, |c| !c.is_ascii_digit() && c != '.');
        if number.is_empty() {
            return Err(fail(Why::NoNumber));
        }
        let factor = if unit.is_empty() {
            // Only a number that stands alone is seconds: in `1m30` the 30 may have been meant as anything.
            if number.len() != text.len() {
                return Err(fail(Why::NoUnit(number.to_owned())));
            }
            1_000
        } else {
            let Some(at) = units.iter().position(|(name, _)| *name == unit) else {
                let known = UNITS.iter().any(|(name, _)| *name == unit);
                let unit = unit.to_owned();
                return Err(fail(if known { Why::Order(unit) } else { Why::Unit(unit) }));
            };
            let (found, after) = units.split_at(at + 1);
            units = after;
            found.last().map_or(1, |(_, factor)| *factor)
        };
        let part = milliseconds(number, factor).map_err(fail)?;
        total = total.checked_add(part).filter(|ms| *ms <= LONGEST_MS).ok_or_else(|| fail(Why::TooLong))?;
    }
    Ok(Duration::from_millis(total))
}

/// A text that is no length of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurationError {
    found: String,
    why: Why,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Why {
    Empty,
    NoNumber,
    NoUnit(String),
    Unit(String),
    Order(String),
    Number(String),
    TooFine,
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Empty => f.write_str("found nothing")?,
            Why::NoNumber => write!(f, "found {:?}, with no number where one should be", self.found)?,
            Why::NoUnit(number) => write!(f, "{number} in {:?} has no unit", self.found)?,
            // A part of what is no length of time at all could be a part of a password.
            Why::Unit(unit) if unit.chars().all(char::is_alphabetic) => write!(f, "{unit:?} is no unit")?,
            Why::Unit(_) => write!(f, "found {:?}, with something else where a unit should be", self.found)?,
            Why::Order(unit) => {
                write!(f, "{unit:?} in {:?} comes twice, or after a shorter unit", self.found)?;
            }
            Why::Number(number) => write!(f, "{number:?} is no number")?,
            Why::TooFine => write!(f, "{:?} is finer than a millisecond", self.found)?,
            Why::TooLong => write!(f, "{:?} is longer than 36500d", self.found)?,
        }
        write!(f, "; expected {FORM}")
    }
}

impl std::error::Error for DurationError {}

/// Takes from the front of `rest` what matches.
fn take<'a>(rest: &mut &'a str, matches: impl Fn(char) -> bool) -> &'a str {
    let (front, back) = rest.split_at(rest.find(|c| !matches(c)).unwrap_or(rest.len()));
    *rest = back;
    front
}

/// A decimal number of units, exactly.
fn milliseconds(number: &str, factor: u64) -> Result<u64, Why> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(Why::Number(number.to_owned()));
    }
    let whole: u64 = whole.parse().map_err(|_| Why::TooLong)?;
    let fraction = fraction.trim_end_matches('0');
    let scale = u32::try_from(fraction.len()).ok().and_then(|digits| 10_u64.checked_pow(digits));
    let (Some(scale), Ok(digits)) = (scale, format!("0{fraction}").parse::<u64>()) else {
        return Err(Why::TooFine);
    };
    let part = u128::from(digits) * u128::from(factor);
    let scale = u128::from(scale);
    if part % scale != 0 {
        return Err(Why::TooFine);
    }
    let part = u64::try_from(part / scale).map_err(|_| Why::TooLong)?;
    whole.checked_mul(factor).and_then(|ms| ms.checked_add(part)).ok_or(Why::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_seconds() {
        assert_eq!(parse_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("0.001"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn units_add_up() {
        for (text, ms) in [
            ("500ms", 500),
            ("1ms", 1),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1h0.5m", 3_630_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0.25h", 900_000),
            ("36500d", LONGEST_MS),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, message) in [
            ("", "found nothing"),
            ("abc", "found \"abc\", with no number where one should be"),
            ("-5", "found \"-5\", with no number where one should be"),
            (" 5", "found \" 5\", with no number where one should be"),
            ("5 s", "found \"5 s\", with something else where a unit should be"),
            ("5S", "\"S\" is no unit"),
            ("5M", "\"M\" is no unit"),
            ("5us", "\"us\" is no unit"),
            ("1e3", "\"e\" is no unit"),
            ("1m30", "30 in \"1m30\" has no unit"),
            ("30s1m", "\"m\" in \"30s1m\" comes twice, or after a shorter unit"),
            ("1s1s", "\"s\" in \"1s1s\" comes twice, or after a shorter unit"),
            (".5s", "\".5\" is no number"),
            ("5.s", "\"5.\" is no number"),
            ("1.2.3s", "\"1.2.3\" is no number"),
            ("0.5ms", "\"0.5ms\" is finer than a millisecond"),
            ("0.0001", "\"0.0001\" is finer than a millisecond"),
            ("36500d1ms", "\"36500d1ms\" is longer than 36500d"),
            ("99999999999999999999999", "\"99999999999999999999999\" is longer than 36500d"),
            ("18446744073709551615d", "\"18446744073709551615d\" is longer than 36500d"),
        ] {
            let error = parse_duration(text).expect_err(text).to_string();
            assert_eq!(error, format!("{message}; expected {FORM}"), "{text}");
        }
        let endless = format!("0.{}s", "1".repeat(100));
        assert!(
            parse_duration(&endless)
                .expect_err("too many digits")
                .to_string()
                .contains("finer than a millisecond")
        );
    }

    #[test]
    fn trailing_zeroes_of_a_fraction_change_nothing() {
        assert_eq!(parse_duration("1.500000s"), parse_duration("1.5s"));
    }
}
