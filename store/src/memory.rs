//! A store in memory whose clock the user moves: for tests.

use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId};

use crate::decide::{self, At, Decided, Effects, Known, MAX_TOKEN, Row, Standing, Write, micros};
use crate::owner::random;
use crate::{
    Acquired, Answer, Capabilities, Claim, End, Ending, Epoch, ErrorKind, Finding, Grant, HistoryEntry,
    HoldOutcome, Inspection, LeaseRef, Opening, Pruned, Released, Renewed, ResourceName, Revoked, Severity,
    Store, StoreError, check,
};

/// A store for tests: the decisions of the embedded one, without a file, on a clock that stands still until it is told
/// to move.
///
/// Every call is answered when it is first polled, except [`wait`](Store::wait), which ends when the resource becomes
/// free, or when [`advance`](Self::advance) has moved the clock past its limit.
///
/// ```
/// use std::time::Duration;
/// use lease_machines_store::{Acquired, Claim, MemoryStore, ResourceName, Store, fresh_owner};
///
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     match std::pin::pin!(future).poll(&mut context) {
/// #         std::task::Poll::Ready(output) => output,
/// #         std::task::Poll::Pending => panic!("the memory store waits for nothing here"),
/// #     }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new()?;
/// let job = ResourceName::new("job")?;
/// let minute = Duration::from_secs(60);
/// let mine = Claim::new(job.clone(), fresh_owner()?, minute);
/// assert!(matches!(block_on(store.acquire(mine))?, Acquired::Granted(_)));
///
/// let other = Claim::new(job, fresh_owner()?, minute);
/// assert!(matches!(block_on(store.acquire(other.clone()))?, Acquired::Rejected(_)));
/// store.advance(minute);
/// assert!(matches!(block_on(store.acquire(other))?, Acquired::Granted(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    capabilities: Capabilities,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Duration,
    standing: Standing,
    resources: BTreeMap<ResourceName, Resource>,
    done: BTreeMap<(ResourceName, String), End>,
    good: BTreeMap<ResourceName, End>,
    withdrawn: HashSet<(ResourceName, OwnerId)>,
    waiting: Vec<Waker>,
}

#[derive(Default, Debug)]
struct Resource {
    row: Row,
    history: BTreeMap<FencingToken, HistoryEntry>,
}

/// The wall clock at the store's origin: 2026-01-01, a constant, so that a test's tokens and times are the same in
/// every run.
const ORIGIN: Duration = Duration::from_secs(1_767_225_600);

/// The longest lease that it grants.
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// How many holds of a resource are remembered.
const HISTORY: usize = 100;

impl MemoryStore {
    /// An empty store, its clock at 0.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) where the operating system gives no random numbers.
    pub fn new() -> Result<Self, StoreError> {
        let mut capabilities = Capabilities::all("memory", MAX_TTL);
        capabilities.durable = false;
        let standing = Standing { epoch: fresh_epoch()?, floor: 0, grants_from: Duration::ZERO };
        let state = State {
            now: Duration::ZERO,
            standing,
            resources: BTreeMap::new(),
            done: BTreeMap::new(),
            good: BTreeMap::new(),
            withdrawn: HashSet::new(),
            waiting: Vec::new(),
        };
        Ok(Self { capabilities, state: Mutex::new(state) })
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.with(|state| state.now = state.now.saturating_add(by));
    }

    /// What the clock says.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.state().now
    }

    /// Takes the lease on a resource away, as an operator's revoke does: whoever holds it is told so at its next
    /// request. Returns whether anyone did.
    pub fn lose(&self, resource: &ResourceName) -> bool {
        self.with(|state| {
            let held = state.resources.get(resource).is_some_and(|found| found.row.live(state.now).is_some());
            if held {
                let reason = Some("lost, by the test".to_owned());
                let _ = state
                    .decide(resource, |row, standing, at| decide::revoke(row, standing, at, None, reason));
            }
            held
        })
    }

    /// Gives a resource to a stranger, who keeps it for the longest ttl and never answers. Whoever holds it loses it.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Store::acquire), and where no token is left.
    pub fn occupy(&self, resource: &ResourceName) -> Result<Grant, StoreError> {
        let _ = self.lose(resource);
        let claim = Claim::new(resource.clone(), crate::fresh_owner()?, MAX_TTL).with_label("a stranger");
        match self.claim(claim, false)? {
            Acquired::Granted(grant) => Ok(grant),
            other => Err(StoreError::new(
                ErrorKind::Busy,
                format!("{resource:?} cannot be given to a stranger: {other:?}"),
            )),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something, and has every waiter look again.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waker in waiting {
            waker.wake();
        }
        result
    }

    fn claim(&self, claim: Claim, again: bool) -> Result<Acquired, StoreError> {
        let claim = check::claim(claim, MAX_TTL)?;
        self.with(|state| {
            let once = claim.once.clone().map(|once| (claim.resource.clone(), once));
            let known = Known {
                done: once.and_then(|key| state.done.get(&key).cloned()),
                withdrawn: state.withdrawn.contains(&(claim.resource.clone(), claim.owner)),
            };
            state.decide(&claim.resource, |row, standing, at| {
                decide::acquire(row, standing, at, &claim, again, known)
            })
        })
    }

    /// An answer at the first poll.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move { call(self) })
    }
}

impl State {
    fn at(&self) -> At {
        let wall = ORIGIN.saturating_add(self.now);
        let wall = SystemTime::UNIX_EPOCH.checked_add(wall).unwrap_or(SystemTime::UNIX_EPOCH);
        At { now: self.now, wall }
    }

