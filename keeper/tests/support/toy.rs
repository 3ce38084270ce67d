use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::pending;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use lease_machines::{ClockPolicy, Decision, FencingToken, LeaseAuthority, OwnerId, Rejection};
use lease_machines_keeper::{Clock, ManualClock, sleep_until};
use lease_machines_store::{
    Acquired, Answer, Capabilities, Claim, End, Ending, Epoch, ErrorKind, Grant, HistoryEntry, Inspection,
    LeaseRef, Occupant, Pruned, Rejected, Released, Renewed, ResourceName, Revoked, Store, StoreError,
    Vacated, VacatedHow, WorkResult,
};
use tokio::sync::watch;

/// What a store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call {
    Acquire,
    Reacquire,
    Renew,
    Release,
    Withdraw,
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

pub(crate) struct Toy {
    clock: ManualClock,
    capabilities: Capabilities,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

struct State {
    epoch: Epoch,
    /// The store's clock is ahead of the holder's by this much.
    ahead: Duration,
    rows: BTreeMap<ResourceName, Row>,
    planned: HashMap<Call, VecDeque<Fault>>,
    standing: HashMap<Call, Fault>,
    calls: Vec<Call>,
    /// Leases in each `renew_many`.
    batches: Vec<usize>,
    /// What a grant is cut to.
    most: Duration,
    /// Rejections do not say who holds the resource.
    nameless: bool,
}

struct Row {
    authority: LeaseAuthority,
    attempts: HashMap<OwnerId, u64>,
    granted_at: Duration,
    label: Option<String>,
    vacated: Option<Vacated>,
    good: Option<End>,
    ending: Option<Ending>,
    retained: Option<(OwnerId, FencingToken, Duration)>,
}

impl Toy {
    pub(crate) fn new(clock: ManualClock) -> Self {
        let state = State {
            epoch: Epoch::new(1).expect("not zero"),
            ahead: Duration::ZERO,
            rows: BTreeMap::new(),
            planned: HashMap::new(),
            standing: HashMap::new(),
            calls: Vec::new(),
            batches: Vec::new(),
            most: Duration::MAX,
            nameless: false,
        };
        let capabilities = Capabilities::all("toy", Duration::from_secs(86_400));
        Self { clock, capabilities, state: Mutex::new(state), changes: watch::Sender::new(0) }
    }

    /// The next calls of this kind go wrong like this, one after the other.
    pub(crate) fn plan(&self, call: Call, faults: impl IntoIterator<Item = Fault>) {
        self.state().planned.entry(call).or_default().extend(faults);
    }

    /// All calls of this kind go wrong like this from now on.
    pub(crate) fn always(&self, call: Call, fault: Fault) {
        self.state().standing.insert(call, fault);
    }

    /// Nothing is answered any more.
    pub(crate) fn black_hole(&self) {
        for call in [Call::Acquire, Call::Reacquire, Call::Renew, Call::Release, Call::Withdraw] {
            self.always(call, Fault::Swallowed);
        }
    }

    /// Nothing goes wrong any more.
    pub(crate) fn mend(&self) {
        let mut state = self.state();
        state.standing.clear();
        state.planned.clear();
    }

    /// The store's clock jumps ahead of the holder's by this much in all.
    pub(crate) fn set_ahead(&self, ahead: Duration) {
        self.state().ahead = ahead;
    }

    pub(crate) fn grant_at_most(&self, most: Duration) {
        self.state().most = most;
    }

    pub(crate) fn name_nobody(&self) {
        self.state().nameless = true;
    }

    pub(crate) fn new_epoch(&self) {
        let mut state = self.state();
        state.epoch = Epoch::new(state.epoch.value() + 1).expect("not zero");
    }

    pub(crate) fn calls(&self, call: Call) -> usize {
        self.state().calls.iter().filter(|made| **made == call).count()
    }

    pub(crate) fn batches(&self) -> Vec<usize> {
        self.state().batches.clone()
    }

    /// All grants so far.
    pub(crate) fn tokens_issued(&self) -> u64 {
        let state = self.state();
        state
            .rows
            .values()
            .filter_map(|row| row.authority.checkpoint().last_issued())
            .map(|it| it.value())
            .sum()
    }

    /// Who holds it, by the store's clock.
    pub(crate) fn holder(&self, name: &str) -> Option<(OwnerId, FencingToken)> {
        self.occupant(name).map(|occupant| (occupant.owner, occupant.token))
    }

    pub(crate) fn occupant(&self, name: &str) -> Option<Occupant> {
        let mut state = self.state();
        let now = self.now(&state);
        state.rows.get_mut(name).and_then(|row| row.occupant(now))
    }

