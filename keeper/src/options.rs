//! How a lease is to be held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{Cadence, KeeperOptions, OwnerId, Wait};
use lease_machines_store::{Capabilities, Claim, ResourceName};

use crate::FenceMark;

/// Renewals of many leases meet at multiples of this, see [`KeeperOptions::with_tick`].
const TICK: Duration = Duration::from_secs(1);
/// What every store can count.
const LEAST_TTL: Duration = Duration::from_millis(1);

/// How a lease is to be held.
///
/// | option | meaning | default |
/// | --- | --- | --- |
/// | [`ttl`](Self::ttl) | length of the lease: what a dead holder costs everybody else | 60 s |
/// | [`renew_every`](Self::renew_every) | time from a confirmation to the next renewal | a third of the ttl |
/// | [`warn_before`](Self::warn_before) | how long before its deadline an unconfirmed lease is *at risk* | a third of the ttl |
/// | [`wait`](Self::wait), [`wait_forever`](Self::wait_forever) | how long to wait while another holds it | not at all |
/// | [`at_least`](Self::at_least) | nobody else gets it sooner than this after the grant, however fast the work was | 0 |
/// | [`max_hold`](Self::max_hold) | work that takes longer is told to stop | no limit |
/// | [`once`](Self::once) | a key under which the work is done only once | none |
/// | [`fence`](Self::fence) | marks to advance before the work begins | none |
/// | [`label`](Self::label) | shown to others who ask who holds it | none |
/// | [`identity`](Self::identity) | a name of the holder that survives restarts | none |
///
/// The rule for the ttl: at least the time that the store needs for a failover, and three attempts, and the time that
/// the work needs to stop. The rule for `max_hold`: longer than the work has ever taken.
#[derive(Clone)]
pub struct HoldOptions {
    ttl: Duration,
    renew_every: Option<Duration>,
    warn_before: Option<Duration>,
    wait: Patience,
    at_least: Duration,
    max_hold: Option<Duration>,
    once: Option<String>,
    fences: Vec<Arc<dyn FenceMark>>,
    label: Option<String>,
    identity: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Patience {
    None,
    For(Duration),
    Endless,
}

impl HoldOptions {
    /// The ttl of [`new`](Self::new).
    pub const DEFAULT_TTL: Duration = Duration::from_secs(60);

