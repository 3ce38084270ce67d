//! The worker's half: may I still act?

use core::time::Duration;

use crate::FencingToken;

/// How long a lease is, when to renew it, and when to start worrying.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cadence {
    ttl: Duration,
    renew_every: Duration,
    warn_before: Duration,
}

impl Cadence {
    /// `None` unless all three are non-zero, `renew_every < ttl` and `warn_before < ttl`.
    #[must_use]
    pub fn new(ttl: Duration, renew_every: Duration, warn_before: Duration) -> Option<Self> {
        let sound =
            !renew_every.is_zero() && !warn_before.is_zero() && renew_every < ttl && warn_before < ttl;
        sound.then_some(Self { ttl, renew_every, warn_before })
    }

    /// The ttl that is asked for.
    #[must_use]
    pub const fn ttl(self) -> Duration {
        self.ttl
    }

    /// The time from a confirmation to the next renewal.
    #[must_use]
    pub const fn renew_every(self) -> Duration {
        self.renew_every
    }

    /// How long before the stop deadline the holder is at risk.
    #[must_use]
    pub const fn warn_before(self) -> Duration {
        self.warn_before
    }

    /// The same proportions for a term that was granted for less than the ttl.
    ///
    /// A term too short to be divided (under some nanoseconds) is at risk and due for renewal at once.
    fn for_term(self, term: Duration) -> Self {
        if term >= self.ttl {
            return self;
        }
        Self {
            ttl: term,
            renew_every: scale(self.renew_every, term, self.ttl),
            warn_before: scale(self.warn_before, term, self.ttl),
        }
    }
}

/// Where a holder stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HolderState {
    /// The last answer confirmed the lease.
    Confirmed,
    /// A renewal is outstanding.
    Unconfirmed,
    /// The warning deadline has passed without a confirmation.
    AtRisk,
    /// The lease is over. Only [`Holder::reacquire`], with a newer token, recovers.
    Expired,
    /// The resource refused the token: somebody newer has been there. Terminal.
    Fenced,
}

/// Tells its holder, on the holder's own clock, whether it may still act. That clock must not go backwards, and must
/// count the time that the machine sleeps.
///
/// - **Questions**, each answered as the clock has it: [`state_at`](Self::state_at), [`may_act`](Self::may_act),
///   [`at_risk`](Self::at_risk), [`renewal_due`](Self::renewal_due), and the deadlines
///   [`stop_deadline`](Self::stop_deadline) and [`warning_deadline`](Self::warning_deadline).
/// - **Events**: [`refresh`](Self::refresh) when a renewal is sent, [`confirm_at`](Self::confirm_at) when it is
///   answered, [`expire`](Self::expire) when the store says that the lease is gone, [`fence`](Self::fence) when the
///   resource refused the token, [`reacquire_at`](Self::reacquire_at) when it was taken again.
///
/// # Why it stops in time
///
/// A lease counts from the instant at which its request was **sent**. The store decided later than that, so its
/// deadline lies at or after the holder's, and the holder stops before the store lets the next one in, as long as the
/// store's clock neither steps forward nor outruns the holder's by more than the drift allowance. The
/// [`Keeper`](crate::Keeper) takes that allowance (a thousandth of the ttl, at least 1 ms) off every term that it is
/// granted; a bare `Holder` does not. A forward step of the store's clock ends leases early: then the fence orders the
/// writes.
///
/// A deadline that would lie beyond [`Duration::MAX`] is `Duration::MAX`: the holder stops there, early rather than late.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    token: FencingToken,
    confirmed_at: Duration,
    /// The cadence asked for.
    cadence: Cadence,
    /// The cadence in force, shorter where less was granted.
    term: Cadence,
    state: HolderState,
}

impl Holder {
    /// A holder whose lease was confirmed for a full ttl, counted from `confirmed_at`: the instant at which the
    /// request was **sent**, not at which the answer came.
    #[must_use]
    pub const fn new(token: FencingToken, confirmed_at: Duration, cadence: Cadence) -> Self {
        Self { token, confirmed_at, cadence, term: cadence, state: HolderState::Confirmed }
    }

    /// A first grant as a runtime sees it: asked for at `sent`, granted for `granted_ttl`, answered at `now`.
    ///
    /// It counts for the shorter of what was asked and what was granted, and is `Expired` from the start where `now`
    /// has reached the deadline already. Where less was granted, renewal and warning come proportionally earlier. A
    /// `sent` after `now` is a mistake, and counts as `now`.
    #[must_use]
    pub fn granted(
        token: FencingToken,
        sent: Duration,
        granted_ttl: Duration,
        now: Duration,
        cadence: Cadence,
    ) -> Self {
        let mut holder = Self::new(token, sent.min(now), cadence);
        holder.term = cadence.for_term(granted_ttl);
        holder.settle(now);
        holder
    }

