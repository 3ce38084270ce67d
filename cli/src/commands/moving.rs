//! `lease migrate --from`: has another store take over.
//!
//! Two things must never be: a holder at work under the old store while the new one grants the same resource, and a token of
//! the new store that is not above all of the old one's. So the old store is closed first, by a new epoch in which it grants
//! nothing for its longest ttl: from that commit on no lease is granted or renewed there. Then every lease that it had is
//! waited for. Only after that the new store's tokens are raised, and it grants. A step that fails leaves a store that grants
//! nothing, and the whole may be begun again.

use std::time::Duration;

use lease_machines::FencingToken;
use lease_machines_store::{
    Acquired, Claim, Ending, Inspection, LeaseRef, Occupant, Opening, Store, WorkResult, fresh_owner,
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
    if let Some((name, occupant)) = held(&all(new).await?).next() {
        return Err(in_use(name, occupant, "the new store", "stop what runs under it first"));
    }
    if let (false, Some((name, occupant))) = (end_leases, held(&all(old).await?).next()) {
        return Err(in_use(name, occupant, "the old store", "wait for it, or say --end-leases"));
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
    let above = greatest(old, &stood).await?;

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
    let once_keys = take_along(&stood, new).await?;
    Ok(Some(Moved { outcome: "moved", epoch: epoch.to_string(), floor: floor.to_string(), once_keys }))
}

async fn all(store: &dyn Store) -> Result<Vec<Inspection>, Failure> {
    store.list(String::new()).await.map_err(Failure::of_look)
}

fn held(all: &[Inspection]) -> impl Iterator<Item = (&str, &Occupant)> {
    all.iter().filter_map(|one| Some((one.resource.as_str(), one.occupant.as_ref()?)))
}

fn in_use(name: &str, occupant: &Occupant, place: &str, mend: &str) -> Failure {
    let (name, held) = (visible(name), people::held(occupant));
    Failure::new(Exit::Held, format!("nothing was moved: in {place} {name} is {held}; {mend}"))
}

/// Waits until the last lease of a store that grants and renews none is over, by its own clock; then everybody who kept to
/// the term has stopped.
async fn wait_for_all(closed: &dyn Store) -> Result<Vec<Inspection>, Failure> {
    let mut told = false;
    loop {
        let all = all(closed).await?;
        let Some(longest) = held(&all).map(|(_, occupant)| occupant.remaining).max() else { return Ok(all) };
        if !told {
            let (count, longest) = (held(&all).count(), duration::show(longest));
            output::note(&format!(
                "waiting for the end of what the old store has granted: {count} held, for {longest} at most"
            ));
            told = true;
        }
        tokio::time::sleep(longest.clamp(Duration::from_millis(1), PAUSE)).await;
    }
}

/// No token of this store is above it: it may have forgotten resources, and their tokens lie below its floor.
async fn greatest(store: &dyn Store, all: &[Inspection]) -> Result<u64, Failure> {
    let known = all.iter().filter_map(|one| one.last_issued).map(FencingToken::value).max();
    Ok(floor(store).await?.max(known.unwrap_or(0)))
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
