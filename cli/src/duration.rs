//! Durations as people write them: `60s`, `1.5`, `500ms`, `1h30m`.

use std::time::Duration;

/// Reads a duration. A bare number is seconds, everywhere.
///
/// # Errors
///
/// A sentence that says what was found and what is expected.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    whole(text).ok_or_else(|| {
        format!("expected a duration such as 60s, 500ms, 1.5 (seconds), 2m, 1h30m or 7d, found {text:?}")
    })
}

/// Writes a duration as [`parse`] reads it, short enough for a sentence.
pub(crate) fn show(duration: Duration) -> String {
    let (secs, millis) = (duration.as_secs(), duration.subsec_millis());
    match (secs, millis) {
        (0, _) => format!("{}ms", duration.as_millis()),
        (..60, 1..) => format!("{:.1}s", duration.as_secs_f64()),
        (..60, 0) => format!("{secs}s"),
        (..3600, _) => join(secs, 60, 'm', 's'),
        (..86_400, _) => join(secs / 60, 60, 'h', 'm'),
        _ => join(secs / 3600, 24, 'd', 'h'),
    }
}

fn join(small: u64, per: u64, great_unit: char, small_unit: char) -> String {
    match (small / per, small % per) {
        (great, 0) => format!("{great}{great_unit}"),
        (great, small) => format!("{great}{great_unit}{small}{small_unit}"),
    }
}

fn whole(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        // A part without a unit would have to be guessed, unless it is all there is.
        if unit.is_empty() && number.len() != text.trim().len() {
            return None;
        }
        sum = sum.checked_add(part(number, unit)?)?;
        rest = tail;
    }
    Some(sum)
}

/// Exact for whole numbers, and to the nanosecond for the rest.
fn part(number: &str, unit: &str) -> Option<Duration> {
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" | "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3_600),
        "d" => Duration::from_secs(86_400),
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') || fraction.len() > 9 {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?).checked_mul(unit.as_nanos())?;
    let fraction: u128 = match fraction {
        "" => 0,
        digits => {
            u128::from(digits.parse::<u64>().ok()?) * unit.as_nanos() / 10_u128.pow(digits.len() as u32)
        }
    };
    u64::try_from(whole.checked_add(fraction)?).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("60s", 60_000),
            ("60", 60_000),
            ("1.5", 1_500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("7d", 604_800_000),
            ("0", 0),
            (" 3s ", 3_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("0.000000001"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn refuses_what_would_have_to_be_guessed() {
        for text in ["", " ", "s", "-1", "1 s", "1.", ".5", "1..5", "1h30", "30 1h", "1y", "1e3", "∞"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        assert!(parse("99999999999999999999").is_err());
        assert!(parse("18446744073709551615d").is_err());
    }

    #[test]
    fn shows_them_short() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (2_950, "3.0s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (5_430_000, "1h30m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
