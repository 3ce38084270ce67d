//! IDs that processes make under leases on the slots of one pool, while processes and the store's server are killed, frozen and
//! started again: no ID is made twice, and none under a lease that is over.

mod check;
mod crew;
mod maker;
mod report;
mod run;

use std::time::Duration;

use lease_machines_store::ResourceName;

pub(crate) use maker::make;
pub(crate) use report::outcome;
pub(crate) use run::run;

/// Those that are put to the test where nothing else is asked for.
pub(crate) const ENGINES: &[&str] = &["sqlite", "postgres", "redis"];

/// Processes, and slots for them: those of processes that were killed are nobody's for a while, and at times none is left.
const MAKERS: u32 = 50;
const SLOTS: u32 = 64;

/// The shortest lease that a manager takes, and the shortest cool-down that goes with clocks that are 10 s apart.
const LEASE: Duration = Duration::from_secs(30);
const COOL_DOWN: Duration = Duration::from_secs(10);

fn pool() -> ResourceName {
    ResourceName::new("ids").unwrap()
}
