//! Whether this machine's clock goes with the store's, as it must where IDs are stamped by it.

use std::time::{Duration, SystemTime};

use lease_machines::OwnerId;
use lease_machines_store::{Claimed, ErrorKind, ResourceName, SlotRef, Store, StoreError};

use crate::duration;

/// How far the clocks of those who hold machine IDs may be from the store's.
pub(super) const CLOCKS_APART: Duration = Duration::from_secs(10);

/// This machine's wall clock, since Unix's origin.
pub(super) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// When a claim was sent, by the wall clock.
pub(crate) struct Sent(Duration);

impl Sent {
    pub(crate) fn now() -> Self {
        Self(wall())
    }

    /// Passes the answer to this owner's claim on where the clocks agree.
    ///
    /// # Errors
    ///
    /// A slot was granted by a store whose clock is too far from this machine's. It is given back, with the time that was
    /// reserved: no ID was made under it. What cannot be given back ends with its ttl.
    pub(crate) async fn check(
        self,
        answer: Claimed,
        store: &dyn Store,
        pool: &ResourceName,
        owner: OwnerId,
    ) -> Result<Claimed, StoreError> {
        let Claimed::Granted(granted) = &answer else { return Ok(answer) };
        // The store's clock was read somewhere between these two.
        let apart = self.0.saturating_sub(granted.wall).max(granted.wall.saturating_sub(wall()));
        if apart <= CLOCKS_APART {
            return Ok(answer);
        }
        let held = SlotRef::new(pool.clone(), granted.slot, owner, granted.token, Some(granted.epoch));
        let _ = store.release_slot(held, granted.window.map(|window| window.after)).await;
        let message = format!(
            "this machine's clock is {} from the store's, expected at most {}: IDs would be stamped with a wrong time",
            duration::show(apart),
            duration::show(CLOCKS_APART)
        );
        Err(StoreError::new(ErrorKind::Configuration, message))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use lease_machines_store::MemoryStore;

    use super::*;

    /// A store whose clock is this machine's.
    pub(crate) fn agreeing() -> MemoryStore {
        let store = MemoryStore::new().unwrap();
        // Its calendar begins with 2026.
        store.advance(wall().checked_sub(Duration::from_secs(1_767_225_600)).unwrap());
        store
    }
}
