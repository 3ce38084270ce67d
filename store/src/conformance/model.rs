//! One resource as the core has it, beside what stores keep: the measure for random and concurrent runs.

use std::collections::BTreeSet;
use std::time::Duration;

use lease_machines::{
    Checkpoint, ClockPolicy, Decision, FencingToken, Lease, LeaseAuthority, OwnerId, Rejection,
};

/// What is asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Op {
    Acquire { owner: u64, attempt: u64, again: bool, ttl: Duration },
    Renew { owner: u64, token: u64, ttl: Duration },
    Release { owner: u64, token: u64 },
    Withdraw { owner: u64 },
    Revoke { expect: Option<u64> },
}

/// What is answered, as far as the model knows better than the store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Said {
    Granted {
        token: u64,
        ttl: Duration,
    },
    Renewed {
        ttl: Duration,
    },
    Released,
    AlreadyReleased,
    Burnt {
        token: u64,
    },
    Superseded,
    /// The reason, and the owner and token of the lease that is live.
    Rejected(Rejection, Option<(u64, u64)>),
}

/// The whole state. What a store does not record (a refused request's observation) the model does not either.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Model {
    last: u64,
    lease: Option<(u64, u64, Duration)>,
    observed: Duration,
    asker: Option<(u64, u64)>,
    /// Token and owner of the last lease that was released or withdrawn; whether it was released.
    vacated: Option<(u64, u64, bool)>,
    withdrawn: BTreeSet<u64>,
}

impl Model {
    pub(super) fn token(&self) -> Option<u64> {
        self.lease.map(|(_, token, _)| token)
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Does what is asked, and returns what a right store answers.
    ///
    /// Which token comes next is the store's choice, as long as it is greater than every earlier one: `chosen` is the
    /// one that it issued; without it, the next number.
    pub(super) fn ask(&mut self, op: &Op, now: Duration, chosen: Option<u64>) -> Said {
        let now = now.max(self.observed);
        match *op {
            Op::Acquire { owner, attempt, again, ttl } => {
                self.acquire(owner, attempt, again, ttl, now, chosen)
            }
            Op::Renew { owner, token, ttl } => {
                let mut authority = self.authority(None);
                let decision = authority.renew(OwnerId::new(owner), fencing(token), now, ttl);
                match decision {
                    Decision::Renewed(lease) => {
                        self.keep(&authority);
                        Said::Renewed { ttl: lease.expires_at().saturating_sub(now) }
                    }
                    decision => self.refuse(decision, now),
                }
            }
            Op::Release { owner, token } => {
                if self.vacated == Some((token, owner, true)) {
                    return Said::AlreadyReleased;
                }
                let mut authority = self.authority(None);
                match authority.release(OwnerId::new(owner), fencing(token), now) {
                    Decision::Released => {
                        self.keep(&authority);
                        self.vacated = Some((token, owner, true));
                        Said::Released
                    }
                    decision => self.refuse(decision, now),
                }
            }
            Op::Withdraw { owner } => self.withdraw(owner, now),
            Op::Revoke { expect } => {
                let mut authority = self.authority(chosen);
                match authority.revoke(expect.map(fencing), now) {
                    Ok(burnt) => {
                        if self.lease.is_some() {
                            self.vacated = None;
                        }
                        self.keep(&authority);
                        Said::Burnt { token: burnt.value() }
                    }
                    Err(reason) => Said::Rejected(reason, self.live(now)),
                }
            }
        }
    }

    fn acquire(
        &mut self,
        owner: u64,
        attempt: u64,
        again: bool,
        ttl: Duration,
        now: Duration,
        chosen: Option<u64>,
    ) -> Said {
        if self.withdrawn.contains(&owner) {
            return Said::Superseded;
        }
        if self.asker.is_some_and(|(asker, recorded)| asker == owner && attempt <= recorded) {
            return match self.lease {
                Some((holder, token, expires)) if holder == owner && now < expires => {
                    Said::Granted { token, ttl: expires.saturating_sub(now) }
                }
                Some((holder, ..)) if holder == owner => {
                    self.observed = now;
                    Said::Superseded
                }
                _ => Said::Superseded,
            };
        }
        let mut authority = self.authority(chosen);
        let decision = if again {
            authority.reacquire(OwnerId::new(owner), now, ttl)
        } else {
            authority.acquire(OwnerId::new(owner), now, ttl)
        };
        match decision {
            Decision::Granted(lease) => {
                self.keep(&authority);
                self.asker = Some((owner, attempt));
                Said::Granted { token: lease.token().value(), ttl: lease.expires_at().saturating_sub(now) }
            }
            decision => self.refuse(decision, now),
        }
    }

    fn withdraw(&mut self, owner: u64, now: Duration) -> Said {
        self.withdrawn.insert(owner);
        match self.lease {
            Some((holder, token, _)) if holder == owner => {
                let mut authority = self.authority(None);
                match authority.release(OwnerId::new(owner), fencing(token), now) {
                    Decision::Released => {
                        self.keep(&authority);
                        self.vacated = Some((token, owner, false));
                        Said::Released
                    }
                    decision => self.refuse(decision, now),
                }
            }
            _ if self.vacated.is_some_and(|(_, last, _)| last == owner) => Said::AlreadyReleased,
            Some(_) => Said::Rejected(Rejection::WrongOwner, self.live(now)),
            None => Said::Rejected(Rejection::Vacant, None),
        }
    }

    fn authority(&self, chosen: Option<u64>) -> LeaseAuthority {
        // One below the store's choice, so that the core issues that one, if it is above all earlier ones.
        let last = chosen.map_or(self.last, |token| self.last.max(token.saturating_sub(1)));
        let lease = self
            .lease
            .map(|(owner, token, expires)| Lease::new(OwnerId::new(owner), fencing(token), expires));
        Checkpoint::from_parts(FencingToken::new(last), lease, self.observed)
            .map_or_else(LeaseAuthority::new, LeaseAuthority::restore)
            .with_clock_policy(ClockPolicy::Clamp)
    }

    fn keep(&mut self, authority: &LeaseAuthority) {
        self.last = authority.last_issued().map_or(self.last, FencingToken::value);
        self.lease =
            authority.lease().map(|lease| (lease.owner().value(), lease.token().value(), lease.expires_at()));
        self.observed = authority.observed();
    }

    fn refuse(&mut self, decision: Decision, now: Duration) -> Said {
        let reason = decision.rejection().unwrap_or(Rejection::ClockRegressed);
        if reason == Rejection::Expired {
            self.observed = now;
        }
        Said::Rejected(reason, self.live(now))
    }

    fn live(&self, now: Duration) -> Option<(u64, u64)> {
        self.lease.filter(|(_, _, expires)| now < *expires).map(|(owner, token, _)| (owner, token))
    }
}

fn fencing(token: u64) -> FencingToken {
    FencingToken::new(token).unwrap_or(FencingToken::FIRST)
}
