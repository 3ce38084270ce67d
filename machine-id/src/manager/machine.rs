//! When a manager asks, when it turns factories on and off, and what an answer changes: without a clock, a thread or a
//! strategy.
//!
//! Tell it what happened with [`Machine::handle`], then call [`Machine::poll`] and carry out what it says, until it says to
//! wait or nothing.
//!
//! # Rules
//!
//! - **The clock comes first.** Before anything else is looked at, a lease past its deadline is lost. The deadline is what was
//!   granted less 10 s, from *before* the request was sent.
//! - **Turning off comes before everything else** that a loss brings about. (The factories are off by then in any case, if it
//!   is the deadline that passed.)
//! - **Doubt keeps the factories on**, and asks again, inside the time that is known to be the holder's.
//! - **Nothing is asked for while something may still be held**: first it is released.
//! - **A call that hangs hinders nobody.** It is waited for until its limit; whatever it grants later is given back.
//! - **Whoever ends takes back what nobody heard of**, beside a call that may still be in flight, and waits for that as for a
//!   release.

use std::collections::VecDeque;
use std::time::Duration;

use super::options::{Options, SHORTEST_LEASE};
use super::pacing::Pacing;
use super::words::{Command, End, Event, Used};
use super::{Notice, StartError};
use crate::source::Term;
use crate::{AcquireError, Acquired, LeaseHandle, Reason, RenewError, Renewed, Window};

/// What is kept from the end of each lease.
const MARGIN: Duration = Duration::from_secs(10);
/// No renewal is due sooner after the last.
const SOONEST_RENEWAL: Duration = Duration::from_secs(5);
/// How long a call is waited for at most.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Nothing is tried again sooner.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// How long a manager that ends waits for what it gives back.
pub(super) const LEAVING: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Phase {
    Acquiring,
    Held(Hold),
    /// What may be held is given back, until then, and what may have been granted unheard is `withdrawn`.
    Ending {
        until: Duration,
        end: End,
        withdrawn: bool,
    },
    Ended(End),
}

#[derive(Debug)]
struct Hold {
    machine_id: u16,
    lease: LeaseHandle,
    window: Option<Window>,
    deadline: Duration,
    renew_at: Duration,
    /// The last attempt whose answer was taken in; of older ones none is.
    answered: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Acquire,
    Renew,
    Release,
}

/// A lease that is to be given back.
#[derive(Debug)]
struct Return {
    lease: LeaseHandle,
    used: Used,
    /// The machine ID that it ends for this manager. There is none where it was never held, or is another's by now.
    ends: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    call: Call,
    attempt: u64,
    limit: Duration,
}

#[derive(Debug)]
pub(super) struct Machine {
    options: Options,
    deterministic: bool,
    phase: Phase,
    commands: VecDeque<Command>,
    in_flight: Option<Flight>,
    /// Leases to be given back, one after the other.
    to_release: VecDeque<Return>,
    /// What the release that is in flight ends.
    ends: Option<u16>,
    attempts: u64,
    pacing: Pacing,
    /// The earliest instant of the next acquire.
    next_try: Duration,
    /// Until when a start waits; `None` once a lease was held, or for ever.
    give_up_at: Option<Duration>,
    held_once: bool,
    last_error: Option<StartError>,
}

impl Machine {
    /// One that wants a machine ID from `now` on. `seed` is any random number; it only spreads tries in time.
    pub(super) fn new(options: Options, deterministic: bool, seed: u64, now: Duration) -> Self {
        Self {
            options,
            deterministic,
            phase: Phase::Acquiring,
            commands: VecDeque::new(),
            in_flight: None,
            to_release: VecDeque::new(),
            ends: None,
            attempts: 0,
            pacing: Pacing::new(seed),
            next_try: now,
            give_up_at: options.acquire_timeout.map(|timeout| now.saturating_add(timeout)),
            held_once: false,
            last_error: None,
        }
    }

    /// The machine ID, and until when it may be used.
    pub(super) fn held(&self) -> Option<(u16, Duration)> {
        match &self.phase {
            Phase::Held(hold) => Some((hold.machine_id, hold.deadline)),
            _ => None,
        }
    }

