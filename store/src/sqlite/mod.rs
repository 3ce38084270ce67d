//! The embedded store: one SQLite file.

mod attach;
mod batch;
mod boot_clock;
mod committer;
mod connection;
mod doctor;
mod failure;
mod filesystem;
mod guard;
mod history;
mod jitter;
mod lane;
mod marks;
mod options;
mod prune;
mod reader;
mod row;
mod schema;
mod store;
mod waiters;
mod watch;

pub use guard::{InTransaction, Passed, SqliteFence};
pub(crate) use marks::SqliteMarks;
pub use options::SqliteOptions;
pub use store::SqliteStore;
