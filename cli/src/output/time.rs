//! Instants of a wall clock, in UTC: the hosts that share a store need not share a time zone.

use std::time::{Duration, SystemTime};

/// For people: `2026-03-01 12:00:05`.
pub(crate) fn utc(time: SystemTime) -> String {
    let (date, clock, _) = parts(time);
    format!("{date} {clock}")
}

/// For programs, to the millisecond: `2026-03-01T12:00:05.250Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let (date, clock, ms) = parts(time);
    format!("{date}T{clock}.{ms:03}Z")
}

fn parts(time: SystemTime) -> (String, String, u128) {
    // What lies before 1970 is no time of any store; it is shown as that edge.
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    (
        format!("{year:04}-{month:02}-{day:02}"),
        format!("{hour:02}:{minute:02}:{second:02}"),
        since.as_millis() % 1_000,
    )
}

/// The date of a day counted from 1970-01-01, in the proleptic Gregorian calendar. The years of this count begin in
/// March, so that a leap day is the last of its year; 400 of them have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    // 0000-03-01 is 719,468 days before 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(ms)
    }

    #[test]
    fn known_instants() {
        assert_eq!(rfc3339(at(0, 0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(at(951_782_400, 7)), "2000-02-29T00:00:00.007Z");
        assert_eq!(rfc3339(at(1_767_225_599, 999)), "2025-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(at(4_107_542_400, 0)), "2100-03-01T00:00:00.000Z");
        assert_eq!(utc(at(1_000_000_000, 0)), "2001-09-09 01:46:40");
        assert_eq!(utc(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01 00:00:00");
    }

    #[test]
    fn every_day_follows_the_one_before_it() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..300_000 {
            assert_eq!(civil(days), (year, month, day), "day {days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
