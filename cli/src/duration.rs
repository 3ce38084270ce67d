//! Lengths of time, as people type and read them.

use std::time::Duration;

use lease_machines_store::parse_duration;

/// Reads a length of time where no time at all makes no sense.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("found no time at all; expected more than 0".to_owned());
    }
    Ok(duration)
}

/// Shows a length of time to people: `2d3h`, `1h5m`, `1m30s`, `27.3s`, `500ms`. What is not shown is cut off, so that
/// time left is never shown as more than it is.
pub(crate) fn show(duration: Duration) -> String {
    let ms = duration.as_millis();
    let seconds = ms / 1_000;
    let two = |big: u128, big_unit: &str, small: u128, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => match ms % 1_000 / 100 {
            0 => format!("{seconds}s"),
            tenth => format!("{seconds}.{tenth}s"),
        },
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_refused_where_it_makes_no_sense() {
        assert_eq!(parse_positive("0ms").expect_err("zero"), "found no time at all; expected more than 0");
        assert_eq!(parse_positive("1ms"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn what_is_shown_is_short_and_never_too_much() {
        for (ms, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (27_399, "27.3s"),
            (59_999, "59.9s"),
            (60_000, "1m"),
            (90_999, "1m30s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h"),
            (3_900_000, "1h5m"),
            (86_399_999, "23h59m"),
            (86_400_000, "1d"),
            (183_600_000, "2d3h"),
        ] {
            assert_eq!(show(Duration::from_millis(ms)), text);
        }
    }
}
