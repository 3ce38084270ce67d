//! Leases on a Redis or Valkey server: each decision is one script, which the server runs without anything in between.

mod address;
mod answer;
mod doctor;
mod failure;
mod fence;
mod hub;
mod link;
mod marks;
mod options;
mod renew;
mod request;
mod rights;
mod script;
mod seen;
mod server;
mod slots;
mod store;
mod tls;
mod wait;

pub(crate) use address::ENGINE;
pub use fence::{Fenced, RedisFence};
use marks::RedisMarks;
pub use options::RedisOptions;
pub use store::RedisStore;