    /// The defaults of the table above.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ttl: Self::DEFAULT_TTL,
            renew_every: None,
            warn_before: None,
            wait: Patience::None,
            at_least: Duration::ZERO,
            max_hold: None,
            once: None,
            fences: Vec::new(),
            label: None,
            identity: None,
        }
    }

    /// The length of the lease. From 1 ms to the store's `max_ttl`.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The time from a confirmation to the next renewal: more than zero, less than the ttl. Where many leases fall due
    /// together, up to a sixteenth of the time until the warning is added, 1 s at most.
    #[must_use]
    pub const fn renew_every(mut self, renew_every: Duration) -> Self {
        self.renew_every = Some(renew_every);
        self
    }

    /// How long before the stop deadline an unconfirmed lease is at risk: more than zero, less than the ttl.
    #[must_use]
    pub const fn warn_before(mut self, warn_before: Duration) -> Self {
        self.warn_before = Some(warn_before);
        self
    }

    /// Waits while another holds the lease, but for no longer than this. Zero is not to wait.
    #[must_use]
    pub const fn wait(mut self, at_most: Duration) -> Self {
        self.wait = if at_most.is_zero() { Patience::None } else { Patience::For(at_most) };
        self
    }

    /// Waits while another holds the lease, for as long as it takes. Dropping the future ends it.
    #[must_use]
    pub const fn wait_forever(mut self) -> Self {
        self.wait = Patience::Endless;
        self
    }

    /// The lease ends no sooner than this after its grant: a job that took two seconds is not done again by a host
    /// whose clock is three behind. Counted by the store's clock.
    #[must_use]
    pub const fn at_least(mut self, at_least: Duration) -> Self {
        self.at_least = at_least;
        self
    }

    /// Work that takes longer than this, counted from the request that was granted, is told to stop:
    /// [`with_lease`](crate::with_lease) drops it; who holds a [`Guard`](crate::Guard) is told by
    /// [`cancellation_token`](crate::Lease::cancellation_token). The lease is renewed until the work has ended.
    #[must_use]
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Work that ends well is recorded under this key with the resource. Whoever asks for it with the same key later is
    /// told who did it and when, and gets no lease: [`HoldError::AlreadyDone`](crate::HoldError::AlreadyDone).
    #[must_use]
    pub fn once(mut self, key: impl Into<String>) -> Self {
        self.once = Some(key.into());
        self
    }

    /// A mark to advance before the work begins. May be called several times: all have to succeed.
    /// [`DatabaseMark`](crate::DatabaseMark) is the one of a database.
    #[must_use]
    pub fn fence(mut self, mark: Arc<dyn FenceMark>) -> Self {
        self.fences.push(mark);
        self
    }

    /// Shown to others who ask who holds the lease.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// A name of the holder that survives restarts. It is recorded, and gives no right to anything.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// What the core's keeper has to know, of a lease that is asked for at `now`.
    pub(crate) fn check(&self, store: &Capabilities, now: Duration) -> Result<KeeperOptions, OptionsError> {
        let (ttl, third) = (self.ttl, self.ttl / 3);
        if !(LEAST_TTL..=store.max_ttl).contains(&ttl) {
            let expected = format!("{LEAST_TTL:?} to {:?}, the store's max_ttl", store.max_ttl);
            return Err(OptionsError::new("ttl", ttl, expected));
        }
        let renew_every = self.renew_every.unwrap_or(third);
        let warn_before = self.warn_before.unwrap_or(third);
        for (option, found) in [("renew_every", renew_every), ("warn_before", warn_before)] {
            if found.is_zero() || found >= ttl {
                let expected = format!("more than zero and less than the ttl of {ttl:?}");
                return Err(OptionsError::new(option, found, expected));
            }
        }
        if let Some(found) = self.max_hold.filter(Duration::is_zero) {
            return Err(OptionsError::new("max_hold", found, "more than zero, or none".to_owned()));
        }
        if self.at_least > store.max_ttl {
            let expected = format!("at most {:?}, the store's max_ttl", store.max_ttl);
            return Err(OptionsError::new("at_least", self.at_least, expected));
        }
        if !store.endings {
            let expected = || format!("none: a {} store does not record how work ends", store.engine);
            if let Some(key) = &self.once {
                return Err(OptionsError::new("once", key, expected()));
            }
            if !self.at_least.is_zero() {
                return Err(OptionsError::new("at_least", self.at_least, expected()));
            }
        }
        let Some(cadence) = Cadence::new(ttl, renew_every, warn_before) else {
            let expected =
                format!("one that renew_every ({renew_every:?}) and warn_before ({warn_before:?}) fit into");
            return Err(OptionsError::new("ttl", ttl, expected));
        };
        let wait = match self.wait {
            Patience::None => Wait::No,
            Patience::For(at_most) => Wait::Until(now.saturating_add(at_most)),
            Patience::Endless => Wait::Forever,
        };
        let options = KeeperOptions::new(cadence).with_wait(wait).with_max_hold(self.max_hold);
        Ok(options.with_tick(TICK))
    }

    /// Who asks for what, and what is kept until the hold ends.
    pub(crate) fn into_parts(self, resource: ResourceName, owner: OwnerId) -> (Claim, Parts) {
        let mut claim = Claim::new(resource, owner, self.ttl);
        claim.label = self.label;
        claim.identity = self.identity;
        claim.once = self.once;
        (claim, Parts { at_least: self.at_least, fences: self.fences })
    }
}

/// What a hold carries along beside its claim.
pub(crate) struct Parts {
    pub(crate) at_least: Duration,
    pub(crate) fences: Vec<Arc<dyn FenceMark>>,
}

impl Default for HoldOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HoldOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldOptions")
            .field("ttl", &self.ttl)
            .field("renew_every", &self.renew_every)
            .field("warn_before", &self.warn_before)
            .field("wait", &self.wait)
            .field("at_least", &self.at_least)
            .field("max_hold", &self.max_hold)
            .field("once", &self.once)
            .field("fences", &self.fences.len())
            .field("label", &self.label)
            .field("identity", &self.identity)
            .finish()
    }
}

/// An option that cannot be met. Nothing was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionsError {
    option: &'static str,
    found: String,
    expected: String,
}

impl OptionsError {
    fn new(option: &'static str, found: impl fmt::Debug, expected: String) -> Self {
        Self { option, found: format!("{found:?}"), expected }
    }

    /// Which option.
    #[must_use]
    pub const fn option(&self) -> &'static str {
        self.option
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; expected {}", self.option, self.found, self.expected)
    }
}

impl std::error::Error for OptionsError {}
