//! `lease migrate --from`: has another store take over.
//!
//! Three things must never be: a holder at work under the old store while the new one grants the same resource or the same
//! slot, a token of the new store that is not above all of the old one's, and a stamp of ID time that both have given out. So
//! the old store is closed first, by a new epoch in which it grants nothing for its longest ttl: from that commit on no lease
//! is granted or renewed there. Then every lease that it had is waited for, of slots too. Only after that the new store's
//! tokens are raised, and it grants; its ID time begins beyond all that the old one has reserved. A step that fails leaves a
//! store that grants nothing, and the whole may be begun again.

use std::time::{Duration, SystemTime};

use lease_machines::FencingToken;
use lease_machines_store::{
    Acquired, Claim, Ending, Inspection, LeaseRef, Opening, PoolInspection, Store, WorkResult, fresh_owner,
};
use serde::Serialize;

use super::{confirm, unknown_answer};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, people, visible};

/// Older than anything that was ever held: a prune of what is older forgets nothing, and tells the floor.
const BEFORE_ALL: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// For how long the resource of a once-key is held while the key is written down.
const TERM: Duration = Duration::from_secs(30);

/// The longest pause between two looks at the leases that are waited for.
const PAUSE: Duration = Duration::from_secs(5);

/// The longest time for which stamps of ID time are waited for, which is as far as the two stores' clocks are apart.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// What was done.
#[derive(Serialize)]
pub(super) struct Moved {
    outcome: &'static str,
    epoch: String,
    floor: String,
    once_keys: usize,
}

impl Moved {
    pub(super) fn for_people(&self) -> String {
        let keys = if self.once_keys == 1 { "key" } else { "keys" };
        format!(
            "the new store grants, in epoch {}: tokens above {}, {} {keys} of --once taken along\n",
            self.epoch, self.floor, self.once_keys
        )
    }
}

/// Closes `old` and opens `new`; `None` where the person who was asked said no. Held leases of the old store are an error
/// unless they are to be ended.
pub(super) async fn carry_over(
    old: &dyn Store,
    new: &dyn Store,
    end_leases: bool,
    yes: bool,
) -> Result<Option<Moved>, Failure> {
    let before = old.epoch().await.map_err(Failure::of_look)?;
    if new.epoch().await.map_err(Failure::of_look)? == before {
        let message =
            format!("both stores are in epoch {before}: they are one, or one is a copy of the other");
        return Err(Failure::new(Exit::Configuration, message));
    }
    const NOTHING: &str = "nothing was moved";
    if let Some(held) = Known::of(new).await?.held().first() {
        return Err(in_use(held, NOTHING, "the new store", "stop what runs under it first"));
    }
    let known = Known::of(old).await?;
    if let (false, Some(held)) = (end_leases, known.held().first()) {
        return Err(in_use(held, NOTHING, "the old store", "wait for it, or say --end-leases"));
    }
    refuse_a_shorter_reach(old, new, &known)?;
    if let Some(beyond) = known.beyond_reach(new).await?.filter(|beyond| *beyond > CLOCKS_APART) {
        return Err(out_of_reach(beyond));
    }
    let closed_for = duration::show(old.capabilities().max_ttl);
    let question = format!(
        "The old store will end all its leases, and grant nothing for {closed_for}. Until then everybody has to name the new \
         one.\nMove?"
    );
    if !yes && !confirm::ask(&question)? {
        return Ok(None);
    }

    old.open_epoch(Opening::new(before)).await.map_err(Failure::of_decision)?;
    let stood = wait_for_all(old).await?;
    let above = stood.greatest_token().max(floor(old).await?);
    wait_for_stamps(&stood, new).await?;
    // That may have taken hours, and who has named the new store too early must not be ended.
    if let Some(held) = Known::of(new).await?.held().first() {
        let done = "the old store is closed, and the new one was not opened";
        return Err(in_use(held, done, "the new store", "stop what runs under it, and move again"));
    }

    let epoch = new.epoch().await.map_err(Failure::of_look)?;
    let opening = Opening::new(epoch).with_dead_holders().with_tokens_above(FencingToken::new(above));
    let epoch = new.open_epoch(opening).await.map_err(Failure::of_decision)?;
    let floor = floor(new).await?;
    if floor < above {
        let message =
            format!("the new store issues tokens above {floor}, and the old one issued {above}: use neither");
        return Err(Failure::new(Exit::Failed, message));
    }
    output::note(&format!(
        "the old store grants nothing for {closed_for}: name the new one everywhere by then"
    ));
    let once_keys = take_along(&stood.resources, new).await?;
    Ok(Some(Moved { outcome: "moved", epoch: epoch.to_string(), floor: floor.to_string(), once_keys }))
}

