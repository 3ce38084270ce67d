//! Hold leases from async Rust.
#![forbid(unsafe_code)]

mod clock;
mod error;
mod fence;
mod fork;
mod guard;
mod lease;
mod loss;
mod options;
mod scheduler;
mod telemetry;
mod work;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines_store::Store;

pub use clock::{BootClock, BootTimer, Clock, ManualClock, Timer, sleep_until};
pub use error::{AlreadyDone, HoldError, Occupied};
pub use fence::{Advanced, FenceError, FenceMark};
pub use guard::Guard;
pub use lease::{Lease, LeaseState};
pub use loss::{LossReason, StopCause, Verdict};
pub use options::{HoldOptions, OptionsError};
pub use scheduler::{Scheduler, Unreleased};
pub use work::Worked;

/// Takes the lease on `resource`, and keeps it until the guard is dropped or released.
///
/// The future may be dropped at any point: what was, or may have been, granted is given back in the background, and
/// stays held for no longer than its first term, at most 30 s, where the store cannot be reached.
///
/// # Errors
///
/// [`HoldError`]; no work has been begun then.
pub async fn hold(
    store: &Arc<dyn Store>,
    resource: impl AsRef<str>,
    options: HoldOptions,
) -> Result<Guard, HoldError> {
    scheduler::scheduler_of(store)?.hold(resource, options).await
}

/// Runs `work` under the lease on `resource`: takes the lease, runs the work, **drops** it where the lease is lost or
/// `max_hold` has passed, releases the lease **after** the work has ended, and says whether it stood until then.
///
/// Work that returns `Ok` counts as good, for [`once`](HoldOptions::once) too; `Err`, a panic and being stopped count
/// as failed. A panic in the work goes on to the caller, and the lease is released in the background.
///
/// What the work hands to threads of its own (`spawn_blocking`) or to other tasks is not stopped with it, unless it
/// watches the lease's [`cancellation_token`](Lease::cancellation_token): a fence stops its writes.
///
/// # Errors
///
/// [`HoldError`]; the work has not been begun then.
pub async fn with_lease<T, E, W, F>(
    store: &Arc<dyn Store>,
    resource: impl AsRef<str>,
    options: HoldOptions,
    work: W,
) -> Result<Worked<T, E>, HoldError>
where
    W: FnOnce(Lease) -> F,
    F: Future<Output = Result<T, E>>,
{
    scheduler::scheduler_of(store)?.with_lease(resource, options, work).await
}

/// Waits until every lease of this process that [`hold`] or [`with_lease`] took and that is being given back in the
/// background has been, for at most `limit`. Call it before the runtime ends: a runtime that is shut down takes the
/// tasks that release with it, and the leases then end with their terms.
///
/// # Errors
///
/// [`Unreleased`] says how many are left.
pub async fn shutdown(limit: Duration) -> Result<(), Unreleased> {
    let deadline = BootClock::now().saturating_add(limit);
    let mut leases = 0_usize;
    for scheduler in scheduler::all() {
        let left = deadline.saturating_sub(BootClock::now());
        if let Err(unreleased) = scheduler.shutdown(left).await {
            leases = leases.saturating_add(unreleased.leases);
        }
    }
    if leases == 0 { Ok(()) } else { Err(Unreleased { leases }) }
}
