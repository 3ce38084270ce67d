//! IDs of the three widths.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;

use crate::manager::Sources;
use crate::source::Source;

/// An ID: a number of a fixed width. Implemented by [`Id64`], [`Id96`] and [`Id128`], and by nothing else.
///
/// IDs are ordered as numbers. [`Display`] writes them in base 10; [`Notation`](crate::Notation) has the other forms.
pub trait Id: Copy + Ord + Hash + Debug + Display + Send + Sync + sealed::Sealed + 'static {
    /// The width in bits.
    const BITS: u32;

    /// `None` where the number is wider.
    fn new(value: u128) -> Option<Self>;

    /// The number.
    fn value(self) -> u128;
}

pub(crate) mod sealed {
    use std::sync::Arc;

    use crate::manager::Sources;
    use crate::source::Source;

    /// What only this crate does to IDs.
    pub trait Sealed: Sized {
        /// `high << by.0 | middle << by.1 | low << by.2`, in the cheapest way for the width. What does not fit is cut off.
        fn assemble(ticks: u64, machine: u64, counter: u64, by: Shifts) -> Self;

        /// The stream of stamps for this width.
        #[allow(private_interfaces)]
        fn source<C>(sources: &Sources<C>) -> &Arc<Source<Self, C>>;

        /// The lowest bits of a number.
        fn assemble_whole(value: u128) -> Self;
    }

    /// By how many bits each part of an ID is shifted to the left.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct Shifts {
        pub(crate) ticks: u8,
        pub(crate) machine: u8,
        pub(crate) counter: u8,
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $number:ty, $bits:literal, $source:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name($number);

        impl Id for $name {
            const BITS: u32 = $bits;

            fn new(value: u128) -> Option<Self> {
                if value.checked_shr($bits).unwrap_or(0) != 0 {
                    return None;
                }
                <$number>::try_from(value).ok().map(Self)
            }

            fn value(self) -> u128 {
                self.0.into()
            }
        }

        impl sealed::Sealed for $name {
            #[inline]
            fn assemble(ticks: u64, machine: u64, counter: u64, by: sealed::Shifts) -> Self {
                let part = |part: u64, by: u8| <$number>::from(part) << by;
                Self(part(ticks, by.ticks) | part(machine, by.machine) | part(counter, by.counter))
            }

            #[allow(private_interfaces)]
            fn source<C>(sources: &Sources<C>) -> &Arc<Source<Self, C>> {
                &sources.$source
            }

            #[inline]
            fn assemble_whole(value: u128) -> Self {
                Self((value & (u128::MAX >> (128 - $bits))) as $number)
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                Display::fmt(&self.0, f)
            }
        }

        impl From<$name> for $number {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

id! {
    /// An ID of 64 bits.
    Id64, u64, 64, id64
}
id! {
    /// An ID of 96 bits.
    Id96, u128, 96, id96
}
id! {
    /// An ID of 128 bits.
    Id128, u128, 128, id128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_too_wide_is_no_id() {
        assert_eq!(Id64::new(u64::MAX.into()).map(u64::from), Some(u64::MAX));
        assert_eq!(Id64::new(u128::from(u64::MAX) + 1), None);
        assert_eq!(Id96::new((1 << 96) - 1).map(Id::value), Some((1 << 96) - 1));
        assert_eq!(Id96::new(1 << 96), None);
        assert_eq!(Id128::new(u128::MAX).map(Id::value), Some(u128::MAX));
    }
}
