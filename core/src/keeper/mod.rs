//! What every runtime needs around a holder, without its I/O.

mod answers;
mod command;
mod event;
mod invariants;
mod options;
mod pacing;

use core::time::Duration;

use crate::{FencingToken, Holder};
use pacing::{ACQUIRE_SPACING, WITHDRAW_LIMIT, attempt_limit};

pub use command::{Command, Loss, NotHeld, Outcome, StopReason};
pub use event::Event;
pub use options::{KeeperOptions, Wait};

/// Takes a lease, keeps it while work goes on, gives it back, and says so: one state machine for every runtime.
///
/// It performs nothing. Tell it what happened with [`handle`](Self::handle), then call [`poll`](Self::poll) and carry
/// out what it says, until it says [`WaitUntil`](Command::WaitUntil) or [`AwaitVacancy`](Command::AwaitVacancy); come
/// back at that instant, or with the next event. It is finished once [`outcome`](Self::outcome) is known and `poll`
/// has nothing more to say.
///
/// - **Getters**: [`may_act`](Self::may_act), [`stop_deadline`](Self::stop_deadline), [`holder`](Self::holder),
///   [`outcome`](Self::outcome).
/// - **Events in**: [`handle`](Self::handle). **Commands out**: [`poll`](Self::poll).
///
/// # Rules
///
/// - **The clock comes first.** Before anything else is looked at, a lease past its stop deadline is lost; expiry never
///   waits for a request in flight, and an answer that comes later revives nothing.
/// - **At most one request is in flight.** One attempt may take a quarter of the time left, so that at least three fit
///   between a first failure and the moment at which the work has to stop. Pauses between them double, with full
///   jitter.
/// - **Ambiguity is retried by what cannot do harm**: an unanswered acquire by a reacquire with the next attempt number,
///   and only before the work has begun; a renewal by a renewal; a release by a release.
/// - **Once work has begun, a lost lease is not taken again behind its back.** Only a keeper that was told to
///   ([`KeeperOptions::with_retake`]) asks again, after the work has finished, and starts it afresh.
/// - **Release comes after the work**: renewals go on until [`Event::WorkFinished`], then the lease is released. It
///   *stood* only if the release was answered.
/// - A drift allowance of a thousandth of each granted term, at least 1 ms, is taken off before the [`Holder`] counts it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Keeper {
    options: KeeperOptions,
    phase: Phase,
    holder: Option<Holder>,
    /// Requests made so far.
    attempts: u64,
    in_flight: Option<Flight>,
    /// The earliest instant of the next request.
    next_try: Duration,
    /// Failed attempts in a row.
    failures: u32,
    /// An acquire was sent of which nobody knows whether it was granted.
    unanswered: bool,
    /// A release was sent of which nobody knows whether it was done.
    release_in_doubt: bool,
    /// The last acquire met another holder, so a wait is for that holder.
    occupied: bool,
    last_acquire: Duration,
    /// From here on a wait is over.
    give_up_at: Duration,
    /// A rejection of this attempt, or of one before it, says nothing of the lease: it is from before the grant or, once
    /// the work has finished, of a renewal that the release may have overtaken.
    deaf_until: u64,
    /// When work has been held for long enough.
    hold_until: Duration,
    /// Less than the ttl was asked for at first: a renewal for all of it is due at once.
    short_first_term: bool,
    warned: bool,
    /// Why the work is to end, if not for a loss; then whether it was told.
    stop: Option<StopReason>,
    stop_told: bool,
    loss: Option<Loss>,
    loss_told: bool,
    /// A grant or renewal that came too late, to be given back.
    stray: Option<FencingToken>,
    jitter: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// Asks for the lease, or waits for it.
    Acquiring,
    /// It is granted; the work is about to be started.
    Starting,
    /// The work goes on, or is ending.
    Working,
    /// The work has finished.
    Releasing,
    /// Gives up waiting; an unanswered acquire may have brought a lease.
    Withdrawing(NotHeld),
    Done(Outcome),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Flight {
    attempt: u64,
    limit: Duration,
}

impl Keeper {
    /// A keeper that wants the lease from `now` on. `seed` is any random number; it only spreads retries in time.
    #[must_use]
    pub fn new(options: KeeperOptions, seed: u64, now: Duration) -> Self {
        let mut keeper = Self {
            options,
            phase: Phase::Acquiring,
            holder: None,
            attempts: 0,
            in_flight: None,
            next_try: now,
            failures: 0,
            unanswered: false,
            release_in_doubt: false,
            occupied: false,
            last_acquire: Duration::ZERO,
            give_up_at: Duration::MAX,
            deaf_until: 0,
            hold_until: Duration::MAX,
            short_first_term: false,
            warned: false,
            stop: None,
            stop_told: false,
            loss: None,
            loss_told: false,
            stray: None,
            jitter: seed,
        };
        keeper.start_waiting(now);
        keeper
    }

