//! How a keeper reads what a store answers, and how a hold ends.

use core::time::Duration;

use super::pacing::{ACQUIRE_SPACING, LEAST_ATTEMPT, LONGEST_WAIT};
use super::{Keeper, Loss, NotHeld, Outcome, Phase, Wait};
use crate::{FencingToken, Holder, HolderState, Rejection};

impl Keeper {
    pub(super) fn granted(
        &mut self,
        attempt: u64,
        token: FencingToken,
        ttl: Duration,
        sent: Duration,
        now: Duration,
    ) {
        let awaited = self.landed(attempt) && self.phase == Phase::Acquiring;
        let late = matches!(self.options.wait, Wait::Until(until) if now >= until);
        if awaited && !late {
            let cadence = self.options.cadence;
            let holder = Holder::granted(token, sent, less_drift(ttl), now, cadence);
            if holder.may_act(now) {
                self.holder = Some(holder);
                self.deaf_until = attempt;
                self.phase = Phase::Starting;
                self.unanswered = false;
                self.confirmed();
                self.hold_until = match self.options.max_hold {
                    Some(max_hold) => sent.saturating_add(max_hold),
                    None => Duration::MAX,
                };
                return;
            }
            // Over on arrival by our clock, but perhaps not by the store's: only a reacquire is sure to get past it.
            self.unanswered = true;
            self.failed(now);
        }
        let newer = self.holder.as_ref().is_none_or(|holder| holder.token() < token);
        match self.phase {
            // A reacquire is on its way, or will be: it supersedes this grant at the store. Also where the attempt was
            // answered before, as not done: then the grant is that of its double.
            Phase::Acquiring if !awaited => self.unanswered = true,
            // A withdrawal is on its way, but it may have overtaken the acquire.
            Phase::Acquiring | Phase::Withdrawing(_) | Phase::Done(_) => {
                if newer {
                    self.give_back(token);
                }
                if awaited && late {
                    self.give_up(if self.occupied { NotHeld::Occupied } else { NotHeld::Unreachable });
                }
            }
            // An older grant was superseded by the one that is held. A newer one, to an old request that was delayed for
            // long, can only have been made after the lease that is held had come to an end.
            Phase::Starting | Phase::Working if newer => {
                self.give_back(token);
                self.lose(Loss::Taken, now);
            }
            Phase::Releasing if newer => self.give_back(token),
            Phase::Starting | Phase::Working | Phase::Releasing => {}
        }
    }

