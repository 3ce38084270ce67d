//! What the store in memory keeps, and how a decision changes it.

use std::collections::{BTreeMap, HashSet};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId};

use super::pools::Pools;
use crate::decide::{self, At, Decided, Effects, Known, Reason, Row, Standing, Write};
use crate::{
    Acquired, Claim, End, Epoch, HistoryEntry, HoldOutcome, Inspection, Pruned, ResourceName, StoreError,
};

/// Everything, at one instant.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Duration,
    pub(super) standing: Standing,
    resources: BTreeMap<ResourceName, Resource>,
    done: BTreeMap<(ResourceName, String), End>,
    good: BTreeMap<ResourceName, End>,
    withdrawn: HashSet<(ResourceName, OwnerId)>,
    pub(super) pools: Pools,
    pub(super) waiting: Vec<Waker>,
}

#[derive(Default, Debug)]
struct Resource {
    row: Row,
    holds: Holds,
}

/// The holds of one authority that have ended.
#[derive(Default, Debug)]
pub(super) struct Holds(BTreeMap<FencingToken, HistoryEntry>);

/// The wall clock at the store's origin: 2026-01-01, a constant, so that a test's tokens and times are the same in
/// every run.
const ORIGIN: Duration = Duration::from_secs(1_767_225_600);

/// The longest lease that is granted.
pub(super) const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// How many holds of a resource are remembered.
const HISTORY: usize = 100;

impl State {
    /// Nothing was ever asked for, and the clock is at 0.
    pub(super) fn new() -> Result<Self, StoreError> {
        Ok(Self {
            now: Duration::ZERO,
            standing: Standing {
                epoch: Epoch::draw()?,
                floor: 0,
                grants_from: Duration::ZERO,
                stamps_above: Duration::ZERO,
            },
            resources: BTreeMap::new(),
            done: BTreeMap::new(),
            good: BTreeMap::new(),
            withdrawn: HashSet::new(),
            pools: Pools::default(),
            waiting: Vec::new(),
        })
    }

    pub(super) fn acquire(&mut self, claim: &Claim, again: bool) -> Result<Acquired, StoreError> {
        let once = claim.once.clone().map(|once| (claim.resource.clone(), once));
        let known = Known {
            done: once.and_then(|key| self.done.get(&key).cloned()),
            withdrawn: self.withdrawn.contains(&(claim.resource.clone(), claim.owner)),
        };
        self.decide(&claim.resource, |row, standing, at| {
            decide::acquire(row, standing, at, claim, again, known)
        })
    }

    /// Revokes whatever lease there is. Returns whether there was one.
    pub(super) fn lose(&mut self, resource: &ResourceName) -> bool {
        let held = self.resources.get(resource).is_some_and(|found| found.row.live(self.now).is_some());
        if held {
            let reason = Some("lost, by the test".to_owned());
            let _ =
                self.decide(resource, |row, standing, at| decide::revoke(row, standing, at, None, reason));
        }
        held
    }

    pub(super) fn at(&self) -> At {
        let wall = ORIGIN.saturating_add(self.now);
        let wall = SystemTime::UNIX_EPOCH.checked_add(wall).unwrap_or(SystemTime::UNIX_EPOCH);
        At { now: self.now, wall }
    }

    /// Decides on a copy of the row, and keeps what came of it.
    pub(super) fn decide<T>(
        &mut self,
        resource: &ResourceName,
        decision: impl FnOnce(&mut Row, &Standing, &At) -> Decided<T>,
    ) -> Result<T, StoreError> {
        let at = self.at();
        let mut row = self.resources.get(resource).map(|found| found.row.clone()).unwrap_or_default();
        let Decided { answer, effects } = decision(&mut row, &self.standing, &at);
        self.carry_out(resource, row, effects);
        answer
    }

    fn carry_out(&mut self, resource: &ResourceName, row: Row, effects: Effects) {
        if effects.write != Write::Nothing {
            let kept = self.resources.entry(resource.clone()).or_default();
            kept.row = row;
            kept.holds.record(&effects);
        }
        if let Some(end) = effects.good {
            if let Some(once) = &end.once {
                self.done.entry((resource.clone(), once.clone())).or_insert_with(|| end.clone());
            }
            self.good.insert(resource.clone(), end);
        }
        if let Some(owner) = effects.withdrawn {
            self.withdrawn.insert((resource.clone(), owner));
        }
        self.look_for_a_loss(effects.rewound);
    }