/// All that a store knows of.
struct Known {
    resources: Vec<Inspection>,
    pools: Vec<PoolInspection>,
}

/// What somebody holds, or may still act under.
struct Held {
    /// Of the resource, or of the slot.
    name: String,
    /// For people, behind its name.
    how: String,
    remaining: Duration,
}

impl Known {
    async fn of(store: &dyn Store) -> Result<Self, Failure> {
        let resources = store.list(String::new()).await.map_err(Failure::of_look)?;
        let mut pools = Vec::new();
        if store.capabilities().slots {
            for pool in store.pools().await.map_err(Failure::of_look)? {
                pools.push(store.slots(pool).await.map_err(Failure::of_look)?);
            }
        }
        Ok(Self { resources, pools })
    }

    fn held(&self) -> Vec<Held> {
        let leases = self.resources.iter().filter_map(|one| {
            let occupant = one.occupant.as_ref()?;
            let how = people::held(occupant);
            Some(Held { name: one.resource.as_str().to_owned(), how, remaining: occupant.remaining })
        });
        leases.chain(self.pools.iter().flat_map(held_slots)).collect()
    }

    /// Tokens of what the store has forgotten lie below its floor, and so do those of slots that a pool has no more.
    fn greatest_token(&self) -> u64 {
        let slots = self.pools.iter().flat_map(|pool| &pool.slots).filter_map(|slot| slot.last_issued);
        let known = self.resources.iter().filter_map(|one| one.last_issued).chain(slots);
        known.map(FencingToken::value).max().unwrap_or(0)
    }

    /// By how much a stamp of ID time that was reserved lies beyond what a new epoch of that store begins above: its clock + its
    /// longest ttl. `None` where none does.
    async fn beyond_reach(&self, new: &dyn Store) -> Result<Option<Duration>, Failure> {
        let marks = self.pools.iter().flat_map(|pool| pool.slots.iter().map(move |slot| (slot.mark, pool)));
        let Some((mark, pool)) = marks.max_by_key(|(mark, _)| *mark) else { return Ok(None) };
        // Its clock is told with any pool, also with one that it has not.
        let wall = new.slots(pool.pool.clone()).await.map_err(Failure::of_look)?.wall;
        let reach = wall.saturating_add(new.capabilities().max_ttl);
        Ok(mark.checked_sub(reach).filter(|beyond| !beyond.is_zero()))
    }
}

/// The slots of a pool that are held, or closed after a revoke, since who held one may not have heard of it.
fn held_slots(pool: &PoolInspection) -> impl Iterator<Item = Held> {
    pool.slots.iter().filter_map(|slot| {
        let free_from = slot.free_from.and_then(|free| free.duration_since(SystemTime::UNIX_EPOCH).ok());
        let closed_for = free_from.and_then(|free| free.checked_sub(pool.wall));
        let (how, remaining) = match (&slot.occupant, closed_for) {
            (Some(occupant), _) => (people::held(occupant), occupant.remaining),
            // The clock was told in whole microseconds.
            (None, Some(left)) if left >= Duration::from_micros(1) => {
                let how = format!("is closed for {} more after a revoke", duration::show(left));
                (how, left)
            }
            (None, _) => return None,
        };
        Some(Held { name: format!("{}#{}", pool.pool, slot.slot), how, remaining })
    })
}

fn in_use(held: &Held, done: &str, place: &str, mend: &str) -> Failure {
    let Held { name, how, .. } = held;
    Failure::new(Exit::Held, format!("{done}: in {place} {} {how}; {mend}", visible(name)))
}

