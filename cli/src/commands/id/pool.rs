//! Which slot of which pool.

use std::time::Duration;

use clap::Args;
use lease_machines::{OwnerId, SlotRange};
use lease_machines_store::{PoolClaim, ResourceName};

/// The options of every command that takes a slot.
#[derive(Args, Clone, Debug)]
pub(crate) struct PoolOptions {
    /// How many slots the pool has, from 1 to 65536. The first to come makes it
    #[arg(long, value_name = "NUMBER", default_value = "512", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) size: u32,

    /// Only the slots from FIRST to LAST, both included: data centres that share a pool have one range each
    #[arg(long, value_name = "FIRST-LAST", value_parser = range)]
    range: Option<SlotRange>,

    /// A name that survives restarts: under it the slot that it held last is had again, if it is free
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,

    /// Nobody else goes by this identity: a slot that it still holds was left behind by a crash, and is taken over
    #[arg(long, requires = "identity")]
    exclusive: bool,
}

impl PoolOptions {
    /// What is asked for, as the first attempt of this owner.
    pub(crate) fn claim(&self, pool: ResourceName, owner: OwnerId, ttl: Duration) -> PoolClaim {
        let mut claim = PoolClaim::new(pool, self.size, owner, ttl).with_id_time();
        claim.range = self.range();
        claim.identity.clone_from(&self.identity);
        claim.exclusive_identity = self.exclusive;
        claim
    }

    #[cfg(test)]
    pub(crate) fn of_size(size: u32) -> Self {
        Self { size, range: None, identity: None, exclusive: false }
    }

    pub(crate) fn range(&self) -> SlotRange {
        self.range.unwrap_or(SlotRange::ALL)
    }

    pub(crate) fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    pub(crate) fn exclusive(&self) -> bool {
        self.exclusive
    }
}

fn range(text: &str) -> Result<SlotRange, String> {
    let parsed = text
        .split_once('-')
        .and_then(|(first, last)| SlotRange::new(first.trim().parse().ok()?, last.trim().parse().ok()?));
    parsed.ok_or_else(|| "expected FIRST-LAST, such as 0-255, of numbers up to 65535".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_numbers_in_order() {
        let whole = range("0-65535").unwrap();
        assert_eq!((whole.first(), whole.last()), (0, u16::MAX));
        let one = range("7-7").unwrap();
        assert_eq!((one.first(), one.last()), (7, 7));
        for wrong in ["", "7", "7-", "-7", "8-7", "0-65536", "a-b"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
