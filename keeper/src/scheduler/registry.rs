//! One scheduler for each store, runtime and process.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use lease_machines_store::Store;
use tokio::runtime::{Handle, Id};

use super::{Hub, Scheduler};
use crate::fork::Process;
use crate::{BootClock, HoldError};

/// The schedulers of one process. A forked child does not take over its parent's, and does not even look at their lock,
/// which another thread may have held at the moment of the fork: it has a node of its own, behind its parent's.
struct Node {
    process: Process,
    hubs: Mutex<Vec<(Id, Weak<Hub>)>>,
    child: OnceLock<Box<Node>>,
}

static ROOT: OnceLock<Node> = OnceLock::new();

impl Node {
    const fn new(process: Process) -> Self {
        Self { process, hubs: Mutex::new(Vec::new()), child: OnceLock::new() }
    }

    fn current() -> &'static Self {
        let process = Process::current();
        let mut node = ROOT.get_or_init(|| Self::new(process));
        while node.process != process {
            node = node.child.get_or_init(|| Box::new(Self::new(process)));
        }
        node
    }

    fn hubs(&self) -> MutexGuard<'_, Vec<(Id, Weak<Hub>)>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scheduler for `store` in this runtime. Each runtime has its own: one that stands still, or is shut down, must
/// not take another's leases with it.
pub(crate) fn scheduler_of(store: &Arc<dyn Store>) -> Result<Scheduler, HoldError> {
    let runtime = Handle::try_current().map_err(|_| HoldError::NoRuntime)?.id();
    let mut hubs = Node::current().hubs();
    hubs.retain(|(_, hub)| hub.strong_count() > 0);
    let known = hubs.iter().filter(|(id, _)| *id == runtime).find_map(|(_, hub)| {
        hub.upgrade().filter(|hub| std::ptr::addr_eq(Arc::as_ptr(&hub.store), Arc::as_ptr(store)))
    });
    let hub = known.unwrap_or_else(|| {
        let hub = Arc::new(Hub::new(Arc::clone(store), Arc::new(BootClock)));
        hubs.push((runtime, Arc::downgrade(&hub)));
        hub
    });
    Ok(Scheduler { hub })
}

/// The schedulers of this process, those of the user's own excepted.
pub(crate) fn all() -> Vec<Scheduler> {
    let hubs = Node::current().hubs();
    hubs.iter().filter_map(|(_, hub)| hub.upgrade()).map(|hub| Scheduler { hub }).collect()
}
