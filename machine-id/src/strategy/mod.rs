//! Who hands out machine IDs.

mod environment;
mod fixed;
#[cfg(feature = "store")]
mod guarded;
mod hosts;
#[cfg(feature = "store")]
mod left_behind;
#[cfg(feature = "store")]
mod pool;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::Window;

pub use environment::EnvironmentVariable;
pub use fixed::Fixed;
#[cfg(feature = "store")]
pub use guarded::Guarded;
pub use hosts::HostIdentifiers;
#[cfg(feature = "store")]
pub use pool::{Lent, PoolLease};

/// Hands out a machine ID as a lease.
///
/// A strategy that knows its ID from elsewhere is one method, [`acquire`](Self::acquire). One that coordinates overrides all
/// four. Each call is made on a thread of its own, and may block; one that has not answered within
/// [`CallOptions::limit`] is no longer waited for, and what it grants later is given back.
///
/// The same identity gets the same ID from `acquire` and from the renewals that follow.
pub trait Strategy: Send + Sync + 'static {
    /// Takes a machine ID for `lease_duration`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] with its reason, which whoever started the manager is told.
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError>;

    /// Goes on with a lease for another `lease_duration`. Unless overridden, it does.
    ///
    /// # Errors
    ///
    /// [`RenewError::Lost`] where it is known to be over, [`RenewError::Retry`] where nobody knows. One that panics counts as
    /// *retry*.
    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        let _ = options;
        Ok(Renewed::new(lease.clone(), lease_duration))
    }

    /// Gives a lease back, as well as it can. Unless overridden, there is nothing to do.
    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        let _ = (lease, options);
    }

    /// Takes back, as well as it can, whatever was asked for and may have been granted without an answer: nothing is asked for
    /// any more. A manager that ends calls it once, also while an [`acquire`](Self::acquire) still hangs. Unless overridden,
    /// there is nothing to do.
    fn withdraw(&self, options: &CallOptions) {
        let _ = options;
    }

    /// Whether it always returns the same ID, so that there is no point in acquiring again after a conflict. Unless overridden,
    /// it does.
    fn deterministic(&self) -> bool {
        true
    }

    /// How long a machine ID rests before another identity may have it. A manager does not start where that is less than what
    /// clocks may be apart, see [`Options::max_clock_skew`](crate::Options::max_clock_skew). Unless overridden, there is no such
    /// time.
    fn cool_down(&self) -> Option<Duration> {
        None
    }

    /// How many machine IDs are left for others. It is asked for after each grant, on a thread of its own, for
    /// [`Notice::RunsShort`](crate::Notice::RunsShort). Unless overridden, nobody knows.
    fn left(&self, options: &CallOptions) -> Option<Left> {
        let _ = options;
        None
    }
}

impl<S: Strategy + ?Sized> Strategy for Box<S> {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        (**self).acquire(lease_duration, options)
    }

    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        (**self).renew(lease, lease_duration, options)
    }

    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        (**self).release(lease, options);
    }

    fn withdraw(&self, options: &CallOptions) {
        (**self).withdraw(options);
    }

    fn deterministic(&self) -> bool {
        (**self).deterministic()
    }

    fn cool_down(&self) -> Option<Duration> {
        (**self).cool_down()
    }

    fn left(&self, options: &CallOptions) -> Option<Left> {
        (**self).left(options)
    }
}

/// How many machine IDs are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// Those that could be granted now: nobody holds them, and they have cooled down.
    pub free: u32,
    /// All that this strategy may be granted.
    pub of: u32,
}

impl Left {
    /// Whether these are less than a tenth of all.
    #[must_use]
    pub const fn is_short(self) -> bool {
        self.free.saturating_mul(10) < self.of
    }
}

/// What a strategy is told about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CallOptions {
    /// For how long the answer is waited for.
    pub limit: Duration,
    /// When a lease is released: the last stamp that was used under it, since Unix's origin, where it is known. The rest of the
    /// reserved time can be given back then.
    pub last_used: Option<Duration>,
}

impl CallOptions {
    /// Waits this long, and knows nothing of stamps.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, last_used: None }
    }
}

