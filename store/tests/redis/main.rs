//! The store on Redis and Valkey, on servers of the test's own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod away;
#[path = "../common/black_hole.rs"]
mod black_hole;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod connecting;
mod fence;
mod forgotten;
mod load;
mod losses;
mod mutants;
mod proxy;
mod refusals;
#[path = "../common/rotating.rs"]
mod rotating;
#[path = "../servers/mod.rs"]
mod servers;
mod slot_mutants;
mod slots;
mod support;
mod tls;
mod versions;
mod wire;

use common as help;
