//! What every process has to make for itself.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Generation;

/// A value that each process makes when it first asks for it: a child of a fork makes its own, and what it has of its
/// parent's is neither used nor dropped there. For what does not survive a fork: threads, connections, locks that somebody
/// may hold.
///
/// There is no lock in it, which a child could find held by a thread that it does not have. A value stays until its process
/// ends.
///
/// ```
/// use lease_machines_os::PerProcess;
///
/// static NUMBER: PerProcess<u32> = PerProcess::new();
/// assert_eq!(NUMBER.get(), None);
/// assert_eq!(NUMBER.get_or_try_init(|| Ok::<_, ()>(1)), Ok(&1));
/// assert_eq!(NUMBER.get_or_try_init(|| Ok::<_, ()>(2)), Ok(&1));
/// ```
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    current: AtomicPtr<Made<T>>,
}

#[derive(Debug)]
struct Made<T> {
    generation: Generation,
    value: T,
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// Nothing is made yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This process's value, if it has made one.
    #[must_use]
    pub fn get(&self) -> Option<&'static T> {
        let made = Self::made(self.current.load(Ordering::Acquire))?;
        made.generation.is_current().then_some(&made.value)
    }

    /// This process's value, made now where there is none. Of several threads that make one at once, one keeps its own, and
    /// the others' are dropped.
    ///
    /// # Errors
    ///
    /// What `make` says; it is called again then, when the value is next asked for.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        let before = self.current.load(Ordering::Acquire);
        if let Some(made) = Self::made(before).filter(|made| made.generation.is_current()) {
            return Ok(&made.value);
        }
        let mine = Box::into_raw(Box::new(Made { generation: Generation::current(), value: make()? }));
        let made = match self.current.compare_exchange(before, mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => mine,
            Err(anothers) => {
                // SAFETY: it was leaked above, and given to nobody.
                drop(unsafe { Box::from_raw(mine) });
                anothers
            }
        };
        // SAFETY: as in `made`; and not null, since null is never put in the place of anything.
        Ok(unsafe { &(*made).value })
    }

    fn made(found: *mut Made<T>) -> Option<&'static Made<T>> {
        // SAFETY: null, or what `get_or_try_init` has leaked from a box, and never freed or changed since. It may be a
        // parent's, whose memory a child has a copy of. That threads share it is what `T: Send + Sync` is for.
        unsafe { found.as_ref() }
    }
}

impl<T: Send + Sync + 'static> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}
