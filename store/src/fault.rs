//! What networks do to requests: a wrapper around any store, for tests.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines::{FencingToken, OwnerId};

use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, ErrorKind, Finding, HistoryEntry,
    Inspection, LeaseRef, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Room, SlotRef, SlotRenewed, Store, StoreError,
};

/// What happens to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: it is passed on.
    Pass,
    /// It is lost on the way. The caller hears *unknown*.
    DropRequest,
    /// It is carried out, and the answer is lost. The caller hears *unknown*.
    DropReply,
    /// It arrives twice, one after the other. The caller hears the first answer.
    Double,
    /// It arrives this much later.
    Delay(Duration),
    /// The caller hears *unknown*, and the request arrives when [`FaultStore::deliver_late`] says so.
    Late,
    /// Nobody listens there: it is not sent. The caller hears *not done*.
    Refuse,
    /// Neither it nor an answer arrives, nor an error: the caller waits until it gives up.
    BlackHole,
}

/// How often each fault happens in a seeded run, out of 100; what is left passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Odds {
    /// Of [`Fault::DropRequest`].
    pub drop_request: u8,
    /// Of [`Fault::DropReply`].
    pub drop_reply: u8,
    /// Of [`Fault::Double`].
    pub double: u8,
    /// Of [`Fault::Late`].
    pub late: u8,
}

impl Odds {
    /// Nothing ever happens.
    #[must_use]
    pub const fn none() -> Self {
        Self { drop_request: 0, drop_reply: 0, double: 0, late: 0 }
    }

    /// Each of the four happens to this many of 100 requests, at most 25.
    #[must_use]
    pub const fn each(percent: u8) -> Self {
        Self { drop_request: percent, drop_reply: percent, double: percent, late: percent }
    }
}

type LateCall =
    Box<dyn for<'a> FnOnce(&'a dyn Store) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> + Send>;

/// A store behind a bad network. Every call but `capabilities` and `wait` meets the next fault of a script, or a random
/// one; `wait` meets the black hole alone.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    late: Mutex<Vec<LateCall>>,
    hole: Mutex<Hole>,
}

struct Plan {
    script: VecDeque<Fault>,
    odds: Odds,
    random: u64,
}

#[derive(Default)]
struct Hole {
    open: bool,
    waiting: Vec<Waker>,
}

impl FaultStore {
    /// The faults of a script, one a request; then everything passes.
    #[must_use]
    pub fn scripted(inner: Arc<dyn Store>, script: impl IntoIterator<Item = Fault>) -> Self {
        Self::with(inner, Plan { script: script.into_iter().collect(), odds: Odds::none(), random: 0 })
    }

    /// Random faults; the same seed gives the same ones.
    #[must_use]
    pub fn seeded(inner: Arc<dyn Store>, seed: u64, odds: Odds) -> Self {
        Self::with(inner, Plan { script: VecDeque::new(), odds, random: seed })
    }

    fn with(inner: Arc<dyn Store>, plan: Plan) -> Self {
        Self { inner, plan: Mutex::new(plan), late: Mutex::default(), hole: Mutex::default() }
    }

    /// Adds a fault to the end of the script.
    pub fn push(&self, fault: Fault) {
        lock(&self.plan).script.push_back(fault);
    }

    /// From now on nothing gets through and nothing is answered, until [`heal`](Self::heal). Requests that were under
    /// way when it began are not answered any more either.
    pub fn black_hole(&self) {
        lock(&self.hole).open = true;
    }

