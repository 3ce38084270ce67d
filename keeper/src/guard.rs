//! Who holds a lease, until it is dropped.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use lease_machines_store::WorkResult;
use tokio::sync::oneshot;

use crate::lease::Shared;
use crate::scheduler::Order;
use crate::{Lease, LossReason, Verdict};

/// Keeps a lease: it is renewed until the guard is dropped or [released](Self::release), and released then.
///
/// Dropping it says that the work has ended, and releases in the background; [`shutdown`](crate::shutdown) waits for
/// such releases. So drop it *after* the work, never before: a guard that is dropped while a spawned task still works
/// hands the resource to the next holder under that task's feet. [`with_lease`](crate::with_lease) gets this right.
///
/// In a process that was forked from the holder's a guard is worth nothing: it says so, releases nothing, and leaves
/// the holder alone.
#[must_use = "a guard that is dropped at once releases the lease at once"]
pub struct Guard {
    lease: Lease,
    said: bool,
}

impl Guard {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { lease: Lease::new(shared), said: false }
    }

    /// The lease, for whoever does the work.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Says that the work has ended, and how, and waits for the store's word on whether the lease stood until now.
    ///
    /// With a store that does not answer this takes as long as the lease would have lasted. Dropping the future stops
    /// the waiting, not the release. Once it has returned, nothing that was in flight extends the lease.
    pub async fn release(mut self, result: WorkResult) -> Verdict {
        let shared = Arc::clone(self.lease.shared());
        if !shared.process.is_current() {
            return Verdict::Lost(LossReason::Forked);
        }
        let (reply, answer) = oneshot::channel();
        self.finish(result, Some(reply));
        match answer.await {
            Ok(verdict) => verdict,
            // The runtime was shut down meanwhile.
            Err(_) => shared.told_loss().map_or(Verdict::Unconfirmed, Verdict::Lost),
        }
    }

    fn finish(&mut self, result: WorkResult, reply: Option<oneshot::Sender<Verdict>>) {
        self.said = true;
        let shared = self.lease.shared();
        shared.end();
        shared.hub.submit(Order::Finish { id: shared.id, result, reply });
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.said {
            return;
        }
        if self.lease.shared().process.is_current() {
            let panics = std::thread::panicking();
            self.finish(if panics { WorkResult::Failed } else { WorkResult::Unknown }, None);
        } else {
            // Taking it apart would touch locks that another thread held when the process was forked.
            mem::forget(self.lease.clone());
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.lease).finish()
    }
}
