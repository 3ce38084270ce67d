//! Unique IDs from leased machine numbers: factories that stop by themselves when the lease is over.
//!
//! # The contract
//!
//! > No two IDs of one manager and width are equal, across its factories, threads, leases and machine IDs. None is made after
//! > the deadline of the lease, in a child of the process that holds it, or outside the time that was reserved. Nothing has to
//! > happen for that: each call looks.
//!
//! That no other process has the machine ID at the same time is what the [`Strategy`] is for.
//!
//! # Map
//!
//! | type | what it does |
//! | --- | --- |
//! | [`Strategy`] | hands out a machine ID as a lease: [`EnvironmentVariable`], [`HostIdentifiers`], [`Fixed`], `PoolLease` (feature `store`), or your own |
//! | [`Manager`] | keeps it, and with it the factories on |
//! | [`Counter`], [`Sortable`], `Encrypted` | make IDs |
//! | [`Layout`] | says which bits of an ID mean what, and takes IDs apart |
//! | [`Notation`] | writes and reads IDs |
//!
//! What decides is pure: the manager's rules are a state machine that is told the time, and the factories' stream of stamps is
//! a handful of atomic numbers, checked with the model checker `loom`.
//!
//! # Features
//!
//! `store`: `PoolLease` and `Guarded`. `encrypted`: `Encrypted`. `tracing`: each [`Notice`] is an event with the target
//! `lease_id`: *acquired*, *not acquired*, *renewed*, *not renewed*, *lost*, *the pool runs short*, *the layout's time runs out*.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clock;
mod error;
mod factory;
mod id;
mod layout;
mod manager;
mod source;
mod strategy;
mod sync;
mod text;

pub use clock::{Clock, SystemClock};
pub use error::{ClockError, IdError, Reason};
pub use factory::{Counter, Sortable};
#[cfg(feature = "encrypted")]
pub use factory::{Encrypt, Encrypted, IdCipher};
pub use id::{Id, Id64, Id96, Id128};
pub use layout::{Layout, LayoutError, Parts};
pub use lease_machines::Window;
pub use manager::{Manager, Notice, Options, OptionsError, StartError};
pub use strategy::{
    AcquireError, Acquired, CallOptions, EnvironmentVariable, Fixed, HostIdentifiers, LeaseHandle, Left,
    RenewError, Renewed, Strategy,
};
#[cfg(feature = "store")]
pub use strategy::{Guarded, Lent, PoolLease};
pub use text::{Notation, ParseIdError};
