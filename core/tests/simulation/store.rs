//! A store as a keeper meets it: the authority of the crate, the attempts of owners, and its own clock.

use core::time::Duration;

use lease_machines::{Decision, Event, FencingToken, Lease, LeaseAuthority, OwnerId, Rejection};

/// What is sent to the store. `attempt` names the request; for acquires the store is told it, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) from: usize,
    pub(crate) attempt: u64,
    pub(crate) sent: Duration,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Acquire { ttl: Duration },
    Reacquire { ttl: Duration },
    Renew { token: FencingToken, ttl: Duration },
    Release { token: FencingToken },
    Withdraw,
}

#[derive(Default)]
pub(crate) struct Store {
    authority: LeaseAuthority,
    /// Who was granted the lease last, and under which of its attempts.
    granted_to: Option<(OwnerId, u64)>,
    released: Vec<FencingToken>,
    pub(crate) grants: u64,
}

impl Store {
    pub(crate) fn lease(&self) -> Option<Lease> {
        self.authority.lease()
    }

    pub(crate) fn was_released(&self, token: FencingToken) -> bool {
        self.released.contains(&token)
    }

    /// Somebody breaks the lease.
    pub(crate) fn revoke(&mut self, now: Duration) {
        let _ = self.authority.revoke(None, now);
    }

    /// Decides at `now`, by the store's clock, and says it as a runtime hands it to its keeper.
    pub(crate) fn decide(&mut self, request: Request, now: Duration) -> Event {
        let Request { from, attempt, sent, what } = request;
        let owner = OwnerId::new(from as u64);
        let decision = match what {
            What::Acquire { .. } | What::Reacquire { .. } if self.is_echo(owner, attempt) => {
                return match self
                    .authority
                    .lease()
                    .filter(|lease| lease.owner() == owner && lease.is_live(now))
                {
                    Some(lease) => granted(attempt, lease, sent, now),
                    None => Event::NotDone { attempt },
                };
            }
            What::Acquire { ttl } => self.authority.acquire(owner, now, ttl),
            What::Reacquire { ttl } => self.authority.reacquire(owner, now, ttl),
            What::Renew { token, ttl } => self.authority.renew(owner, token, now, ttl),
            What::Release { token } if self.released.contains(&token) => return Event::Released { attempt },
            What::Release { token } => {
                let decision = self.authority.release(owner, token, now);
                if decision == Decision::Released {
                    self.released.push(token);
                }
                decision
            }
            What::Withdraw => {
                if let Some(lease) = self.authority.lease().filter(|lease| lease.owner() == owner) {
                    let _ = self.authority.release(owner, lease.token(), now);
                }
                return Event::Released { attempt };
            }
        };
        match decision {
            Decision::Granted(lease) => {
                self.granted_to = Some((owner, attempt));
                self.grants += 1;
                granted(attempt, lease, sent, now)
            }
            Decision::Renewed(lease) => {
                let ttl = lease.expires_at() - now;
                Event::Renewed { attempt, token: lease.token(), ttl, sent }
            }
            Decision::Released => Event::Released { attempt },
            Decision::Rejected(reason) => {
                let remaining = match (reason, self.authority.lease()) {
                    (Rejection::Occupied, Some(lease)) => lease.expires_at() - now,
                    _ => Duration::ZERO,
                };
                Event::Rejected { attempt, reason, remaining }
            }
        }
    }

    fn is_echo(&self, owner: OwnerId, attempt: u64) -> bool {
        self.granted_to.is_some_and(|(to, under)| to == owner && attempt <= under)
    }
}

fn granted(attempt: u64, lease: Lease, sent: Duration, now: Duration) -> Event {
    Event::Granted { attempt, token: lease.token(), ttl: lease.expires_at() - now, sent }
}