    /// How it ended: known before everything has been given back.
    pub(super) fn end(&self) -> Option<&End> {
        match &self.phase {
            Phase::Ending { end, .. } | Phase::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Whether everything has been given back, or the time for that is over.
    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Takes in what happened, at `now`.
    pub(super) fn handle(&mut self, event: Event, now: Duration) {
        self.settle(now);
        match event {
            Event::Acquired { attempt, grant, sent, skew } => self.acquired(attempt, grant, sent, skew, now),
            Event::NotAcquired { attempt, error } => {
                if self.landed(attempt) {
                    self.failed(StartError::Acquire(error), now);
                }
            }
            Event::Renewed { attempt, renewed, sent } => self.renewed(attempt, renewed, sent, now),
            Event::NotRenewed { attempt, error } => self.not_renewed(attempt, error, now),
            Event::Released { attempt } => {
                let landed = self.landed(attempt);
                if let Some(machine_id) = self.ends.filter(|_| landed) {
                    self.commands.push_back(Command::Tell(Notice::Released { machine_id }));
                }
            }
            Event::NotReleased { attempt } => {
                self.landed(attempt);
            }
            Event::Withdrawn => {
                if let Phase::Ending { withdrawn, .. } = &mut self.phase {
                    *withdrawn = true;
                }
            }
            Event::Signalled => self.lose(Reason::Signalled, "reported from outside".into(), now),
            Event::StopRequested => self.stop(now),
        }
        self.check(now);
    }

    /// The thread that carried out commands has died and begins again. What it held it goes on with, after one renewal; what
    /// was in flight may be answered or not.
    pub(super) fn resume(&mut self, now: Duration) {
        self.settle(now);
        self.in_flight = None;
        match &mut self.phase {
            Phase::Held(hold) => hold.renew_at = now,
            _ => self.next_try = now.saturating_add(self.pacing.pause()),
        }
        self.check(now);
    }

    /// The next thing to do at `now`; `None` once there is nothing any more. Call it until it says to wait.
    pub(super) fn poll(&mut self, now: Duration) -> Option<Command> {
        self.settle(now);
        let command = self.commands.pop_front().or_else(|| self.next_call(now)).or_else(|| self.next_look());
        self.check(now);
        command
    }

    /// What only the clock brings about.
    fn settle(&mut self, now: Duration) {
        if let Phase::Held(hold) = &self.phase {
            if now >= hold.deadline {
                self.lose(Reason::Expired, "not renewed in time".into(), now);
            }
        }
        if let Some(flight) = self.in_flight.filter(|flight| now >= flight.limit) {
            self.in_flight = None;
            match flight.call {
                Call::Acquire => {
                    let error = AcquireError::Unreachable("no answer within its limit".into());
                    self.failed(StartError::Acquire(error), now);
                }
                Call::Renew => self.retry("no answer within its limit".into(), now),
                Call::Release => {}
            }
        }
        if matches!(self.phase, Phase::Acquiring) && self.give_up_at.is_some_and(|at| now >= at) {
            let error = self.last_error.take().unwrap_or_else(|| {
                StartError::Acquire(AcquireError::Unreachable("no answer in the time there was".into()))
            });
            self.leave(End::Failed(error), now);
        }
        if let Phase::Ending { until, end, withdrawn } = &self.phase {
            if now >= *until || (*withdrawn && self.in_flight.is_none() && self.to_release.is_empty()) {
                self.phase = Phase::Ended(end.clone());
            }
        }
    }

    /// Whether this answers the call that is in flight, which then no longer is.
    fn landed(&mut self, attempt: u64) -> bool {
        let landed = self.in_flight.is_some_and(|flight| flight.attempt == attempt);
        if landed {
            self.in_flight = None;
        }
        landed
    }

    fn acquired(&mut self, attempt: u64, grant: Acquired, sent: Duration, skew: Duration, now: Duration) {
        let awaited = self.landed(attempt) && matches!(self.phase, Phase::Acquiring);
        let deadline = sent.saturating_add(grant.ttl.saturating_sub(MARGIN));
        let error = if !awaited {
            None
        } else if grant.ttl < SHORTEST_LEASE {
            Some(StartError::IllegalTtl(grant.ttl))
        } else if skew > self.options.max_clock_skew {
            Some(StartError::ClockSkew { found: skew, most: self.options.max_clock_skew })
        } else if grant.machine_id > self.options.max_machine_id() {
            Some(StartError::Acquire(AcquireError::Misconfigured(format!(
                "machine ID {} has no room in any layout, expected at most {}",
                grant.machine_id,
                self.options.max_machine_id()
            ))))
        } else if now >= deadline {
            Some(StartError::Acquire(AcquireError::Unreachable("the answer came too late".into())))
        } else {
            self.hold(attempt, grant, sent, deadline);
            return;
        };
        let used = Used::Nothing(grant.window);
        self.to_release.push_back(Return { lease: grant.lease, used, ends: None });
        if let Some(error) = error {
            self.failed(error, now);
        }
    }

    fn hold(&mut self, attempt: u64, grant: Acquired, sent: Duration, deadline: Duration) {
        let Acquired { machine_id, lease, ttl, window, .. } = grant;
        let renew_at = sent.saturating_add(self.renew_after(ttl));
        self.phase = Phase::Held(Hold { machine_id, lease, window, deadline, renew_at, answered: attempt });
        (self.held_once, self.give_up_at, self.last_error) = (true, None, None);
        self.pacing.succeeded();
        self.commands.push_back(Command::TurnOn { machine_id, term: Term { deadline, window } });
        self.commands.push_back(Command::Tell(Notice::Acquired { machine_id, ttl }));
    }

    /// How long after it was asked for a lease is renewed.
    fn renew_after(&self, ttl: Duration) -> Duration {
        let latest = self.options.renew_interval.min(ttl.saturating_sub(MARGIN));
        latest.saturating_sub(MARGIN).max(SOONEST_RENEWAL)
    }

    fn renewed(&mut self, attempt: u64, renewed: Renewed, sent: Duration, now: Duration) {
        self.landed(attempt);
        let renew_after = self.renew_after(renewed.ttl);
        let Phase::Held(hold) = &mut self.phase else { return };
        if attempt <= hold.answered {
            return;
        }
        hold.answered = attempt;
        hold.lease = renewed.lease;
        if renewed.ttl < SHORTEST_LEASE {
            let why = format!("renewed for {:?}, expected at least {SHORTEST_LEASE:?}", renewed.ttl);
            self.lose(Reason::IllegalTtl, why, now);
            return;
        }
        // What was granted counts, also where it is less than before.
        hold.deadline = sent.saturating_add(renewed.ttl.saturating_sub(MARGIN));
        hold.renew_at = sent.saturating_add(renew_after);
        hold.window = renewed.window.or(hold.window);
        let term = Term { deadline: hold.deadline, window: hold.window };
        let machine_id = hold.machine_id;
        self.pacing.succeeded();
        self.commands.push_back(Command::Extend { term });
        self.commands.push_back(Command::Tell(Notice::Renewed { machine_id, ttl: renewed.ttl }));
        self.settle(now);
    }

    fn not_renewed(&mut self, attempt: u64, error: RenewError, now: Duration) {
        let awaited = self.landed(attempt);
        let current = matches!(&self.phase, Phase::Held(hold) if attempt > hold.answered);
        match error {
            RenewError::Lost(why) if current => self.lose(Reason::Lost, why, now),
            RenewError::Retry(why) if current && awaited => self.retry(why, now),
            _ => {}
        }
    }

    /// Nobody knows; it is asked again, four times at least in the time that is left.
    fn retry(&mut self, why: String, now: Duration) {
        let pause = self.pacing.pause();
        if let Phase::Held(hold) = &mut self.phase {
            let left = hold.deadline.saturating_sub(now);
            hold.renew_at = now.saturating_add(pause.min(left / 4).max(SHORTEST_PAUSE));
            self.commands.push_back(Command::Tell(Notice::NotRenewed { machine_id: hold.machine_id, why }));
        }
    }

    /// No machine ID this time.
    fn failed(&mut self, error: StartError, now: Duration) {
        if !matches!(self.phase, Phase::Acquiring) {
            return;
        }
        self.commands.push_back(Command::Tell(match &error {
            StartError::Acquire(AcquireError::Conflict(why)) => Notice::Conflict { why: why.clone() },
            _ => Notice::NotAcquired { why: error.clone() },
        }));
        if !self.held_once && !error.is_passing() {
            self.leave(End::Failed(error), now);
            return;
        }
        self.last_error = Some(error);
        self.next_try = now.saturating_add(self.pacing.pause());
    }

    fn lose(&mut self, reason: Reason, why: String, now: Duration) {
        let Phase::Held(hold) = &self.phase else { return };
        let (machine_id, lease) = (hold.machine_id, hold.lease.clone());
        // Whatever else was to be done with this lease is not done any more; notices are.
        self.commands.retain(|command| matches!(command, Command::Tell(_) | Command::TurnOff { .. }));
        self.commands.push_front(Command::TurnOff { reason });
        self.commands.push_back(Command::Tell(Notice::Lost { machine_id, reason, why }));
        // What is known to be another's is nobody's to give back; whoever hands it out may think otherwise.
        let ends = Some(machine_id).filter(|_| reason != Reason::Lost);
        self.to_release.push_back(Return { lease, used: Used::AsTurnedOff, ends });
        // A renewal that hangs is of no interest any more.
        self.in_flight = None;
        self.pacing.succeeded();
        if self.deterministic {
            self.leave(End::Lost(reason), now);
        } else {
            self.phase = Phase::Acquiring;
            let pause = if reason == Reason::IllegalTtl { self.pacing.pause() } else { Duration::ZERO };
            self.next_try = now.saturating_add(pause);
        }
    }

    fn stop(&mut self, now: Duration) {
        match &self.phase {
            Phase::Held(hold) => {
                let (lease, ends) = (hold.lease.clone(), Some(hold.machine_id));
                self.commands.retain(|command| matches!(command, Command::Tell(_) | Command::TurnOff { .. }));
                self.commands.push_front(Command::TurnOff { reason: Reason::Stopped });
                self.to_release.push_back(Return { lease, used: Used::AsTurnedOff, ends });
                self.in_flight = None;
                self.leave(End::Stopped, now);
            }
            Phase::Acquiring => {
                // A claim that is in flight may still be granted, and is given back then.
                self.commands.push_back(Command::TurnOff { reason: Reason::Stopped });
                self.leave(End::Stopped, now);
            }
            Phase::Ending { .. } | Phase::Ended(_) => {}
        }
    }

    fn leave(&mut self, end: End, now: Duration) {
        let until = now.saturating_add(LEAVING);
        self.phase = Phase::Ending { until, end, withdrawn: false };
        self.commands.push_back(Command::Withdraw { limit: until });
    }

    fn next_call(&mut self, now: Duration) -> Option<Command> {
        if self.in_flight.is_some() {
            return None;
        }
        // Nothing is asked for before what may be held is given back; unless a lease is held, whose renewal comes first.
        let renew = match &self.phase {
            Phase::Held(hold) => (now >= hold.renew_at).then(|| (hold.lease.clone(), hold.deadline)),
            _ => None,
        };
        if let Some((lease, deadline)) = renew {
            let quarter = deadline.saturating_sub(now) / 4;
            let limit = now.saturating_add(quarter.clamp(SHORTEST_PAUSE, CALL_LIMIT));
            let attempt = self.take_off(Call::Renew, limit);
            return Some(Command::Renew { attempt, lease, limit });
        }
        if let Some(Return { lease, used, ends }) = self.to_release.pop_front() {
            self.ends = ends;
            let limit = now.saturating_add(LEAVING);
            let attempt = self.take_off(Call::Release, limit);
            return Some(Command::Release { attempt, lease, used, limit });
        }
        if matches!(self.phase, Phase::Acquiring) && now >= self.next_try {
            let limit = now.saturating_add(CALL_LIMIT).min(self.give_up_at.unwrap_or(Duration::MAX));
            let attempt = self.take_off(Call::Acquire, limit);
            return Some(Command::Acquire { attempt, limit });
        }
        None
    }

    fn take_off(&mut self, call: Call, limit: Duration) -> u64 {
        self.attempts = self.attempts.saturating_add(1);
        self.in_flight = Some(Flight { call, attempt: self.attempts, limit });
        self.attempts
    }

    fn next_look(&self) -> Option<Command> {
        let flight = self.in_flight.map(|flight| flight.limit);
        let own = match &self.phase {
            Phase::Acquiring => {
                let next_try = if flight.is_none() { self.next_try } else { Duration::MAX };
                next_try.min(self.give_up_at.unwrap_or(Duration::MAX))
            }
            Phase::Held(hold) => {
                if flight.is_none() {
                    hold.renew_at.min(hold.deadline)
                } else {
                    hold.deadline
                }
            }
            Phase::Ending { until, .. } => *until,
            Phase::Ended(_) if flight.is_none() => return None,
            Phase::Ended(_) => Duration::MAX,
        };
        Some(Command::WaitUntil(own.min(flight.unwrap_or(Duration::MAX))))
    }

    /// What always holds, in one list.
    fn check(&self, now: Duration) {
        let held = match &self.phase {
            Phase::Held(hold) => Some(hold),
            _ => None,
        };
        let is_call = |call| self.in_flight.is_some_and(|flight| flight.call == call);
        for (name, holds) in [
            ("what is held is not over", held.is_none_or(|hold| now < hold.deadline)),
            ("a renewal is in flight for what is held", !is_call(Call::Renew) || held.is_some()),
            ("nothing is acquired beside what is held", !is_call(Call::Acquire) || held.is_none()),
            ("a call is waited for until its limit", self.in_flight.is_none_or(|flight| now < flight.limit)),
            ("a start waits for its time alone", self.give_up_at.is_none() || !self.held_once),
        ] {
            debug_assert!(holds, "{name}: {self:?}");
        }
    }
}

#[cfg(test)]
mod tests;
