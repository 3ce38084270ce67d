//! Which grants somebody may have heard of by an echo.

use std::array;
use std::cell::Cell;

use lease_machines::OwnerId;

/// Counts the echoes of grants, so that a grant which one of them was told of is not taken for one that nobody heard of.
/// Owners share a few counters: an echo that is counted for another's grant only leaves that one to its term.
pub(super) struct Echoes([Cell<u64>; 64]);

impl Echoes {
    pub(super) fn new() -> Self {
        Self(array::from_fn(|_| Cell::new(0)))
    }

    fn of(&self, owner: OwnerId) -> Option<&Cell<u64>> {
        let index = owner.value() % self.0.len() as u64;
        usize::try_from(index).ok().and_then(|index| self.0.get(index))
    }

    /// A grant to this owner, of which nobody has heard yet.
    pub(super) fn unheard(&self, owner: OwnerId) -> Unheard {
        Unheard(self.of(owner).map_or(0, Cell::get))
    }

    /// Whether nobody can have heard of it by an echo since.
    pub(super) fn are_silent(&self, owner: OwnerId, since: Unheard) -> bool {
        self.unheard(owner) == since
    }

    /// An echo is answered with a grant to this owner.
    pub(super) fn add(&self, owner: OwnerId) {
        if let Some(count) = self.of(owner) {
            count.set(count.get().wrapping_add(1));
        }
    }
}

/// By this a grant is known as one that nobody has heard of: see [`Echoes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unheard(u64);
