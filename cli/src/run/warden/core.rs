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
    /// Raise the mark at the fence; then call [`Core::marked`] or [`Core::could_not_start`].
    Advance(FencingToken),
    /// Start the command; then call [`Core::started`] or [`Core::could_not_start`].
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
pub(crate) struct Core {
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

impl Core {
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
mod tests {
    use lease_machines::{Cadence, NotHeld, Rejection};

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TTL: Duration = ms(10_000);

    fn token() -> FencingToken {
        FencingToken::new(7).unwrap()
    }

    /// ttl 10 s, renewed and at risk by thirds; 2 s from TERM to KILL, the margin is 500 ms.
    fn core() -> Core {
        let cadence = Cadence::new(TTL, TTL / 3, TTL / 3).unwrap();
        Core::new(KeeperOptions::new(cadence), Times::new(TTL, ms(2_000)), Leftover::Wait, 1, ms(0))
    }

    fn running() -> Core {
        let mut core = core();
        let Action::Request(Command::Acquire { attempt, .. }) = core.next(Left::Nothing, ms(0)) else {
            unreachable!()
        };
        core.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
        assert_eq!(core.next(Left::Nothing, ms(1)), Action::Start(token()));
        core.started();
        core
    }

    /// Everything it wants to do at `now` before it waits.
    fn all(core: &mut Core, left: Left, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        loop {
            let action = core.next(left, now);
            actions.push(action);
            if matches!(action, Action::WaitUntil(_) | Action::AwaitVacancy(_) | Action::Done(_)) {
                return actions;
            }
        }
    }

    /// The machine slept for an hour. Nothing may be sent before KILL, and no TERM at all: the command must not run on
    /// to hear it.
    #[test]
    fn scenario_25_woken_past_the_deadline_kill_comes_before_any_request_and_no_term() {
        let mut core = running();
        assert!(matches!(all(&mut core, Left::Here, ms(10))[..], [Action::WaitUntil(_)]));
        let woken = all(&mut core, Left::Here, ms(3_600_000));
        assert_eq!(woken[0], Action::Kill(Scope::All), "{woken:?}");
        assert!(
            woken.iter().all(|action| matches!(action, Action::Kill(_) | Action::WaitUntil(_))),
            "{woken:?}"
        );
        core.course().unwrap().command_ended(Ended::Signal(9));
        assert!(matches!(core.next(Left::Nothing, ms(3_600_005)), Action::Done(Outcome::Lost(_))));
    }

    /// The same with a renewal on its way when the machine fell asleep, and its good answer waiting at waking.
    #[test]
    fn scenario_25_an_answer_that_waited_revives_nothing() {
        let mut core = running();
        let Action::Request(Command::Renew { attempt, .. }) = core.next(Left::Here, ms(3_400)) else {
            unreachable!()
        };
        let woken = ms(3_600_000);
        core.heard(Event::Renewed { attempt, token: token(), ttl: TTL, sent: ms(3_400) }, woken);
        assert_eq!(core.next(Left::Here, woken), Action::Kill(Scope::All));
    }

    #[test]
    fn a_store_that_never_answers_brings_term_well_before_kill_and_both_before_the_deadline() {
        let mut core = running();
        let mut now = ms(10);
        let (mut term, mut kill) = (None, None);
        while kill.is_none() {
            for action in all(&mut core, Left::Here, now) {
                match action {
                    Action::Term(Scope::All) => term = Some(now),
                    Action::Kill(Scope::All) => kill = Some(now),
                    Action::WaitUntil(until) => now = until,
                    Action::Request(Command::Renew { .. }) | Action::Warn => assert_eq!(kill, None),
                    other => unreachable!("{other:?}"),
                }
                if kill.is_some() {
                    break;
                }
            }
        }
        // The deadline is 10 s less a drift allowance of 10 ms.
        assert_eq!((term, kill), (Some(ms(7_490)), Some(ms(9_490))));
        assert_eq!(core.loss(), Some(Loss::Unreachable));
    }

