//! What the warden does next: the lease's keeper and the command's course, as one pure state machine.

use std::time::Duration;

use lease_machines::{
    Command, Event, FencingToken, Holder, Keeper, KeeperOptions, Loss, NotHeld, Outcome, StopReason, Wait,
};

use super::patience::Patience;

use crate::run::course::{Course, Left, Leftover, Scope, Step, Why};
use crate::run::times::Times;
use crate::sys::process::Ended;

/// The next thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send TERM, then CONT.
    Term(Scope),
    /// Send KILL.
    Kill(Scope),
    /// Raise the mark at the fence; then call [`Decider::marked`] or [`Decider::could_not_start`].
    Advance(FencingToken),
    /// Start the command; then call [`Decider::started`] or [`Decider::could_not_start`].
    Start(FencingToken),
    /// Send this to the store.
    Request(Command),
    /// The lease is at risk.
    Warn,
    /// Another holds the resource: watch for its release until this instant.
    AwaitVacancy(Duration),
    /// Nothing before this instant.
    WaitUntil(Duration),
    /// It is over.
    Done(Outcome),
}

/// Whether the command may start as far as the fence is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    /// It is to be raised first.
    Due,
    /// That was begun.
    UnderWay,
    /// It stands, or there is none.
    Stands,
}

/// A lease, and the command under it.
///
/// KILL and TERM come before any request: a process that wakes past the deadline has killed before it asks a store
/// anything, and nothing that hangs at a store delays them.
pub(crate) struct Decider {
    keeper: Keeper,
    patience: Patience,
    times: Times,
    leftover: Leftover,
    /// Granted, but the front is stopped: a command that starts now would do so behind the user's back.
    to_start: Option<FencingToken>,
    paused: bool,
    mark: Mark,
    course: Option<Course>,
    work_over: bool,
    loss: Option<Loss>,
    held_out: bool,
}

impl Decider {
    /// One run, which asks for the lease from `now` on.
    pub(crate) fn new(
        options: KeeperOptions,
        times: Times,
        leftover: Leftover,
        seed: u64,
        now: Duration,
    ) -> Self {
        Self {
            keeper: Keeper::new(options.with_stop_lead(times.stop_lead()), seed, now),
            patience: Patience::new(Wait::Forever),
            times,
            leftover,
            to_start: None,
            paused: false,
            mark: Mark::Stands,
            course: None,
            work_over: false,
            loss: None,
            held_out: false,
        }
    }

    /// The same, with an end to asking; the keeper's own is [`Patience::of_keeper`].
    pub(crate) fn with_wait(mut self, wait: Wait) -> Self {
        self.patience = Patience::new(wait);
        self
    }

    /// The same, with a mark to be raised between the grant and the start.
    pub(crate) fn with_fence(mut self) -> Self {
        self.mark = Mark::Due;
        self
    }

    /// The mark stands.
    pub(crate) fn marked(&mut self) {
        self.mark = Mark::Stands;
    }

    /// Takes in what a store answered.
    pub(crate) fn heard(&mut self, event: Event, now: Duration) {
        // First: what is granted after the end of the wait is given back.
        self.lose_patience(now);
        self.keeper.handle(event, now);
        if self.asks() {
            self.patience.heard(event, now);
            self.lose_patience(now);
        }
    }

    /// The holder in the way ends only after us.
    pub(crate) fn held_around_us(&mut self, now: Duration) {
        self.patience.end();
        self.lose_patience(now);
    }

    /// Whether the command may be started.
    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// The command runs.
    pub(crate) fn started(&mut self) {
        self.course = Some(Course::new(self.times, self.leftover));
    }

    /// The command could not be started: give the lease back.
    pub(crate) fn could_not_start(&mut self, now: Duration) {
        self.finish_work(now);
    }

    /// Somebody wants this run to end before the command was started, or nobody is left who wants it at all.
    pub(crate) fn give_up(&mut self, now: Duration) {
        match &mut self.course {
            Some(course) => course.end(Why::FrontGone, now),
            None => self.keeper.handle(Event::StopRequested, now),
        }
    }

    /// The command that was started, until all of it is gone.
    pub(crate) fn course(&mut self) -> Option<&mut Course> {
        self.course.as_mut().filter(|_| !self.work_over)
    }

