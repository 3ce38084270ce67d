//! Asking until there is an answer: what `lease acquire` and `lease id acquire` do alike.

use std::io;
use std::time::Duration;

use lease_machines_store::{StoreError, Undecided};
use nix::sys::signal::Signal;

use crate::args::Wait;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::sys::clock;
use crate::sys::ready::Ready;
use crate::sys::signals::{Inherited, Signals};

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

/// Asks until there is an answer, or until somebody interrupts. What was granted by then is not known to the caller, who has
/// to take it back.
pub(super) async fn ask<R: Request>(
    request: &R,
    wait: Wait,
    interrupted: impl Future<Output = Signal>,
) -> Result<R::Answer, Failure> {
    tokio::select! {
        answer = answer(request, wait) => answer,
        signal = interrupted => Err(Failure::by_signal(signal)),
    }
}

/// One that says that others are in the way is the last only when the wait is over.
async fn answer<R: Request>(request: &R, wait: Wait) -> Result<R::Answer, Failure> {
    let begun = clock::now();
    let (mut attempt, mut unanswered, mut announced) = (0, 0, false);
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
        if !announced {
            announced = true;
            request.announce(&held);
        }
        request.pause(&held, left).await;
    }
}

/// The signals that ask a command to end. Those that were ignored when it began stay so.
pub(super) struct Interruption(Ready<Signals>);

impl Interruption {
    pub(super) fn listen() -> Result<Self, Failure> {
        Self::begin()
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen for signals: {error}")))
    }

    fn begin() -> io::Result<Self> {
        let inherited = Inherited::note();
        let ending = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
        let heard = ending.into_iter().filter(|signal| !inherited.ignores(*signal));
        Ready::new(Signals::listen(heard)?).map(Self)
    }

    pub(super) async fn arrives(&self) -> Signal {
        loop {
            if let Some(signal) = self.0.get().next() {
                return signal;
            }
            if self.0.wait().await.is_err() {
                // The runtime is shutting down, and this future with it.
                std::future::pending::<()>().await;
            }
        }
    }
}