    pub(crate) fn ending(&self, name: &str) -> Option<Ending> {
        self.state().rows.get(name).and_then(|row| row.ending.clone())
    }

    pub(crate) fn revoke_now(&self, name: &str) {
        let mut state = self.state();
        let now = self.now(&state);
        let row = state.rows.get_mut(name).expect("held");
        let lease = row.authority.checkpoint().lease().expect("held");
        row.authority.revoke(None, now).expect("tokens are left");
        row.vacated = Some(Vacated::new(lease.token(), lease.owner(), VacatedHow::Revoked));
        drop(state);
        self.changed();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics in here")
    }

    fn now(&self, state: &State) -> Duration {
        self.clock.now() + state.ahead
    }

    fn changed(&self) {
        self.changes.send_modify(|version| *version += 1);
    }

    async fn done<T>(
        &self,
        call: Call,
        decide: impl FnOnce(&mut State, Duration) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = {
            let mut state = self.state();
            state.calls.push(call);
            let planned = state.planned.get_mut(&call).and_then(VecDeque::pop_front);
            planned.or_else(|| state.standing.get(&call).copied()).unwrap_or(Fault::None)
        };
        match fault {
            Fault::Swallowed => pending().await,
            Fault::Fails(kind) => return Err(StoreError::new(kind, "planned").nothing_changed()),
            Fault::Late(delay) => sleep_until(&self.clock, self.clock.now() + delay).await,
            Fault::Panics => panic!("planned"),
            _ => {}
        }
        let answer = {
            let mut state = self.state();
            let now = self.now(&state);
            decide(&mut state, now)
        };
        self.changed();
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
}

impl State {
    fn row(&mut self, resource: &ResourceName) -> &mut Row {
        self.rows.entry(resource.clone()).or_insert_with(|| Row {
            authority: LeaseAuthority::new().with_clock_policy(ClockPolicy::Clamp),
            attempts: HashMap::new(),
            granted_at: Duration::ZERO,
            label: None,
            vacated: None,
            good: None,
            ending: None,
            retained: None,
        })
    }

    fn check_epoch(&self, epoch: Option<Epoch>) -> Result<(), StoreError> {
        match epoch {
            Some(believed) if believed != self.epoch => Err(StoreError::new_epoch(believed, self.epoch)),
            _ => Ok(()),
        }
    }

    fn acquire(&mut self, claim: Claim, now: Duration, again: bool) -> Result<Acquired, StoreError> {
        self.check_epoch(claim.epoch)?;
        let (epoch, most, nameless) = (self.epoch, self.most, self.nameless);
        let row = self.row(&claim.resource);
        if let Some(end) = row.good.clone().filter(|end| end.once.is_some() && end.once == claim.once) {
            return Ok(Acquired::AlreadyDone(end));
        }
        if row.attempts.get(&claim.owner).is_some_and(|last| claim.attempt <= *last) {
            let standing = row.occupant(now).filter(|occupant| occupant.owner == claim.owner);
            return match standing {
                Some(it) => Ok(Acquired::Granted(Grant::new(it.token, it.remaining, epoch))),
                None => Err(StoreError::new(ErrorKind::Superseded, "an old attempt")),
            };
        }
        if let Some(occupant) = row.occupant(now).filter(|occupant| occupant.retained) {
            return Ok(Acquired::Rejected(Rejected::new(Rejection::Occupied).with_occupant(Some(occupant))));
        }
        let ttl = claim.ttl.min(most);
        let decision = if again {
            row.authority.reacquire(claim.owner, now, ttl)
        } else {
            row.authority.acquire(claim.owner, now, ttl)
        };
        match decision {
            Decision::Granted(lease) => {
                row.attempts.insert(claim.owner, claim.attempt);
                (row.granted_at, row.label) = (now, claim.label);
                (row.retained, row.ending) = (None, None);
                Ok(Acquired::Granted(Grant::new(lease.token(), ttl, epoch)))
            }
            Decision::Rejected(reason) => {
                let occupant = row.occupant(now).filter(|_| !nameless);
                Ok(Acquired::Rejected(Rejected::new(reason).with_occupant(occupant)))
            }
            _ => unreachable!(),
        }
    }

    fn renew(&mut self, lease: &LeaseRef, ttl: Duration, now: Duration) -> Result<Renewed, StoreError> {
        self.check_epoch(lease.epoch)?;
        let (epoch, most) = (self.epoch, self.most);
        let row = self.row(&lease.resource);
        match row.authority.renew(lease.owner, lease.token, now, ttl.min(most)) {
            Decision::Renewed(renewed) => {
                let remaining = renewed.expires_at() - now;
                Ok(Renewed::Renewed(Grant::new(lease.token, remaining, epoch)))
            }
            Decision::Rejected(reason) => Ok(Renewed::Rejected(row.rejected(reason, now))),
            _ => unreachable!(),
        }
    }

