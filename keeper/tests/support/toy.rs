use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Rejection};
use lease_machines_keeper::{Clock, ManualClock, sleep_until};
use lease_machines_store::{
    Acquired, Answer, Capabilities, Claim, Ending, Epoch, ErrorKind, HistoryEntry, Inspection, LeaseRef,
    MemoryStore, Occupant, Opening, Pruned, Rejected, Released, Renewed, ResourceName, Revoked, Store,
    StoreError,
};

/// What a store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call {
    Acquire,
    Reacquire,
    Renew,
    Release,
    Withdraw,
    Wait,
}

/// How the store waits for a resource to be free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Waits {
    #[default]
    Well,
    /// It returns at once, whatever the resource does.
    AtOnce,
    /// It never returns.
    Never,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It is never done, and never answered.
    Swallowed,
    /// It is done, and never answered.
    Unanswered,
    /// It is not done, and answered so.
    Fails(ErrorKind),
    /// It is done, and answered with an error.
    DoneButFails(ErrorKind),
    /// It reaches the store this much later.
    Late(Duration),
    /// It is done at once, and answered this much later.
    AnsweredLate(Duration),
    /// The engine's code panics.
    Panics,
}

/// The store in memory, whose faults a test plans call by call, and delays on the clock that the test moves.
pub(crate) struct Toy {
    clock: ManualClock,
    memory: Arc<MemoryStore>,
    capabilities: Capabilities,
    plans: Mutex<Plans>,
}

#[derive(Default)]
struct Plans {
    planned: HashMap<Call, VecDeque<Fault>>,
    standing: HashMap<Call, Fault>,
    calls: Vec<Call>,
    /// Leases in each `renew_many`.
    batches: Vec<usize>,
    endings: BTreeMap<ResourceName, Ending>,
    grants: u64,
    /// What a ttl is cut to.
    most: Option<Duration>,
    /// Rejections do not say who holds the resource.
    nameless: bool,
    waits: Waits,
    /// The last attempt of each owner.
    attempts: HashMap<OwnerId, u64>,
}

impl Toy {
    /// A store, and a clock for its holders: the store's moves with it.
    pub(crate) fn new() -> (Self, ManualClock) {
        let memory = Arc::new(MemoryStore::new().expect("random numbers"));
        let moved = Arc::clone(&memory);
        let clock = ManualClock::new().with_other(move |span| moved.advance(span));
        let capabilities = memory.capabilities().clone();
        (Self { clock: clock.clone(), memory, capabilities, plans: Mutex::default() }, clock)
    }

    pub(crate) fn forgetful(mut self) -> Self {
        self.capabilities.tells_expired = false;
        self
    }

    /// The next calls of this kind go wrong like this, one after the other.
    pub(crate) fn plan(&self, call: Call, faults: impl IntoIterator<Item = Fault>) {
        self.plans().planned.entry(call).or_default().extend(faults);
    }

    /// All calls of this kind go wrong like this from now on.
    pub(crate) fn always(&self, call: Call, fault: Fault) {
        self.plans().standing.insert(call, fault);
    }

    /// Nothing is answered any more.
    pub(crate) fn black_hole(&self) {
        for call in [Call::Acquire, Call::Reacquire, Call::Renew, Call::Release, Call::Withdraw] {
            self.always(call, Fault::Swallowed);
        }
    }

    /// Nothing goes wrong any more.
    pub(crate) fn mend(&self) {
        let mut plans = self.plans();
        plans.standing.clear();
        plans.planned.clear();
    }

    /// The store's clock jumps ahead of the holders'.
    pub(crate) fn jump_ahead(&self, span: Duration) {
        self.memory.advance(span);
    }

    pub(crate) fn grant_at_most(&self, most: Duration) {
        self.plans().most = Some(most);
    }

    pub(crate) fn wait_like(&self, waits: Waits) {
        self.plans().waits = waits;
    }

    pub(crate) fn name_nobody(&self) {
        self.plans().nameless = true;
    }

    /// An operator opens a new epoch, and says that nobody acts under the old one any more.
    pub(crate) fn new_epoch(&self) -> Epoch {
        let instead_of = now(self.memory.epoch()).expect("there is one");
        now(self.memory.open_epoch(Opening::new(instead_of).with_dead_holders())).expect("a new one")
    }

    pub(crate) fn calls(&self, call: Call) -> usize {
        self.plans().calls.iter().filter(|made| **made == call).count()
    }

    pub(crate) fn batches(&self) -> Vec<usize> {
        self.plans().batches.clone()
    }

    /// All grants so far.
    pub(crate) fn grants(&self) -> u64 {
        self.plans().grants
    }

