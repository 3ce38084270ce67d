//! One scheduler for each store, runtime and process.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use lease_machines_store::Store;
use tokio::runtime::{Handle, Id};

use super::{Core, Scheduler};
use crate::fork::Process;
use crate::{BootClock, HoldError};

/// The schedulers of one process. A forked child does not take over its parent's, and does not even look at their lock,
/// which another thread may have held at the moment of the fork: it has a node of its own, behind its parent's.
struct Node {
    process: Process,
    cores: Mutex<Vec<(Id, Weak<Core>)>>,
    child: OnceLock<Box<Node>>,
}

static ROOT: OnceLock<Node> = OnceLock::new();

impl Node {
    const fn new(process: Process) -> Self {
        Self { process, cores: Mutex::new(Vec::new()), child: OnceLock::new() }
    }

    fn current() -> &'static Self {
        let process = Process::current();
        let mut node = ROOT.get_or_init(|| Self::new(process));
        while node.process != process {
            node = node.child.get_or_init(|| Box::new(Self::new(process)));
        }
        node
    }

    fn cores(&self) -> MutexGuard<'_, Vec<(Id, Weak<Core>)>> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scheduler for `store` in this runtime. Each runtime has its own: one that stands still, or is shut down, must
/// not take another's leases with it.
pub(crate) fn scheduler_of(store: &Arc<dyn Store>) -> Result<Scheduler, HoldError> {
    let runtime = Handle::try_current().map_err(|_| HoldError::NoRuntime)?.id();
    let mut cores = Node::current().cores();
    cores.retain(|(_, core)| core.strong_count() > 0);
    let known = cores.iter().filter(|(id, _)| *id == runtime).find_map(|(_, core)| {
        core.upgrade().filter(|core| std::ptr::addr_eq(Arc::as_ptr(&core.store), Arc::as_ptr(store)))
    });
    let core = known.unwrap_or_else(|| {
        let core = Arc::new(Core::new(Arc::clone(store), Arc::new(BootClock)));
        cores.push((runtime, Arc::downgrade(&core)));
        core
    });
    Ok(Scheduler { core })
}

/// The schedulers of this process, those of the user's own excepted.
pub(crate) fn all() -> Vec<Scheduler> {
    let cores = Node::current().cores();
    cores.iter().filter_map(|(_, core)| core.upgrade()).map(|core| Scheduler { core }).collect()
}
