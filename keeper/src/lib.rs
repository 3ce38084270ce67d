//! Hold leases from async Rust: taken from a [store](lease_machines_store), renewed in the background, lost in time, and
//! released after the work.
//!
//! ```
//! use lease_machines_keeper::{HoldOptions, with_lease};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = lease_machines_store::open("sqlite::memory:")?;
//!
//! let worked = with_lease(&store, "reports/nightly", HoldOptions::new(), async |lease| {
//!     // Nobody else is here now. What is written carries the token, so that whoever was here before and overslept
//!     // is refused.
//!     Ok::<_, std::io::Error>(format!("written under token {}", lease.token().value()))
//! })
//! .await?;
//!
//! assert!(worked.verdict.stood());
//! # Ok(())
//! # }
//! ```
//!
//! # Which call
//!
//! | I have | call |
//! | --- | --- |
//! | an async block to run under a lease | [`with_lease`]: drops it when the lease is lost, releases when it has ended |
//! | something longer, or not async | [`hold`]: a [`Guard`] that keeps the lease until it is released or dropped |
//! | tests | a [`Scheduler`] with a [`ManualClock`], and the same two calls on it |
//! | a runtime about to end | [`shutdown`]: waits for releases that go on in the background |
//!
//! ```
//! use std::time::Duration;
//! use lease_machines_keeper::{HoldError, HoldOptions, hold};
//! use lease_machines_store::WorkResult;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = lease_machines_store::open("sqlite::memory:")?;
//! let options = HoldOptions::new().ttl(Duration::from_secs(30)).label("worker 7");
//! let guard = hold(&store, "db/compaction", options).await?;
//!
//! // Whoever comes second does not wait, unless it is told to, and hears who is first.
//! let second = hold(&store, "db/compaction", HoldOptions::new()).await;
//! let Err(HoldError::Occupied(occupied)) = second else { panic!("held") };
//! assert_eq!(occupied.by.unwrap().label.as_deref(), Some("worker 7"));
//!
//! for _page in 0..3 {
//!     if !guard.may_act() {
//!         break; // as the clock has it, also where this process has slept
//!     }
//!     // ... write the page, under guard.token() ...
//! }
//! assert!(guard.release(WorkResult::Good).await.stood());
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! - **The local clock has the last word.** A lease counts from the instant at which it was asked for, on a clock that
//!   goes on while the machine sleeps, less a thousandth for drift. [`may_act`](Lease::may_act) and
//!   [`state`](Lease::state) compute the answer when they are asked. Where the store answers nothing at all, the lease is
//!   [at risk](LeaseState::AtRisk), and then lost, all the same: no call to the store is waited for beyond it.
//! - **Loss comes with its reason**, once: [`LossReason`] says expired, taken by whom and under which token, revoked, new
//!   epoch, unreachable (and what the store said last), or fenced.
//! - **Release comes after the work**, and the [`Verdict`] says whether the lease stood until then.
//! - **A lost lease is never taken again behind the work's back.** Take it anew, under a greater token.
//! - **Every future may be dropped at any point.** A question that nobody waits for any more leaves nothing held beyond
//!   its first term, of 30 s at most, even with the store gone.
//! - **A forked child holds nothing**, and does not disturb its parent.
//!
//! What no runtime can promise: a process can be stopped between asking [`may_act`](Lease::may_act) and writing. The
//! fence at the resource refuses that write; give the marks to [`HoldOptions::fence`], and write under the token.
//!
//! # Tests of your own
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use lease_machines_keeper::{HoldOptions, LeaseState, ManualClock, Scheduler};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = lease_machines_store::open("sqlite::memory:")?;
//! let clock = ManualClock::new();
//! let scheduler = Scheduler::with_clock(store, Arc::new(clock.clone()));
//! let guard = scheduler.hold("job", HoldOptions::new()).await?;
//!
//! clock.advance(Duration::from_secs(3600)); // the lid was shut
//! assert_eq!(guard.state(), LeaseState::Expired);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `tracing`: a span `lease` for each hold, from the question to the verdict (fields `resource`, `owner`, `token`, `epoch`),
//! with the events *granted*, *not held*, *at risk*, *lost* and *ended*, all with the target `lease`.
//!
//! `metrics`: these figures. No label is a resource's name.
//!
//! | name | kind | labels |
//! | --- | --- | --- |
//! | `lease_granted_total` | counter | |
//! | `lease_renewed_total` | counter | |
//! | `lease_lost_total` | counter | `reason`: [`LossReason::name`] |
//! | `lease_attempts_total` | counter, requests sent | `request`: `acquire`, `reacquire`, `renew`, `release`, `withdraw` |
//! | `lease_answers_total` | counter | `answer`: `done`, `occupied`, `rejected`, `not_done`, `unknown`, `refused` |
//! | `lease_waited_seconds` | histogram, until granted or given up | |
//! | `lease_held_seconds` | histogram | |
//! | `lease_renewed_together` | histogram, leases in one call | |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
pub use fence::{Advanced, DatabaseMark, FenceMark, MarkError};
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
///
/// # Panics
///
/// In a runtime without I/O and time (`enable_all`), which nothing can be renewed in.
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
