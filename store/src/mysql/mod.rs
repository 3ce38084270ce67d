//! Leases on a MySQL or MariaDB server: the decisions are procedures in the database, each called with one statement.
//!
//! `sql/` holds the tables and the procedures, in one text for both kinds of server; `call` has the statements that name
//! them; `link` is one connection, `hub` what every call does with it, `store` puts it behind the trait.

mod answer;
mod call;
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

pub use fence::MysqlFence;
pub use options::MysqlOptions;
pub use store::MysqlStore;
pub(crate) use url::ENGINE;
