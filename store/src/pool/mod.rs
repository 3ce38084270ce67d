//! Pools on a store: N slots of one resource, each with a history of its own.

mod answer;
mod request;
mod unheard;

use lease_machines::Pool;

use crate::{ErrorKind, ResourceName, StoreError};

pub use answer::{Claimed, PoolInspection, Resized, Room, SlotInspection, SlotLease, SlotRenewed, Unclaimed};
pub use request::{PoolClaim, SlotRef};
pub use unheard::give_back_unheard;

/// The most slots that a pool has, and the size of one that numbers of 16 bits name.
#[allow(clippy::cast_possible_truncation, reason = "65,536, see the core")]
pub(crate) const MAX_SIZE: u32 = Pool::<()>::MAX_SLOTS as u32;

/// The longest name of a pool in bytes: with the number of a slot it must still be the name of a resource.
const MAX_POOL_NAME: usize = ResourceName::MAX_BYTES - "#65535".len();

/// The name under which a slot of the pool has its history, and under which it is fenced: `ids#7`.
///
/// # Errors
///
/// [`Request`](ErrorKind::Request) where the pool's name is longer than 249 bytes.
pub fn slot_name(pool: &ResourceName, slot: u16) -> Result<ResourceName, StoreError> {
    pool_name(pool)?;
    Ok(ResourceName::new(format!("{pool}#{slot}"))?)
}

/// A name that leaves room for the number of a slot.
pub(crate) fn pool_name(pool: &ResourceName) -> Result<(), StoreError> {
    let bytes = pool.as_str().len();
    if bytes > MAX_POOL_NAME {
        let message = format!("the name of a pool has at most {MAX_POOL_NAME} bytes, found {bytes}");
        return Err(StoreError::new(ErrorKind::Request, message));
    }
    Ok(())
}

/// The claim names more slots than the pool has.
pub(crate) fn too_many(claim: &PoolClaim, size: u32) -> StoreError {
    StoreError::new(
        ErrorKind::PoolSize { size },
        format!(
            "the pool {:?} has {size} slots, and the claim names {}: expected at most as many as it has; where the others \
             who use it can do with more, make it larger first",
            claim.pool, claim.size
        ),
    )
}

/// The claim comes too late, for this reason.
pub(crate) fn superseded(claim: &PoolClaim, why: &str) -> StoreError {
    StoreError::new(
        ErrorKind::Superseded,
        format!(
            "attempt {} of owner {} for a slot of {:?} comes too late: {why}",
            claim.attempt, claim.owner, claim.pool
        ),
    )
}

/// The pool and the number in the name of a slot; `None` for any other name.
pub(crate) fn slot_named(name: &ResourceName) -> Option<(ResourceName, u16)> {
    let (pool, number) = name.as_str().rsplit_once('#')?;
    let slot: u16 = number.parse().ok()?;
    // `ids#07` and `ids#+7` are not how a slot is written.
    (slot.to_string() == number).then_some((ResourceName::new(pool).ok()?, slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_slot_names_it_and_nothing_else() {
        let pool = ResourceName::new("a#b").unwrap();
        for slot in [0, 7, u16::MAX] {
            let name = slot_name(&pool, slot).unwrap();
            assert_eq!(slot_named(&name), Some((pool.clone(), slot)));
        }
        for other in ["ids", "ids#", "#7", "ids#07", "ids#+7", "ids#65536", "ids#-1"] {
            assert_eq!(slot_named(&ResourceName::new(other).unwrap()), None, "{other}");
        }
    }

    #[test]
    fn a_pool_leaves_room_for_the_number_of_a_slot() {
        let longest = ResourceName::new("x".repeat(MAX_POOL_NAME)).unwrap();
        assert_eq!(slot_name(&longest, u16::MAX).unwrap().as_str().len(), ResourceName::MAX_BYTES);
        let longer = ResourceName::new("x".repeat(MAX_POOL_NAME + 1)).unwrap();
        assert_eq!(slot_name(&longer, 0).unwrap_err().kind(), ErrorKind::Request);
    }
}
