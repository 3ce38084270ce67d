//! `lease id whois`.

use std::time::{Duration, SystemTime};

use clap::Args;
use lease_machines::OwnerId;
use lease_machines_store::{HistoryEntry, HoldOutcome, ResourceName, SlotInspection, Store, slot_name};
use serde::Serialize;

use super::clocks::CLOCKS_APART;
use super::decode::{Decoded, IdOptions};
use crate::args::{Form, StoreOption};
use crate::commands::Outcome;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, people, utc, views, visible};

/// Show who had the machine ID of an ID when it was made, from the history
///
/// Exit 1 where the history does not say. Clocks may be 10s apart. Whoever holds a slot that was broken, taken over from a crash
/// or lost with the store's epoch, hears of it with its next renewal. And after a take-over, IDs that are unique by counting
/// carry times that are ahead. Where therefore several holds come into question, all are shown: it was one of them.
#[derive(Args, Debug)]
pub(super) struct Whois {
    /// The pool that the machine ID is of
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    #[command(flatten)]
    id: IdOptions,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    id: Decoded,
    holds: Vec<views::HoldView>,
    certain: bool,
}

impl Whois {
    pub(super) async fn run(self) -> Outcome {
        let id = self.id.decode()?;
        let slot = slot_name(&self.pool, id.parts.machine_id).map_err(Failure::of_look)?;
        let store = self.store.open_existing()?;
        let holds = store.history(slot, usize::MAX).await.map_err(Failure::of_look)?;
        let now = self.as_it_is(store.as_ref(), &id).await?;
        let made = SystemTime::UNIX_EPOCH + id.parts.time;
        let made = Made { at: made, tick: id.tick };
        let found = made.by(&holds, &now, store.capabilities().max_ttl);
        let lost = holds.iter().any(|hold| made.is_lost_with(hold, store.capabilities().max_ttl));
        let exit = if found.is_empty() { Exit::No } else { Exit::Ok };
        let (number, pool) = (id.parts.machine_id, visible(self.pool.as_str()));
        if self.form.json {
            let certain = found.len() == 1 && !lost;
            output::print_json(&Answer {
                holds: found.iter().copied().map(Into::into).collect(),
                id,
                certain,
            })?;
        } else if found.is_empty() {
            let at = utc(made.at);
            output::print(&format!(
                "the history of {pool} does not say who had machine ID {number} at {at}: it was not held then, or that is \
                 forgotten\n"
            ))?;
        } else {
            match (lost, found.len()) {
                (true, _) => output::print("one of these, or one that was lost with the store's history:\n")?,
                (false, 1) => {}
                (false, _) => output::print("one of these:\n")?,
            }
            for hold in found {
                let who = people::name(hold.label.as_deref(), hold.identity.as_deref(), hold.owner);
                let until = match hold.outcome {
                    HoldOutcome::Held => "now".to_owned(),
                    outcome => format!("{} ({})", utc(hold.ends_at), views::outcome(outcome)),
                };
                let (token, since) = (hold.token, utc(hold.granted_at));
                output::print(&format!(
                    "{who} had machine ID {number} of {pool} under token {token} from {since} to {until}\n"
                ))?;
            }
        }
        Ok(exit)
    }
}

impl Whois {
    /// The slot as the store has it now.
    async fn as_it_is(&self, store: &dyn Store, id: &Decoded) -> Result<SlotInspection, Failure> {
        let number = id.parts.machine_id;
        let pool = store.slots(self.pool.clone()).await.map_err(Failure::of_look)?;
        let slot = pool.slots.into_iter().find(|slot| slot.slot == number);
        Ok(slot.unwrap_or_else(|| SlotInspection::new(number)))
    }
}

/// When an ID says that it was made: in the tick that began then. That is a time of its maker's, whose clock may be apart from
/// the store's, and who may have been given time that had not come yet.
struct Made {
    at: SystemTime,
    tick: Duration,
}