/// A slot of the old store may have reserved ID time for as long as its longest ttl ahead, also one that its pool shows no
/// more; and what the new one gives out begins at its clock + its own.
fn refuse_a_shorter_reach(old: &dyn Store, new: &dyn Store, known: &Known) -> Result<(), Failure> {
    let (longest, reach) = (old.capabilities().max_ttl, new.capabilities().max_ttl);
    let Some(pool) = known.pools.first().filter(|_| reach < longest) else { return Ok(()) };
    // As it can be typed, and no less: what people are shown is cut off.
    let wanted = longest.as_micros().div_ceil(1_000);
    let (longest, reach) = (duration::show(longest), duration::show(reach));
    Err(Failure::new(
        Exit::Configuration,
        format!(
            "nothing was moved: the old store has pools, {} among them, which may have given out ID time for {longest} ahead \
             (its max_ttl), and the new one would give out what lies {reach} ahead of now (its own); expected at least as \
             much: say max_ttl={wanted}ms in the URL of the new store, if for this move alone",
            visible(pool.pool.as_str())
        ),
    ))
}

fn out_of_reach(beyond: Duration) -> Failure {
    let beyond = duration::show(beyond);
    let message = format!(
        "the new store was not opened: the old one has given out ID time that lies {beyond} beyond the new one's clock and \
         its max_ttl; that clock is behind, or the old store is used with a longer max_ttl: set the clock right, or say a \
         longer max_ttl in the URL of the new store, and move again"
    );
    Failure::new(Exit::Configuration, message)
}

/// Waits until the last lease of a store that grants and renews none is over, by its own clock; then everybody who kept to
/// the term has stopped.
async fn wait_for_all(closed: &dyn Store) -> Result<Known, Failure> {
    let mut told = false;
    loop {
        let known = Known::of(closed).await?;
        let held = known.held();
        let Some(longest) = held.iter().map(|held| held.remaining).max() else { return Ok(known) };
        if !told {
            let (count, longest) = (held.len(), duration::show(longest));
            output::note(&format!(
                "waiting for the end of what the old store has granted: {count} held, for {longest} at most"
            ));
            told = true;
        }
        tokio::time::sleep(longest.clamp(Duration::from_millis(1), PAUSE)).await;
    }
}

/// Waits until no stamp that the closed store has given out lies beyond what the new one's next epoch begins above: as long as
/// its clock is behind.
async fn wait_for_stamps(stood: &Known, new: &dyn Store) -> Result<(), Failure> {
    while let Some(beyond) = stood.beyond_reach(new).await? {
        if beyond > CLOCKS_APART {
            return Err(out_of_reach(beyond));
        }
        tokio::time::sleep(beyond.clamp(Duration::from_millis(1), PAUSE)).await;
    }
    Ok(())
}

async fn floor(store: &dyn Store) -> Result<u64, Failure> {
    Ok(store.prune(BEFORE_ALL).await.map_err(Failure::of_decision)?.floor)
}

