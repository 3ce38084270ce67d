//! What a scheduler's handles, its leases and its task share.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_machines::KeeperOptions;
use lease_machines_store::{Claim, Store, WorkResult};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use super::driver::Driver;
use crate::fork::Process;
use crate::lease::Shared;
use crate::options::Parts;
use crate::{Clock, HoldError, Verdict};

/// What the task is told by those who hold leases, or want to.
pub(crate) enum Order {
    /// Take a lease.
    Hold(Box<Request>),
    /// Whoever asked has got it.
    Take(u64),
    /// Whoever asked does not want it any more.
    GiveUp(u64),
    /// The work has ended.
    Finish {
        id: u64,
        result: WorkResult,
        /// Who waits for the verdict, if anyone does.
        reply: Option<oneshot::Sender<Verdict>>,
    },
    /// The resource refused the token.
    Fenced(u64),
}

/// A lease that is asked for.
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) asked: Duration,
    pub(crate) options: KeeperOptions,
    pub(crate) claim: Claim,
    pub(crate) parts: Parts,
    pub(crate) answer: oneshot::Sender<Result<Arc<Shared>, HoldError>>,
    pub(crate) trace: crate::telemetry::Trace,
}

pub(crate) struct Hub {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) process: Process,
    /// Rings when there is an order.
    pub(super) bell: Notify,
    inbox: Mutex<Inbox>,
    /// How many leases are being released, or withdrawn, for somebody who is through with them.
    winding_up: watch::Sender<usize>,
    ids: AtomicU64,
}

struct Inbox {
    orders: Vec<Order>,
    /// A task takes them out.
    attended: bool,
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            process: Process::current(),
            bell: Notify::new(),
            inbox: Mutex::new(Inbox { orders: Vec::new(), attended: false }),
            winding_up: watch::Sender::new(0),
            ids: AtomicU64::new(1),
        }
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks for a lease, starting the task where there is none.
    pub(crate) fn request(self: &Arc<Self>, request: Request) -> Result<(), HoldError> {
        let mut inbox = self.inbox();
        if !inbox.attended {
            let runtime = Handle::try_current().map_err(|_| HoldError::NoRuntime)?;
            // First, since tokio panics where the runtime has no I/O: nobody is told then that a task attends to orders.
            let driver = Driver::new(Arc::clone(self));
            inbox.attended = true;
            runtime.spawn(driver.run());
        }
        inbox.orders.push(Order::Hold(Box::new(request)));
        drop(inbox);
        self.bell.notify_one();
        Ok(())
    }

    /// Tells the task something about a lease. Where there is no task any more, there is no such lease either.
    pub(crate) fn submit(&self, order: Order) {
        let mut inbox = self.inbox();
        if inbox.attended {
            if matches!(order, Order::GiveUp(_) | Order::Finish { .. }) {
                self.winding_up.send_modify(|count| *count = count.saturating_add(1));
            }
            inbox.orders.push(order);
            drop(inbox);
            self.bell.notify_one();
        }
    }

    pub(super) fn take_orders(&self) -> Vec<Order> {
        mem::take(&mut self.inbox().orders)
    }

    /// The task has nothing to do: it may end, unless an order has come.
    pub(super) fn rest(&self) -> bool {
        let mut inbox = self.inbox();
        inbox.attended = !inbox.orders.is_empty();
        !inbox.attended
    }

    /// The task was dropped with its runtime. The orders left go with it; whoever waits for an answer learns that none
    /// will come.
    pub(super) fn abandon(&self) {
        let orders = {
            let mut inbox = self.inbox();
            inbox.attended = false;
            mem::take(&mut inbox.orders)
        };
        drop(orders);
        self.winding_up.send_replace(0);
    }

    pub(super) fn wound_up(&self, orders: usize) {
        if orders > 0 {
            self.winding_up.send_modify(|count| *count = count.saturating_sub(orders));
        }
    }

    /// Waits until nothing is being released any more, or for `limit`; says how many leases are left.
    pub(crate) async fn wind_up(&self, limit: Duration) -> usize {
        let mut count = self.winding_up.subscribe();
        let deadline = self.clock.now().saturating_add(limit);
        tokio::select! {
            biased;
            _ = count.wait_for(|count| *count == 0) => 0,
            () = crate::sleep_until(self.clock.as_ref(), deadline) => *self.winding_up.borrow(),
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