/// A lease as its strategy knows it, and nobody else.
#[derive(Clone)]
pub struct LeaseHandle(Arc<dyn Any + Send + Sync>);

impl LeaseHandle {
    /// Wraps whatever the strategy wants back at a renewal or a release.
    #[must_use]
    pub fn new(lease: impl Any + Send + Sync) -> Self {
        Self(Arc::new(lease))
    }

    /// For a strategy that wants nothing back.
    #[must_use]
    pub fn none() -> Self {
        Self::new(())
    }

    /// What was wrapped; `None` where that was of another type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseHandle(..)")
    }
}

/// A machine ID that was granted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquired {
    /// The number.
    pub machine_id: u16,
    /// For renewals and the release.
    pub lease: LeaseHandle,
    /// For how long it was granted. Less than 30 s counts as not granted.
    pub ttl: Duration,
    /// The ID time that is this holder's alone, by the store's clock. A strategy without a store knows none; IDs are then
    /// stamped from the grant on, by the own clock.
    pub window: Option<Window>,
    /// The store's wall clock when it granted, since Unix's origin: a machine whose own is too far from it does not start.
    pub store_clock: Option<Duration>,
}

impl Acquired {
    /// A grant without window and clock.
    #[must_use]
    pub const fn new(machine_id: u16, lease: LeaseHandle, ttl: Duration) -> Self {
        Self { machine_id, lease, ttl, window: None, store_clock: None }
    }

    /// The same, with the ID time that was reserved.
    #[must_use]
    pub const fn with_window(mut self, window: Option<Window>) -> Self {
        self.window = window;
        self
    }

    /// The same, by a store whose clock said this.
    #[must_use]
    pub const fn with_store_clock(mut self, clock: Option<Duration>) -> Self {
        self.store_clock = clock;
        self
    }
}

/// A lease that goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewed {
    /// For the next renewal; it may be another one.
    pub lease: LeaseHandle,
    /// For how long it goes on. Less than 30 s counts as lost.
    pub ttl: Duration,
    /// The ID time that is reserved now, from where the grant's began.
    pub window: Option<Window>,
}

impl Renewed {
    /// A renewal without a window.
    #[must_use]
    pub const fn new(lease: LeaseHandle, ttl: Duration) -> Self {
        Self { lease, ttl, window: None }
    }

    /// The same, with the ID time that is reserved.
    #[must_use]
    pub const fn with_window(mut self, window: Option<Window>) -> Self {
        self.window = window;
        self
    }
}

/// Why no machine ID was granted.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// All are taken. It is tried again.
    Exhausted(String),
    /// Not decided this time: others were deciding on each that could be had, or another request came before. It is tried
    /// again.
    Busy(String),
    /// Another identity has the machine ID that this one was to have. A start fails at once.
    Conflict(String),
    /// The store did not answer. It is tried again.
    Unreachable(String),
    /// The store refused: rights, schema. A start fails at once.
    Refused(String),
    /// It cannot work as it was set up. A start fails at once.
    Misconfigured(String),
}

impl AcquireError {
    /// Whether another try may do better without anybody doing something about it.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Exhausted(_) | Self::Busy(_) | Self::Unreachable(_))
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::Exhausted(why) => ("every machine ID is taken", why),
            Self::Busy(why) => ("not decided this time", why),
            Self::Conflict(why) => ("the machine ID is taken", why),
            Self::Unreachable(why) => ("the store cannot be reached", why),
            Self::Refused(why) => ("the store refused", why),
            Self::Misconfigured(why) => ("the strategy is misconfigured", why),
        };
        write!(f, "{what}: {why}")
    }
}

impl std::error::Error for AcquireError {}

/// Why a lease was not renewed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RenewError {
    /// It is over: another holds the ID, or the store rejected the lease.
    Lost(String),
    /// Nobody knows: a time-out, a broken connection. It is tried again for as long as the lease is known to stand.
    Retry(String),
}

impl fmt::Display for RenewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(why) => write!(f, "the lease is lost: {why}"),
            Self::Retry(why) => write!(f, "not renewed, perhaps later: {why}"),
        }
    }
}

impl std::error::Error for RenewError {}
