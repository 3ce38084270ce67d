//! What options may be given.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{Epoch, parse_duration};

/// The greatest token of any store: a signed 64-bit column has to hold it.
const GREATEST: u64 = i64::MAX as u64;

/// How long to wait for a lease that another holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// At most this long.
    For(Duration),
    /// For ever.
    Forever,
}

impl Wait {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        parse_duration(text).map(Self::For).map_err(|error| format!("{error}; or `forever`"))
    }
}

/// An owner.
pub(crate) fn owner(text: &str) -> Result<OwnerId, String> {
    decimal(text).map(OwnerId::new).ok_or_else(|| format!("expected a decimal number from 0 to {}", u64::MAX))
}

/// A fencing token.
pub(crate) fn token(text: &str) -> Result<FencingToken, String> {
    decimal(text)
        .filter(|number| *number <= GREATEST)
        .and_then(FencingToken::new)
        .ok_or_else(|| format!("expected a decimal number from 1 to {GREATEST}"))
}

/// The epoch of a store.
pub(crate) fn epoch(text: &str) -> Result<Epoch, String> {
    text.parse().map_err(|error: lease_machines_store::EpochError| error.to_string())
}

/// Digits alone: `parse` would take a plus sign as well.
fn decimal(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_numbers() {
        assert_eq!(owner("0"), Ok(OwnerId::new(0)));
        assert_eq!(owner("18446744073709551615"), Ok(OwnerId::new(u64::MAX)));
        assert_eq!(token("9223372036854775807").map(FencingToken::value), Ok(GREATEST));
        for text in ["", "0", "+1", "-1", "1.0", "0x1", " 1", "9223372036854775808", "18446744073709551616"] {
            assert_eq!(
                token(text),
                Err("expected a decimal number from 1 to 9223372036854775807".to_owned()),
                "{text}"
            );
        }
        for text in ["", "+1", "18446744073709551616"] {
            assert!(owner(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_epoch_is_hexadecimal() {
        assert_eq!(epoch("00000000000000ff").map(Epoch::value), Ok(255));
        assert!(epoch("ff").expect_err("too short").contains("16 hexadecimal digits"));
    }
}