    /// The token that writes are made under.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The instant the current term counts from.
    #[must_use]
    pub const fn confirmed_at(&self) -> Duration {
        self.confirmed_at
    }

    /// The state last recorded. It does not know what time it is: decide by [`state_at`](Self::state_at).
    #[must_use]
    pub const fn state(&self) -> HolderState {
        self.state
    }

    /// The state as the clock has it: `Expired` from the stop deadline on and at risk from the warning deadline on,
    /// whatever was recorded last. A machine that slept learns it here.
    #[must_use]
    pub fn state_at(&self, now: Duration) -> HolderState {
        if self.is_over() {
            self.state
        } else if !self.may_act(now) {
            HolderState::Expired
        } else if self.at_risk(now) {
            HolderState::AtRisk
        } else {
            self.state
        }
    }

    /// Whether a renewal should be sent: from `confirmed_at + renew_every` on, and whenever one is outstanding.
    ///
    /// Early: an idle renewal. Late: the stop deadline comes nearer. Never from the stop deadline on, where it would
    /// come too late, nor once `Expired` or `Fenced`.
    #[must_use]
    pub fn renewal_due(&self, now: Duration) -> bool {
        self.may_act(now) && (self.state != HolderState::Confirmed || now >= self.renewal_deadline())
    }

    /// When the next renewal falls due; `None` once `Expired` or `Fenced`.
    #[must_use]
    pub fn renewal_at(&self) -> Option<Duration> {
        (!self.is_over()).then(|| self.renewal_deadline())
    }

    /// Records that a renewal is sent at `now`: `Unconfirmed`, or `AtRisk` from the warning deadline on.
    ///
    /// False, and `Expired`, where the stop deadline has passed: such a renewal must not be sent.
    #[must_use]
    pub fn refresh(&mut self, now: Duration) -> bool {
        if !self.settle(now) {
            return false;
        }
        self.state = if self.at_risk(now) { HolderState::AtRisk } else { HolderState::Unconfirmed };
        true
    }

    /// An answer that confirmed the lease for a full ttl, counted from `at` (never moved backwards).
    ///
    /// False for an older token than the current one (a stale reply, ignored), and once `Expired` or `Fenced`. It
    /// does not know what time it is; runtimes call [`confirm_at`](Self::confirm_at).
    #[must_use]
    pub fn confirm(&mut self, token: FencingToken, at: Duration) -> bool {
        if self.is_over() || token < self.token {
            return false;
        }
        self.count_from(token, at, self.cadence.ttl);
        true
    }

    /// An answer, as a runtime sees it: the renewal was sent at `sent`, granted for `granted_ttl`, answered at `now`.
    ///
    /// False, and `Expired`, where `now` has reached the deadline held until then, or the new one: a late answer
    /// revives nobody. An older token is a stale reply: false, and nothing else changes. A `sent` after `now` is a
    /// mistake, and counts as `now`.
    #[must_use]
    pub fn confirm_at(
        &mut self,
        token: FencingToken,
        sent: Duration,
        granted_ttl: Duration,
        now: Duration,
    ) -> bool {
        if !self.settle(now) || token < self.token {
            return false;
        }
        self.count_from(token, sent.min(now), granted_ttl);
        self.settle(now)
    }

    /// From here on the holder is at risk: `confirmed_at + ttl - warn_before`. `None` once `Expired` or `Fenced`.
    #[must_use]
    pub fn warning_deadline(&self) -> Option<Duration> {
        if self.is_over() {
            return None;
        }
        let lead = self.term.ttl.saturating_sub(self.term.warn_before);
        Some(self.confirmed_at.saturating_add(lead))
    }

    /// Whether `now` lies between the warning deadline and the stop deadline. False from then on, when there is nothing
    /// left to risk, and once `Expired` or `Fenced`.
    #[must_use]
    pub fn at_risk(&self, now: Duration) -> bool {
        self.may_act(now) && self.warning_deadline().is_some_and(|deadline| now >= deadline)
    }

    /// The first instant at which the holder must not act any more: `confirmed_at + ttl`. `None` once `Expired` or
    /// `Fenced`.
    ///
    /// Early: work is given up that could have gone on. Late: another holder may be at work already.
    #[must_use]
    pub fn stop_deadline(&self) -> Option<Duration> {
        (!self.is_over()).then(|| self.deadline())
    }