    fn release(&mut self, lease: &LeaseRef, ending: Ending, now: Duration) -> Result<Released, StoreError> {
        self.check_epoch(lease.epoch)?;
        let row = self.row(&lease.resource);
        let before = row.vacated.clone();
        match row.authority.release(lease.owner, lease.token, now) {
            Decision::Released => {
                row.vacated = Some(Vacated::new(lease.token, lease.owner, VacatedHow::Released));
                if ending.result == WorkResult::Good {
                    let mut end = End::new(lease.token, lease.owner, SystemTime::UNIX_EPOCH);
                    end.once.clone_from(&ending.once);
                    end.label.clone_from(&row.label);
                    row.good = Some(end);
                }
                let until = row.granted_at + ending.at_least;
                row.ending = Some(ending);
                if until > now {
                    row.retained = Some((lease.owner, lease.token, until));
                    return Ok(Released::Retained(until - now));
                }
                Ok(Released::Released)
            }
            Decision::Rejected(Rejection::Vacant)
                if before.is_some_and(|it| it.token == lease.token && it.how == VacatedHow::Released) =>
            {
                Ok(Released::AlreadyReleased)
            }
            Decision::Rejected(reason) => Ok(Released::Rejected(row.rejected(reason, now))),
            _ => unreachable!(),
        }
    }

    fn withdraw(&mut self, resource: &ResourceName, owner: OwnerId, now: Duration) -> Released {
        let row = self.row(resource);
        row.attempts.insert(owner, u64::MAX);
        let held = row.occupant(now).filter(|occupant| occupant.owner == owner);
        match held {
            Some(held) => {
                let _ = row.authority.release(owner, held.token, now);
                row.vacated = Some(Vacated::new(held.token, owner, VacatedHow::Withdrawn));
                Released::Released
            }
            None => Released::Rejected(Rejected::new(Rejection::Vacant)),
        }
    }
}

impl Row {
    fn occupant(&mut self, now: Duration) -> Option<Occupant> {
        if let Some((owner, token, until)) = self.retained.filter(|(.., until)| now < *until) {
            let mut occupant = Occupant::new(owner, token, now - self.granted_at, until - now);
            occupant.retained = true;
            return Some(occupant);
        }
        let lease = self.authority.checkpoint().lease().filter(|lease| now < lease.expires_at())?;
        let mut occupant =
            Occupant::new(lease.owner(), lease.token(), now - self.granted_at, lease.expires_at() - now);
        occupant.label.clone_from(&self.label);
        Some(occupant)
    }

    fn rejected(&mut self, reason: Rejection, now: Duration) -> Rejected {
        let occupant = self.occupant(now);
        let vacated = self.vacated.clone().filter(|_| occupant.is_none());
        Rejected::new(reason).with_occupant(occupant).with_vacated(vacated)
    }
}

impl Store for Toy {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        let epoch = self.state().epoch;
        Box::pin(async move { Ok(epoch) })
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        Box::pin(self.done(Call::Acquire, |state, now| state.acquire(claim, now, false)))
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        Box::pin(self.done(Call::Reacquire, |state, now| state.acquire(claim, now, true)))
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        Box::pin(self.done(Call::Renew, move |state, now| state.renew(&lease, ttl, now)))
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        self.state().batches.push(leases.len());
        Box::pin(self.done(Call::Renew, move |state, now| {
            Ok(leases.iter().map(|(lease, ttl)| state.renew(lease, *ttl, now)).collect())
        }))
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        Box::pin(self.done(Call::Release, move |state, now| state.release(&lease, ending, now)))
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        Box::pin(self.done(Call::Withdraw, move |state, now| Ok(state.withdraw(&resource, owner, now))))
    }

    fn revoke(&self, _: ResourceName, _: Option<FencingToken>, _: Option<String>) -> Answer<'_, Revoked> {
        unreachable!("see revoke_now")
    }

    fn inspect(&self, _: ResourceName) -> Answer<'_, Inspection> {
        unreachable!("see occupant")
    }

    fn list(&self, _: String) -> Answer<'_, Vec<Inspection>> {
        unreachable!("nobody asks")
    }

    fn history(&self, _: ResourceName, _: usize) -> Answer<'_, Vec<HistoryEntry>> {
        unreachable!("nobody asks")
    }

    fn prune(&self, _: Duration) -> Answer<'_, Pruned> {
        unreachable!("nobody asks")
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut changes = self.changes.subscribe();
            let end = self.clock.now() + limit;
            while self.clock.now() < end && self.occupant(resource.as_str()).is_some() {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = sleep_until(&self.clock, end) => {}
                }
            }
            Ok(())
        })
    }
}