    fn decide<T>(
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
            kept.record(&effects);
        }
        if let Some(end) = effects.good {
            if let Some(once) = &end.once {
                self.done.entry((resource.clone(), once.clone())).or_insert_with(|| end.clone());
            }
            self.good.insert(resource.clone(), end);
        }
        if let Some(owner) = effects.burn {
            self.withdrawn.insert((resource.clone(), owner));
        }
        if let Some(token) = effects.rewound {
            // Without random numbers the old epoch goes on; the caller has been told that its token is stale.
            let _ = self.begin_epoch(token.value().saturating_add(1 << 32), false);
        }
    }

    fn begin_epoch(&mut self, above: u64, dead: bool) -> Result<Epoch, StoreError> {
        let greatest = self
            .resources
            .values()
            .filter_map(|resource| resource.row.last_issued)
            .map(FencingToken::value)
            .max()
            .unwrap_or(0);
        let at = self.at();
        let floor = self.standing.floor.max(greatest).saturating_add(1 << 32);
        let floor = floor.max(above).max(micros(at.wall)).min(MAX_TOKEN);
        let grants_from = if dead { Duration::ZERO } else { at.now.saturating_add(MAX_TTL) };
        self.standing = Standing { epoch: fresh_epoch()?, floor, grants_from };
        for resource in self.resources.values_mut() {
            let lost = resource.row.live(at.now).filter(|held| !held.retained);
            if let Some(entry) = lost.map(|held| held.ended(HoldOutcome::EpochLost, at.now, at.wall)) {
                resource.history.entry(entry.token).or_insert(entry);
            }
            if let (true, Some(held)) = (dead, &mut resource.row.lease) {
                held.expires_at = held.expires_at.min(at.now);
            }
        }
        Ok(self.standing.epoch)
    }

    fn inspect(&self, resource: &ResourceName) -> Inspection {
        let good = self.good.get(resource).cloned();
        let empty = Row::default();
        let row = self.resources.get(resource).map_or(&empty, |found| &found.row);
        row.inspection(resource.clone(), self.standing.epoch, self.now, good)
    }

    fn prune(&mut self, older_than: Duration) -> Pruned {
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
                        pruned.history.saturating_add(u64::try_from(resource.history.len()).unwrap_or(0));
                    floor = floor.max(row.last_issued.map_or(0, FencingToken::value));
                }
                !idle
            });
        }
        if let Some(before) = at.wall.checked_sub(older_than) {
            for resource in self.resources.values_mut() {
                resource.history.retain(|_, hold| {
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

impl Resource {
    /// Writes the history that goes with a decision.
    fn record(&mut self, effects: &Effects) {
        for entry in effects.ended.iter().chain(&effects.burnt) {
            self.history.entry(entry.token).or_insert_with(|| entry.clone());
        }
        while self.history.len() > HISTORY {
            self.history.pop_first();
        }
    }

    fn history(&self, at: &At, limit: usize) -> Vec<HistoryEntry> {
        let current = self.row.current_hold(at.now, at.wall);
        let current = current.filter(|entry| !self.history.contains_key(&entry.token));
        current.into_iter().chain(self.history.values().rev().cloned()).take(limit).collect()
    }
}

fn fresh_epoch() -> Result<Epoch, StoreError> {
    loop {
        if let Some(epoch) = Epoch::new(random()?) {
            return Ok(epoch);
        }
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.answer(|store| Ok(store.state().standing.epoch))
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.answer(|store| store.claim(claim, false))
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.answer(|store| store.claim(claim, true))
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        self.answer(move |store| {
            let ttl = check::ttl(ttl, MAX_TTL)?;
            store.with(|state| {
                state.decide(&lease.resource, |row, standing, at| {
                    decide::renew(row, standing, at, &lease, ttl)
                })
            })
        })
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(leases.len());
            for (lease, ttl) in leases {
                answers.push(self.renew(lease, ttl).await);
            }
            Ok(answers)
        })
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        self.answer(move |store| {
            check::ending(&ending, MAX_TTL)?;
            store.with(|state| {
                state.decide(&lease.resource, |row, standing, at| {
                    decide::release(row, standing, at, &lease, &ending)
                })
            })
        })
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.answer(move |store| {
            store.with(|state| {
                state.decide(&resource, |row, standing, at| decide::withdraw(row, standing, at, owner))
            })
        })
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.answer(move |store| {
            check::text("reason", reason.as_deref())?;
            store.with(|state| {
                state.decide(&resource, |row, standing, at| decide::revoke(row, standing, at, expect, reason))
            })
        })
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.answer(move |store| Ok(store.state().inspect(&resource)))
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.answer(move |store| {
            let state = store.state();
            let found = state.resources.keys().filter(|name| name.as_str().starts_with(&prefix));
            Ok(found.map(|name| state.inspect(name)).collect())
        })
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.answer(move |store| {
            let state = store.state();
            let found = state.resources.get(&resource);
            Ok(found.map(|found| found.history(&state.at(), limit)).unwrap_or_default())
        })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.answer(move |store| Ok(store.with(|state| state.prune(older_than))))
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let until = self.state().now.saturating_add(limit);
            poll_fn(|context| {
                let mut state = self.state();
                if state.now >= until || state.inspect(&resource).occupant.is_none() {
                    return Poll::Ready(Ok(()));
                }
                state.waiting.push(context.waker().clone());
                Poll::Pending
            })
            .await
        })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.answer(move |store| {
            store.with(|state| {
                if state.standing.epoch != opening.instead_of {
                    return Ok(state.standing.epoch);
                }
                state.begin_epoch(opening.above.map_or(0, FencingToken::value), opening.old_holders_are_dead)
            })
        })
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        let note = Finding::new(
            Severity::Note,
            "durability",
            "the store is in memory: it ends with this process",
            "it is for tests; open another where leases must outlive the process",
        );
        self.answer(move |_| Ok(vec![note]))
    }
}
