//! Who may act on this, until when, and how is the one who overslept stopped?
//!
//! This crate is the decision model of LeaseMachines: time-limited, exclusive ownership of **one** resource,
//! as a pure state machine. It reads no clock, opens no socket, allocates nothing, needs no `std`, and does not
//! panic on any input. Stores, runtimes and language bindings carry its decisions somewhere; none makes its own.
//!
//! # The contract
//!
//! > Every grant carries a token strictly greater than every earlier one. A lease is live while `now < expires_at`.
//! > A renewal never resurrects a lease and never shortens one. A fence that has seen a token refuses every smaller one.
//!
//! # Map
//!
//! | on the side of | type | what it does |
//! | --- | --- | --- |
//! | the store | [`LeaseAuthority`] | grants, renews, releases, revokes; its whole state is a [`Checkpoint`] |
//! | the store | [`Pool`] | the same for N slots of one resource: semaphores, machine IDs |
//! | the resource | [`Fence`] | lets a [`FencingToken`] through, or refuses it because a greater one was seen |
//! | the worker | [`Holder`] | knows, on the worker's own clock, whether it may still act |
//! | the worker's runtime | [`Keeper`] | says what to send, when to warn, when to stop; performs nothing itself |
//!
//! Time is always an argument: a [`Duration`](core::time::Duration) since an origin that the caller picks. One
//! authority has one origin, one holder has one origin, and the two are never compared.
//!
//! ```
//! use core::time::Duration;
//! use lease_machines::{Decision, Fence, LeaseAuthority, OwnerId, Rejection};
//!
//! let secs = Duration::from_secs;
//! let (alice, bob) = (OwnerId::new(1), OwnerId::new(2));
//! let mut authority = LeaseAuthority::new();
//! let mut fence = Fence::new(None);
//!
//! let Decision::Granted(first) = authority.acquire(alice, secs(0), secs(2)) else { unreachable!() };
//! assert_eq!(authority.acquire(bob, secs(1), secs(2)), Decision::Rejected(Rejection::Occupied));
//!
//! // Alice sleeps past her deadline. Bob may start ...
//! let Decision::Granted(second) = authority.acquire(bob, secs(2), secs(2)) else { unreachable!() };
//! assert!(fence.accept(second.token()));
//! // ... and Alice, who wakes up and knows nothing of it, is stopped by the resource.
//! assert!(!fence.accept(first.token()));
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects)]

#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod authority;
mod checkpoint;
mod fence;
mod holder;
mod keeper;
mod lease;
mod pool;
#[cfg(feature = "serde")]
mod serde_impls;

pub use authority::{ClockPolicy, LeaseAuthority};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use fence::Fence;
pub use holder::{Cadence, Holder, HolderState};
pub use keeper::{Command, Event, Keeper, KeeperOptions, Loss, NotHeld, Outcome, StopReason, Wait};
pub use lease::{Decision, FencingToken, Lease, OwnerId, Rejection};
pub use pool::{Gone, Pool, Slot, SlotClaim, SlotGrant, SlotRange, SlotRecord, Unclaimed, Window};
