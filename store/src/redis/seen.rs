//! What a store was told of its server's history: where less of it is there afterwards, some of it was lost.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::answer::Reply;
use super::script::BUCKETS;
use crate::Epoch;
use crate::server::Epochs;

/// What one store was told. Others know other things of the same server; each finds what it knows itself.
///
/// Two things hold on a server that has lost nothing, and each is compared with what was known *before* it was asked, since
/// answers overtake each other:
///
/// * A decision, or a look, finds its bucket's count no lower than any that was told before. What it leaves behind proves
///   nothing: a decision makes up for one that was lost.
/// * The first thing asked on a connection finds that no run of the server since began with fewer decisions than were told
///   before that run, and that the run under which they were told is remembered: see `hello.lua`. What others have decided
///   meanwhile does not make up for what was lost.
pub(super) struct Seen(Mutex<Told>);

struct Told {
    epochs: Epochs,
    /// Under which run of the server, where it has a number in its history.
    run: Option<Run>,
    /// The greatest count of each bucket, in the last epoch.
    counts: Vec<u64>,
}

/// A run of the server, as its history knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) name: String,
}

/// What was known before something was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    epoch: Option<Epoch>,
    count: u64,
}

/// What was told under another run.
pub(super) struct ToldBefore {
    pub(super) epoch: Epoch,
    pub(super) run: Run,
    /// Of buckets, by their index.
    pub(super) counts: Vec<(usize, u64)>,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Told { epochs: Epochs::default(), run: None, counts: vec![0; BUCKETS] }))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn before(&self, bucket: usize) -> Before {
        let told = self.told();
        Before { epoch: told.epochs.current(), count: told.counts.get(bucket).copied().unwrap_or(0) }
    }

    /// Whether an answer comes from a history that has less than was known before; where it does not, it is known from now on.
    pub(super) fn has_lost(&self, bucket: usize, before: Before, reply: &Reply) -> bool {
        let mut told = self.told();
        if before.epoch == Some(reply.epoch) && reply.before < before.count {
            return true;
        }
        if told.epochs.went_back(before.epoch, reply.epoch) {
            return true;
        }
        if told.enter(before, reply.epoch) {
            if let Some(count) = told.counts.get_mut(bucket) {
                *count = reply.count.max(*count);
            }
        }
        false
    }

    /// What there is to compare with a run of this name: nothing, where all was told under it.
    pub(super) fn under_another_run(&self, name: &str) -> Option<ToldBefore> {
        let told = self.told();
        let (epoch, run) = (told.epochs.current()?, told.run.clone().filter(|run| run.name != name)?);
        let counts: Vec<_> =
            told.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        (!counts.is_empty()).then_some(ToldBefore { epoch, run, counts })
    }

    /// A run has greeted, in this epoch, which has taken the place of another. Whether that had been replaced already.
    pub(super) fn has_gone_back(&self, before: Before, epoch: Epoch, left: Option<Epoch>) -> bool {
        let mut told = self.told();
        if told.epochs.went_back(before.epoch, epoch) {
            return true;
        }
        if told.enter(before, epoch) {
            told.epochs.left(left);
        }
        false
    }

    /// From now on all is told under this run, and what was told before is known to it.
    pub(super) fn is_under(&self, run: Option<Run>) {
        self.told().run = run;
    }

    /// How many epochs are known to have come after this one.
    pub(super) fn epochs_after(&self, epoch: Epoch) -> usize {
        self.told().epochs.after(epoch)
    }
}

impl Told {
    /// Whether the store is in this epoch, as far as is known.
    fn enter(&mut self, before: Before, epoch: Epoch) -> bool {
        let current = self.epochs.current();
        if !self.epochs.enter(before.epoch, epoch) {
            return false;
        }
        if current != Some(epoch) {
            self.counts.fill(0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(epoch: u64, before: u64, count: u64) -> Reply {
        let epoch = Epoch::new(epoch).unwrap();
        Reply { what: String::new(), epoch, count, before, rewound: false, rest: Vec::new() }
    }

    fn lost(seen: &Seen, answer: Reply) -> bool {
        seen.has_lost(7, seen.before(7), &answer)
    }

    #[test]
    fn a_decision_does_not_make_up_for_one_that_was_lost() {
        let seen = Seen::new();
        assert!(!lost(&seen, reply(1, 4, 5)) && !lost(&seen, reply(1, 5, 6)) && !lost(&seen, reply(1, 6, 6)));
        assert!(lost(&seen, reply(1, 5, 6)), "one");
        assert!(lost(&seen, reply(1, 4, 6)) && lost(&seen, reply(1, 5, 5)));
        assert!(!seen.has_lost(8, seen.before(8), &reply(1, 0, 1)), "another bucket has a count of its own");
        assert!(!lost(&seen, reply(1, 9, 10)), "others decide, too");
    }

    #[test]
    fn answers_may_overtake_each_other() {
        let seen = Seen::new();
        assert!(!lost(&seen, reply(1, 1, 2)));
        let both = seen.before(7);
        assert!(!seen.has_lost(7, both, &reply(1, 3, 4)) && !seen.has_lost(7, both, &reply(1, 2, 3)));
        assert!(lost(&seen, reply(1, 3, 4)), "the greatest counts");
        // One that was sent in an epoch, and is heard of after the next one has begun.
        let late = seen.before(7);
        assert!(!lost(&seen, reply(2, 5, 6)));
        assert!(!seen.has_lost(7, late, &reply(1, 4, 5)));
        assert!(lost(&seen, reply(2, 5, 6)), "what was known of the new one is known still");
    }

    #[test]
    fn an_epoch_that_was_replaced_does_not_come_again() {
        let seen = Seen::new();
        assert!(!lost(&seen, reply(1, 1, 2)) && !lost(&seen, reply(2, 3, 3)));
        assert!(lost(&seen, reply(1, 2, 3)));
        assert_eq!(seen.epochs_after(Epoch::new(1).unwrap()), 1);
        // A server that was wiped, and set up anew.
        assert!(!lost(&seen, reply(3, 1, 1)));
        // One that says which it has replaced.
        let (own, other) = (Seen::new(), Epoch::new(9));
        assert!(!own.has_gone_back(own.before(0), Epoch::new(4).unwrap(), other));
        assert!(own.has_gone_back(own.before(0), Epoch::new(9).unwrap(), None));
    }

    #[test]
    fn only_what_was_told_under_another_run_is_compared() {
        let seen = Seen::new();
        let run = Run { number: 3, name: "a".to_owned() };
        seen.is_under(Some(run.clone()));
        assert!(seen.under_another_run("b").is_none(), "nothing was told");
        assert!(!lost(&seen, reply(1, 1, 2)));
        assert!(seen.under_another_run("a").is_none());
        let told = seen.under_another_run("b").unwrap();
        assert_eq!((told.epoch.value(), told.run, told.counts), (1, run, vec![(7, 2)]));
        seen.is_under(None);
        assert!(seen.under_another_run("b").is_none(), "one without a number shows nothing");
    }
}
