//! Servers that a test starts for itself: from the machine's installed packages, on free ports, in a temporary folder.
// Each test file uses its own part; helpers outside a #[test] function are tests all the same.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub mod certificate;
pub mod clock;
pub mod disk;
pub mod etcd;
pub mod etcd_cluster;
pub mod guard;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod pgbouncer;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod tap;
