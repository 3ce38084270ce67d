//! IDs as text.

use std::fmt;

use crate::Id;

/// How an ID is written.
///
/// All but the first are of fixed width for IDs of one width, so that texts sort as the numbers do.
///
/// | | digits | 64 bits | 96 bits | 128 bits |
/// | --- | --- | --- | --- | --- |
/// | `Decimal` | `0-9`, without leading zeros | up to 20 | up to 29 | up to 39 |
/// | `Hex` | `0-9a-f`; read in both cases | 16 | 24 | 32 |
/// | `Crockford` | `0-9A-Z` without I, L, O, U; read in both cases, `I` and `L` as 1, `O` as 0 | 13 | 20 | 26 |
/// | `Base62` | `0-9A-Za-z` | 11 | 17 | 22 |
/// | `Uuid` | an RFC 9562 UUID of version 8 | 36 | 36 | 36, where the lowest 6 bits are zero |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Notation {
    /// Base 10.
    Decimal,
    /// Base 16.
    Hex,
    /// Base 32 as Douglas Crockford has it, without a check symbol and hyphens.
    Crockford,
    /// Base 62, in the order of ASCII.
    Base62,
    /// A UUID of version 8: the ID from its top bit on, in the 122 bits that such a UUID leaves to whoever makes it, then zeros.
    /// An ID of 128 bits has to end with 6 zero bits, as those of the default layout do. An encrypted one does not.
    Uuid,
}

/// Why a text is no ID.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseIdError {
    /// It has another length.
    Length {
        /// How many characters it has.
        found: usize,
        /// How many an ID of this width has in this notation, at most for `Decimal`.
        expected: usize,
    },
    /// A character that does not belong there.
    Character {
        /// Which.
        found: char,
        /// Where, counted in bytes from 0.
        at: usize,
    },
    /// The number is wider than the ID.
    TooLarge,
    /// A UUID, but not one that stands for an ID of this width: of another version or variant, or with bits where zeros have
    /// to be.
    NotOurs,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => write!(f, "{found} characters, expected {expected}"),
            Self::Character { found, at } => write!(f, "{found:?} at position {at} is not a digit there"),
            Self::TooLarge => f.write_str("the number is wider than the ID"),
            Self::NotOurs => {
                f.write_str("the UUID is not an ID of this width: version 8, with zeros at its end")
            }
        }
    }
}

impl std::error::Error for ParseIdError {}

const HEX: &[u8] = b"0123456789abcdef";
const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Where the hyphens of a UUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Notation {
    /// Every notation.
    pub const ALL: [Self; 5] = [Self::Decimal, Self::Hex, Self::Crockford, Self::Base62, Self::Uuid];

    /// Writes an ID; `None` for a UUID of an ID whose lowest bits would be lost.
    #[must_use]
    pub fn write<I: Id>(self, id: I) -> Option<String> {
        let value = id.value();
        Some(match self {
            Self::Decimal => value.to_string(),
            Self::Hex => digits(value, HEX, self.length::<I>()),
            Self::Crockford => digits(value, CROCKFORD, self.length::<I>()),
            Self::Base62 => digits(value, BASE62, self.length::<I>()),
            Self::Uuid => uuid(value << (128 - I::BITS))?,
        })
    }

    /// Reads an ID.
    ///
    /// # Errors
    ///
    /// [`ParseIdError`] says what was found, and where.
    pub fn read<I: Id>(self, text: &str) -> Result<I, ParseIdError> {
        let expected = self.length::<I>();
        let fits =
            if self == Self::Decimal { (1..=expected).contains(&text.len()) } else { text.len() == expected };
        if !fits {
            return Err(ParseIdError::Length { found: text.chars().count(), expected });
        }
        let value = match self {
            Self::Decimal => number(text, 10, |c| c.to_digit(10))?,
            Self::Hex => number(text, 16, |c| c.to_digit(16))?,
            Self::Crockford => number(text, 32, crockford)?,
            Self::Base62 => number(text, 62, |c| place(BASE62, c))?,
            Self::Uuid => {
                let bits = read_uuid(text)?;
                let spare = 128 - I::BITS;
                if bits & ((1_u128 << spare) - 1) != 0 {
                    return Err(ParseIdError::NotOurs);
                }
                bits >> spare
            }
        };
        I::new(value).ok_or(ParseIdError::TooLarge)
    }

    /// How long the text of an ID is, at most for `Decimal`.
    fn length<I: Id>(self) -> usize {
        let base = match self {
            Self::Uuid => return 36,
            Self::Decimal => 10_u128,
            Self::Hex => 16,
            Self::Crockford => 32,
            Self::Base62 => 62,
        };
        let (mut left, mut length) = (u128::MAX >> (128 - I::BITS), 0);
        while left > 0 {
            (left, length) = (left / base, length + 1);
        }
        length
    }
}

fn digits(mut value: u128, digits: &[u8], length: usize) -> String {
    let base = digits.len() as u128;
    let mut text = vec![b'0'; length];
    for place in text.iter_mut().rev() {
        if let Some(digit) = digits.get((value % base) as usize) {
            *place = *digit;
        }
        value /= base;
    }
    text.into_iter().map(char::from).collect()
}

fn number(text: &str, base: u32, digit: impl Fn(char) -> Option<u32>) -> Result<u128, ParseIdError> {
    let mut value = 0_u128;
    for (at, found) in text.char_indices() {
        let digit = digit(found).ok_or(ParseIdError::Character { found, at })?;
        value = value
            .checked_mul(base.into())
            .and_then(|value| value.checked_add(digit.into()))
            .ok_or(ParseIdError::TooLarge)?;
    }
    Ok(value)
}

fn place(digits: &[u8], found: char) -> Option<u32> {
    let at = digits.iter().position(|digit| char::from(*digit) == found)?;
    u32::try_from(at).ok()
}

fn crockford(found: char) -> Option<u32> {
    match found.to_ascii_uppercase() {
        'I' | 'L' => Some(1),
        'O' => Some(0),
        digit => place(CROCKFORD, digit),
    }
}

/// 48 bits, version 8, 12 bits, variant 10, 62 bits.
fn uuid(bits: u128) -> Option<String> {
    if bits & 0x3f != 0 {
        return None;
    }
    let (high, middle, low) = (bits >> 80, bits >> 68 & 0xfff, bits >> 6 & (u128::MAX >> 66));
    let all = high << 80 | 0x8 << 76 | middle << 64 | 0b10 << 62 | low;
    let mut text = digits(all, HEX, 32);
    HYPHENS.iter().for_each(|at| text.insert(*at, '-'));
    Some(text)
}

fn read_uuid(text: &str) -> Result<u128, ParseIdError> {
    let mut hex = String::with_capacity(32);
    for (at, found) in text.char_indices() {
        match (HYPHENS.contains(&at), found) {
            (true, '-') => {}
            (false, digit) if digit.is_ascii_hexdigit() => hex.push(digit),
            _ => return Err(ParseIdError::Character { found, at }),
        }
    }
    let all = number(&hex, 16, |c| c.to_digit(16))?;
    if all >> 76 & 0xf != 8 || all >> 62 & 0b11 != 0b10 {
        return Err(ParseIdError::NotOurs);
    }
    Ok((all >> 80) << 80 | (all >> 64 & 0xfff) << 68 | (all & (u128::MAX >> 66)) << 6)
}