/// Work that ended well under a once-key is not done again: each resource's last such end is written down in the new store.
async fn take_along(old: &[Inspection], new: &dyn Store) -> Result<usize, Failure> {
    let mut taken = 0;
    for one in old {
        let Some((end, once)) = one.last_good.as_ref().and_then(|end| Some((end, end.once.clone()?))) else {
            continue;
        };
        let owner = fresh_owner().map_err(Failure::of_look)?;
        let label = end.label.clone().unwrap_or_else(|| "moved".to_owned());
        let claim = Claim::new(one.resource.clone(), owner, TERM).with_label(label).with_once(once.clone());
        let written = match new.acquire(claim).await {
            Ok(Acquired::Granted(grant)) => {
                let lease = LeaseRef::new(one.resource.clone(), owner, grant.token, Some(grant.epoch));
                let ending = Ending::new(WorkResult::Good).with_once(Some(once));
                new.release(lease, ending).await.map(|_| ()).map_err(|error| error.to_string())
            }
            Ok(Acquired::AlreadyDone(_)) => Ok(()),
            Ok(Acquired::Rejected(rejected)) => Err(people::rejected(&rejected)),
            Ok(_) => Err(unknown_answer().to_string()),
            Err(error) => Err(error.to_string()),
        };
        match written {
            Ok(()) => taken += 1,
            Err(why) => output::note(&format!(
                "the once-key of {} was not taken along, so that its work may be done again: {why}",
                visible(one.resource.as_str())
            )),
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use lease_machines_store::{Claimed, MemoryStore, PoolClaim, ResourceName, SlotLease, SlotRef};

    use super::super::block_on;
    use super::*;

    /// The longest ttl of a store in memory.
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

    /// A slot with ID time for as long as there can be, given back without a word of how much of it was used.
    async fn used_up(store: &MemoryStore) -> Result<SlotLease, Failure> {
        let pool = ResourceName::new("ids").unwrap();
        let owner = fresh_owner().map_err(Failure::of_look)?;
        let claim =
            PoolClaim::new(pool.clone(), 2, owner, YEAR).with_cool_down(Duration::ZERO).with_id_time();
        let Claimed::Granted(held) = store.claim_slot(claim).await.map_err(Failure::of_decision)? else {
            panic!("no slot was granted")
        };
        let lease = SlotRef::new(pool, held.slot, owner, held.token, Some(held.epoch));
        let _ = store.release_slot(lease, None).await.map_err(Failure::of_decision)?;
        Ok(held)
    }

    #[test]
    fn a_new_store_whose_clock_is_far_behind_is_refused() {
        let (old, new) = (MemoryStore::new().unwrap(), MemoryStore::new().unwrap());
        old.advance(CLOCKS_APART + Duration::from_secs(1));
        block_on(async {
            used_up(&old).await?;
            let epoch = old.epoch().await.map_err(Failure::of_look)?;
            let refused = carry_over(&old, &new, true, true).await.err().unwrap();
            assert_eq!(refused.exit(), Exit::Configuration, "{refused}");
            assert!(refused.to_string().contains("lies 1m1s beyond the new one's clock"), "{refused}");
            assert_eq!(old.epoch().await.map_err(Failure::of_look)?, epoch, "the old store was closed");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn who_names_the_new_store_too_early_is_not_ended() {
        let (old, new) = (MemoryStore::new().unwrap(), MemoryStore::new().unwrap());
        block_on(async {
            let job = ResourceName::new("job").unwrap();
            let term = Duration::from_millis(40);
            let claim = |ttl| Ok(Claim::new(job.clone(), fresh_owner().map_err(Failure::of_look)?, ttl));
            let _ = old.acquire(claim(term)?).await.map_err(Failure::of_decision)?;
            let meanwhile = async {
                tokio::time::sleep(term / 2).await;
                let early = new.acquire(claim(YEAR)?).await.map_err(Failure::of_decision)?;
                old.advance(term);
                Ok::<_, Failure>(early)
            };
            let (moved, early) = tokio::join!(carry_over(&old, &new, true, true), meanwhile);
            assert!(matches!(early?, Acquired::Granted(_)));
            let refused = moved.err().unwrap();
            assert!(refused.to_string().contains("the new one was not opened"), "{refused}");
            let seen = new.inspect(job.clone()).await.map_err(Failure::of_look)?;
            assert!(seen.occupant.is_some(), "{seen:?}");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_clock_that_is_a_little_behind_is_waited_for() {
        let (old, new) = (MemoryStore::new().unwrap(), MemoryStore::new().unwrap());
        let behind = Duration::from_millis(40);
        old.advance(behind);
        block_on(async {
            let before = used_up(&old).await?;
            let clock_goes_on = async {
                tokio::time::sleep(2 * behind).await;
                new.advance(behind);
            };
            let (moved, ()) = tokio::join!(carry_over(&old, &new, false, true), clock_goes_on);
            assert!(moved?.is_some());
            // Its longest term later there is ID time that the old store had not given out.
            new.advance(Duration::from_millis(1));
            let after = used_up(&new).await?;
            assert_eq!(after.slot, before.slot);
            assert!(after.token > before.token, "{after:?} after {before:?}");
            let (given, gives) = (before.window.unwrap().until, after.window.unwrap().after);
            assert!(gives >= given, "stamps up to {given:?} were given out, and again after {gives:?}");
            Ok(())
        })
        .unwrap();
    }
}
