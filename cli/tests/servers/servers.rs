//! What the tests of the store start servers with.
#![allow(dead_code, unreachable_pub)]

#[cfg(feature = "etcd")]
#[path = "../../../store/tests/servers/etcd.rs"]
pub mod etcd;
#[path = "../../../store/tests/servers/guard.rs"]
pub mod guard;
#[path = "../../../store/tests/servers/mysql.rs"]
pub mod mysql;
#[path = "../../../store/tests/servers/postgres.rs"]
pub mod postgres;
#[path = "../../../store/tests/servers/redis.rs"]
pub mod redis;
