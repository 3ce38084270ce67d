//! What holds a lease or a machine ID, on servers that these tests start, kill, freeze and put back: the keeper with its tokio
//! runtime, and the manager with its factories.
// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod leases;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../store/tests/servers/proxy.rs"]
mod proxy;
mod rewound;
mod rig;
#[path = "../../src/servers.rs"]
mod servers;
