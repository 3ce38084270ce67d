//! The command on stores and fences of servers that these tests start.
// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod calls;
mod engine;
mod ids;
mod moving;
mod mysql;
mod postgres;
mod refusals;
mod servers;
// The other tests of the command use the rest of it.
#[allow(dead_code)]
#[path = "../commands/support.rs"]
mod support;
