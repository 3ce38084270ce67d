//! Asking until there is an answer: what `lease acquire` and `lease id acquire` do alike.

use std::time::Duration;

use lease_machines_store::{StoreError, Undecided};

use crate::args::Wait;
use crate::failure::Failure;
use crate::sys::clock;

/// How often a request that brought no answer is repeated before it is taken back.
pub(super) const ATTEMPTS: u64 = 4;

/// Between two of them.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// How long taking an unanswered request back may take. What is not taken back by then ends with its ttl.
pub(super) const WITHDRAWAL: Duration = Duration::from_secs(2);

/// What is asked for, and what happens while others hold it.
pub(super) trait Request {
    type Answer;

    /// Asks. From the second attempt on it is to take the place of the earlier ones, which may have been granted without
    /// an answer and would be in the way of their own owner.
    async fn ask(&self, attempt: u64) -> Result<Self::Answer, StoreError>;

    /// Whether others are in the way, so that waiting may help.
    fn is_held(answer: &Self::Answer) -> bool;

    /// Says what is waited for.
    fn announce(&self, held: &Self::Answer);

    /// Waits until it may be free, for at most `left`.
    async fn pause(&self, held: &Self::Answer, left: Duration);
}

/// Asks until there is an answer. One that says that others are in the way is the last only when the wait is over.
pub(super) async fn ask<R: Request>(request: &R, wait: Wait) -> Result<R::Answer, Failure> {
    let begun = clock::now();
    let (mut attempt, mut unanswered) = (0, 0);
    loop {
        attempt += 1;
        let held = match request.ask(attempt).await {
            Ok(answer) if R::is_held(&answer) => answer,
            Ok(answer) => return Ok(answer),
            Err(error) if error.undecided() == Undecided::Refused || unanswered == ATTEMPTS => {
                return Err(Failure::of_decision(error));
            }
            Err(_) => {
                unanswered += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        unanswered = 0;
        let left = match wait {
            Wait::For(limit) => limit.saturating_sub(clock::now().saturating_sub(begun)),
            Wait::Forever => Duration::MAX,
        };
        if left.is_zero() {
            return Ok(held);
        }
        if attempt == 1 {
            request.announce(&held);
        }
        request.pause(&held, left).await;
    }
}
