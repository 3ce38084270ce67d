//! The decisions of the stores that live in the process: the core itself, on one version of a resource's row.
//!
//! Nothing here reads a clock, a database or a lock. A store loads a [`Row`], calls one of these functions, and carries
//! out the [`Effects`] in the same transaction.

mod acquire;
mod renew;
mod row;
mod slot;
mod standing;
mod vacate;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub(crate) use acquire::superseded;
pub(crate) use acquire::{Known, acquire};
pub(crate) use renew::renew;
#[cfg(any(feature = "sqlite", feature = "redis", feature = "etcd"))]
pub(crate) use row::micros;
pub(crate) use row::{At, Effects, Held, Row, Write};
#[cfg(feature = "sqlite")]
pub(crate) use slot::in_range;
pub(crate) use slot::{
    Course, SlotRow, core_claim, course, release as release_slot, renew as renew_slot, revoke as revoke_slot,
    take, unclaimed, wall, withdraw as withdraw_slot,
};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "etcd"))]
pub(crate) use standing::EARLIEST_MICROS;
#[cfg(feature = "_server")]
pub(crate) use standing::LEAP;
#[cfg(feature = "etcd")]
pub(crate) use standing::MAX_TOKEN;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"))]
pub(crate) use standing::greatest_believed;
pub(crate) use standing::{Reason, Standing};
pub(crate) use vacate::{release, revoke, withdraw};

use crate::{Epoch, StoreError};

/// The answer to one request, and what has to be written before it may be given.
pub(crate) struct Decided<T> {
    pub(crate) answer: Result<T, StoreError>,
    pub(crate) effects: Effects,
}

impl<T> Decided<T> {
    /// An answer that changes nothing.
    fn only(answer: Result<T, StoreError>) -> Self {
        Self { answer, effects: Effects::default() }
    }
}

/// A request that believes in another epoch than the store's changes nothing.
fn same_epoch(believed: Option<Epoch>, standing: &Standing) -> Result<(), StoreError> {
    match believed {
        Some(believed) if believed != standing.epoch => Err(StoreError::new_epoch(believed, standing.epoch)),
        _ => Ok(()),
    }
}
