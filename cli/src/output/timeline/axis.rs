//! From instants to places.

use std::time::{Duration, SystemTime};

use crate::output::utc;

/// The lengths between two ticks that people can count by, in seconds.
const STEPS: [u64; 19] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 604_800,
];

/// Labels are as wide as `12:00:05`, or as `2026-03-01`.
const MOST_TICKS: u64 = 8;

/// A linear scale of time.
pub(super) struct Axis {
    from: SystemTime,
    span: Duration,
    left: f64,
    width: f64,
}

/// A place with a name.
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) label: String,
}

impl Axis {
    /// From `left` to `right` goes the time from `from` to `to`, and at least a second.
    pub(super) fn new(from: SystemTime, to: SystemTime, left: f64, right: f64) -> Self {
        let span = to.duration_since(from).unwrap_or_default().max(Duration::from_secs(1));
        Self { from, span, left, width: right - left }
    }

    /// Where an instant lies; what lies outside is moved to the edge.
    pub(super) fn x(&self, time: SystemTime) -> f64 {
        let after = time.duration_since(self.from).unwrap_or_default().min(self.span);
        self.left + self.width * (after.as_secs_f64() / self.span.as_secs_f64())
    }

    /// Round instants: whole multiples of the step, in UTC.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let seconds = self.span.as_secs().max(1);
        let step = STEPS.into_iter().find(|step| seconds / step < MOST_TICKS);
        let step = step.unwrap_or_else(|| seconds.div_ceil(MOST_TICKS * 604_800) * 604_800);
        let since = self.from.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first = since.as_secs().div_ceil(step) * step;
        // A span that lies within one second begins on none: then there is no tick, and the title says when it was.
        (0..=MOST_TICKS)
            .filter_map(|n| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(first + n * step)))
            .take_while(|at| at.duration_since(self.from).is_ok_and(|after| after <= self.span))
            .map(|at| Tick { x: self.x(at), label: label(at, step) })
            .collect()
    }
}

/// A date where the step is in days, and the time of day below that.
fn label(at: SystemTime, step: u64) -> String {
    let whole = utc(at);
    let (date, clock) = whole.split_once(' ').unwrap_or((&whole, ""));
    let clock = if step % 60 == 0 { clock.strip_suffix(":00").unwrap_or(clock) } else { clock };
    if step % 86_400 == 0 { date.to_owned() } else { clock.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn instants_have_their_place() {
        let axis = Axis::new(at(1_000), at(1_100), 100.0, 300.0);
        assert_eq!(axis.x(at(1_000)), 100.0);
        assert_eq!(axis.x(at(1_050)), 200.0);
        assert_eq!(axis.x(at(1_100)), 300.0);
        assert_eq!((axis.x(at(0)), axis.x(at(9_999))), (100.0, 300.0));
        let empty = Axis::new(at(5), at(5), 0.0, 1.0);
        assert_eq!(empty.x(at(5)), 0.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (from, to, labels) in [
            (3_601, 3_650, vec!["01:00:10", "01:00:20", "01:00:30", "01:00:40", "01:00:50"]),
            (0, 3_600, vec!["00:00", "00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]),
            (0, 3 * 86_400, vec!["00:00", "12:00", "00:00", "12:00", "00:00", "12:00", "00:00"]),
            (1, 5 * 86_400, vec!["1970-01-02", "1970-01-03", "1970-01-04", "1970-01-05", "1970-01-06"]),
        ] {
            let ticks = Axis::new(at(from), at(to), 0.0, 1.0).ticks();
            assert_eq!(ticks.iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>(), labels);
        }
        for days in [1, 10, 100, 1_000, 100_000] {
            let count = Axis::new(at(0), at(days * 86_400), 0.0, 1.0).ticks().len();
            assert!((2..=9).contains(&count), "{days} days have {count} ticks");
        }
    }
}