    #[test]
    fn a_renewal_after_term_keeps_the_lease_but_not_the_command() {
        let mut core = running();
        let mut renewal = None;
        let mut now = ms(10);
        'told: loop {
            for action in all(&mut core, Left::Here, now) {
                match action {
                    Action::Request(Command::Renew { attempt, .. }) => renewal = Some((attempt, now)),
                    Action::WaitUntil(until) => now = until,
                    Action::Term(_) => break 'told,
                    _ => {}
                }
            }
        }
        if let Action::Request(Command::Renew { attempt, .. }) = core.next(Left::Here, now) {
            renewal = Some((attempt, now));
        }
        let (attempt, sent) = renewal.unwrap();
        core.heard(Event::Renewed { attempt, token: token(), ttl: TTL, sent }, now + ms(1));
        assert!(core.deadline().unwrap() > ms(15_000));
        core.course().unwrap().command_ended(Ended::Code(0));
        let Action::Request(Command::Release { attempt, .. }) = core.next(Left::Nothing, now + ms(5)) else {
            unreachable!()
        };
        core.heard(Event::Released { attempt }, now + ms(6));
        assert!(matches!(core.next(Left::Nothing, now + ms(6)), Action::Done(Outcome::Lost(_))));
    }

    #[test]
    fn a_refused_renewal_brings_term_at_once() {
        let mut core = running();
        let Action::Request(Command::Renew { attempt, .. }) = core.next(Left::Here, ms(3_400)) else {
            unreachable!()
        };
        let reason = Rejection::Vacant;
        core.heard(Event::Rejected { attempt, reason, remaining: Duration::ZERO }, ms(3_401));
        assert_eq!(core.next(Left::Here, ms(3_401)), Action::Term(Scope::All));
        assert_eq!(core.next(Left::Here, ms(3_402)), Action::WaitUntil(ms(5_401)));
        assert_eq!(core.next(Left::Here, ms(5_401)), Action::Kill(Scope::All));
        assert_eq!((core.loss(), core.why()), (Some(Loss::Vacated), Some(Why::Lost)));
    }

    /// Granted, and told to raise the mark at 1 ms.
    fn marking() -> Core {
        let mut core = core().with_fence();
        let Action::Request(Command::Acquire { attempt, .. }) = core.next(Left::Nothing, ms(0)) else {
            unreachable!()
        };
        core.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
        assert_eq!(core.next(Left::Nothing, ms(1)), Action::Advance(token()));
        core
    }

    #[test]
    fn the_command_starts_once_the_mark_stands_and_the_lease_is_renewed_meanwhile() {
        let mut core = marking();
        assert!(matches!(core.next(Left::Nothing, ms(2)), Action::WaitUntil(_)), "asked for once");
        assert!(matches!(core.next(Left::Nothing, ms(3_400)), Action::Request(Command::Renew { .. })));
        core.marked();
        assert_eq!(core.next(Left::Nothing, ms(3_401)), Action::Start(token()));
        core.started();
        assert!(matches!(core.next(Left::Here, ms(3_402)), Action::WaitUntil(_)), "started once");
    }

    #[test]
    fn nothing_starts_under_a_lease_that_was_lost_while_the_mark_was_raised() {
        let mut core = marking();
        let lost = all(&mut core, Left::Nothing, ms(60_000));
        assert!(core.is_work_over(), "{lost:?}");
        core.marked();
        let late = all(&mut core, Left::Nothing, ms(60_001));
        assert!(!late.iter().any(|action| matches!(action, Action::Start(_))), "{late:?}");
    }

    #[test]
    fn a_mark_that_cannot_be_raised_gives_the_lease_back() {
        let mut core = marking();
        core.could_not_start(ms(5));
        let actions = all(&mut core, Left::Nothing, ms(5));
        assert!(matches!(actions[0], Action::Request(Command::Release { .. })), "{actions:?}");
    }

    const OTHER: Event = Event::Rejected { attempt: 1, reason: Rejection::Occupied, remaining: ms(60_000) };

    /// A wait that is shorter than the way to the store and back.
    fn waiting() -> Core {
        let wait = Wait::Until(ms(1));
        let cadence = Cadence::new(TTL, TTL / 3, TTL / 3).unwrap();
        let options = KeeperOptions::new(cadence).with_wait(Patience::of_keeper(wait, TTL, ms(0)));
        let mut core =
            Core::new(options, Times::new(TTL, ms(2_000)), Leftover::Wait, 1, ms(0)).with_wait(wait);
        assert!(matches!(
            core.next(Left::Nothing, ms(0)),
            Action::Request(Command::Acquire { attempt: 1, .. })
        ));
        core
    }

