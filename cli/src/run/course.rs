//! The course of a command, from its start to the last of what it started: what is to be done to it, and when.
//!
//! It performs nothing and reads no clock. It is asked for the next [`Step`] before anything is sent to a store, so that
//! a process that was woken past the deadline kills first.

use std::time::Duration;

use super::times::Times;
use crate::sys::process::Ended;

/// A deadline cannot be waited for by KILL alone: a process that sleeps in the kernel ends when the kernel lets it.
const GIVE_UP: Duration = Duration::from_secs(2);
/// KILL is sent again every millisecond at first, since a process may fork while it is looked for.
const QUICK: Duration = Duration::from_millis(1);
const QUICK_TRIES: u32 = 100;
const SLOW: Duration = Duration::from_millis(50);
/// Where nobody is left that can be signalled, it is tried again for completeness only.
const HOPELESS: Duration = Duration::from_millis(500);
/// The death of a grandchild whose parent lives is not reported to us.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What becomes of background processes that the command leaves in its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Leftover {
    /// Wait for them; the lease is kept meanwhile.
    #[default]
    Wait,
    /// End them: TERM, then KILL.
    Kill,
}

/// Why the command, or what it left behind, is made to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    /// It left processes behind, and was asked to end or said not to.
    LeftBehind,
    /// The front is gone: nobody would hear of the result.
    FrontGone,
    /// It was held for as long as it may be.
    MaxHold,
    /// The lease is lost.
    Lost,
}

/// Who is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Everything that descends from the command.
    All,
    /// What is still in the command's session.
    Session,
}

/// What is left of the command and its descendants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Left {
    /// Nothing at all.
    Nothing,
    /// Processes that went to a session of their own.
    Elsewhere,
    /// Processes of the command's session.
    Here,
    /// Processes, and none of them can be signalled by us.
    Untouchable,
}

/// The next thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Send TERM, then CONT, so that what is stopped can clean up.
    Term(Scope),
    /// Send KILL.
    Kill(Scope),
    /// Nothing before this instant, unless something happens.
    Wait(Duration),
    /// It is over.
    Finished,
}

/// The state of a command that was started.
#[derive(Debug)]
pub(crate) struct Course {
    times: Times,
    leftover: Leftover,
    /// The lease's, as last known: a lease that is lost keeps the last one.
    deadline: Option<Duration>,
    ended: Option<Ended>,
    asked_to_end: bool,
    ending: Option<Ending>,
    finished: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    why: Why,
    since: Duration,
    told: bool,
    kills: u32,
    next_kill: Duration,
    first_kill: Duration,
}

impl Course {
    /// A command that begins now.
    pub(crate) fn new(times: Times, leftover: Leftover) -> Self {
        Self {
            times,
            leftover,
            deadline: None,
            ended: None,
            asked_to_end: false,
            ending: None,
            finished: false,
        }
    }

    /// The lease was confirmed until `deadline`.
    pub(crate) fn lease_until(&mut self, deadline: Duration) {
        self.deadline = Some(deadline);
    }

    /// The command itself has ended; what it left behind may live.
    pub(crate) fn command_ended(&mut self, how: Ended) {
        self.ended.get_or_insert(how);
    }

    /// A signal that means "end" was passed on to the command: what it leaves behind is to end, too.
    pub(crate) fn asked_to_end(&mut self) {
        self.asked_to_end = true;
    }

    /// From now on everything is made to end. A reason of more weight replaces a lesser one.
    pub(crate) fn end(&mut self, why: Why, now: Duration) {
        match &mut self.ending {
            Some(ending) if scope(ending.why) == scope(why) => ending.why = ending.why.max(why),
            Some(ending) if ending.why > why => {}
            _ => {
                self.ending =
                    Some(Ending { why, since: now, told: false, kills: 0, next_kill: now, first_kill: now })
            }
        }
    }

    /// How the command ended, once it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Why it was made to end, if it was.
    pub(crate) fn why(&self) -> Option<Why> {
        self.ending.map(|ending| ending.why)
    }

    /// When KILL follows, once it was told to end.
    pub(crate) fn kill_at(&self) -> Option<Duration> {
        self.ending.map(|ending| self.times.kill_at(ending.since, self.deadline))
    }

    /// Whether what it left behind is waited for.
    pub(crate) fn waits_for_leftovers(&self) -> bool {
        self.ended.is_some() && self.ending.is_none() && !self.finished
    }