    /// How the command ended.
    pub(crate) fn command_ended(&self) -> Option<Ended> {
        self.course.as_ref().and_then(Course::ended)
    }

    /// Why the command was made to end.
    pub(crate) fn why(&self) -> Option<Why> {
        self.course.as_ref().and_then(Course::why)
    }

    /// How the lease was lost, once the command was told.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// Whether the time it may be held was over before the command was started.
    pub(crate) fn held_out(&self) -> bool {
        self.held_out
    }

    /// Whether the work is over, and only the lease remains to be given back.
    pub(crate) fn is_work_over(&self) -> bool {
        self.work_over
    }

    /// The deadline of the lease, while it is not known to be lost.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.keeper.stop_deadline()
    }

    /// The token of the lease, once there is one.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.keeper.holder().map(Holder::token)
    }

    /// What to do at `now`, with `left` of the command still there. To be called until it says to wait.
    pub(crate) fn next(&mut self, left: Left, now: Duration) -> Action {
        loop {
            let mut wake = Duration::MAX;
            if let Some(course) = self.course.as_mut().filter(|_| !self.work_over) {
                if let Some(deadline) = self.keeper.stop_deadline() {
                    course.lease_until(deadline);
                }
                match course.step(left, now) {
                    Step::Term(scope) => return Action::Term(scope),
                    Step::Kill(scope) => return Action::Kill(scope),
                    Step::Wait(until) => wake = until,
                    Step::Finished => self.finish_work(now),
                }
            }
            self.lose_patience(now);
            if self.asks() {
                wake = wake.min(self.patience.until());
            }
            match self.keeper.poll(now) {
                Some(Command::StartWork { token }) => self.to_start = Some(token),
                Some(Command::StopWork { reason }) => self.stop_work(reason, now),
                Some(Command::Warn) => return Action::Warn,
                Some(Command::AwaitVacancy { until }) => return Action::AwaitVacancy(until.min(wake)),
                Some(Command::WaitUntil(until)) => {
                    return match (self.to_start.filter(|_| !self.paused), self.mark) {
                        (Some(token), Mark::Due) => {
                            self.mark = Mark::UnderWay;
                            Action::Advance(token)
                        }
                        (Some(token), Mark::Stands) => {
                            self.to_start = None;
                            Action::Start(token)
                        }
                        (Some(_), Mark::UnderWay) | (None, _) => Action::WaitUntil(until.min(wake)),
                    };
                }
                Some(request) => return Action::Request(request),
                None => return Action::Done(self.outcome(now)),
            }
        }
    }

    /// Whether the lease is still asked for.
    fn asks(&self) -> bool {
        self.keeper.holder().is_none() && self.keeper.outcome().is_none()
    }

    fn lose_patience(&mut self, now: Duration) {
        if self.asks() && self.patience.over(now).is_some() {
            self.keeper.handle(Event::StopRequested, now);
        }
    }

    fn outcome(&mut self, now: Duration) -> Outcome {
        match self.keeper.outcome() {
            Some(Outcome::NotHeld(NotHeld::Stopped)) => {
                Outcome::NotHeld(self.patience.over(now).unwrap_or(NotHeld::Stopped))
            }
            // A finished keeper has an outcome.
            outcome => outcome.unwrap_or(Outcome::Unconfirmed),
        }
    }

    fn stop_work(&mut self, reason: StopReason, now: Duration) {
        if let StopReason::Lost(loss) = reason {
            self.loss = Some(loss);
        }
        match &mut self.course {
            Some(course) => course.end(
                match reason {
                    StopReason::Lost(_) => Why::Lost,
                    StopReason::MaxHold => Why::MaxHold,
                    StopReason::Requested => Why::FrontGone,
                },
                now,
            ),
            // Nothing was started.
            None => {
                self.held_out = reason == StopReason::MaxHold;
                self.finish_work(now);
            }
        }
    }

    fn finish_work(&mut self, now: Duration) {
        self.to_start = None;
        self.work_over = true;
        self.keeper.handle(Event::WorkFinished, now);
    }
}

#[cfg(test)]
mod tests;
