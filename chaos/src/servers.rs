//! Servers of a run's own, as the store's tests start them. Each engine has its line here.
#![allow(dead_code, unreachable_pub)]

#[path = "../../store/tests/servers/clock.rs"]
pub mod clock;
#[cfg(feature = "etcd")]
#[path = "../../store/tests/servers/etcd.rs"]
pub mod etcd;
#[path = "../../store/tests/servers/guard.rs"]
pub mod guard;
#[path = "../../store/tests/servers/mysql.rs"]
pub mod mysql;
#[path = "../../store/tests/servers/pgbouncer.rs"]
pub mod pgbouncer;
#[path = "../../store/tests/servers/postgres.rs"]
pub mod postgres;
#[path = "../../store/tests/servers/redis.rs"]
pub mod redis;
