//! The embedded store: one SQLite file.

mod attach;
mod batch;
mod boot_clock;
mod committer;
mod connection;
mod doctor;
mod echoes;
mod failure;
mod fence;
mod filesystem;
mod forked;
mod history;
mod identity;
mod jitter;
mod lane;
mod options;
mod prepare;
mod prune;
mod reader;
mod row;
mod schema;
mod settings;
mod slots;
mod store;
mod url;
mod waiters;
mod watch;

pub(crate) use fence::SqliteMarks;
pub use fence::{Passed, SqliteFence};
pub use options::SqliteOptions;
pub use store::SqliteStore;
pub(crate) use url::ENGINE;