    /// What to do at `now`, with `left` of it still there.
    pub(crate) fn step(&mut self, left: Left, now: Duration) -> Step {
        if self.finished {
            return Step::Finished;
        }
        // The deadline is watched here too, and not only by whoever renews: KILL must not depend on one timer.
        let last_kill = self.deadline.map(|deadline| self.times.last_kill(deadline));
        if last_kill.is_some_and(|at| now >= at) && self.why() != Some(Why::Lost) {
            self.end(Why::Lost, now);
        }
        if left == Left::Nothing || self.ended.is_some() && self.ending.is_none() && left == Left::Elsewhere {
            return self.finish();
        }
        if self.ending.is_none() && self.ended.is_some() {
            if self.leftover == Leftover::Wait && !self.asked_to_end {
                let again = now.saturating_add(LOOK_AGAIN);
                return Step::Wait(last_kill.map_or(again, |at| at.min(again)));
            }
            self.end(Why::LeftBehind, now);
        }
        match self.ending {
            Some(ending) => self.step_ending(ending, left, now),
            None => Step::Wait(last_kill.unwrap_or(Duration::MAX)),
        }
    }

    fn step_ending(&mut self, mut ending: Ending, left: Left, now: Duration) -> Step {
        let scope = scope(ending.why);
        if scope == Scope::Session && left == Left::Elsewhere {
            return self.finish();
        }
        let kill_at = self.times.kill_at(ending.since, self.deadline);
        // KILL is looked at first: whoever wakes past its time sends no TERM.
        let step = if now >= kill_at {
            if ending.kills == 0 {
                ending.first_kill = now;
            } else {
                let give_up_at = self.give_up_at(&ending, left);
                if now >= give_up_at {
                    return self.finish();
                }
                if now < ending.next_kill {
                    return Step::Wait(ending.next_kill.min(give_up_at));
                }
            }
            ending.kills = ending.kills.saturating_add(1);
            ending.told = true;
            let pause = match left {
                Left::Untouchable => HOPELESS,
                _ if ending.kills < QUICK_TRIES => QUICK,
                _ => SLOW,
            };
            ending.next_kill = now.saturating_add(pause);
            Step::Kill(scope)
        } else if !ending.told {
            ending.told = true;
            Step::Term(scope)
        } else if self.ended.is_some() {
            return Step::Wait(kill_at.min(now.saturating_add(LOOK_AGAIN)));
        } else {
            return Step::Wait(kill_at);
        };
        self.ending = Some(ending);
        step
    }

    /// Past the deadline of a lost lease, what KILL does not end is left to the fence.
    fn give_up_at(&self, ending: &Ending, left: Left) -> Duration {
        if ending.why != Why::Lost {
            return Duration::MAX;
        }
        let over = self.deadline.unwrap_or_default().max(ending.first_kill);
        if left == Left::Untouchable { over } else { over.saturating_add(GIVE_UP) }
    }

    fn finish(&mut self) -> Step {
        self.finished = true;
        Step::Finished
    }
}

