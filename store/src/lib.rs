//! Durable authorities: the decisions of [`lease_machines`], made where the data is.
//!
//! # The promises of every store
//!
//! 1. **One serialized history per resource**, whoever connects from wherever.
//! 2. **Durable before answered.**
//! 3. **Tokens never repeat and never go down**: not after release, expiry, revoke, prune or restart. They end at
//!    2^63 − 1, and start above the store's clock in microseconds, so that a store which replaces another one is not
//!    below its marks.
//! 4. **The store's clock decides**, read after the row is locked, never going backwards; clients' clocks never matter. (In pools
//!    of an engine that tells no time they do, see [`PoolClock`]; no lease ends by them even there.)
//! 5. **Every write is conditional** on epoch, owner, token and attempt, and an answer is *decided*, *not done*,
//!    *unknown* or *refused*, see [`Undecided`].
//! 6. **One round trip** for a decision (or as many as [`Capabilities::round_trips`] says), and nothing held between calls.
//! 7. **Names** are compared byte by byte, see [`ResourceName`].
//! 8. **Ttls** are exact to [`Capabilities::ttl_grain`] (a millisecond, unless the engine counts in greater steps) from 1 ms
//!    to `max_ttl`, and the *granted* one counts, see [`Grant`].
//! 9. **Every wait ends** at the caller's limit.
//!
//! What a store records: `Granted`, `Renewed`, `Released`, a revoke and `Expired`. The other rejections are not written,
//! so a rejected request costs no durable write.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod answer;
mod capabilities;
mod check;
mod clock;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod codes;
#[cfg(feature = "conformance")]
pub mod conformance;
mod decide;
mod duration;
mod epoch;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod event;
mod fault;
// etcd alone has no marks that are opened by URL.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis")),
    allow(dead_code)
)]
mod fence;
mod finding;
#[cfg(any(feature = "sqlite", feature = "_server"))]
mod home;
#[cfg(any(feature = "sqlite", feature = "_server"))]
mod limits;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
mod name;
mod open;
mod owner;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod request;
#[cfg(feature = "_server")]
mod server;
#[cfg(feature = "sqlite")]
mod slot;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
#[cfg_attr(not(any(feature = "sqlite", feature = "_server")), allow(dead_code))]
mod url;
#[cfg(any(feature = "sqlite", feature = "_server"))]
mod version;

pub use answer::{
    Acquired, End, Grant, HistoryEntry, HoldOutcome, Inspection, Occupant, Pruned, Rejected, Released,
    Renewed, Revoked, Vacated, VacatedHow,
};
pub use capabilities::{Capabilities, PoolClock};
pub use clock::Clock;
pub use duration::{DurationError, parse_duration};
pub use epoch::{Epoch, EpochError};
pub use error::{ErrorKind, StoreError, Undecided};
#[cfg(feature = "etcd")]
pub use etcd::{EtcdFence, EtcdGuard, EtcdOptions, EtcdStore};
pub use fault::{Fault, FaultStore, Odds};
pub use fence::{Advance, GuardError, GuardErrorKind, GuardKind, GuardMode, Mark, MarkKey, Marks};
pub use finding::{Finding, Severity};
pub use memory::MemoryStore;
#[cfg(feature = "mysql")]
pub use mysql::{MysqlFence, MysqlOptions, MysqlStore};
pub use name::{NameError, ResourceName};
pub use open::{Migration, migrate, migration_sql, open, open_existing, open_marks};
pub use owner::fresh_owner;
pub use pool::{
    Claimed, PoolClaim, PoolInspection, Resized, Room, SlotInspection, SlotLease, SlotRef, SlotRenewed,
    Unclaimed, give_back_unheard, slot_name,
};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresFence, PostgresOptions, PostgresStore};
#[cfg(feature = "redis")]
pub use redis::{Fenced, RedisFence, RedisOptions, RedisStore};
pub use request::{Claim, Ending, LeaseRef, Opening, WorkResult};
#[cfg(feature = "sqlite")]
pub use sqlite::{Passed, SqliteFence, SqliteOptions, SqliteStore};
pub use store::{Answer, Store};
pub use url::StoreUrl;
