//! Some scenarios need the machine to themselves.

use std::sync::{PoisonError, RwLock};

static MACHINE: RwLock<()> = RwLock::new(());

pub(crate) fn with_others(scenario: fn()) {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    scenario();
}

pub(crate) fn without_others(scenario: fn()) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    scenario();
}