    /// What a writer asks before each write: true only before the stop deadline, and never once `Expired` or `Fenced`.
    ///
    /// It is a hint to the honest. Between the question and the write a process can sleep: only the fence is sure.
    #[must_use]
    pub fn may_act(&self, now: Duration) -> bool {
        !self.is_over() && now < self.deadline()
    }

    /// The lease is known to be gone. True if this was news; false once `Expired` or `Fenced`.
    pub fn expire(&mut self) -> bool {
        let news = !self.is_over();
        if news {
            self.state = HolderState::Expired;
        }
        news
    }

    /// From `Expired`, with a strictly newer token: `Confirmed` for a full ttl from `at`. Otherwise false, and nothing
    /// changes. Runtimes call [`reacquire_at`](Self::reacquire_at).
    #[must_use]
    pub fn reacquire(&mut self, token: FencingToken, at: Duration) -> bool {
        if self.state != HolderState::Expired || token <= self.token {
            return false;
        }
        self.token = token;
        self.confirmed_at = at;
        self.term = self.cadence;
        self.state = HolderState::Confirmed;
        true
    }

    /// [`reacquire`](Self::reacquire) as a runtime sees it, with the rules of [`granted`](Self::granted): where `now`
    /// has reached the new deadline already, false, and `Expired` under the newer token.
    #[must_use]
    pub fn reacquire_at(
        &mut self,
        token: FencingToken,
        sent: Duration,
        granted_ttl: Duration,
        now: Duration,
    ) -> bool {
        if self.state_at(now) == HolderState::Expired {
            self.state = HolderState::Expired;
        }
        if !self.reacquire(token, sent.min(now)) {
            return false;
        }
        self.term = self.cadence.for_term(granted_ttl);
        self.settle(now)
    }

    /// The resource refused the token: terminal, whatever is still in flight. Idempotent.
    pub fn fence(&mut self) {
        self.state = HolderState::Fenced;
    }

    const fn is_over(&self) -> bool {
        matches!(self.state, HolderState::Expired | HolderState::Fenced)
    }

    const fn deadline(&self) -> Duration {
        self.confirmed_at.saturating_add(self.term.ttl)
    }

    const fn renewal_deadline(&self) -> Duration {
        self.confirmed_at.saturating_add(self.term.renew_every)
    }

    /// Lets the clock have its say; false where the holder is over.
    fn settle(&mut self, now: Duration) -> bool {
        if !self.may_act(now) {
            self.expire();
        }
        !self.is_over()
    }

    /// Counts a confirmed term from `at`. A reply that was overtaken by a later one moves nothing backwards.
    ///
    /// Nor does a newer token whose request was sent before the last confirmed renewal: it can only have been granted
    /// after that renewal was decided, since it put an end to the token that was renewed.
    fn count_from(&mut self, token: FencingToken, at: Duration, granted_ttl: Duration) {
        if at >= self.confirmed_at || token > self.token {
            self.confirmed_at = self.confirmed_at.max(at);
            self.term = self.cadence.for_term(granted_ttl);
        }
        self.token = token;
        self.state = HolderState::Confirmed;
    }
}

/// `part * term / ttl`, rounded down, for a `part` and a `term` shorter than `ttl`: shorter than `term`, too.
fn scale(part: Duration, term: Duration, ttl: Duration) -> Duration {
    let (part, term, ttl) = (part.as_nanos(), term.as_nanos(), ttl.as_nanos());
    let scaled = match part.checked_mul(term) {
        Some(product) => product.checked_div(ttl),
        // Centuries, whose product is out of range (a `Duration` has less than 2^94 nanoseconds): the ratio to 32
        // binary places is near enough.
        None => {
            (term << 32).checked_div(ttl).and_then(|ratio| part.checked_mul(ratio)).map(|wide| wide >> 32)
        }
    };
    from_nanos(scaled.unwrap_or(0))
}

pub(crate) fn from_nanos(nanos: u128) -> Duration {
    const PER_SEC: u128 = 1_000_000_000;
    let secs = nanos.checked_div(PER_SEC).and_then(|secs| u64::try_from(secs).ok());
    let subsec = nanos.checked_rem(PER_SEC).and_then(|subsec| u32::try_from(subsec).ok());
    match (secs, subsec) {
        (Some(secs), Some(subsec)) => Duration::new(secs, subsec),
        _ => Duration::MAX,
    }
}