    pub(super) fn renewed(
        &mut self,
        attempt: u64,
        token: FencingToken,
        ttl: Duration,
        sent: Duration,
        now: Duration,
    ) {
        let awaited = self.landed(attempt);
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.token() == token) else { return };
        match self.phase {
            Phase::Starting | Phase::Working => {
                if holder.confirm_at(token, sent, less_drift(ttl), now) {
                    if awaited {
                        self.confirmed();
                    }
                } else if holder.state_at(now) == HolderState::Expired {
                    // By the store's word it goes on, by our clock it is over: nobody is to wait for its end.
                    self.give_back(token);
                    self.lose(Loss::Expired, now);
                }
            }
            Phase::Acquiring | Phase::Done(Outcome::Unconfirmed | Outcome::Lost(_)) => {
                if holder.state() == HolderState::Expired {
                    self.give_back(token);
                }
            }
            Phase::Releasing | Phase::Withdrawing(_) | Phase::Done(Outcome::Stood | Outcome::NotHeld(_)) => {}
        }
    }

    /// How a decision against a request is read.
    pub(super) fn rejected(&mut self, attempt: u64, reason: Rejection, remaining: Duration, now: Duration) {
        let awaited = self.landed(attempt);
        match reason {
            Rejection::Occupied => {
                if awaited && self.phase == Phase::Acquiring {
                    self.met_another(remaining, now);
                }
            }
            Rejection::InvalidTtl | Rejection::DeadlineOverflow | Rejection::TokensExhausted => {
                if awaited {
                    match self.phase {
                        Phase::Acquiring => self.give_up(NotHeld::Invalid(reason)),
                        _ => self.failed(now),
                    }
                }
            }
            Rejection::ClockRegressed => {
                if awaited {
                    self.failed(now);
                }
            }
            // Of this hold, also the answer to a request that was given up: what is lost stays lost.
            Rejection::Vacant | Rejection::WrongOwner | Rejection::StaleToken | Rejection::Expired => {
                match self.phase {
                    Phase::Withdrawing(why) if awaited => self.finish(Outcome::NotHeld(why), now),
                    Phase::Acquiring if awaited => self.failed(now),
                    Phase::Starting | Phase::Working | Phase::Releasing if attempt > self.deaf_until => {
                        if let Some(holder) = &mut self.holder {
                            holder.expire();
                        }
                        let loss = match reason {
                            Rejection::Vacant => Loss::Vacated,
                            Rejection::Expired => Loss::Expired,
                            _ => Loss::Taken,
                        };
                        self.lose(loss, now);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Another holds the resource. An earlier acquire that went unanswered may still be on its way, and be granted later:
    /// it stays *unanswered*, so that a reacquire or a withdrawal gets past it.
    pub(super) fn met_another(&mut self, remaining: Duration, now: Duration) {
        self.occupied = true;
        self.failures = 0;
        if self.options.wait == Wait::No {
            return self.give_up(NotHeld::Occupied);
        }
        // The store says when the lease ends if nothing happens; asking sooner than its clock can tell is wasted.
        let pause = remaining.saturating_add(LEAST_ATTEMPT).clamp(ACQUIRE_SPACING, LONGEST_WAIT);
        self.next_try = now.saturating_add(pause);
    }

    pub(super) fn work_finished(&mut self, now: Duration) {
        if self.stop_deadline().is_some() {
            self.phase = Phase::Releasing;
            self.release_in_doubt = false;
            self.deaf_until = self.attempts;
            self.in_flight = None;
            self.next_try = now;
            self.failures = 0;
        } else {
            self.finish(Outcome::Lost(self.loss.unwrap_or(Loss::Expired)), now);
        }
    }

    /// The lease is gone for good.
    pub(super) fn lose(&mut self, loss: Loss, now: Duration) {
        match self.phase {
            Phase::Starting | Phase::Working => {
                if let Some(holder) = &mut self.holder {
                    holder.expire();
                }
                self.in_flight = None;
                self.loss.get_or_insert(loss);
                if self.phase == Phase::Starting {
                    // No work was begun, so there is none to stop.
                    self.finish(Outcome::Lost(loss), now);
                }
            }
            Phase::Releasing => self.finish(Outcome::Lost(self.loss.unwrap_or(loss)), now),
            Phase::Acquiring | Phase::Withdrawing(_) | Phase::Done(_) => {}
        }
    }

    /// Of two leases to give back, the store can only hold the newer one.
    fn give_back(&mut self, token: FencingToken) {
        self.stray = self.stray.max(Some(token));
    }

    /// Nothing is held, and nothing more is asked for.
    pub(super) fn give_up(&mut self, why: NotHeld) {
        self.unanswered |= self.in_flight.is_some();
        self.in_flight = None;
        self.phase =
            if self.unanswered { Phase::Withdrawing(why) } else { Phase::Done(Outcome::NotHeld(why)) };
    }

    pub(super) fn finish(&mut self, outcome: Outcome, now: Duration) {
        self.in_flight = None;
        let outcome = match (outcome, self.loss) {
            (Outcome::Stood | Outcome::Unconfirmed, Some(loss)) => Outcome::Lost(loss),
            (outcome, _) => outcome,
        };
        if self.options.retake && matches!(outcome, Outcome::Lost(_)) && self.stop.is_none() {
            self.phase = Phase::Acquiring;
            (self.stop_told, self.loss, self.loss_told) = (false, None, false);
            self.start_waiting(now);
            self.failed(now);
        } else {
            self.phase = Phase::Done(outcome);
        }
    }
}

/// Takes the drift allowance off a granted term: the store's clock may outrun ours by that much.
fn less_drift(ttl: Duration) -> Duration {
    let allowance = ttl.checked_div(1000).unwrap_or_default().max(Duration::from_millis(1));
    ttl.saturating_sub(allowance)
}