    /// Who holds it, by the store's clock.
    pub(crate) fn holder(&self, name: &str) -> Option<(OwnerId, FencingToken)> {
        self.occupant(name).map(|occupant| (occupant.owner, occupant.token))
    }

    pub(crate) fn occupant(&self, name: &str) -> Option<Occupant> {
        now(self.memory.inspect(resource(name))).expect("it can be looked at").occupant
    }

    /// What the last release said.
    pub(crate) fn ending(&self, name: &str) -> Option<Ending> {
        self.plans().endings.get(name).cloned()
    }

    pub(crate) fn revoke_now(&self, name: &str) {
        let revoked = now(self.memory.revoke(resource(name), None, None)).expect("it can be revoked");
        assert!(matches!(revoked, Revoked::Burnt(_)), "{revoked:?}");
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().expect("no test panics in here")
    }

    /// Does it, unless it is to go wrong.
    async fn done<T>(
        &self,
        call: Call,
        decided: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fault = {
            let mut plans = self.plans();
            plans.calls.push(call);
            let planned = plans.planned.get_mut(&call).and_then(VecDeque::pop_front);
            planned.or_else(|| plans.standing.get(&call).copied()).unwrap_or(Fault::None)
        };
        match fault {
            Fault::Swallowed => pending().await,
            Fault::Fails(kind) => return Err(StoreError::new(kind, "planned").nothing_changed()),
            Fault::Late(delay) => sleep_until(&self.clock, self.clock.now() + delay).await,
            Fault::Panics => panic!("planned"),
            _ => {}
        }
        let answer = decided.await;
        match fault {
            Fault::Unanswered => pending().await,
            Fault::DoneButFails(kind) => Err(StoreError::new(kind, "planned")),
            Fault::AnsweredLate(delay) => {
                sleep_until(&self.clock, self.clock.now() + delay).await;
                answer
            }
            _ => answer,
        }
    }

    async fn claimed(&self, mut claim: Claim, again: bool) -> Result<Acquired, StoreError> {
        claim.ttl = self.cut(claim.ttl);
        let before = self.plans().attempts.insert(claim.owner, claim.attempt);
        assert!(before.is_none_or(|before| before < claim.attempt), "attempt {} came again", claim.attempt);
        let answer =
            if again { self.memory.reacquire(claim).await } else { self.memory.acquire(claim).await };
        let mut plans = self.plans();
        match answer {
            Ok(Acquired::Granted(grant)) => {
                plans.grants += 1;
                Ok(Acquired::Granted(grant))
            }
            Ok(Acquired::Rejected(rejected)) if plans.nameless => {
                Ok(Acquired::Rejected(rejected.with_occupant(None)))
            }
            answer => answer,
        }
    }

    fn cut(&self, ttl: Duration) -> Duration {
        self.plans().most.map_or(ttl, |most| ttl.min(most))
    }
}

fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).expect("a name")
}

/// The answer of a call that the store in memory gives at once.
fn now<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the store in memory waits for nothing"),
    }
}

impl Store for Toy {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.memory.epoch()
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        Box::pin(self.done(Call::Acquire, self.claimed(claim, false)))
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        Box::pin(self.done(Call::Reacquire, self.claimed(claim, true)))
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        let ttl = self.cut(ttl);
        Box::pin(self.done(Call::Renew, async move { self.memory.renew(lease, ttl).await }))
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        self.plans().batches.push(leases.len());
        let leases = leases.into_iter().map(|(lease, ttl)| (lease, self.cut(ttl))).collect();
        Box::pin(self.done(Call::Renew, async move {
            let mut answers = self.memory.renew_many(leases).await?;
            if !self.capabilities.tells_expired {
                for answer in &mut answers {
                    if matches!(answer, Ok(Renewed::Rejected(it)) if it.reason == Rejection::Expired) {
                        *answer = Ok(Renewed::Rejected(Rejected::new(Rejection::Vacant)));
                    }
                }
            }
            Ok(answers)
        }))
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        Box::pin(self.done(Call::Release, async move {
            self.plans().endings.insert(lease.resource.clone(), ending.clone());
            self.memory.release(lease, ending).await
        }))
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        Box::pin(self.done(Call::Withdraw, async move { self.memory.withdraw(resource, owner).await }))
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.memory.revoke(resource, expect, reason)
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.memory.inspect(resource)
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.memory.list(prefix)
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.memory.history(resource, limit)
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.memory.prune(older_than)
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        let waits = {
            let mut plans = self.plans();
            plans.calls.push(Call::Wait);
            plans.waits
        };
        match waits {
            Waits::Well => self.memory.wait(resource, limit),
            Waits::AtOnce => Box::pin(async { Ok(()) }),
            Waits::Never => Box::pin(pending()),
        }
    }
}
