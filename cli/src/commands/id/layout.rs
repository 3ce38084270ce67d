//! Which bits of an ID mean what, and how it is written.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lease_machines_id::{Id, Id64, Id96, Id128, Layout, Notation};

use crate::exit::Exit;
use crate::failure::Failure;

/// How IDs are put together.
#[derive(Args, Clone, Debug)]
pub(super) struct LayoutOptions {
    /// How wide the IDs are
    #[arg(long, value_name = "BITS", value_enum, default_value_t)]
    bits: Bits,

    /// `default`, `twitter`, `sonyflake`, or TIME/MACHINE/COUNTER in bits, such as 41/10/12 with ticks of 1ms
    #[arg(long, value_name = "LAYOUT", default_value = "default", value_parser = Shape::parse)]
    layout: Shape,

    /// Of a layout in bits: when its time begins, in milliseconds since 1970 (default: 2025-01-01, 1735689600000)
    #[arg(long, value_name = "MS")]
    layout_epoch: Option<u64>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Bits {
    #[default]
    #[value(name = "64")]
    B64,
    #[value(name = "96")]
    B96,
    #[value(name = "128")]
    B128,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Default,
    Twitter,
    Sonyflake,
    Bits([u8; 3]),
}

impl Shape {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "default" => Self::Default,
            "twitter" => Self::Twitter,
            "sonyflake" => Self::Sonyflake,
            _ => {
                let parts: Option<Vec<u8>> = text.split('/').map(|part| part.parse().ok()).collect();
                let parts = parts.and_then(|parts| <[u8; 3]>::try_from(parts).ok());
                Self::Bits(parts.ok_or("expected default, twitter, sonyflake, or bits such as 41/10/12")?)
            }
        })
    }
}

/// A layout of one of the three widths.
pub(super) enum AnyLayout {
    Of64(Layout<Id64>),
    Of96(Layout<Id96>),
    Of128(Layout<Id128>),
}

impl LayoutOptions {
    /// # Errors
    ///
    /// What of it does not go together.
    pub(super) fn layout(&self) -> Result<AnyLayout, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        if self.layout_epoch.is_some() && !matches!(self.layout, Shape::Bits(_)) {
            return Err(usage("--layout-epoch goes with a --layout in bits, such as 41/10/12".to_owned()));
        }
        Ok(match (self.bits, self.layout) {
            (Bits::B64, Shape::Twitter) => AnyLayout::Of64(Layout::twitter()),
            (Bits::B64, Shape::Sonyflake) => AnyLayout::Of64(Layout::sonyflake()),
            (_, Shape::Twitter | Shape::Sonyflake) => {
                return Err(usage("this layout is one of 64 bits".to_owned()));
            }
            (Bits::B64, _) => AnyLayout::Of64(self.own()?),
            (Bits::B96, _) => AnyLayout::Of96(self.own()?),
            (Bits::B128, _) => AnyLayout::Of128(self.own()?),
        })
    }

    fn own<I: Id>(&self) -> Result<Layout<I>, Failure>
    where
        Layout<I>: Default,
    {
        let Shape::Bits([time, machine, counter]) = self.layout else { return Ok(Layout::default()) };
        let layout = Layout::new(time, machine, counter).and_then(|layout| match self.layout_epoch {
            Some(epoch) => layout.with_epoch(Duration::from_millis(epoch)),
            None => Ok(layout),
        });
        layout.map_err(|error| Failure::new(Exit::Usage, format!("--layout: {error}")))
    }
}

/// How an ID is written.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// In base 10
    Decimal,
    /// In base 16
    Hex,
    /// In base 32, as Douglas Crockford has it
    Crockford,
    /// In base 62
    Base62,
    /// As a UUID of version 8
    Uuid,
}

impl Written {
    pub(super) const fn notation(self) -> Notation {
        match self {
            Self::Decimal => Notation::Decimal,
            Self::Hex => Notation::Hex,
            Self::Crockford => Notation::Crockford,
            Self::Base62 => Notation::Base62,
            Self::Uuid => Notation::Uuid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_a_name_or_three_numbers_of_bits() {
        assert_eq!(Shape::parse("twitter"), Ok(Shape::Twitter));
        assert_eq!(Shape::parse("41/10/12"), Ok(Shape::Bits([41, 10, 12])));
        for wrong in ["", "41", "41/10", "41/10/12/1", "41/10/x", "snowflake"] {
            assert!(Shape::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let options = |bits, layout, layout_epoch| LayoutOptions { bits, layout, layout_epoch };
        assert!(options(Bits::B96, Shape::Twitter, None).layout().is_err());
        assert!(options(Bits::B64, Shape::Default, Some(0)).layout().is_err());
        assert!(options(Bits::B64, Shape::Bits([42, 9, 14]), None).layout().is_err());
        assert!(options(Bits::B64, Shape::Bits([41, 10, 12]), Some(0)).layout().is_ok());
        assert!(options(Bits::B128, Shape::Default, None).layout().is_ok());
    }
}
