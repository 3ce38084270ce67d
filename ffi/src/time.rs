//! Seconds in Ruby, nanoseconds in the core.
//!
//! In: an Integer is exact, a Float or a Rational is taken to the nearest nanosecond, to the even one of two that are
//! equally near. Out: the nearest Float. Up to `2**23` seconds (97 days) neighbouring Floats are less than a nanosecond
//! apart, so that what went in as nanoseconds comes back as it was; beyond that a Float is the coarser of the two.

use core::time::Duration;

use magnus::{Error, Float, Integer, RBignum, RRational, Ruby, Value, kwargs, prelude::*};

use crate::errors;

const NANOS_PER_SEC: u32 = 1_000_000_000;

/// An instant, or a span, in seconds.
#[inline(always)]
pub(crate) fn from_ruby(ruby: &Ruby, name: &str, value: Value) -> Result<Duration, Error> {
    match Float::from_value(value).and_then(|float| from_plain_float(float.to_f64())) {
        Some(time) => Ok(time),
        None => from_any(ruby, name, value),
    }
}

/// All that is not a plain Float; kept apart so that the way of the plain one is short.
#[cold]
fn from_any(ruby: &Ruby, name: &str, value: Value) -> Result<Duration, Error> {
    if let Some(float) = Float::from_value(value) {
        from_float(ruby, name, float.to_f64())
    } else if let Some(integer) = Integer::from_value(value) {
        from_integer(ruby, name, integer).map(Duration::from_secs)
    } else if let Some(rational) = RRational::from_value(value) {
        from_rational(ruby, name, rational)
    } else {
        Err(errors::wrong_type(ruby, name, "seconds as a Float, an Integer or a Rational", value))
    }
}

/// The nearest Float, to the even one of two that are equally near.
pub(crate) fn to_seconds(time: Duration) -> f64 {
    /// Every smaller integer is a Float.
    const EXACT: u128 = 1 << 53;
    let nanos = time.as_nanos();
    if nanos < EXACT {
        // Both operands are exact, so that the quotient is rounded once. Adding seconds and fraction rounds twice.
        return nanos as i64 as f64 / f64::from(NANOS_PER_SEC);
    }
    // 94 bits at most, shifted up to the full 128, give a quotient with some bits more than a Float has. One more, for
    // a remainder, keeps what lies just off the middle of two Floats from being taken for the middle.
    const SHIFT: u32 = 34;
    let scaled = nanos << SHIFT;
    let divisor = u128::from(NANOS_PER_SEC);
    let quotient = (scaled / divisor) | u128::from(scaled % divisor != 0);
    quotient as f64 / (1_u64 << SHIFT) as f64
}

fn from_float(ruby: &Ruby, name: &str, seconds: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        if !seconds.is_finite() {
            errors::argument(ruby, format!("{name} must be finite, not {seconds}"))
        } else if seconds < 0.0 {
            negative(ruby, name, seconds)
        } else {
            too_late(ruby, name, seconds)
        }
    })
}

/// What `Duration::try_from_secs_f64` gives, in a third of the time, for all from half a millisecond to 2**52 seconds.
#[inline]
fn from_plain_float(seconds: f64) -> Option<Duration> {
    const MANTISSA_BITS: u32 = 52;
    const IMPLICIT_BIT: u64 = 1 << MANTISSA_BITS;
    const HALF: u64 = 1 << 63;
    let bits = seconds.to_bits();
    // seconds = mantissa / 2**shift. A sign, an infinity and NaN make for exponents that fall through as too large do.
    let mantissa = bits & (IMPLICIT_BIT - 1) | IMPLICIT_BIT;
    let shift = 1075_u64.checked_sub(bits >> MANTISSA_BITS)?;
    if !(1..64).contains(&shift) {
        return None;
    }
    let whole = mantissa >> shift;
    // The rest as 64 bits after the point, which has room for all of them: the product is exact, and so is its rounding.
    let product = u128::from(mantissa << (64 - shift)) * u128::from(NANOS_PER_SEC);
    let (nanos, rest) = ((product >> 64) as u32, product as u64);
    let up = rest > HALF || (rest == HALF && nanos % 2 == 1);
    Some(Duration::new(whole, nanos + u32::from(up)))
}

fn from_integer(ruby: &Ruby, name: &str, seconds: Integer) -> Result<u64, Error> {
    seconds.to_u64().map_err(|_| {
        if is_negative(seconds) { negative(ruby, name, seconds) } else { too_late(ruby, name, seconds) }
    })
}

fn from_rational(ruby: &Ruby, name: &str, seconds: RRational) -> Result<Duration, Error> {
    if is_negative(seconds.num()) {
        return Err(negative(ruby, name, seconds));
    }
    let whole: Integer = seconds.funcall("floor", ())?;
    let fraction: Value = seconds.funcall("-", (whole,))?;
    let nanos: Value = fraction.funcall("*", (NANOS_PER_SEC,))?;
    // A whole second at most, which `from_nanos` carries over.
    let nanos: Integer = nanos.funcall("round", (kwargs!(ruby, "half" => ruby.to_symbol("even")),))?;
    let whole = whole.to_u64().map_err(|_| too_late(ruby, name, seconds))?;
    Duration::from_secs(whole)
        .checked_add(Duration::from_nanos(nanos.to_u64()?))
        .ok_or_else(|| too_late(ruby, name, seconds))
}

fn is_negative(integer: Integer) -> bool {
    match RBignum::from_value(integer.as_value()) {
        Some(big) => big.is_negative(),
        None => integer.to_i64().is_ok_and(|small| small < 0),
    }
}

fn negative(ruby: &Ruby, name: &str, found: impl core::fmt::Display) -> Error {
    errors::argument(ruby, format!("{name} must not be negative, not {}", errors::shortened(found)))
}

fn too_late(ruby: &Ruby, name: &str, found: impl core::fmt::Display) -> Error {
    errors::range(ruby, format!("{name} must be less than 2**64 seconds, not {}", errors::shortened(found)))
}
