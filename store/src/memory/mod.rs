//! A store in memory whose clock the user moves: for tests.

mod pools;
mod state;

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use self::state::{MAX_TTL, State};
use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, ErrorKind, Finding, Grant, HistoryEntry,
    Inspection, LeaseRef, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Severity, SlotRef, SlotRenewed, Store, StoreError, check, decide, pool,
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

impl MemoryStore {
    /// An empty store, its clock at 0.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) where the operating system gives no random numbers.
    pub fn new() -> Result<Self, StoreError> {
        let mut capabilities = Capabilities::all("memory", MAX_TTL);
        capabilities.durable = false;
        Ok(Self { capabilities, state: Mutex::new(State::new()?) })
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
        self.with(|state| state.lose(resource))
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
        self.with(|state| state.acquire(&claim, again))
    }

    /// An answer at the first poll.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move { call(self) })
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
        self.answer(move |store| Ok(store.state().list(&prefix)))
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.answer(move |store| Ok(store.state().history(&resource, limit)))
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
                state.begin_epoch((&opening).into())
            })
        })
    }

    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.answer(|store| {
            let claim = check::pool_claim(claim, MAX_TTL)?;
            store.with(|state| state.claim_slot(&claim, false))
        })
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.answer(|store| {
            let claim = check::pool_claim(claim, MAX_TTL)?;
            store.with(|state| state.claim_slot(&claim, true))
        })
    }

    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        self.answer(move |store| {
            let ttl = check::ttl(ttl, MAX_TTL)?;
            store.with(|state| {
                state.decide_slot(&lease.pool, lease.slot, |slot, standing, at| {
                    decide::renew_slot(slot, standing, at, &lease, ttl, id_time)
                })
            })
        })
    }

    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        self.answer(move |store| {
            let last_used = check::last_used(last_used)?;
            store.with(|state| {
                state.decide_slot(&lease.pool, lease.slot, |slot, standing, at| {
                    decide::release_slot(slot, standing, at, &lease, last_used)
                })
            })
        })
    }

    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.answer(move |store| {
            pool::pool_name(&pool)?;
            store.with(|state| state.withdraw_slot(&pool, owner))
        })
    }

    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.answer(move |store| {
            check::text("reason", reason.as_deref())?;
            store.with(|state| state.revoke_slot(&pool, slot, expect, reason))
        })
    }

    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        self.answer(|store| Ok(store.state().pools.names()))
    }

    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        self.answer(move |store| Ok(store.state().slots(&pool)))
    }

    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        self.answer(move |store| {
            pool::pool_name(&pool)?;
            check::size(size)?;
            Ok(store.with(|state| state.resize_pool(&pool, size)))
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
