//! What a keeper is told.

use core::time::Duration;

use crate::{FencingToken, Rejection};

/// Something happened. Answers name the attempt of the [`Command`](super::Command) that they answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Only time has passed.
    Tick,
    /// An acquire or reacquire was granted.
    Granted {
        /// The attempt that it answers.
        attempt: u64,
        /// The token granted.
        token: FencingToken,
        /// The time remaining by the store's clock when it decided.
        ttl: Duration,
        /// When the request was **sent**: the `now` of the poll that commanded it, or later.
        sent: Duration,
    },
    /// A renewal was granted.
    Renewed {
        /// The attempt that it answers.
        attempt: u64,
        /// The token renewed.
        token: FencingToken,
        /// The time remaining by the store's clock when it decided.
        ttl: Duration,
        /// When the request was **sent**: the `now` of the poll that commanded it, or later.
        sent: Duration,
    },
    /// The store decided against the request.
    Rejected {
        /// The attempt that it answers.
        attempt: u64,
        /// Why.
        reason: Rejection,
        /// For [`Rejection::Occupied`]: how long the other's lease goes on if it is not renewed.
        remaining: Duration,
    },
    /// The work was done before, under the same once-key.
    AlreadyDone {
        /// The attempt that it answers.
        attempt: u64,
    },
    /// The store answered that nothing was changed: *not done*.
    NotDone {
        /// The attempt that it answers.
        attempt: u64,
    },
    /// No answer came, or none that says what was done: *unknown*.
    NoAnswer {
        /// The attempt that it answers.
        attempt: u64,
    },
    /// The store refused: rights, schema, configuration.
    Refused {
        /// The attempt that it answers.
        attempt: u64,
    },
    /// A release or withdrawal was done.
    Released {
        /// The attempt that it answers.
        attempt: u64,
    },
    /// This very token had been released before. That is the echo of an earlier release that went unanswered, and as
    /// good as an answer to it; without one, somebody else gave the lease back, and it did not stand to the end.
    AlreadyReleased {
        /// The attempt that it answers.
        attempt: u64,
    },
    /// The store has begun a new epoch: every lease of the old one is lost.
    NewEpoch,
    /// The resource refused the token.
    Fenced,
    /// The resource may be free: the wait that [`Command::AwaitVacancy`](super::Command::AwaitVacancy) asked for ended.
    Woken,
    /// Whoever holds the lease wants to end. While waiting: nothing more is asked for.
    StopRequested,
    /// The work has ended, by itself or because it was told to.
    WorkFinished,
}
