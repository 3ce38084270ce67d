//! `lease id whois`.

use std::time::{Duration, SystemTime};

use clap::Args;
use lease_machines::OwnerId;
use lease_machines_store::{HistoryEntry, HoldOutcome, ResourceName, Store, slot_name};
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
/// Exit 1 where the history does not say. Clocks may be 10s apart, and whoever holds a slot that was broken, or taken over from a
/// crash, hears of it with its next renewal. Where therefore several holds come into question, all are shown: it was one of them.
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
}

impl Whois {
    pub(super) async fn run(self) -> Outcome {
        let id = self.id.decode()?;
        let slot = slot_name(&self.pool, id.parts.machine_id).map_err(Failure::of_look)?;
        let store = self.store.open_existing()?;
        let holds = store.history(slot, usize::MAX).await.map_err(Failure::of_look)?;
        let closed_until = match holds.iter().find(|hold| !is_of_nobody(hold)) {
            Some(last) if hears_of_it_late(last.outcome) => self.free_from(store.as_ref(), &id).await?,
            _ => None,
        };
        let made = SystemTime::UNIX_EPOCH + id.parts.time;
        let found = holders(&holds, made, id.tick, closed_until);
        let exit = if found.is_empty() { Exit::No } else { Exit::Ok };
        let (number, pool) = (id.parts.machine_id, visible(self.pool.as_str()));
        if self.form.json {
            output::print_json(&Answer { holds: found.iter().copied().map(Into::into).collect(), id })?;
        } else if found.is_empty() {
            let at = utc(made);
            output::print(&format!(
                "the history of {pool} does not say who had machine ID {number} at {at}: it was not held then, or that is \
                 forgotten\n"
            ))?;
        } else {
            if found.len() > 1 {
                output::print("one of these:\n")?;
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
    /// Until when the slot is closed after a revoke, or from when on it was free.
    async fn free_from(&self, store: &dyn Store, id: &Decoded) -> Result<Option<SystemTime>, Failure> {
        let pool = store.slots(self.pool.clone()).await.map_err(Failure::of_look)?;
        let slot = pool.slots.into_iter().find(|slot| slot.slot == id.parts.machine_id);
        Ok(slot.and_then(|slot| slot.free_from))
    }
}

/// The holds under which an ID may have been made in the tick that began at `made`, the latest first.
///
/// The history tells the store's time, exactly, and the ID that of its maker, whose clock may be apart from the store's. Where
/// the latest hold was broken, `closed_until` is when its lease would have ended.
fn holders(
    holds: &[HistoryEntry],
    made: SystemTime,
    tick: Duration,
    closed_until: Option<SystemTime>,
) -> Vec<&HistoryEntry> {
    let (earliest, latest) = (made - CLOCKS_APART, made + tick + CLOCKS_APART);
    let mut found = Vec::new();
    // When the hold after this one was granted, and until when it reached, if that is known to be over.
    let mut after: Option<(&HistoryEntry, Option<SystemTime>)> = None;
    for hold in holds.iter().filter(|hold| !is_of_nobody(hold)) {
        let until = match (hold.outcome, after) {
            (HoldOutcome::Held, _) => None,
            // Granted without an answer, and then once more.
            (HoldOutcome::Rotated, Some((next, _))) if next.owner == hold.owner => continue,
            // Its holder may not have known of the next one for as long as that stood.
            (HoldOutcome::Rotated, Some((_, until))) => until,
            // Nobody else had it before the lease would have ended. When that was, the history does not say.
            (outcome, Some((next, _))) if hears_of_it_late(outcome) => Some(next.granted_at),
            (outcome, None) if hears_of_it_late(outcome) => closed_until.max(Some(hold.ends_at)),
            _ => Some(hold.ends_at),
        };
        if hold.granted_at < latest && until.is_none_or(|until| earliest <= until) {
            found.push(hold);
        }
        after = Some((hold, until));
    }
    found
}

/// Whether a holder may go on as if nothing had happened, until its next renewal or the end of its lease.
fn hears_of_it_late(outcome: HoldOutcome) -> bool {
    matches!(outcome, HoldOutcome::Revoked | HoldOutcome::EpochLost)
}

/// A revoke of what nobody held stands in the history, too.
fn is_of_nobody(hold: &HistoryEntry) -> bool {
    hold.owner == OwnerId::new(0) && hold.granted_at == hold.ends_at
}

#[cfg(test)]
mod tests {
    use lease_machines_store::{Claimed, MemoryStore, PoolClaim, SlotRef, fresh_owner};

    use super::super::super::block_on;
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const MILLISECOND: Duration = Duration::from_millis(1);

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
            let claim = PoolClaim::new(pool(), 1, fresh_owner().unwrap(), HOUR).with_identity(identity);
            let owner = claim.owner;
            match self.ask(self.store.claim_slot(claim)) {
                Claimed::Granted(held) => SlotRef::new(pool(), held.slot, owner, held.token, None),
                other => panic!("{other:?}"),
            }
        }

        fn release(&self, held: SlotRef) {
            let _ = self.ask(self.store.release_slot(held, None));
        }

        /// Who may have made an ID in the millisecond of this time after the beginning.
        fn who(&self, seconds: f64) -> Vec<String> {
            let slot = slot_name(&pool(), 0).unwrap();
            let holds = self.ask(self.store.history(slot, usize::MAX));
            let seen = self.ask(self.store.slots(pool()));
            // The store's calendar begins with 2026.
            let calendar = Duration::from_secs(1_767_225_600) + self.begun;
            let made = calendar + Duration::from_secs_f64(seconds + 20.0) - secs(20);
            let made = Duration::from_millis(u64::try_from(made.as_millis()).unwrap());
            let found = holders(
                &holds,
                SystemTime::UNIX_EPOCH + made,
                MILLISECOND,
                seen.slots.first().and_then(|slot| slot.free_from),
            );
            found.iter().map(|hold| hold.identity.clone().unwrap_or_default()).collect()
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
        let over = PoolClaim::new(pool(), 1, fresh_owner().unwrap(), HOUR).with_identity("a");
        let _ = world.ask(world.store.claim_slot(over.with_exclusive_identity()));
        assert_eq!(world.who(30.0), ["a"]);
        assert_eq!(world.who(120.0), ["a", "a"]);
    }
}
