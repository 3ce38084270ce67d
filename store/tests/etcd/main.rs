//! The store on etcd, on servers of the test's own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, unreachable_pub)]

#[path = "../servers/mod.rs"]
mod servers;

mod conformance;
mod faults;
mod fence;
#[path = "../common/short.rs"]
mod help;
mod life;
mod losses;
mod members;
mod refusals;
mod tls;
mod versions;
mod wire;
