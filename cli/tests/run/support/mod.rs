//! What the scenarios are written with.

pub(crate) mod actor;
pub(crate) mod alone;
pub(crate) mod clock;
pub(crate) mod lab;
pub(crate) mod needs;
pub(crate) mod processes;
pub(crate) mod pty;
pub(crate) mod random;
pub(crate) mod tree;

pub(crate) use clock::{now, until};
pub(crate) use lab::{Lab, Run};

use std::time::Duration;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The ttl of most scenarios.
pub(crate) const TTL: Duration = secs(3);
/// The time from KILL to the deadline at that ttl.
pub(crate) const MARGIN: Duration = ms(200);
/// How long a thing may take that should happen at once, on a machine that is busy with other tests.
pub(crate) const SOON: Duration = secs(15);