    /// Closes the black hole: what came while it was open arrives now. Also ends the script and all odds.
    pub fn heal(&self) {
        {
            let mut plan = lock(&self.plan);
            plan.script.clear();
            plan.odds = Odds::none();
        }
        let waiting = {
            let mut hole = lock(&self.hole);
            hole.open = false;
            std::mem::take(&mut hole.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    /// Lets the requests that are [`Late`](Fault::Late) arrive, in the order made. Returns how many there were.
    pub async fn deliver_late(&self) -> usize {
        let calls = std::mem::take(&mut *lock(&self.late));
        let count = calls.len();
        for call in calls {
            call(&*self.inner).await;
        }
        count
    }

    fn next(&self) -> Fault {
        let mut plan = lock(&self.plan);
        if let Some(fault) = plan.script.pop_front() {
            return fault;
        }
        // SplitMix64 (Steele, Lea and Flood 2014).
        plan.random = plan.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = plan.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let drawn = (z ^ (z >> 31)) % 100;
        let odds = plan.odds;
        let faults = [
            (odds.drop_request, Fault::DropRequest),
            (odds.drop_reply, Fault::DropReply),
            (odds.double, Fault::Double),
            (odds.late, Fault::Late),
        ];
        let mut below = 0_u64;
        for (percent, fault) in faults {
            below = below.saturating_add(u64::from(percent));
            if drawn < below {
                return fault;
            }
        }
        Fault::Pass
    }

    /// Passes a call on as the next fault has it.
    fn through<'a, T: Send + 'a>(
        &'a self,
        call: impl for<'s> Fn(&'s dyn Store) -> Answer<'s, T> + Send + Sync + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let fault = self.next();
            self.closed().await;
            let answer = match fault {
                Fault::Pass => call(&*self.inner).await,
                Fault::DropRequest => lost(),
                Fault::DropReply => {
                    let _ = call(&*self.inner).await;
                    lost()
                }
                Fault::Double => {
                    let first = call(&*self.inner).await;
                    let _ = call(&*self.inner).await;
                    first
                }
                Fault::Delay(by) => {
                    sleep(by).await;
                    call(&*self.inner).await
                }
                Fault::Late => {
                    lock(&self.late).push(Box::new(move |store| {
                        Box::pin(async move {
                            let _ = call(store).await;
                        })
                    }));
                    lost()
                }
                Fault::Refuse => Err(StoreError::new(
                    ErrorKind::Unreachable,
                    "not sent: nobody listens there, by the test's fault wrapper",
                )
                .nothing_changed()),
                Fault::BlackHole => std::future::pending().await,
            };
            self.closed().await;
            answer
        })
    }

    /// Resolves while the black hole is closed.
    async fn closed(&self) {
        poll_fn(|context| {
            let mut hole = lock(&self.hole);
            if !hole.open {
                return Poll::Ready(());
            }
            hole.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost<T>() -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::Unreachable, "no answer: lost on the way, by the test's fault wrapper"))
}

/// Resolves after a while, on any runtime. A thread for each is fine for tests.
async fn sleep(by: Duration) {
    let Some(until) = Instant::now().checked_add(by) else { return };
    // The waker of the latest poll: the future may have moved to another task meanwhile.
    let latest: Arc<Mutex<Option<Waker>>> = Arc::default();
    let mut started = false;
    poll_fn(|context| {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Poll::Ready(());
        }
        *lock(&latest) = Some(context.waker().clone());
        if !started {
            started = true;
            let latest = Arc::clone(&latest);
            thread::spawn(move || {
                thread::sleep(left);
                if let Some(waker) = lock(&latest).take() {
                    waker.wake();
                }
            });
        }
        Poll::Pending
    })
    .await;
}

impl Store for FaultStore {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.through(|store| store.epoch())
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.through(move |store| store.acquire(claim.clone()))
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.through(move |store| store.reacquire(claim.clone()))
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        self.through(move |store| store.renew(lease.clone(), ttl))
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        self.through(move |store| store.renew_many(leases.clone()))
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        self.through(move |store| store.release(lease.clone(), ending.clone()))
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.through(move |store| store.withdraw(resource.clone(), owner))
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.through(move |store| store.revoke(resource.clone(), expect, reason.clone()))
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.through(move |store| store.inspect(resource.clone()))
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.through(move |store| store.list(prefix.clone()))
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.through(move |store| store.history(resource.clone(), limit))
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.through(move |store| store.prune(older_than))
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            self.closed().await;
            self.inner.wait(resource, limit).await
        })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.through(move |store| store.open_epoch(opening.clone()))
    }

    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.through(move |store| store.claim_slot(claim.clone()))
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.through(move |store| store.reclaim_slot(claim.clone()))
    }

    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        self.through(move |store| store.renew_slot(lease.clone(), ttl, id_time))
    }

    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        self.through(move |store| store.release_slot(lease.clone(), last_used))
    }

    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.through(move |store| store.withdraw_slot(pool.clone(), owner))
    }

    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.through(move |store| store.revoke_slot(pool.clone(), slot, expect, reason.clone()))
    }

    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        self.through(|store| store.pools())
    }

    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        self.through(move |store| store.slots(pool.clone()))
    }

    fn room(&self, claim: PoolClaim) -> Answer<'_, Room> {
        self.through(move |store| store.room(claim.clone()))
    }

    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        self.through(move |store| store.resize_pool(pool.clone(), size))
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        self.through(|store| store.doctor())
    }
}

impl std::fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultStore").field("late", &lock(&self.late).len()).finish_non_exhaustive()
    }
}
