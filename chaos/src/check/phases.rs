//! The states that a resource goes through, and what the core answers in each.

use std::time::Duration;

use lease_machines::{
    Checkpoint, ClockPolicy, Decision, FencingToken, Lease, LeaseAuthority, OwnerId, Rejection,
};

use super::clock::{Instant, NEVER};
use super::terms::Terms;
use crate::history::{Answer, Ask, How};

/// A resource between two changes of who holds it.
#[derive(Clone)]
pub(super) struct Phase {
    /// What it begins with: the grant, the revoke, or that a lease was given back.
    pub(super) term: Option<usize>,
    /// The call that was answered so.
    pub(super) known: Option<usize>,
    /// Since when it can have been, on this machine's clock.
    pub(super) began: u64,
    /// It need not have been.
    pub(super) is_certain: bool,
    pub(super) state: State,
}

#[derive(Clone, Default)]
pub(super) struct State {
    last: u64,
    /// In the row, though it may be over.
    pub(super) lease: Option<usize>,
    /// Token, owner and how; the last is not known where it may have been either.
    vacated: Option<(u64, u64, Option<How>)>,
    /// Whether the one above is the last in any case.
    is_sure: bool,
    /// Whom the last grant went to, and between which attempts the one that got it lies.
    asker: Option<(u64, (u64, u64))>,
}

/// What a right store answers.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Granted(Option<u64>),
    Renewed,
    Released,
    AlreadyReleased,
    Burnt,
    Superseded,
    Rejected(Rejection, Option<(u64, u64)>),
    Passed,
    Stale,
    Lost,
}

pub(super) fn phases(terms: &Terms) -> Vec<Phase> {
    let mut state = State { is_sure: true, ..State::default() };
    let mut phases =
        vec![Phase { term: None, known: None, began: 0, is_certain: true, state: state.clone() }];
    for (index, term) in terms.all.iter().enumerate() {
        state.last = term.token;
        if term.is_burn {
            if let Some(broken) = state.lease.take() {
                let broken = &terms.all[broken];
                state.vacated = Some((broken.token, broken.owner, Some(How::Revoked)));
            }
        } else {
            state.lease = Some(index);
            state.asker = Some((term.owner, term.attempts));
        }
        let (known, began) = (term.known, term.began);
        phases.push(Phase { term: Some(index), known, began, is_certain: true, state: state.clone() });
        if let Some(vacate) = &term.vacated {
            let before = (state.lease, state.is_sure);
            state.lease = None;
            state.vacated = Some((term.token, term.owner, vacate.how));
            state.is_sure = vacate.is_certain;
            phases.push(Phase {
                term: Some(index),
                known: vacate.known,
                began: vacate.began,
                is_certain: vacate.is_certain,
                state: state.clone(),
            });
            if !vacate.is_certain {
                // What comes next may also follow without it.
                (state.lease, state.is_sure) = (before.0, false);
            }
        }
    }
    phases
}

