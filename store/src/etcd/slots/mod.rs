//! Pools on a cluster that tells no time.
//!
//! Whether a slot is held, or closed after a revoke, says its live key, which stands on an etcd lease: never early. All else that
//! goes by a clock (a slot's rest, which one has been free for longest, ID time) goes by those of the machines that ask. Each
//! slot's state keeps what they showed: when it was written, from when on the slot counts as free, and the last stamp of ID
//! time that is used or reserved, its mark.
//!
//! The invariants:
//! * **A window begins at or above the mark, and the mark never goes down** but to what a holder says it has used of its own
//!   window. Both are compared and written in the transaction that grants. So no stamp of a slot has two holders, *whatever
//!   any clock shows*: a clock that is behind finds all up to the mark taken, one that is ahead moves the mark.
//! * **What is taken from another machine's clock is taken with [`EtcdOptions::clock_skew`](super::EtcdOptions::clock_skew) on the
//!   safe side.** A slot rests for that long beyond its cool-down. A machine whose clock is further behind the latest that was
//!   seen in the part of the pool that it claims from is refused, as long as slots are looked for.
//! * **Of two claims that choose one slot, one is granted**: its transaction compares the version of the slot, of its owner's key and
//!   of the pool's size. The other chooses again, from the version that its own transaction returned.
//!
//! `record` says how a slot is written, `reading` how a pool is read, `choice` which slot a claim gets; `decision` decides about one
//! slot, `claim` finds it first; `size` makes pools larger and smaller, `look` only looks.

mod choice;
mod claim;
mod decision;
mod look;
mod reading;
mod record;
mod size;

pub(super) use reading::PoolReading;
pub(super) use record::SlotState;
