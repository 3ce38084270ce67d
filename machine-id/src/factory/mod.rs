//! The factories that make IDs.

mod counter;
#[cfg(feature = "encrypted")]
mod encrypted;
mod sortable;

use crate::source::{Source, Taken};
use crate::{Id, IdError};

pub use counter::Counter;
#[cfg(feature = "encrypted")]
pub use encrypted::{Encrypt, Encrypted, IdCipher};
pub use sortable::Sortable;

/// How many IDs of a batch are taken together, between two looks at the clock.
const PART: u64 = 1_024;

/// Takes parts until there are `count` IDs. `take` is told how many a part has, and how many are left with it.
fn batch<I: Id, C: crate::Clock>(
    source: &Source<I, C>,
    count: usize,
    take: impl Fn(u64, u64) -> Result<Taken, IdError>,
    mut push: impl FnMut(I),
) -> Result<(), IdError> {
    let mut left = count as u64;
    while left > 0 {
        let taken = take(left.min(PART), left)?;
        (0..taken.count).for_each(|index| push(source.id(taken, index)));
        left -= taken.count;
    }
    Ok(())
}

/// The room to reserve for a batch: no more than is sure to be needed.
fn room(count: usize) -> usize {
    count.min(1 << 16)
}