    #[test]
    fn a_short_wait_does_not_cut_the_first_answer_short() {
        let mut core = waiting();
        assert!(matches!(core.next(Left::Nothing, ms(40)), Action::WaitUntil(_)));
        core.heard(Event::Granted { attempt: 1, token: token(), ttl: TTL, sent: ms(0) }, ms(50));
        assert_eq!(core.next(Left::Nothing, ms(50)), Action::Start(token()));
        let mut core = waiting();
        core.heard(OTHER, ms(50));
        assert_eq!(core.next(Left::Nothing, ms(50)), Action::Done(Outcome::NotHeld(NotHeld::Occupied)));
    }

    #[test]
    fn what_is_granted_after_the_wait_for_another_is_given_back() {
        let wait = Wait::Until(ms(300));
        let cadence = Cadence::new(TTL, TTL / 3, TTL / 3).unwrap();
        let options = KeeperOptions::new(cadence).with_wait(Patience::of_keeper(wait, TTL, ms(0)));
        let mut core =
            Core::new(options, Times::new(TTL, ms(2_000)), Leftover::Wait, 1, ms(0)).with_wait(wait);
        let _ = core.next(Left::Nothing, ms(0));
        core.heard(OTHER, ms(1));
        assert_eq!(core.next(Left::Nothing, ms(1)), Action::AwaitVacancy(ms(300)));
        core.heard(Event::Woken, ms(100));
        let Action::Request(Command::Acquire { attempt, .. }) = core.next(Left::Nothing, ms(100)) else {
            unreachable!()
        };
        assert_eq!(core.next(Left::Nothing, ms(101)), Action::WaitUntil(ms(300)));
        core.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(100) }, ms(300));
        let actions = all(&mut core, Left::Nothing, ms(300));
        assert!(!actions.iter().any(|action| matches!(action, Action::Start(_))), "{actions:?}");
        assert!(
            actions.iter().any(|action| matches!(action, Action::Request(Command::Withdraw { .. }))),
            "{actions:?}"
        );
    }

    #[test]
    fn who_does_not_wait_takes_not_done_for_an_answer_after_a_second() {
        let mut core = core().with_wait(Wait::No);
        let mut now = ms(0);
        let outcome = loop {
            match core.next(Left::Nothing, now) {
                Action::Request(Command::Acquire { attempt, .. }) => {
                    core.heard(Event::NotDone { attempt }, now)
                }
                Action::WaitUntil(until) => now = until,
                Action::Done(outcome) => break outcome,
                other => unreachable!("{other:?}"),
            }
        };
        assert_eq!(outcome, Outcome::NotHeld(NotHeld::Unreachable));
        assert!(now >= ms(1_000) && now < ms(5_000), "{now:?}");
    }

    #[test]
    fn nothing_starts_while_the_front_is_stopped() {
        let mut core = core();
        core.pause(true);
        let Action::Request(Command::Acquire { attempt, .. }) = core.next(Left::Nothing, ms(0)) else {
            unreachable!()
        };
        core.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
        assert!(matches!(core.next(Left::Nothing, ms(1)), Action::WaitUntil(_)));
        assert!(matches!(core.next(Left::Nothing, ms(3_400)), Action::Request(Command::Renew { .. })));
        core.pause(false);
        assert_eq!(core.next(Left::Nothing, ms(3_401)), Action::Start(token()));
    }

    #[test]
    fn giving_up_while_the_front_is_stopped_gives_the_lease_back() {
        let mut core = core();
        core.pause(true);
        let Action::Request(Command::Acquire { attempt, .. }) = core.next(Left::Nothing, ms(0)) else {
            unreachable!()
        };
        core.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
        let _ = core.next(Left::Nothing, ms(1));
        core.give_up(ms(2));
        assert!(matches!(core.next(Left::Nothing, ms(2)), Action::Request(Command::Release { .. })));
    }

    #[test]
    fn giving_up_a_wait_withdraws_what_is_on_its_way() {
        let mut core = core();
        let _ = core.next(Left::Nothing, ms(0));
        core.give_up(ms(5));
        let Action::Request(Command::Withdraw { attempt, .. }) = core.next(Left::Nothing, ms(5)) else {
            unreachable!()
        };
        core.heard(Event::Released { attempt }, ms(6));
        assert_eq!(core.next(Left::Nothing, ms(6)), Action::Done(Outcome::NotHeld(NotHeld::Stopped)));
    }
}
