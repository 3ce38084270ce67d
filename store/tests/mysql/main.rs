//! The MySQL store, on servers of both kinds that these tests start.
// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, unreachable_pub)]

#[path = "../servers/mod.rs"]
mod servers;

#[path = "../common/black_hole.rs"]
mod black_hole;
mod blocked;
mod conformance;
mod connecting;
mod crashes;
mod durable;
mod fence;
mod help;
mod hostile;
mod lent;
mod losses;
mod marks;
mod nonsense;
#[path = "../common/page.rs"]
mod page;
#[path = "../common/rotating.rs"]
mod rotating;
mod setup;
mod slots;
mod tls;
mod wire;