impl State {
    /// What a right store may answer in this state, if the lease ends somewhere within `end` and the decision counts as
    /// made somewhere within `at`.
    pub(super) fn verdicts(
        &self,
        terms: &Terms,
        ask: &Ask,
        end: (Instant, Instant),
        at: (Instant, Instant),
    ) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for attempts in [|attempts: (u64, u64)| attempts.0, |attempts: (u64, u64)| attempts.1] {
            let asker = self.asker.map(|(owner, both)| (owner, attempts(both)));
            for (end, at) in [(end.1, at.0), (end.0, at.1)] {
                let verdict = self.verdict(terms, ask, asker, end, at);
                if !verdicts.contains(&verdict) {
                    verdicts.push(verdict);
                }
            }
        }
        if !self.is_sure && matches!(ask, Ask::Release { .. } | Ask::Withdraw { .. }) {
            verdicts.push(Verdict::AlreadyReleased);
        }
        verdicts
    }

    fn verdict(
        &self,
        terms: &Terms,
        ask: &Ask,
        asker: Option<(u64, u64)>,
        end: Instant,
        at: Instant,
    ) -> Verdict {
        let held = self.lease.map(|index| &terms.all[index]);
        let is_live = held.is_some() && at < end;
        match *ask {
            Ask::Acquire { owner, attempt, again, .. } => {
                if asker.is_some_and(|(asker, last)| asker == owner && attempt <= last) {
                    return match held {
                        Some(held) if held.owner == owner && is_live => Verdict::Granted(Some(held.token)),
                        _ => Verdict::Superseded,
                    };
                }
                let mut core = self.core(terms, end);
                let (owner, ttl) = (OwnerId::new(owner), Duration::from_nanos(1));
                let decision = if again {
                    core.reacquire(owner, time(at), ttl)
                } else {
                    core.acquire(owner, time(at), ttl)
                };
                self.said(terms, decision, is_live)
            }
            Ask::Renew { owner, token, .. } => {
                let decision = self.core(terms, end).renew(
                    OwnerId::new(owner),
                    fencing(token),
                    time(at),
                    Duration::from_nanos(1),
                );
                self.said(terms, decision, is_live)
            }
            Ask::Release { owner, token } => {
                if self.is_sure
                    && self.vacated.is_some_and(|(last, ..)| last == token)
                    && held.is_none_or(|held| held.token != token)
                {
                    match self.vacated {
                        Some((_, last, Some(How::Released) | None)) if last == owner => {
                            return Verdict::AlreadyReleased;
                        }
                        _ => {}
                    }
                }
                let decision = self.core(terms, end).release(OwnerId::new(owner), fencing(token), time(at));
                self.said(terms, decision, is_live)
            }
            Ask::Withdraw { owner } => match held {
                Some(held) if held.owner == owner => {
                    let decision =
                        self.core(terms, end).release(OwnerId::new(owner), fencing(held.token), time(at));
                    self.said(terms, decision, is_live)
                }
                _ if self
                    .vacated
                    .is_some_and(|(_, last, how)| last == owner && how != Some(How::Revoked)) =>
                {
                    Verdict::AlreadyReleased
                }
                Some(_) => Verdict::Rejected(Rejection::WrongOwner, self.holder(terms, is_live)),
                None => Verdict::Rejected(Rejection::Vacant, None),
            },
            Ask::Revoke { expect } => match self.core(terms, end).revoke(expect.map(fencing), time(at)) {
                Ok(_) => Verdict::Burnt,
                Err(reason) => Verdict::Rejected(reason, self.holder(terms, is_live)),
            },
            Ask::Advance { owner, token } | Ask::Write { owner, token, .. } => match held {
                Some(held) if (held.owner, held.token) == (owner, token) => {
                    if is_live || !terms.ends_by_leases { Verdict::Passed } else { Verdict::Lost }
                }
                _ if self.last > token => Verdict::Stale,
                _ => Verdict::Lost,
            },
        }
    }

    fn core(&self, terms: &Terms, end: Instant) -> LeaseAuthority {
        let lease = self.lease.map(|index| &terms.all[index]);
        let lease = lease.map(|term| Lease::new(OwnerId::new(term.owner), fencing(term.token), time(end)));
        Checkpoint::from_parts(FencingToken::new(self.last), lease, Duration::ZERO)
            .map_or_else(LeaseAuthority::new, LeaseAuthority::restore)
            .with_clock_policy(ClockPolicy::Clamp)
    }

    fn said(&self, terms: &Terms, decision: Decision, is_live: bool) -> Verdict {
        match decision {
            Decision::Granted(_) => Verdict::Granted(None),
            Decision::Renewed(_) => Verdict::Renewed,
            Decision::Released => Verdict::Released,
            Decision::Rejected(reason) => Verdict::Rejected(reason, self.holder(terms, is_live)),
        }
    }

    fn holder(&self, terms: &Terms, is_live: bool) -> Option<(u64, u64)> {
        self.lease.filter(|_| is_live).map(|index| (terms.all[index].owner, terms.all[index].token))
    }

    /// Whether an answer is this verdict, with whom it names beside.
    pub(super) fn is(&self, verdict: &Verdict, answer: &Answer) -> bool {
        match (verdict, answer) {
            (Verdict::Granted(Some(echo)), Answer::Granted { token, .. }) => echo == token,
            (Verdict::Renewed, Answer::Renewed { .. })
            | (Verdict::Released, Answer::Released)
            | (Verdict::AlreadyReleased, Answer::AlreadyReleased)
            | (Verdict::Superseded, Answer::Superseded)
            | (Verdict::Passed, Answer::Passed)
            // What was given back and taken again since is both.
            | (Verdict::Stale | Verdict::Lost, Answer::Stale { .. } | Answer::Lost) => true,
            (Verdict::Rejected(reason, live), Answer::Rejected { reason: told, holder, vacated }) => {
                format!("{reason:?}") == *told
                    && holder.map(|holder| (holder.owner, holder.token)) == *live
                    && vacated.as_ref().is_none_or(|told| {
                        !self.is_sure
                            || self.vacated.is_some_and(|(token, owner, how)| {
                                (token, owner) == (told.token, told.owner)
                                    && how.is_none_or(|how| how == told.how)
                            })
                    })
            }
            _ => false,
        }
    }
}

/// Before the store's beginning nothing was decided.
fn time(at: Instant) -> Duration {
    // The core's time begins at zero; ours may have been before this machine's start.
    Duration::from_nanos(u64::try_from(at.saturating_add(NEVER)).unwrap_or(0))
}

fn fencing(token: u64) -> FencingToken {
    FencingToken::new(token).unwrap_or(FencingToken::FIRST)
}
