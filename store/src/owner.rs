//! Fresh owners.

use lease_machines::OwnerId;

use crate::{ErrorKind, StoreError};

/// A new owner, drawn for one hold: 64 random bits from the operating system, not from a generator that a fork would
/// copy.
///
/// # Errors
///
/// [`ErrorKind::Configuration`] where the operating system gives no random numbers.
pub fn fresh_owner() -> Result<OwnerId, StoreError> {
    random().map(OwnerId::new)
}

/// 64 random bits from the operating system.
pub(crate) fn random() -> Result<u64, StoreError> {
    getrandom::u64().map_err(|error| {
        StoreError::new(
            ErrorKind::Configuration,
            format!("the operating system gives no random numbers: {error}"),
        )
    })
}
