//! Leases on a PostgreSQL server: the decisions are functions in the database, called with one statement each.
//!
//! `sql/` holds the tables and the functions, `calls` the statements that name them; `link` is one connection, `core` what every
//! call does with it, `store` puts it behind the trait.

mod answer;
mod calls;
mod core;
mod doctor;
mod failure;
mod fence;
mod link;
mod marks;
mod options;
mod passwords;
mod renew;
mod schema;
mod slots;
mod store;
mod tls;
mod url;
mod wait;

pub use fence::PostgresFence;
use marks::PostgresMarks;
pub use options::PostgresOptions;
pub use store::PostgresStore;
pub(crate) use url::ENGINE;
