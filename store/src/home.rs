//! The process in which a store was opened: a fork copies the store, and not the threads that serve it.

use std::fmt::Display;
use std::process;

use crate::{ErrorKind, StoreError};

/// Whose child may not use what its parent opened: its connections are the parent's, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(process::id())
    }

    pub(crate) fn is_here(self) -> bool {
        process::id() == self.0
    }

    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) in any other process than the one that opened it.
    pub(crate) fn check(self, place: &dyn Display) -> Result<(), StoreError> {
        if self.is_here() {
            return Ok(());
        }
        Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "{place} was opened by process {}, and this is its child {}: a store does not survive a fork",
                self.0,
                process::id()
            ),
        ))
    }
}
