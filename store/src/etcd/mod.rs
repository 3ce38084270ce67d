//! Leases on an etcd cluster: the core decides here, on one version of a resource's keys, and a transaction writes it only
//! where that version still stands.
//!
//! `keys` says what is where, `record` how it is written; `link` is the connection, `leases` etcd's own leases, `ahead` those that are kept ready, `reading` one
//! version of a resource, `decision` the loop that decides; `slots` are pools; `hub` is what all calls share, `store` puts it behind
//! the trait.

mod ahead;
mod decision;
mod doctor;
mod epoch;
mod failure;
mod fence;
mod hub;
mod keys;
mod leases;
mod link;
mod look;
mod many;
mod marks;
mod options;
mod reading;
mod record;
mod slots;
mod store;
mod url;

pub use fence::{EtcdFence, EtcdGuard};
pub use options::EtcdOptions;
pub use store::EtcdStore;
pub(crate) use url::ENGINE;
