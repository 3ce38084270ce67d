//! What holds for all resources of a store, and how it changes with the epoch.

use std::time::{Duration, SystemTime};

use lease_machines::FencingToken;

use super::row::{At, micros};
use crate::{Epoch, Opening};

/// The last token: the greatest number that every engine's signed 64-bit integer holds.
pub(crate) const MAX_TOKEN: u64 = i64::MAX as u64;

/// No store is set up, and no epoch opened, by a clock that stands before this: 2026-01-01, in microseconds. Its first
/// tokens would lie below those of a store that it replaces.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "etcd"))]
pub(crate) const EARLIEST_MICROS: u64 = 1_767_225_600_000_000;

/// How far a new epoch's tokens lie above those of the old one that are known: there may be others, which are lost.
pub(crate) const LEAP: u64 = 1 << 32;

/// What holds for all resources of a store.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) epoch: Epoch,
    /// No token at or below this is issued any more.
    pub(crate) floor: u64,
    /// Before this instant nothing is granted: leases of a lost history may still be held.
    pub(crate) grants_from: Duration,
    /// Stamps up to here, since Unix's origin, may have been given out by a history that was lost: no slot's window begins
    /// below. Zero in a store's first epoch.
    pub(crate) stamps_above: Duration,
}

/// How an epoch comes to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason {
    /// A token that somebody has seen; the new ones are greater.
    pub(crate) above: u64,
    /// An operator's word that no old holder acts any more: nobody has to be waited for.
    pub(crate) old_holders_are_dead: bool,
}

impl Reason {
    /// A caller has shown a token that this history does not have. There may be more of them.
    pub(crate) fn rewound(token: FencingToken) -> Self {
        Self { above: token.value().saturating_add(LEAP), old_holders_are_dead: false }
    }
}

impl From<&Opening> for Reason {
    fn from(opening: &Opening) -> Self {
        let above = opening.above.map_or(0, FencingToken::value);
        Self { above, old_holders_are_dead: opening.old_holders_are_dead }
    }
}

impl Standing {
    /// What holds from `at` on in `epoch`: tokens above everything that may have been issued before, and no grants as
    /// long as leases of the old epoch may be held, which last for at most `max_ttl`. `greatest` is the greatest token
    /// that this history knows of.
    pub(crate) fn in_new_epoch(
        &self,
        epoch: Epoch,
        reason: Reason,
        greatest: u64,
        at: &At,
        max_ttl: Duration,
    ) -> Self {
        let floor = self.floor.max(greatest).saturating_add(LEAP);
        let floor = floor.max(reason.above).max(micros(at.wall)).min(MAX_TOKEN);
        let dead = reason.old_holders_are_dead;
        let grants_from = if dead { Duration::ZERO } else { at.now.saturating_add(max_ttl) };
        // Whatever was granted, its window ended at most `max_ttl` after the clock of that moment.
        let stamps_above = Duration::from_micros(micros(at.wall)).saturating_add(max_ttl);
        let stamps_above = self.stamps_above.max(stamps_above);
        Self { epoch, floor, grants_from, stamps_above }
    }
}

/// No store has issued a token above this by now: a year of microseconds ahead of the clock.
pub(crate) fn greatest_believed(wall: SystemTime) -> u64 {
    const YEAR_MICROS: u64 = 365 * 24 * 3600 * 1_000_000;
    micros(wall).saturating_add(YEAR_MICROS).min(MAX_TOKEN)
}
