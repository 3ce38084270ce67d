//! What there is once in each process: the native runtime, and the list of stores that have to be closed before a fork.
//!
//! A fork copies the runtime without its thread. So a child makes its own when it first needs one, and its parent's is
//! neither used nor dropped there.

use std::future::{Future, pending};
use std::io;
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use lease_machines_os::{Generation, PerProcess};
use tokio::runtime::{Builder, Handle};

use crate::gvl;
use crate::opened::Slot;

static PROCESS: PerProcess<Process> = PerProcess::new();

/// What a process has.
pub(crate) struct Process {
    runtime: Handle,
    /// The stores whose files were opened here, those that are gone among them.
    stores: Mutex<Vec<Weak<Slot>>>,
    /// How many files are open, or being opened, set up or closed.
    files: AtomicUsize,
}

/// This process's. Its runtime is started where there is none, and ends with the process.
///
/// # Errors
///
/// Where the process may have no thread or descriptor more.
pub(crate) fn current() -> io::Result<&'static Process> {
    PROCESS.get_or_try_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name("lease-ruby".to_owned())
            .spawn(move || runtime.block_on(pending::<()>()))?;
        Ok(Process { runtime: handle, stores: Mutex::default(), files: AtomicUsize::new(0) })
    })
}

/// This process's, if it has one.
pub(crate) fn known() -> Option<&'static Process> {
    PROCESS.get()
}

impl Process {
    /// For what blocks, and for what goes on when nobody waits for it.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How many files are open, or being opened, set up or closed.
    pub(crate) fn files(&self) -> &AtomicUsize {
        &self.files
    }

    /// The stores on the list.
    pub(crate) fn with_files(&self) -> Vec<Arc<Slot>> {
        self.stores().iter().filter_map(Weak::upgrade).collect()
    }

    /// Adds one to the list.
    pub(crate) fn remember(&self, store: Weak<Slot>) {
        let mut stores = self.stores();
        stores.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&store));
        stores.push(store);
    }

    fn stores(&self) -> MutexGuard<'_, Vec<Weak<Slot>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What belongs to the process that has made it. A child leaves its copy as it is, and drops nothing of it: locks in it may be
/// held by threads that are not there.
pub(crate) struct Own<T> {
    value: Option<T>,
    process: Generation,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: Generation::current() }
    }

    /// Whether this is the process that has made it.
    pub(crate) fn is_here(&self) -> bool {
        self.process.is_current()
    }

    /// `None` in a child, and once it was taken.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.is_here())
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        if self.is_here() { self.value.as_mut() } else { None }
    }

    /// The same, for whoever takes it.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.is_here() { self.value.take() } else { None }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            mem::forget(self.value.take());
        }
    }
}

/// Has something done that nobody waits for. Without a runtime, it is as if the process had ended before it was done.
pub(crate) fn detach(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(process) = current() {
        process.runtime.spawn(work);
    }
}

/// The same for what blocks. Where there is no thread for it, the runtime panics, and it is dropped here.
pub(crate) fn detach_blocking(work: impl FnOnce() + Send + 'static) {
    if let Ok(process) = current() {
        let _ = gvl::caught(|| process.runtime.spawn_blocking(work));
    }
}