impl Made {
    fn earliest(&self) -> SystemTime {
        self.at.checked_sub(CLOCKS_APART).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn latest(&self) -> SystemTime {
        self.at.checked_add(self.tick + CLOCKS_APART).unwrap_or(self.at)
    }

    /// The holds, of all that there were with the latest first, under which it may have been made, the latest first. `now` is
    /// the slot as it is, and `longest` what leases last at most.
    ///
    /// Of the time that was reserved for a hold the history tells nothing. Reserved is what lies above all that was reserved
    /// before. That is the time to come where a hold before was to last longer than it did: where it was taken over, or was
    /// lost with an epoch after which grants began at once. What a holder reserved and gave back, it says, was not used.
    fn by<'a>(
        &self,
        holds: &'a [HistoryEntry],
        now: &SlotInspection,
        longest: Duration,
    ) -> Vec<&'a HistoryEntry> {
        let mut found = Vec::new();
        // Up to when time may have been reserved by the holds so far.
        let mut reserved = SystemTime::UNIX_EPOCH;
        // When the hold began that its owner has taken again under this token.
        let mut began = None;
        let mut holds = holds.iter().rev().filter(|hold| !is_of_nobody(hold)).peekable();
        while let Some(hold) = holds.next() {
            let next = holds.peek();
            let since = began.take().unwrap_or(hold.granted_at);
            // Granted without an answer, and then once more.
            if hold.outcome == HoldOutcome::Rotated && next.is_some_and(|next| next.owner == hold.owner) {
                began = Some(since);
                continue;
            }
            let lease_ends = hold.renewed_at + longest;
            let until = match (hold.outcome, next) {
                (HoldOutcome::Held, _) => hold.ends_at.max(SystemTime::UNIX_EPOCH + now.mark),
                // Its holder may know of nothing before its lease ends. Of one that was broken, nobody else had it before.
                (HoldOutcome::Rotated | HoldOutcome::EpochLost, _) => lease_ends,
                (HoldOutcome::Revoked, Some(next)) => next.granted_at,
                (HoldOutcome::Revoked, None) => now.free_from.map_or(hold.ends_at, |at| at.max(hold.ends_at)),
                _ => hold.ends_at,
            };
            let is_ahead = reserved > since;
            let until = match hold.outcome {
                _ if !is_ahead => until,
                HoldOutcome::Held | HoldOutcome::Expired => until.max(reserved),
                _ => until.max(reserved).max(lease_ends),
            };
            if since < self.latest() && self.earliest() <= until {
                found.push(hold);
            }
            reserved = match hold.outcome {
                HoldOutcome::Rotated | HoldOutcome::Withdrawn => reserved.max(lease_ends),
                HoldOutcome::EpochLost => reserved.max(hold.ends_at + longest),
                // By then the clock had not caught up with it.
                HoldOutcome::Released if is_ahead && hold.ends_at < reserved => until,
                _ => reserved,
            };
        }
        found.reverse();
        found
    }

    /// Whether holds that are not in the history may have been there then: since this one's last renewal, an epoch was opened,
    /// as it is where a store was put back to an earlier state.
    fn is_lost_with(&self, hold: &HistoryEntry, longest: Duration) -> bool {
        hold.outcome == HoldOutcome::EpochLost
            && hold.renewed_at < self.latest()
            && self.earliest() <= hold.ends_at + longest
    }
}

/// A revoke of what nobody held stands in the history, too.
fn is_of_nobody(hold: &HistoryEntry) -> bool {
    hold.owner == OwnerId::new(0) && hold.granted_at == hold.ends_at
}

#[cfg(test)]
mod tests {
    use lease_machines_store::{Claimed, MemoryStore, Opening, PoolClaim, SlotRef, fresh_owner};

    use super::super::super::block_on;
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const MILLISECOND: Duration = Duration::from_millis(1);
    /// No lease lasts longer.
    const LONGEST: Duration = Duration::from_secs(24 * 3_600);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// A pool of one slot, whose store's time begins in the midst of a millisecond.
    struct World {
        store: MemoryStore,
        begun: Duration,
    }

    impl World {
        fn new() -> Self {
            let store = MemoryStore::new().unwrap();
            store.advance(Duration::from_micros(1_000_700));
            let begun = store.now();
            Self { store, begun }
        }

        fn ask<T>(&self, answer: impl Future<Output = Result<T, lease_machines_store::StoreError>>) -> T {
            block_on(async { answer.await.map_err(Failure::of_look) }).unwrap()
        }

