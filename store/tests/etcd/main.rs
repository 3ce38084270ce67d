//! The store on etcd, on servers of the test's own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, unreachable_pub)]

#[path = "../servers/mod.rs"]
mod servers;

#[path = "../common/black_hole.rs"]
mod black_hole;
mod conformance;
mod faults;
mod fence;
#[path = "../common/short.rs"]
mod help;
mod life;
mod logins;
mod losses;
mod members;
mod refusals;
#[path = "../common/rotating.rs"]
mod rotating;
mod slots;
mod tls;
mod versions;
mod wire;
