//! What a keeper says to do, and how it ends.

use core::time::Duration;

use crate::{FencingToken, Rejection};

/// The next thing to do. Requests are counted by `attempt`, from 1, and are not waited for beyond `limit`, an instant
/// on the keeper's clock: from then on the keeper takes them as unanswered, whatever the runtime reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "a command is for the runtime to carry out"]
pub enum Command {
    /// Send an acquire, in this poll's `now`.
    Acquire {
        /// Also the attempt number that the store is told.
        attempt: u64,
        /// The ttl to ask for.
        ttl: Duration,
        /// Not waited for beyond this.
        limit: Duration,
    },
    /// Send a reacquire: an acquire before it went unanswered and may have been granted.
    Reacquire {
        /// Also the attempt number that the store is told.
        attempt: u64,
        /// The ttl to ask for.
        ttl: Duration,
        /// Not waited for beyond this.
        limit: Duration,
    },
    /// Send a renewal.
    Renew {
        /// Names the request.
        attempt: u64,
        /// The token to renew.
        token: FencingToken,
        /// The ttl to ask for.
        ttl: Duration,
        /// Not waited for beyond this.
        limit: Duration,
    },
    /// Send a release: the work has finished.
    Release {
        /// Names the request.
        attempt: u64,
        /// The token to release.
        token: FencingToken,
        /// Not waited for beyond this.
        limit: Duration,
    },
    /// Vacate whatever an unanswered acquire may have brought.
    Withdraw {
        /// Names the request.
        attempt: u64,
        /// Not waited for beyond this.
        limit: Duration,
    },
    /// Give back a lease whose grant or renewal was answered too late to be used. Its answer is not waited for.
    ReleaseStray {
        /// The token to release.
        token: FencingToken,
    },
    /// The lease is held: let the work begin.
    StartWork {
        /// The token to work under.
        token: FencingToken,
    },
    /// The warning deadline has passed without a confirmation; the work may want to come to a safe point.
    Warn,
    /// End the work. It comes again, with the reason [`StopReason::Lost`], where the lease is lost while work that was
    /// told to stop for another reason is still ending.
    StopWork {
        /// Why.
        reason: StopReason,
    },
    /// Another holds the resource: wait until it may be free, at most until this instant, and report
    /// [`Event::Woken`](super::Event::Woken).
    AwaitVacancy {
        /// Poll again at this instant, woken or not.
        until: Duration,
    },
    /// Nothing to do before this instant, unless an event comes.
    WaitUntil(Duration),
}

/// Why work is told to end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// [`Event::StopRequested`](super::Event::StopRequested).
    Requested,
    /// It was held for as long as it may be held.
    MaxHold,
    /// The lease is lost, or past recovery.
    Lost(Loss),
}

/// How a lease is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// It ran out: by the store's word, or because the holder overslept.
    Expired,
    /// The store did not answer, or decided nothing, for so long that the work has to end.
    Unreachable,
    /// Another holds the resource, or this owner under another token.
    Taken,
    /// The resource was vacated behind the holder's back: revoked or withdrawn.
    Vacated,
    /// The store has begun a new epoch.
    NewEpoch,
    /// The resource refused the token: a newer holder has been there.
    Fenced,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "an outcome says whether the work stood under its lease to the end"]
pub enum Outcome {
    /// The lease was never held, and no work was started.
    NotHeld(NotHeld),
    /// The lease stood until the work had finished: its release was answered.
    Stood,
    /// The lease was lost while the work was going on, or its release was refused because it was gone.
    Lost(Loss),
    /// The work finished before the deadline, but no answer to the release came in time.
    Unconfirmed,
}

/// Why a lease was never held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum NotHeld {
    /// Another holds it, and the wait is over.
    Occupied,
    /// The store did not answer in the time there was.
    Unreachable,
    /// The store refused: rights, schema, configuration.
    Refused,
    /// The request cannot be met: `InvalidTtl`, `DeadlineOverflow` or `TokensExhausted`.
    Invalid(Rejection),
    /// The work was done before, under the same once-key.
    AlreadyDone,
    /// The holder was told to stop before it held anything.
    Stopped,
}