        fn claim(&self, identity: &str) -> SlotRef {
            self.claim_as(PoolClaim::new(pool(), 1, fresh_owner().unwrap(), HOUR).with_identity(identity))
        }

        /// Takes the slot over from a crash of the same identity.
        fn take_over(&self, identity: &str, label: &str) -> SlotRef {
            let claim = PoolClaim::new(pool(), 1, fresh_owner().unwrap(), HOUR).with_identity(identity);
            self.claim_as(claim.with_exclusive_identity().with_label(label))
        }

        fn claim_as(&self, claim: PoolClaim) -> SlotRef {
            let owner = claim.owner;
            match self.ask(self.store.claim_slot(claim.with_id_time())) {
                Claimed::Granted(held) => SlotRef::new(pool(), held.slot, owner, held.token, None),
                other => panic!("{other:?}"),
            }
        }

        fn release(&self, held: SlotRef) {
            let used = self.calendar() - self.begun + self.store.now();
            self.release_at(held, used);
        }

        /// Gives it back, with the last stamp that was used.
        fn release_at(&self, held: SlotRef, last_used: Duration) {
            let _ = self.ask(self.store.release_slot(held, Some(last_used)));
        }

        /// The beginning. The store's calendar begins with 2026.
        fn calendar(&self) -> Duration {
            Duration::from_secs(1_767_225_600) + self.begun
        }

        fn history(&self) -> Vec<HistoryEntry> {
            self.ask(self.store.history(slot_name(&pool(), 0).unwrap(), usize::MAX))
        }

        fn made(&self, seconds: f64) -> Made {
            let made = self.calendar() + Duration::from_secs_f64(seconds + 20.0) - secs(20);
            let made = Duration::from_millis(u64::try_from(made.as_millis()).unwrap());
            Made { at: SystemTime::UNIX_EPOCH + made, tick: MILLISECOND }
        }

        /// The holds under which an ID may have been made in the millisecond of this time after the beginning.
        fn found(&self, seconds: f64) -> Vec<HistoryEntry> {
            let (holds, seen) = (self.history(), self.ask(self.store.slots(pool())));
            let found = self.made(seconds).by(&holds, seen.slots.first().unwrap(), LONGEST);
            found.into_iter().cloned().collect()
        }

        /// Under whose identity that was.
        fn who(&self, seconds: f64) -> Vec<String> {
            self.found(seconds).into_iter().map(|hold| hold.identity.unwrap_or_default()).collect()
        }

        /// And under which label.
        fn labels(&self, seconds: f64) -> Vec<String> {
            self.found(seconds).into_iter().map(|hold| hold.label.unwrap_or_default()).collect()
        }
    }

    fn pool() -> ResourceName {
        ResourceName::new("ids").unwrap()
    }

    #[test]
    fn the_tick_of_an_id_may_have_begun_before_its_maker_was_granted_anything() {
        let world = World::new();
        world.claim("a");
        assert_eq!(world.who(0.0), ["a"], "granted 700 us after the millisecond began");
    }

    #[test]
    fn clocks_may_be_ten_seconds_apart() {
        let world = World::new();
        let held = world.claim("a");
        world.store.advance(secs(60));
        world.release(held);
        for (seconds, who) in [(-10.1, 0), (-9.9, 1), (30.0, 1), (69.9, 1), (70.1, 0)] {
            assert_eq!(world.who(seconds).len(), who, "{seconds} s after the grant");
        }
    }

    #[test]
    fn where_two_holds_are_that_close_it_may_be_either() {
        let world = World::new();
        let held = world.claim("a");
        world.store.advance(secs(60));
        world.release(held);
        world.store.advance(HOUR);
        let held = world.claim("a");
        world.store.advance(secs(1));
        world.release(held);
        world.store.advance(secs(2));
        world.claim("a");
        assert_eq!(world.who(30.0).len(), 1);
        assert_eq!(world.who(3_662.0).len(), 2);
        assert_eq!(world.who(3_700.0).len(), 1);
    }

