//! Work that runs while a lease is held.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use lease_machines_store::WorkResult;

use crate::{Guard, Lease, StopCause, Verdict};

/// What became of work under a lease.
#[derive(Debug)]
#[must_use = "the verdict says whether the work may have overlapped with another holder's"]
#[non_exhaustive]
pub struct Worked<T, E> {
    /// What the work returned; `None` where it was stopped.
    pub value: Option<Result<T, E>>,
    /// Why it was stopped, where it was.
    pub stopped: Option<StopCause>,
    /// Whether the lease stood until the work had ended.
    pub verdict: Verdict,
}

impl<T, E> Worked<T, E> {
    /// Whether the work ended well, under a lease that stood to the end.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.value, Some(Ok(_))) && self.verdict.stood()
    }
}

/// Runs the work, drops it when it has to stop, and releases the lease after it has ended.
pub(crate) async fn work_under<T, E, W, F>(guard: Guard, work: W) -> Worked<T, E>
where
    W: FnOnce(Lease) -> F,
    F: Future<Output = Result<T, E>>,
{
    let value = {
        let lease = guard.lease();
        let mut stopped = pin!(guard.stopped());
        let mut work = pin!(work(lease));
        // The clock is asked before each step of the work: a process that overslept does none of it.
        poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() || !guard.may_act() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
        // Here the work is dropped, whichever way it ended; only then is the lease released.
    };
    let lease = guard.lease();
    let result = if matches!(value, Some(Ok(_))) { WorkResult::Good } else { WorkResult::Failed };
    let verdict = guard.release(result).await;
    let stopped = match (&value, lease.stop_cause()) {
        (Some(_), _) => None,
        // Seen by the clock before the scheduler saw it.
        (None, None | Some(StopCause::Ended)) => lease.loss().map(StopCause::Lost),
        (None, cause) => cause,
    };
    Worked { value, stopped, verdict }
}
