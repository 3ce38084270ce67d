//! The store in memory, on a clock that the test moves, with faults that the test plans.
#![allow(
    dead_code,
    unused_imports,
    clippy::panic,
    reason = "each test file uses its part; one of the faults is a panic"
)]

mod toy;

use std::sync::Arc;
use std::time::Duration;

use lease_machines_keeper::{Clock, HoldOptions, ManualClock, Scheduler};
use lease_machines_store::Store;

pub(crate) use toy::{Call, Fault, Toy, Waits};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A holder's world: its clock, the store's, and a scheduler between them.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) toy: Arc<Toy>,
    pub(crate) scheduler: Scheduler,
}

impl World {
    /// Holder and store read the same clock.
    pub(crate) fn new() -> Self {
        Self::of(Toy::new())
    }

    /// The store removes leases that have run out, and then knows no more of them, as some engines do.
    pub(crate) fn forgetful() -> Self {
        let (toy, clock) = Toy::new();
        Self::of((toy.forgetful(), clock))
    }

    fn of((toy, clock): (Toy, ManualClock)) -> Self {
        let toy = Arc::new(toy);
        clock.advance(secs(1_000));
        let scheduler = Self::scheduler(&toy, &clock);
        Self { clock, toy, scheduler }
    }

    /// Another process, on the same clock.
    pub(crate) fn other(&self) -> Scheduler {
        Self::scheduler(&self.toy, &self.clock)
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    fn scheduler(toy: &Arc<Toy>, clock: &ManualClock) -> Scheduler {
        let store: Arc<dyn Store> = Arc::<Toy>::clone(toy);
        Scheduler::with_clock(store, Arc::new(clock.clone()))
    }
}

/// A lease of 30 s: due for renewal after 10, at risk after 20, each less the drift allowance.
pub(crate) fn options() -> HoldOptions {
    HoldOptions::new().ttl(secs(30))
}
