//! The PostgreSQL store, on servers that these tests start.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../servers/mod.rs"]
mod servers;

mod conformance;
