//! The one who decides.

use core::time::Duration;

use crate::{Checkpoint, Decision, FencingToken, Lease, OwnerId, Rejection};

/// What an authority does with a `now` that lies before its latest observation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ClockPolicy {
    /// Answer [`Rejection::ClockRegressed`] and change nothing.
    #[default]
    Reject,
    /// Decide as at the latest observation. A backwards step then neither revives a lease nor shortens one.
    Clamp,
}

/// Decides who owns one resource, and until when.
///
/// - **Getters**: [`lease`](Self::lease), [`last_issued`](Self::last_issued), [`observed`](Self::observed),
///   [`checkpoint`](Self::checkpoint).
/// - **Requests**, each with the time at which it is decided: [`acquire`](Self::acquire), [`reacquire`](Self::reacquire),
///   [`renew`](Self::renew), [`release`](Self::release), [`revoke`](Self::revoke).
///
/// Every request first looks at the clock: a `now` before the latest observation is handled as the [`ClockPolicy`]
/// says, any other becomes the latest observation, also where the request is then rejected. The other rules of each
/// request are checked in the order in which its documentation lists them; the first that fails is the reason.
///
/// It is deliberately not `Clone`: two copies of one authority would both be right and disagree. To carry one
/// elsewhere, take its [`checkpoint`](Self::checkpoint), stop using it, and [`restore`](Self::restore).
#[derive(PartialEq, Eq, Hash, Debug, Default)]
pub struct LeaseAuthority {
    last_issued: Option<FencingToken>,
    lease: Option<Lease>,
    observed: Duration,
    policy: ClockPolicy,
}

impl LeaseAuthority {
    /// A resource that was never held, observed at the origin of time, with [`ClockPolicy::Reject`].
    #[must_use]
    pub const fn new() -> Self {
        Self { last_issued: None, lease: None, observed: Duration::ZERO, policy: ClockPolicy::Reject }
    }

    /// Goes on from a checkpoint, with [`ClockPolicy::Reject`]. Tokens go on from where they were.
    #[must_use]
    pub const fn restore(checkpoint: Checkpoint) -> Self {
        Self {
            last_issued: checkpoint.last_issued(),
            lease: checkpoint.lease(),
            observed: checkpoint.observed(),
            policy: ClockPolicy::Reject,
        }
    }

