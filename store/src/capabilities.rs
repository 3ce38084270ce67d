//! What an engine can and cannot promise.

use std::time::Duration;

/// What a store offers. The conformance suite picks its cases by it, and counts what it therefore skips.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The engine, as in its URL: `sqlite`, `memory`.
    pub engine: &'static str,
    /// Decisions survive the end of the process.
    pub durable: bool,
    /// The grain of a ttl: what is asked for is rounded up to it.
    pub ttl_grain: Duration,
    /// The longest ttl; a longer one is refused.
    pub max_ttl: Duration,
    /// A late `renew` is told `Expired`; otherwise `Vacant`, since the engine has removed the lease by itself.
    pub tells_expired: bool,
    /// Requests per decision on a warm connection.
    pub round_trips: u8,
    /// Keeps a history of holds.
    pub history: bool,
    /// Keeps once-keys and how work ended.
    pub endings: bool,
    /// `wait` is woken by the release itself, also of another process, instead of looking again and again.
    pub wakes_waiters: bool,
    /// Can forget resources without their tokens ever going down.
    pub prune: bool,
    /// Keeps pools of slots.
    pub slots: bool,
    /// By whose clock a slot's rest, the order of free slots and ID time go.
    pub pool_clock: PoolClock,
}

/// By whose clock a pool goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PoolClock {
    /// The store's own: clients' clocks do not matter.
    Store,
    /// Those of the machines that ask, since the engine tells no time. When a lease ends is the engine's to say even so.
    Clients {
        /// They are taken to be no further apart than this: a slot rests for so much longer than asked for, and a machine that
        /// is seen to be further behind is refused a slot. ID time is never given out twice, whatever they show.
        apart: Duration,
    },
}

impl Capabilities {
    /// An engine that can do everything, to the millisecond, in one round trip; an engine that cannot changes the field.
    #[must_use]
    pub const fn all(engine: &'static str, max_ttl: Duration) -> Self {
        Self {
            engine,
            durable: true,
            ttl_grain: Duration::from_millis(1),
            max_ttl,
            tells_expired: true,
            round_trips: 1,
            history: true,
            endings: true,
            wakes_waiters: true,
            prune: true,
            slots: true,
            pool_clock: PoolClock::Store,
        }
    }
}
