//! What the source is built from; a model checker puts its own in place of it.

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(all(test, loom))]
pub(crate) use std::sync::PoisonError;

/// Lets another thread go on.
#[cfg(not(all(test, loom)))]
pub(crate) fn give_way() {
    std::hint::spin_loop();
}

#[cfg(all(test, loom))]
pub(crate) fn give_way() {
    loom::thread::yield_now();
}