const fn scope(why: Why) -> Scope {
    match why {
        Why::LeftBehind => Scope::Session,
        Why::FrontGone | Why::MaxHold | Why::Lost => Scope::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// ttl 10 s: margin 500 ms; 2 s from TERM to KILL.
    fn course(leftover: Leftover) -> Course {
        let mut course = Course::new(Times::new(ms(10_000), ms(2_000)), leftover);
        course.lease_until(ms(10_000));
        course
    }

    #[test]
    fn a_command_that_ends_and_leaves_nothing_is_over() {
        let mut course = course(Leftover::Wait);
        assert_eq!(course.step(Left::Here, ms(1)), Step::Wait(ms(9_500)));
        course.command_ended(Ended::Code(3));
        assert_eq!(course.step(Left::Nothing, ms(2)), Step::Finished);
        assert_eq!((course.ended(), course.why()), (Some(Ended::Code(3)), None));
    }

    #[test]
    fn leftovers_of_the_session_are_waited_for_and_daemons_are_not() {
        let mut course = course(Leftover::Wait);
        course.command_ended(Ended::Code(0));
        assert_eq!(course.step(Left::Here, ms(1)), Step::Wait(ms(101)));
        assert!(course.waits_for_leftovers());
        assert_eq!(course.step(Left::Elsewhere, ms(2)), Step::Finished);
    }

    #[test]
    fn leftovers_end_when_asked() {
        for asked in [true, false] {
            let mut course = course(if asked { Leftover::Wait } else { Leftover::Kill });
            if asked {
                course.asked_to_end();
            }
            course.command_ended(Ended::Code(0));
            assert_eq!(course.step(Left::Here, ms(1)), Step::Term(Scope::Session));
            assert_eq!(course.step(Left::Here, ms(2)), Step::Wait(ms(102)));
            assert_eq!(course.step(Left::Here, ms(2_001)), Step::Kill(Scope::Session));
            assert_eq!(course.step(Left::Elsewhere, ms(2_002)), Step::Finished);
        }
    }

    #[test]
    fn a_loss_while_leftovers_end_reaches_all() {
        let mut course = course(Leftover::Kill);
        course.command_ended(Ended::Code(0));
        assert_eq!(course.step(Left::Here, ms(1)), Step::Term(Scope::Session));
        course.end(Why::Lost, ms(500));
        assert_eq!(course.step(Left::Here, ms(500)), Step::Term(Scope::All));
        assert_eq!(course.step(Left::Elsewhere, ms(2_500)), Step::Kill(Scope::All));
        assert_eq!(course.step(Left::Nothing, ms(2_501)), Step::Finished);
    }

    #[test]
    fn term_then_kill_and_a_renewal_in_between_moves_only_the_deadline() {
        let mut course = course(Leftover::Wait);
        course.end(Why::Lost, ms(9_000));
        assert_eq!(course.step(Left::Here, ms(9_000)), Step::Term(Scope::All));
        assert_eq!(course.step(Left::Here, ms(9_001)), Step::Wait(ms(9_500)));
        course.lease_until(ms(19_000));
        assert_eq!(course.step(Left::Here, ms(9_500)), Step::Wait(ms(11_000)), "TERM and kill-after");
        assert_eq!(course.step(Left::Here, ms(11_000)), Step::Kill(Scope::All));
        assert_eq!(course.why(), Some(Why::Lost));
    }

    #[test]
    fn kill_is_repeated_until_nothing_is_left() {
        let mut course = course(Leftover::Wait);
        course.end(Why::MaxHold, ms(0));
        assert_eq!(course.step(Left::Here, ms(0)), Step::Term(Scope::All));
        for at in 2_000..2_050 {
            assert_eq!(course.step(Left::Here, ms(at)), Step::Kill(Scope::All));
            assert_eq!(course.step(Left::Here, ms(at)), Step::Wait(ms(at + 1)));
        }
        assert_eq!(course.step(Left::Nothing, ms(2_060)), Step::Finished);
    }

    #[test]
    fn woken_past_the_deadline_it_kills_and_sends_no_term() {
        let mut course = course(Leftover::Wait);
        assert_eq!(course.step(Left::Here, ms(60_000)), Step::Kill(Scope::All));
        assert_eq!(course.why(), Some(Why::Lost));
    }

    #[test]
    fn what_cannot_be_signalled_is_left_at_the_deadline_and_not_in_a_busy_loop() {
        let mut course = course(Leftover::Wait);
        course.end(Why::Lost, ms(9_000));
        assert_eq!(course.step(Left::Here, ms(9_000)), Step::Term(Scope::All));
        assert_eq!(course.step(Left::Untouchable, ms(9_500)), Step::Kill(Scope::All));
        assert_eq!(course.step(Left::Untouchable, ms(9_500)), Step::Wait(ms(10_000)));
        assert_eq!(course.step(Left::Untouchable, ms(10_000)), Step::Finished);
    }

    #[test]
    fn a_process_asleep_in_the_kernel_is_given_up_after_a_while() {
        let mut course = course(Leftover::Wait);
        assert_eq!(course.step(Left::Here, ms(60_000)), Step::Kill(Scope::All));
        assert_eq!(course.step(Left::Here, ms(61_999)), Step::Kill(Scope::All));
        assert_eq!(course.step(Left::Here, ms(62_000)), Step::Finished);
    }

    #[test]
    fn without_a_lost_lease_it_never_gives_up() {
        let mut course = course(Leftover::Wait);
        course.end(Why::FrontGone, ms(0));
        let _ = course.step(Left::Here, ms(2_000));
        course.lease_until(ms(900_000));
        assert_eq!(course.step(Left::Untouchable, ms(800_000)), Step::Kill(Scope::All));
        assert_eq!(course.step(Left::Untouchable, ms(800_001)), Step::Wait(ms(800_500)));
    }

    #[test]
    fn the_weightier_reason_counts() {
        let mut course = course(Leftover::Wait);
        course.end(Why::MaxHold, ms(0));
        course.end(Why::Lost, ms(1));
        course.end(Why::FrontGone, ms(2));
        assert_eq!(course.why(), Some(Why::Lost));
        course.end(Why::LeftBehind, ms(3));
        assert_eq!(course.why(), Some(Why::Lost));
    }
}