    /// Opens a new epoch where a caller has shown a lease that this history does not have.
    pub(super) fn look_for_a_loss(&mut self, rewound: Option<(OwnerId, FencingToken)>) {
        let Some((owner, token)) = rewound else { return };
        let slots = self.pools.rows();
        if slots
            .chain(self.resources.values().map(|found| &found.row))
            .any(|row| row.has_granted(owner, token))
        {
            return;
        }
        // Without random numbers the old epoch goes on; the caller has been told that its token is stale.
        let _ = self.begin_epoch(Reason::rewound(token));
    }

    pub(super) fn begin_epoch(&mut self, reason: Reason) -> Result<Epoch, StoreError> {
        let rows = self.resources.values().map(|resource| &resource.row).chain(self.pools.rows());
        let issued = rows.filter_map(|row| row.last_issued);
        let greatest = issued.map(FencingToken::value).max().unwrap_or(0);
        let at = self.at();
        self.standing = self.standing.in_new_epoch(Epoch::draw()?, reason, greatest, &at, MAX_TTL);
        let resources = self.resources.values_mut().map(|found| (&mut found.row, &mut found.holds));
        for (row, holds) in resources.chain(self.pools.rows_mut()) {
            let lost = row.live(at.now).filter(|held| !held.retained);
            if let Some(entry) = lost.map(|held| held.ended(HoldOutcome::EpochLost, at.now, at.wall)) {
                holds.0.entry(entry.token).or_insert(entry);
            }
            if let (true, Some(held)) = (reason.old_holders_are_dead, &mut row.lease) {
                held.expires_at = held.expires_at.min(at.now);
            }
        }
        Ok(self.standing.epoch)
    }

    pub(super) fn inspect(&self, resource: &ResourceName) -> Inspection {
        let good = self.good.get(resource).cloned();
        let empty = Row::default();
        let row = self.resources.get(resource).map_or(&empty, |found| &found.row);
        row.inspection(resource.clone(), self.standing.epoch, self.now, good)
    }

    pub(super) fn list(&self, prefix: &str) -> Vec<Inspection> {
        let found = self.resources.keys().filter(|name| name.as_str().starts_with(prefix));
        found.map(|name| self.inspect(name)).collect()
    }

    pub(super) fn history(&self, resource: &ResourceName, limit: usize) -> Vec<HistoryEntry> {
        let found = self.resources.get(resource).map(|found| (&found.row, &found.holds));
        let found = found.or_else(|| self.pools.named(resource));
        found.map(|(row, holds)| holds.of(row, &self.at(), limit)).unwrap_or_default()
    }

    pub(super) fn prune(&mut self, older_than: Duration) -> Pruned {
        let mut pruned = Pruned::default();
        let at = self.at();
        let mut floor = self.standing.floor;
        if let Some(before) = at.now.checked_sub(older_than) {
            self.resources.retain(|_, resource| {
                let row = &resource.row;
                let idle =
                    row.observed <= before && row.lease.as_ref().is_none_or(|held| held.expires_at <= before);
                if idle {
                    pruned.resources = pruned.resources.saturating_add(1);
                    pruned.history =
                        pruned.history.saturating_add(u64::try_from(resource.holds.0.len()).unwrap_or(0));
                    floor = floor.max(row.last_issued.map_or(0, FencingToken::value));
                }
                !idle
            });
        }
        if let Some(before) = at.wall.checked_sub(older_than) {
            let resources = self.resources.values_mut().map(|found| &mut found.holds);
            for holds in resources.chain(self.pools.rows_mut().map(|(_, holds)| holds)) {
                holds.0.retain(|_, hold| {
                    let keep = hold.ends_at > before;
                    pruned.history = pruned.history.saturating_add(u64::from(!keep));
                    keep
                });
            }
            let good = &self.good;
            self.done.retain(|(resource, once), end| {
                end.at > before || good.get(resource).is_some_and(|last| last.once.as_deref() == Some(once))
            });
        }
        self.standing.floor = floor;
        pruned.floor = floor;
        pruned
    }
}

impl Holds {
    /// Writes the history that goes with a decision.
    pub(super) fn record(&mut self, effects: &Effects) {
        for entry in effects.ended.iter().chain(&effects.burnt) {
            self.0.entry(entry.token).or_insert_with(|| entry.clone());
        }
        while self.0.len() > HISTORY {
            self.0.pop_first();
        }
    }

    /// The same, below the hold that goes on in its row.
    fn of(&self, row: &Row, at: &At, limit: usize) -> Vec<HistoryEntry> {
        let current = row.current_hold(at.now, at.wall);
        let current = current.filter(|entry| !self.0.contains_key(&entry.token));
        current.into_iter().chain(self.0.values().rev().cloned()).take(limit).collect()
    }
}
