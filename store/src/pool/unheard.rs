//! Giving back a slot whose grant nobody has heard of.

use std::time::Duration;

use lease_machines::OwnerId;

use super::SlotRef;
use crate::{Released, ResourceName, Store, StoreError};

/// Gives back what this owner holds in the pool, and all of the ID time that was reserved with it: for a claim whose answer
/// never came, so that no ID was made under what it may have been granted. Says whether there was something to give back.
///
/// It does not take the place of [`Store::withdraw_slot`], which is to follow in any case: that alone keeps a claim which is
/// still on its way from being granted. A slot that is only withdrawn is one whose reserved time counts as used, and
/// whoever holds it next is behind the clock's time by up to a whole lease.
///
/// Two round trips at most. The first lists the pool.
///
/// # Errors
///
/// Those of [`Store::slots`] and [`Store::release_slot`]. What is not given back can still be withdrawn.
pub async fn give_back_unheard(
    store: &dyn Store,
    pool: ResourceName,
    owner: OwnerId,
) -> Result<bool, StoreError> {
    let seen = store.slots(pool.clone()).await?;
    let held = seen.slots.iter().find_map(|slot| {
        let occupant = slot.occupant.as_ref().filter(|occupant| occupant.owner == owner)?;
        Some(SlotRef::new(pool.clone(), slot.slot, owner, occupant.token, Some(seen.epoch)))
    });
    match held {
        // A last stamp before all others: the mark goes back to where the window began, and no further.
        Some(held) => Ok(matches!(store.release_slot(held, Some(Duration::ZERO)).await?, Released::Released)),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claimed, MemoryStore, PoolClaim, fresh_owner};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    fn claim() -> PoolClaim {
        let pool = ResourceName::new("ids").unwrap();
        PoolClaim::new(pool, 2, fresh_owner().unwrap(), HOUR).with_id_time()
    }

    #[test]
    fn what_nobody_heard_of_is_given_back_with_its_time_and_what_others_hold_stays() {
        let store = MemoryStore::new().unwrap();
        let (other, mine) = (claim(), claim());
        for claim in [&other, &mine] {
            assert!(matches!(block_on(store.claim_slot(claim.clone())), Ok(Claimed::Granted(_))));
        }
        // An answer that was lost was asked for once more.
        let again = block_on(store.reclaim_slot(mine.clone().with_attempt(2))).unwrap();
        let Claimed::Granted(granted) = again else { panic!("{again:?}") };
        assert!(block_on(give_back_unheard(&store, mine.pool.clone(), mine.owner)).unwrap());
        assert!(!block_on(give_back_unheard(&store, mine.pool.clone(), mine.owner)).unwrap());
        let seen = block_on(store.slots(mine.pool.clone())).unwrap();
        assert_eq!(seen.holders(), 1);
        assert_eq!(seen.slots[usize::from(granted.slot)].mark, Duration::ZERO);
        assert_eq!(seen.slots[usize::from(1 - granted.slot)].mark, seen.wall + HOUR);
    }
}