    /// Whether the work may act now: it has begun, and the lease is live as the clock has it. Work that was told to stop
    /// may use what is left.
    #[must_use]
    pub fn may_act(&self, now: Duration) -> bool {
        self.phase == Phase::Working && self.holder.as_ref().is_some_and(|holder| holder.may_act(now))
    }

    /// The first instant at which nothing may be done under the lease any more; `None` where there is no live one.
    #[must_use]
    pub fn stop_deadline(&self) -> Option<Duration> {
        self.holder.as_ref().and_then(Holder::stop_deadline)
    }

    /// The holder, from the grant on.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// How it ended, once it has.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match self.phase {
            Phase::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Takes in what happened, at `now`.
    pub fn handle(&mut self, event: Event, now: Duration) {
        self.settle(now);
        match event {
            Event::Tick => {}
            Event::Granted { attempt, token, ttl, sent } => self.granted(attempt, token, ttl, sent, now),
            Event::Renewed { attempt, token, ttl, sent } => self.renewed(attempt, token, ttl, sent, now),
            Event::Rejected { attempt, reason, remaining } => self.rejected(attempt, reason, remaining, now),
            Event::AlreadyDone { attempt } => {
                if self.landed(attempt) && self.phase == Phase::Acquiring {
                    self.give_up(NotHeld::AlreadyDone);
                }
            }
            Event::NotDone { attempt } => {
                if self.landed(attempt) {
                    self.failed(now);
                }
            }
            Event::NoAnswer { attempt } => {
                if self.landed(attempt) {
                    self.went_unanswered(now);
                }
            }
            Event::Refused { attempt } => {
                if self.landed(attempt) {
                    match self.phase {
                        Phase::Acquiring => self.give_up(NotHeld::Refused),
                        _ => self.failed(now),
                    }
                }
            }
            Event::Released { attempt } => {
                if self.landed(attempt) {
                    match self.phase {
                        Phase::Releasing => self.finish(Outcome::Stood, now),
                        Phase::Withdrawing(why) => self.finish(Outcome::NotHeld(why), now),
                        _ => {}
                    }
                }
            }
            Event::AlreadyReleased { attempt } => {
                if self.landed(attempt) {
                    match self.phase {
                        Phase::Releasing if self.release_in_doubt => self.finish(Outcome::Stood, now),
                        Phase::Releasing => self.lose(Loss::Vacated, now),
                        Phase::Withdrawing(why) => self.finish(Outcome::NotHeld(why), now),
                        _ => {}
                    }
                }
            }
            Event::NewEpoch => self.lose(Loss::NewEpoch, now),
            Event::Fenced => {
                if let Some(holder) = &mut self.holder {
                    holder.fence();
                }
                self.lose(Loss::Fenced, now);
            }
            Event::Woken => {
                if self.phase == Phase::Acquiring && self.occupied {
                    self.next_try =
                        self.next_try.min(now.max(self.last_acquire.saturating_add(ACQUIRE_SPACING)));
                }
            }
            Event::StopRequested => match self.phase {
                Phase::Acquiring => self.give_up(NotHeld::Stopped),
                // Held, but no work was begun: the withdrawal vacates it.
                Phase::Starting => {
                    self.unanswered = true;
                    self.give_up(NotHeld::Stopped);
                }
                // Also where the work has finished: a release that finds the lease lost is not followed by a retake then.
                Phase::Working | Phase::Releasing => {
                    self.stop.get_or_insert(StopReason::Requested);
                }
                Phase::Withdrawing(_) | Phase::Done(_) => {}
            },
            Event::WorkFinished => {
                if self.phase == Phase::Working {
                    self.work_finished(now);
                }
            }
        }
        self.check(now);
    }

    /// The next thing to do at `now`; `None` once all is done. Call it until it says to wait.
    pub fn poll(&mut self, now: Duration) -> Option<Command> {
        self.settle(now);
        // Never before the work that was done under it has finished.
        let stray = if self.phase == Phase::Working { None } else { self.stray.take() };
        let command = match stray {
            Some(token) => Some(Command::ReleaseStray { token }),
            None => match self.phase {
                Phase::Acquiring => Some(self.poll_acquiring(now)),
                Phase::Starting => self.poll_starting(),
                Phase::Working => Some(self.poll_working(now)),
                Phase::Releasing => Some(self.poll_releasing(now)),
                Phase::Withdrawing(_) => Some(self.poll_withdrawing(now)),
                Phase::Done(_) => None,
            },
        };
        self.check(now);
        command
    }

    fn poll_acquiring(&mut self, now: Duration) -> Command {
        if let Some(flight) = self.in_flight {
            return Command::WaitUntil(flight.limit);
        }
        if now < self.next_try {
            let until = self.next_try.min(self.give_up_at);
            return if self.occupied { Command::AwaitVacancy { until } } else { Command::WaitUntil(until) };
        }
        let ttl = self.options.first_term;
        // An answer is worth nothing after the term that it grants.
        let limit = attempt_limit(now, ttl).min(self.give_up_at);
        let attempt = self.take_off(limit);
        self.last_acquire = now;
        self.short_first_term = ttl < self.options.cadence.ttl();
        if self.unanswered {
            Command::Reacquire { attempt, ttl, limit }
        } else {
            Command::Acquire { attempt, ttl, limit }
        }
    }