    /// The same authority under another clock policy.
    #[must_use]
    pub const fn with_clock_policy(mut self, policy: ClockPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Everything the authority knows; all of it must be kept, and durably, for tokens to keep rising.
    #[must_use]
    pub const fn checkpoint(&self) -> Checkpoint {
        Checkpoint::of_authority(self.last_issued, self.lease, self.observed)
    }

    /// The current lease. It may be over: only a `now` tells, see [`Lease::is_live`].
    #[must_use]
    pub const fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// The greatest token issued or burnt so far.
    #[must_use]
    pub const fn last_issued(&self) -> Option<FencingToken> {
        self.last_issued
    }

    /// The latest `now` that a request has brought.
    #[must_use]
    pub const fn observed(&self) -> Duration {
        self.observed
    }

    /// Takes the resource if it is free.
    ///
    /// 1. `ttl` is zero: [`InvalidTtl`](Rejection::InvalidTtl).
    /// 2. A lease is live, even this owner's own: [`Occupied`](Rejection::Occupied).
    /// 3. `now + ttl` is out of range: [`DeadlineOverflow`](Rejection::DeadlineOverflow).
    /// 4. No greater token: [`TokensExhausted`](Rejection::TokensExhausted).
    ///
    /// Otherwise [`Granted`](Decision::Granted), under the last issued token plus one, until `now + ttl`.
    pub fn acquire(&mut self, owner: OwnerId, now: Duration, ttl: Duration) -> Decision {
        self.grant(owner, now, ttl, |_| true)
    }

    /// As [`acquire`](Self::acquire), but the current owner's own live lease does not stand in its way: it is
    /// replaced by one under a new, greater token. This is also how a holder whose grant was lost on the way asks
    /// again: whatever the lost answer said, the token it gets now is the only current one.
    pub fn reacquire(&mut self, owner: OwnerId, now: Duration, ttl: Duration) -> Decision {
        self.grant(owner, now, ttl, |lease| lease.owner() != owner)
    }

    /// Extends the current lease.
    ///
    /// 1. `ttl` is zero: [`InvalidTtl`](Rejection::InvalidTtl).
    /// 2. No lease: [`Vacant`](Rejection::Vacant). Another's: [`WrongOwner`](Rejection::WrongOwner). Under another
    ///    token, older or never issued: [`StaleToken`](Rejection::StaleToken).
    /// 3. `now >= expires_at`: [`Expired`](Rejection::Expired), since someone may have been told that it is free.
    /// 4. `now + ttl` is out of range: [`DeadlineOverflow`](Rejection::DeadlineOverflow).
    ///
    /// Otherwise [`Renewed`](Decision::Renewed), under the same token, until the later of the old deadline and
    /// `now + ttl`: a renewal never takes away what was promised.
    pub fn renew(&mut self, owner: OwnerId, token: FencingToken, now: Duration, ttl: Duration) -> Decision {
        let attempt = || -> Result<Lease, Rejection> {
            let now = self.observe(now)?;
            if ttl.is_zero() {
                return Err(Rejection::InvalidTtl);
            }
            let current = self.current(owner, token, now)?;
            let deadline = now.checked_add(ttl).ok_or(Rejection::DeadlineOverflow)?;
            let renewed = Lease::new(owner, token, deadline.max(current.expires_at()));
            self.lease = Some(renewed);
            Ok(renewed)
        };
        decide(attempt, Decision::Renewed)
    }

    /// Gives the resource back, keeping the history of tokens.
    ///
    /// [`Vacant`](Rejection::Vacant), [`WrongOwner`](Rejection::WrongOwner), [`StaleToken`](Rejection::StaleToken) and
    /// [`Expired`](Rejection::Expired) as for [`renew`](Self::renew); otherwise [`Released`](Decision::Released).
    pub fn release(&mut self, owner: OwnerId, token: FencingToken, now: Duration) -> Decision {
        let attempt = || -> Result<(), Rejection> {
            let now = self.observe(now)?;
            self.current(owner, token, now)?;
            self.lease = None;
            Ok(())
        };
        decide(attempt, |()| Decision::Released)
    }

    /// The operator's break: vacates the resource, live lease or not, and burns one token, which it returns. A fence
    /// that is told of the burnt token refuses the old holder at once, and the next grant is greater still.
    ///
    /// The clock never refuses it: a `now` before the latest observation is taken as that observation.
    ///
    /// # Errors
    ///
    /// - With `expect`, so that nobody breaks the *next* holder by mistake: [`Rejection::Vacant`] where there is no
    ///   lease, [`Rejection::StaleToken`] where it is under another token. Neither lease nor tokens change.
    /// - [`Rejection::TokensExhausted`] where there is no token left to burn. The resource is vacated all the same.
    pub fn revoke(&mut self, expect: Option<FencingToken>, now: Duration) -> Result<FencingToken, Rejection> {
        self.observed = self.observed.max(now);
        if let Some(expected) = expect {
            let lease = self.lease.ok_or(Rejection::Vacant)?;
            if lease.token() != expected {
                return Err(Rejection::StaleToken);
            }
        }
        self.lease = None;
        let burnt = self.next_token()?;
        self.last_issued = Some(burnt);
        Ok(burnt)
    }

    /// As [`acquire`](Self::acquire), whoever holds it: for a pool, which knows when that may be.
    pub(crate) fn take_over(&mut self, owner: OwnerId, now: Duration, ttl: Duration) -> Decision {
        self.grant(owner, now, ttl, |_| false)
    }

    /// What `acquire` and `reacquire` share: all but the question whether a live lease is an obstacle.
    fn grant(
        &mut self,
        owner: OwnerId,
        now: Duration,
        ttl: Duration,
        is_obstacle: impl FnOnce(Lease) -> bool,
    ) -> Decision {
        let attempt = || -> Result<Lease, Rejection> {
            let now = self.observe(now)?;
            if ttl.is_zero() {
                return Err(Rejection::InvalidTtl);
            }
            if self.lease.is_some_and(|lease| lease.is_live(now) && is_obstacle(lease)) {
                return Err(Rejection::Occupied);
            }
            let expires_at = now.checked_add(ttl).ok_or(Rejection::DeadlineOverflow)?;
            let token = self.next_token()?;
            let lease = Lease::new(owner, token, expires_at);
            self.last_issued = Some(token);
            self.lease = Some(lease);
            Ok(lease)
        };
        decide(attempt, Decision::Granted)
    }

    /// The instant at which a request is decided. A regressed clock under `Reject` leaves no trace.
    fn observe(&mut self, now: Duration) -> Result<Duration, Rejection> {
        if now < self.observed && self.policy == ClockPolicy::Reject {
            return Err(Rejection::ClockRegressed);
        }
        self.observed = self.observed.max(now);
        Ok(self.observed)
    }

    /// The current lease, if it is this owner's, under this token, and live.
    fn current(&self, owner: OwnerId, token: FencingToken, now: Duration) -> Result<Lease, Rejection> {
        let lease = self.lease.ok_or(Rejection::Vacant)?;
        if lease.owner() != owner {
            return Err(Rejection::WrongOwner);
        }
        if lease.token() != token {
            return Err(Rejection::StaleToken);
        }
        if !lease.is_live(now) {
            return Err(Rejection::Expired);
        }
        Ok(lease)
    }

    fn next_token(&self) -> Result<FencingToken, Rejection> {
        match self.last_issued {
            None => Ok(FencingToken::FIRST),
            Some(last) => last.next().ok_or(Rejection::TokensExhausted),
        }
    }
}

/// Lets the rules above be written with `?`.
#[inline]
fn decide<T>(
    attempt: impl FnOnce() -> Result<T, Rejection>,
    decision: impl FnOnce(T) -> Decision,
) -> Decision {
    match attempt() {
        Ok(value) => decision(value),
        Err(reason) => Decision::Rejected(reason),
    }
}
