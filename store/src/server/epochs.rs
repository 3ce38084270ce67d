//! The epochs that a store has been in, as far as one client was told.

use crate::Epoch;

/// More than anybody lives to see.
const MOST: usize = 16;

/// In the order in which each took the other's place, the one that lasts at the end. None comes a second time: where one
/// does, the server has lost that it was replaced.
#[derive(Clone, Default, Debug)]
pub(crate) struct Epochs(Vec<Epoch>);

impl Epochs {
    pub(crate) fn current(&self) -> Option<Epoch> {
        self.0.last().copied()
    }

    /// Whether an answer of this epoch is of an earlier one than was known `before` it was asked for.
    pub(crate) fn went_back(&self, before: Option<Epoch>, epoch: Epoch) -> bool {
        let place = |of: Epoch| self.0.iter().position(|other| *other == of);
        match (place(epoch), before.and_then(place)) {
            (Some(now), Some(then)) => now < then,
            _ => false,
        }
    }

    /// Takes note of an answer's epoch. Whether that is the one that lasts: of two that were heard of at the same time nobody
    /// here knows which one came first, and neither is taken note of that late.
    pub(crate) fn enter(&mut self, before: Option<Epoch>, epoch: Epoch) -> bool {
        let current = self.current();
        if current == Some(epoch) {
            return true;
        }
        if current != before || self.0.contains(&epoch) {
            return false;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(epoch);
        true
    }

    /// The one that lasts took the place of this one, whoever was there to hear of it.
    pub(crate) fn left(&mut self, epoch: Option<Epoch>) {
        let Some(epoch) = epoch.filter(|epoch| !self.0.contains(epoch)) else { return };
        self.0.insert(self.0.len().saturating_sub(1), epoch);
    }

    /// How many are known to have come after this one.
    pub(crate) fn after(&self, epoch: Epoch) -> usize {
        let place = self.0.iter().position(|other| *other == epoch);
        place.map_or(0, |place| self.0.len().saturating_sub(place + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_what_was_known_when_it_was_asked_for() {
        let [one, two, three, four] = [1, 2, 3, 4].map(|value| Epoch::new(value).unwrap());
        let mut epochs = Epochs::default();
        assert!(epochs.enter(None, one) && epochs.enter(Some(one), two) && epochs.enter(Some(one), two));
        assert!(epochs.went_back(Some(two), one) && !epochs.went_back(Some(one), two));
        assert!(!epochs.went_back(Some(one), one) && !epochs.went_back(None, one), "they were on their way");
        assert!(!epochs.went_back(Some(two), three), "nobody knows of that one");
        // Both were asked for in the second: which is the later one?
        assert!(epochs.enter(Some(two), four) && !epochs.enter(Some(two), three));
        assert!(!epochs.went_back(Some(four), three));
        epochs.left(Some(three));
        assert!(epochs.went_back(Some(four), three) && epochs.current() == Some(four));
        assert_eq!((epochs.after(one), epochs.after(four), epochs.after(Epoch::new(9).unwrap())), (3, 0, 0));
        assert!((10..99).all(|value| epochs.enter(epochs.current(), Epoch::new(value).unwrap())));
        assert_eq!(epochs.0.len(), MOST);
    }
}
