//! Leases on a PostgreSQL server: the decisions are functions in the database, called with one statement each.
//!
//! `sql/` holds the tables and the functions, `calls` the statements that name them; `link` is one connection, `hub` what every
//! call does with it, `store` puts it behind the trait.

mod answer;
mod calls;
mod doctor;
mod failure;
mod fence;
mod hub;
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
