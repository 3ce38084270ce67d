//! Leases of one process on one store.

mod calls;
mod driver;
mod entry;
mod hub;
mod queue;
mod registry;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines_store::{ResourceName, Store, fresh_owner};
use tokio::sync::oneshot;

use crate::lease::Shared;
use crate::telemetry::Trace;
use crate::work::{Worked, work_under};
use crate::{BootClock, Clock, Guard, HoldError, HoldOptions, Lease};

use self::hub::Request;
pub(crate) use self::hub::{Hub, Order};
pub(crate) use registry::{all, scheduler_of};

/// Takes, renews and releases the leases of one process on one store.
///
/// [`hold`](crate::hold) and [`with_lease`](crate::with_lease) make one for each store and tokio runtime by themselves;
/// make your own to hold leases by another clock than the [`BootClock`], in tests say. Clones are the same scheduler.
///
/// However many leases it keeps, it is one task with one timer: renewals that fall due within the same second leave in
/// one call, see [`Store::renew_many`]. It starts with the first lease, in the runtime where that is asked for, and ends
/// with the last one. It belongs to the process that made it; a forked child makes its own.
#[derive(Clone)]
pub struct Scheduler {
    hub: Arc<Hub>,
}

impl Scheduler {
    /// A scheduler for the leases on `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with_clock(store, Arc::new(BootClock))
    }

    /// The same, by a clock of your own.
    #[must_use]
    pub fn with_clock(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { hub: Arc::new(Hub::new(store, clock)) }
    }

    /// Takes the lease on `resource`, and keeps it until the guard is dropped or released.
    ///
    /// The future may be dropped at any point: what was, or may have been, granted is given back in the background, and
    /// stays held for no longer than its first term, at most 30 s, where the store cannot be reached.
    ///
    /// # Errors
    ///
    /// [`HoldError`]; no work has been begun then.
    pub async fn hold(&self, resource: impl AsRef<str>, options: HoldOptions) -> Result<Guard, HoldError> {
        let resource = ResourceName::new(resource).map_err(HoldError::Name)?;
        if !self.hub.process.is_current() {
            return Err(HoldError::Forked);
        }
        let (answer, granted) = oneshot::channel();
        let id = self.hub.next_id();
        self.hub.request(self.request(id, resource, options, answer)?)?;
        let mut ticket = Ticket { hub: &self.hub, id: Some(id) };
        match granted.await {
            Ok(Ok(shared)) => {
                // Whoever asked may have been kept from looking for long.
                if let Some(reason) = shared.loss() {
                    return Err(HoldError::Lost { resource: shared.lease.resource.clone(), reason });
                }
                ticket.id = None;
                self.hub.submit(Order::Take(id));
                Ok(Guard::new(shared))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(HoldError::NoRuntime),
        }
    }

    fn request(
        &self,
        id: u64,
        resource: ResourceName,
        options: HoldOptions,
        answer: oneshot::Sender<Result<Arc<Shared>, HoldError>>,
    ) -> Result<Request, HoldError> {
        let asked = self.hub.clock.now();
        let checked = options.check(self.hub.store.capabilities(), asked).map_err(HoldError::Options)?;
        let owner = fresh_owner().map_err(HoldError::NoOwner)?;
        let trace = Trace::new(&resource, owner);
        let (claim, parts) = options.into_parts(resource, owner);
        Ok(Request { id, asked, options: checked, claim, parts, answer, trace })
    }

    /// Runs `work` under the lease on `resource`, see [`with_lease`](crate::with_lease).
    ///
    /// # Errors
    ///
    /// [`HoldError`]; the work has not been begun then.
    pub async fn with_lease<T, E, W, F>(
        &self,
        resource: impl AsRef<str>,
        options: HoldOptions,
        work: W,
    ) -> Result<Worked<T, E>, HoldError>
    where
        W: FnOnce(Lease) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let guard = self.hold(resource, options).await?;
        Ok(work_under(guard, work).await)
    }

    /// Waits until every lease whose guard was dropped, and every one that was given up before it was granted, has been
    /// given back, for at most `limit`. Leases that are held go on.
    ///
    /// # Errors
    ///
    /// [`Unreleased`] says how many are left; they end by themselves, with their terms.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), Unreleased> {
        match self.hub.wind_up(limit).await {
            0 => Ok(()),
            leases => Err(Unreleased { leases }),
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.hub.store.capabilities().engine;
        f.debug_struct("Scheduler").field("store", &engine).finish_non_exhaustive()
    }
}

/// Leases that were not given back in time. They end by themselves, with their terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unreleased {
    /// How many.
    pub leases: usize,
}

impl fmt::Display for Unreleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leases } = self;
        write!(f, "{leases} leases were not given back in time; they end by themselves")
    }
}

impl std::error::Error for Unreleased {}

/// Gives up what was asked for, unless it is taken out.
struct Ticket<'a> {
    hub: &'a Hub,
    id: Option<u64>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.filter(|_| self.hub.process.is_current()) {
            self.hub.submit(Order::GiveUp(id));
        }
    }
}