    #[test]
    fn whoever_was_broken_may_have_gone_on_to_the_end_of_its_lease() {
        let world = World::new();
        world.claim("a");
        world.store.advance(secs(600));
        let _ = world.ask(world.store.revoke_slot(pool(), 0, None, None));
        // Once more, of what nobody has: that is no hold.
        let _ = world.ask(world.store.revoke_slot(pool(), 0, None, None));
        for (seconds, who) in [(1_200.0, 1), (3_609.0, 1), (3_611.0, 0)] {
            assert_eq!(world.who(seconds).len(), who, "{seconds} s after the grant");
        }
        world.store.advance(secs(3_100));
        world.claim("b");
        assert_eq!(world.who(1_200.0), ["a"]);
        assert_eq!(world.who(3_695.0), ["b", "a"]);
        assert_eq!(world.who(3_800.0), ["b"]);
    }

    #[test]
    fn a_slot_that_was_taken_over_may_be_of_both_and_one_that_was_granted_twice_is_of_one() {
        let world = World::new();
        let first = world.claim("a");
        let again = PoolClaim::new(pool(), 1, first.owner, HOUR).with_identity("a").with_attempt(2);
        let _ = world.ask(world.store.reclaim_slot(again));
        world.store.advance(secs(60));
        assert_eq!(world.who(30.0), ["a"]);
        world.take_over("a", "over");
        assert_eq!(world.labels(30.0), [""]);
        assert_eq!(world.labels(120.0), ["over", ""]);
    }

    /// Of the first one's lease an hour was left: its holder may go on, and the time up to then is not the others'.
    #[test]
    fn an_id_with_the_time_of_another_hold_is_not_ascribed_to_that_one_alone() {
        let world = World::new();
        world.claim("a");
        world.store.advance(secs(60));
        let second = world.take_over("a", "second");
        world.store.advance(secs(60));
        let its_last = world.calendar() + HOUR + secs(1);
        world.release_at(second, its_last);
        world.store.advance(secs(30));
        world.take_over("a", "third");
        assert_eq!(world.labels(1_800.0), ["third", "second", ""], "the time of the first, if of anybody's");
        assert_eq!(world.labels(3_600.5), ["third", "second", ""], "the second one's");

        world.store.advance(HOUR * 50);
        world.take_over("a", "last");
        let at = world.store.now() - world.begun;
        assert_eq!(world.labels(at.as_secs_f64() + 20.0), ["last"], "what was reserved then is past");
    }

    #[test]
    fn nothing_was_made_beyond_what_is_reserved() {
        let world = World::new();
        let held = world.claim("a");
        assert_eq!(world.who(3_609.0), ["a"]);
        assert_eq!(world.who(3_611.0).len(), 0, "its lease does not last as long");
        world.store.advance(secs(60));
        let _ = world.ask(world.store.renew_slot(held, HOUR, true));
        assert_eq!(world.who(3_669.0), ["a"]);
        assert_eq!(world.who(3_671.0).len(), 0);
    }

    /// It is opened where a store was put back to an earlier state, in which what came after is not there.
    #[test]
    fn who_had_it_before_a_new_epoch_is_not_certain() {
        let world = World::new();
        let held = world.claim("a");
        world.store.advance(secs(600));
        let _ = world.ask(world.store.renew_slot(held, HOUR, true));
        world.store.advance(secs(600));
        let opening = Opening::new(world.ask(world.store.epoch())).with_dead_holders();
        world.ask(world.store.open_epoch(opening));
        world.store.advance(secs(60));
        // One that stamps by its own clock: all time that may have been reserved is to pass first.
        let later = PoolClaim::new(pool(), 1, fresh_owner().unwrap(), HOUR).with_identity("b");
        assert!(matches!(world.ask(world.store.claim_slot(later)), Claimed::Granted(_)));
        let is_lost =
            |seconds| world.history().iter().any(|hold| world.made(seconds).is_lost_with(hold, LONGEST));
        assert_eq!((world.who(300.0), is_lost(300.0)), (vec!["a".to_owned()], false));
        assert_eq!((world.who(900.0), is_lost(900.0)), (vec!["a".to_owned()], true));
        let both = vec!["b".to_owned(), "a".to_owned()];
        assert_eq!((world.who(1_400.0), is_lost(1_400.0)), (both, true));
    }
}
