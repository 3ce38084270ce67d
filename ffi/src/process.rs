//! What there is once in each process: the native runtime, and the list of stores that have to be closed before a fork.
//!
//! A fork copies the runtime without its thread. So a child makes its own when it first needs one, and its parent's is
//! neither used nor dropped there.

use std::future::{Future, pending};
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use lease_machines_os::PerProcess;
use tokio::runtime::{Builder, Handle};

use crate::opened::Slot;

static PROCESS: PerProcess<Process> = PerProcess::new();

/// What a process has.
pub(crate) struct Process {
    runtime: Handle,
    /// The stores that were opened here, those that are gone among them.
    stores: Mutex<Vec<Weak<Slot>>>,
    /// How many are being opened.
    opening: AtomicUsize,
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
        Ok(Process { runtime: handle, stores: Mutex::default(), opening: AtomicUsize::new(0) })
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

    /// How many stores are being opened.
    pub(crate) fn opening(&self) -> &AtomicUsize {
        &self.opening
    }

    /// The stores on the list.
    pub(crate) fn opened(&self) -> Vec<Arc<Slot>> {
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

/// Has something done that nobody waits for. Without a runtime, it is as if the process had ended before it was done.
pub(crate) fn detach(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(process) = current() {
        process.runtime.spawn(work);
    }
}

/// The same for what blocks.
pub(crate) fn detach_blocking(work: impl FnOnce() + Send + 'static) {
    if let Ok(process) = current() {
        process.runtime.spawn_blocking(work);
    }
}
