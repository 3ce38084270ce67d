//! The values that decisions are made of.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// Who holds a lease, or asks for one. Any `u64`; an authority only compares it.
///
/// Draw a fresh random one for every hold. An identity that survives a restart, or that two processes of a host
/// share, lets one of them renew what the other holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(u64);

impl OwnerId {
    /// Wraps any number.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number that a grant carries: of two grants of one resource, the later has the greater one.
///
/// Send it with every write to the protected resource, and let a [`Fence`](crate::Fence) there refuse the smaller.
/// Zero is no token: it is never issued, so a field that was left at zero cannot pass for one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The smallest token, which a new authority issues first.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// `None` for zero.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number, never zero.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0.get()
    }

    /// The next greater token; `None` after `u64::MAX`, since a token that wrapped would pass below every fence.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A grant: `owner` may act under `token` while `now < expires_at`, on the clock of the authority that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    owner: OwnerId,
    token: FencingToken,
    expires_at: Duration,
}

impl Lease {
    /// Puts the parts together; any combination is a lease.
    #[must_use]
    pub const fn new(owner: OwnerId, token: FencingToken, expires_at: Duration) -> Self {
        Self { owner, token, expires_at }
    }

    /// Who holds it.
    #[must_use]
    pub const fn owner(self) -> OwnerId {
        self.owner
    }

    /// The token it was granted under; renewals keep it.
    #[must_use]
    pub const fn token(self) -> FencingToken {
        self.token
    }

    /// The first instant at which it is over, since the authority's origin.
    #[must_use]
    pub const fn expires_at(self) -> Duration {
        self.expires_at
    }

    /// Whether it is live: `now < expires_at`. At the deadline itself it is over.
    #[must_use]
    pub fn is_live(self, now: Duration) -> bool {
        now < self.expires_at
    }
}

/// What an authority answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[must_use = "a decision says whether the caller may act"]
pub enum Decision {
    /// The caller holds the resource, under a token greater than any before it.
    Granted(Lease),
    /// The lease goes on, under the token it had.
    Renewed(Lease),
    /// The resource is vacant; the history of tokens is kept.
    Released,
    /// Nothing was granted, renewed or released, for this reason.
    Rejected(Rejection),
}

impl Decision {
    /// The lease that was granted or renewed.
    #[must_use]
    pub const fn lease(self) -> Option<Lease> {
        match self {
            Self::Granted(lease) | Self::Renewed(lease) => Some(lease),
            Self::Released | Self::Rejected(_) => None,
        }
    }

    /// Why nothing happened.
    #[must_use]
    pub const fn rejection(self) -> Option<Rejection> {
        match self {
            Self::Rejected(reason) => Some(reason),
            Self::Granted(_) | Self::Renewed(_) | Self::Released => None,
        }
    }
}

/// Why an authority changed nothing.
///
/// The first six say how things stand; the last three say that the request itself cannot be met.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Rejection {
    /// A lease is live; for `acquire`, the caller's own counts too.
    Occupied,
    /// Nobody holds the resource.
    Vacant,
    /// Somebody else holds the resource.
    WrongOwner,
    /// The token is not the current one: an older one, or one that was never issued.
    StaleToken,
    /// The lease is over: `now >= expires_at`. It cannot be renewed or released, only taken again.
    Expired,
    /// `now` lies before the latest observation, and the policy is [`ClockPolicy::Reject`](crate::ClockPolicy).
    ClockRegressed,
    /// A ttl of zero.
    InvalidTtl,
    /// `now + ttl` lies beyond [`Duration::MAX`].
    DeadlineOverflow,
    /// No greater token is left. The resource is closed for good rather than reused under an old number.
    TokensExhausted,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Occupied => "a lease is live",
            Self::Vacant => "nobody holds the resource",
            Self::WrongOwner => "another owner holds the resource",
            Self::StaleToken => "the token is not the current one",
            Self::Expired => "the lease is over",
            Self::ClockRegressed => "the clock went backwards",
            Self::InvalidTtl => "the ttl is zero",
            Self::DeadlineOverflow => "the deadline lies beyond the range of time",
            Self::TokensExhausted => "no greater token is left",
        })
    }
}

impl core::error::Error for Rejection {}