    fn poll_starting(&mut self) -> Option<Command> {
        self.phase = Phase::Working;
        self.holder.as_ref().map(|holder| Command::StartWork { token: holder.token() })
    }

    fn poll_working(&mut self, now: Duration) -> Command {
        if let (Some(loss), false) = (self.loss, self.loss_told) {
            self.loss_told = true;
            self.stop_told = true;
            return Command::StopWork { reason: StopReason::Lost(loss) };
        }
        if let (Some(reason), false) = (self.stop, self.stop_told) {
            self.stop_told = true;
            return Command::StopWork { reason };
        }
        let Some(holder) = &self.holder else { return Command::WaitUntil(Duration::MAX) };
        let (Some(deadline), Some(warning), Some(renewal)) =
            (holder.stop_deadline(), holder.warning_deadline(), holder.renewal_at())
        else {
            return Command::WaitUntil(Duration::MAX);
        };
        if !self.warned && now >= warning {
            self.warned = true;
            return Command::Warn;
        }
        let (token, confirmed_at) = (holder.token(), holder.confirmed_at());
        // A first term that was short is renewed for all of the ttl at once.
        let due = if self.short_first_term { confirmed_at } else { renewal }.max(self.next_try);
        let renewal = self.on_tick(due, deadline, warning);
        let renews = self.in_flight.is_none() && now >= renewal;
        if renews && self.holder.as_mut().is_some_and(|holder| holder.refresh(now)) {
            let ttl = self.options.cadence.ttl();
            let limit = attempt_limit(now, self.retry_until(deadline, warning).saturating_sub(now));
            let attempt = self.take_off(limit);
            return Command::Renew { attempt, token, ttl, limit };
        }
        let mut until = deadline.min(self.in_flight.map_or(renewal, |flight| flight.limit));
        if !self.warned {
            until = until.min(warning);
        }
        if self.loss.is_none() {
            until = until.min(self.stop_at(deadline, warning));
        }
        if self.stop.is_none() {
            until = until.min(self.hold_until);
        }
        Command::WaitUntil(until)
    }

    fn poll_releasing(&mut self, now: Duration) -> Command {
        let deadline = self.stop_deadline().unwrap_or(now);
        if let Some(flight) = self.in_flight {
            return Command::WaitUntil(flight.limit.min(deadline));
        }
        let Some(token) = self.holder.as_ref().map(Holder::token) else { return Command::WaitUntil(now) };
        if now < self.next_try {
            return Command::WaitUntil(self.next_try.min(deadline));
        }
        let limit = attempt_limit(now, deadline.saturating_sub(now));
        let attempt = self.take_off(limit);
        Command::Release { attempt, token, limit }
    }

    fn poll_withdrawing(&mut self, now: Duration) -> Command {
        if let Some(flight) = self.in_flight {
            return Command::WaitUntil(flight.limit);
        }
        let limit = now.saturating_add(WITHDRAW_LIMIT.min(self.options.first_term));
        let attempt = self.take_off(limit);
        Command::Withdraw { attempt, limit }
    }

    /// Lets the clock have its say before anything else.
    fn settle(&mut self, now: Duration) {
        if let (Phase::Starting | Phase::Working | Phase::Releasing, Some(holder)) =
            (self.phase, &mut self.holder)
        {
            let silent = self.failures > 0 || self.in_flight.is_some_and(|flight| now >= flight.limit);
            let loss = if silent { Loss::Unreachable } else { Loss::Expired };
            if !holder.may_act(now) {
                holder.expire();
                if self.phase == Phase::Releasing && (self.failures > 0 || self.in_flight.is_some()) {
                    self.finish(Outcome::Unconfirmed, now);
                } else {
                    self.lose(loss, now);
                }
            } else if self.phase == Phase::Working {
                let (deadline, warning) = (holder.stop_deadline(), holder.warning_deadline());
                if let (Some(deadline), Some(warning)) = (deadline, warning) {
                    if now >= self.stop_at(deadline, warning) {
                        self.loss.get_or_insert(loss);
                    }
                }
                if now >= self.hold_until {
                    self.stop.get_or_insert(StopReason::MaxHold);
                }
            }
        }
        if let Some(flight) = self.in_flight {
            if now >= flight.limit {
                self.in_flight = None;
                self.went_unanswered(now);
            }
        }
        if self.phase == Phase::Acquiring && self.in_flight.is_none() && now >= self.give_up_at {
            self.give_up(if self.occupied { NotHeld::Occupied } else { NotHeld::Unreachable });
        }
    }

    fn check(&self, now: Duration) {
        debug_assert_eq!(invariants::broken(self, now), None);
    }
}
