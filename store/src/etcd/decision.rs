//! How a call is decided: by the core, on one version of the resource, which a transaction then finds unchanged and writes,
//! or finds changed and reads anew.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lease_machines::FencingToken;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::hub::{Head, Hub, Known as Remembered};
use super::leases::{EtcdLease, LAST_MOMENT};
use super::reading::{self, LiveKey, OWN, Reading, Wanted};
use super::record::{Held, Last, Renewals, State, write_end, write_hold};
use crate::decide::{At, Decided, Effects, Known, Row, Standing, Write};
use crate::owner::random;
use crate::{ErrorKind, ResourceName, StoreError, Undecided};

/// What a call asks.
pub(super) struct Question<'a> {
    pub(super) wanted: Wanted<'a>,
    /// The decision depends on how long a lease still lasts; others need that only for an answer which says so.
    pub(super) exact: bool,
    /// A claim for this long: an etcd lease is asked for beside the look at a resource of which nothing is known.
    pub(super) ahead: Duration,
    /// How long it has been held counts, and no clock is the cluster's: only what passed on this machine is sure.
    pub(super) counts_own_time: bool,
}

/// What a decision came to, which the core here cannot know.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Outcome {
    /// Issued by the transaction.
    pub(super) token: Option<FencingToken>,
    /// What the lease was granted for, in whole seconds.
    pub(super) ttl: Option<Duration>,
}

/// Stands for what remains of a lease, where the decision does not depend on it.
const UNTOLD: Duration = Duration::from_secs(1);

impl Hub {
    /// Has something decided. What was decided without the cluster's doing is put right by `finish`.
    pub(super) async fn decide<T: Send>(
        self: &Arc<Self>,
        question: Question<'_>,
        decision: impl Fn(&mut Row, &Standing, &At, Known) -> Decided<T> + Send,
        finish: impl FnOnce(T, Outcome) -> T + Send,
    ) -> Result<T, StoreError> {
        let (sent, deadline) = (self.options.here.now(), self.link.deadline());
        let mut own = OwnLease::default();
        let decided = self.decide_by(deadline, &question, &mut own, decision).await;
        // Where nobody knows, a live key may stand on it.
        if !decided.as_ref().is_err_and(|error| error.undecided() == Undecided::Unknown) {
            own.give_back(self);
        }
        let (answer, outcome) = decided?;
        if let Some(ttl) = outcome.ttl {
            self.options.here.in_time(sent, ttl, &self.link.place)?;
        }
        Ok(finish(answer, outcome))
    }

    async fn decide_by<T: Send>(
        self: &Arc<Self>,
        deadline: Instant,
        question: &Question<'_>,
        own: &mut OwnLease,
        decision: impl Fn(&mut Row, &Standing, &At, Known) -> Decided<T> + Send,
    ) -> Result<(T, Outcome), StoreError> {
        let wanted = &question.wanted;
        let mut exact = question.exact;
        // An etcd lease that was found to be over.
        let mut over = None;
        // What was seen before is a guess; only what is read in this call may be told.
        let (mut reading, mut is_read) = match self.known(wanted.resource) {
            Some(known) => (known.reading, false),
            None => {
                own.ask_ahead(self, question.ahead, deadline);
                (self.read(wanted, deadline).await?, true)
            }
        };
        loop {
            if Instant::now() >= deadline {
                let message = format!("others were faster at {:?}, again and again", wanted.resource);
                return Err(StoreError::new(ErrorKind::Busy, message));
            }
            let wall = self.wall();
            let left = match reading.live {
                None => Duration::ZERO,
                Some(_) if !exact => UNTOLD,
                Some(live) => match self.leases.remaining(live.lease, deadline).await? {
                    Some(left) => left,
                    // It was renewed, or has ended, since this was read.
                    None if over != Some(live.lease) => {
                        over = Some(live.lease);
                        (reading, is_read) = (self.read(wanted, deadline).await?, true);
                        continue;
                    }
                    None => LAST_MOMENT,
                },
            };
            let waits = self.waits(&reading.epochal, deadline).await?;
            let standing = reading::standing(&reading.epochal, waits);
            let mut row = reading.row(left, self.held_for(question, &reading, wall), wall);
            let before =
                Before { last: row.last_issued, expires: row.lease.as_ref().map(|held| held.expires_at) };
            let known = Known { done: reading.done.clone(), withdrawn: reading.withdrawn };
            let Decided { answer, effects } = decision(&mut row, &standing, &reading::at(wall), known);
            let plan = self.plan(wanted, &reading, &before, &row, &effects, wall);
            if plan.is_empty() {
                if !is_read {
                    (reading, is_read) = (self.read(wanted, deadline).await?, true);
                    continue;
                }
                if reading.live.is_some() && !mem::replace(&mut exact, true) {
                    continue;
                }
                if let Some((owner, token)) = effects.rewound {
                    self.rewound(owner, token, &reading.epochal, reading.state.is_none()).await?;
                }
                self.note(wanted.resource, reading, None);
                return Ok((answer?, Outcome::default()));
            }
            match self.carry_out(wanted, &plan, &reading, own, deadline).await? {
                Carried::Out(head, lease) => {
                    if let Some(new) = self.settle(&reading.epochal, head, deadline).await? {
                        return Err(StoreError::new_epoch(reading.epochal.standing.epoch, new));
                    }
                    let outcome = self.written(wanted, reading, plan, head, lease);
                    return Ok((answer?, outcome));
                }
                Carried::Changed(found, head) => {
                    let lost = self.settle(&found.epochal, head, deadline).await?.is_some();
                    reading = if lost { self.read(wanted, deadline).await? } else { *found };
                    is_read = true;
                }
                Carried::LeaseGone => {}
            }
        }
    }

    fn held_for(&self, question: &Question<'_>, reading: &Reading, wall: SystemTime) -> Duration {
        if !question.counts_own_time {
            return reading.held_by_the_wall(wall);
        }
        let last = reading.state.as_ref().and_then(|state| state.last.token(reading.revision));
        let since = last.and_then(|token| self.granted_here(question.wanted.resource, token));
        since.map_or(Duration::ZERO, |since| self.options.here.now().saturating_sub(since))
    }

    fn plan(
        &self,
        wanted: &Wanted<'_>,
        reading: &Reading,
        before: &Before,
        row: &Row,
        effects: &Effects,
        wall: SystemTime,
    ) -> Plan {
        let (keys, resource) = (&self.keys, wanted.resource);
        let mut plan = Plan::default();
        let floor = reading.epochal.standing.floor;
        match effects.write {
            // That a lease has run out stays so by itself: its key never comes back.
            Write::Nothing | Write::Observation => {}
            Write::Renewal => {
                plan.live =
                    row.lease.as_ref().filter(|held| Some(held.expires_at) > before.expires).map(lasts);
            }
            Write::Whole => {
                let issued = row.last_issued != before.last;
                let last = match row.last_issued {
                    Some(token) if !issued => Last::Known(token),
                    _ => Last::Now { floor },
                };
                if issued && row.lease.is_some() {
                    let absent = |key| Compare::version(key, CompareOp::Equal, 0);
                    plan.when.push(absent(keys.wait()));
                    plan.when.extend(wanted.owner.map(|owner| absent(keys.withdrawn(resource, owner))));
                    plan.when.extend(wanted.once.map(|once| absent(keys.done(resource, once))));
                }
                plan.live = row.lease.as_ref().map(lasts);
                plan.vacates = row.lease.is_none();
                plan.state = Some(State {
                    last,
                    held: row.lease.as_ref().map(|held| Held {
                        owner: held.owner,
                        epoch: held.epoch,
                        granted: held.granted_wall,
                        retained: held.retained,
                        label: held.label.clone(),
                        identity: held.identity.clone(),
                    }),
                    asker: row.asker,
                    vacated: row.vacated.clone(),
                    at: wall,
                });
                if self.options.limits.history.is_some() {
                    let hold = |entry, last| {
                        let entry: &crate::HistoryEntry = entry;
                        TxnOp::put(keys.hold(resource, entry.token), write_hold(entry, last), None)
                    };
                    plan.then
                        .extend(effects.ended.as_ref().map(|entry| hold(entry, Last::Known(entry.token))));
                    plan.records = effects.ended.is_some() || effects.burnt.is_some();
                    plan.then.extend(effects.burnt.as_ref().map(|entry| hold(entry, Last::Now { floor })));
                }
            }
        }
        if let Some(end) = &effects.good {
            plan.then.push(TxnOp::put(keys.good(resource), write_end(end), None));
            plan.then.extend(end.once.as_ref().map(|once| {
                // The first to have done it goes on having done it.
                let key = keys.done(resource, once);
                let first = Compare::version(key.clone(), CompareOp::Equal, 0);
                TxnOp::txn(Txn::new().when([first]).and_then([TxnOp::put(key, write_end(end), None)]))
            }));
        }
        plan.withdrawn = effects.withdrawn.map(|owner| keys.withdrawn(resource, owner));
        plan
    }

    async fn carry_out(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        plan: &Plan,
        reading: &Reading,
        own: &mut OwnLease,
        deadline: Instant,
    ) -> Result<Carried, StoreError> {
        let keys = &self.keys;
        let lease = match &plan.live {
            Some((ttl, _)) => Some(own.at_least(self, *ttl, deadline).await?),
            None => None,
        };
        let mut then = plan.then.clone();
        if let Some(state) = &plan.state {
            then.push(TxnOp::put(keys.state(wanted.resource), state.write(), None));
        }
        if let Some((lease, (_, renewals))) = lease.as_ref().zip(plan.live) {
            let on = PutOptions::new().with_lease(lease.id);
            then.push(TxnOp::put(keys.live(wanted.resource), OWN, Some(on)));
            let renewals = Renewals { ttl: lease.ttl, ..renewals };
            then.push(TxnOp::put(keys.renewed(wanted.resource), renewals.write(), None));
        }
        if plan.vacates {
            then.push(TxnOp::delete(keys.live(wanted.resource), None));
            then.push(TxnOp::delete(keys.renewed(wanted.resource), None));
        }
        if let Some(key) = &plan.withdrawn {
            let on = PutOptions::new().with_lease(self.leases.for_marks(deadline).await?);
            then.push(TxnOp::put(key.clone(), "", Some(on)));
        }
        let mut when = reading.stands(wanted, keys);
        when.extend(plan.when.iter().cloned());
        let txn = Txn::new().when(when).and_then(then).or_else(wanted.ops(keys));
        let (answer, head) = match self.transact(txn, deadline).await {
            // Nothing was done; another is asked for.
            Err(error) if error.kind() == ErrorKind::Busy => {
                own.forget();
                self.leases.forget_marks().await;
                return Ok(Carried::LeaseGone);
            }
            other => other?,
        };
        if !answer.succeeded() {
            return Ok(Carried::Changed(Box::new(wanted.read(keys, &answer)?), head));
        }
        if lease.is_some() {
            own.forget();
        }
        Ok(Carried::Out(Head { wrote: true, ..head }, lease))
    }

    /// Takes note of what was written. The lease that a live key stood on before is given back.
    fn written(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        mut reading: Reading,
        plan: Plan,
        head: Head,
        lease: Option<EtcdLease>,
    ) -> Outcome {
        let mut outcome = Outcome { token: None, ttl: lease.map(|lease| lease.ttl) };
        if lease.is_some() || plan.vacates {
            if let Some(old) = reading.live.filter(|old| !old.shared) {
                self.leases.give_back(old.lease);
            }
            reading.live =
                lease.map(|lease| LiveKey { revision: head.revision, lease: lease.id, shared: false });
            reading.renewals =
                lease.zip(plan.live).map(|(lease, (_, renewals))| Renewals { ttl: lease.ttl, ..renewals });
        }
        let mut granted = None;
        if let Some(mut state) = plan.state {
            let token = state.last.token(head.revision);
            if let (Last::Now { .. }, Some(token)) = (state.last, token) {
                outcome.token = Some(token);
                granted = Some((token, self.options.here.now()));
                state.last = Last::Known(token);
            }
            (reading.state, reading.revision) = (Some(state), head.revision);
        }
        self.note(wanted.resource, reading, granted);
        if plan.records {
            self.trim_at_times(wanted.resource);
        }
        outcome
    }

    /// Every sixteenth hold that is recorded, as it falls: nobody counts them.
    pub(super) fn trim_at_times(self: &Arc<Self>, resource: &ResourceName) {
        if random().is_ok_and(|number| number % 16 == 0) {
            let (hub, resource) = (Arc::clone(self), resource.clone());
            tokio::spawn(async move {
                // The next one does it otherwise.
                let _ = hub.trim(&resource).await;
            });
        }
    }

    /// Keeps what was read as the guess that the next call begins with.
    pub(super) fn note(
        &self,
        resource: &ResourceName,
        mut reading: Reading,
        granted: Option<(FencingToken, Duration)>,
    ) {
        // What is about one asker alone is not kept.
        (reading.withdrawn, reading.done, reading.good, reading.epochal.waits) = (false, None, None, None);
        let granted = granted.or_else(|| self.known(resource).and_then(|known| known.granted));
        self.remember(resource, Remembered { reading, granted });
    }
}

/// The hold as it is to stand on a lease.
fn lasts(held: &crate::decide::Held) -> (Duration, Renewals) {
    let renewals = Renewals { at: held.renewed_wall, count: held.renewals, ttl: Duration::ZERO };
    (reading::left(held.expires_at), renewals)
}

/// What stood before a decision.
struct Before {
    last: Option<FencingToken>,
    expires: Option<Duration>,
}

/// What a transaction is to write, and what it depends on beside the version of the resource.
#[derive(Default)]
struct Plan {
    when: Vec<Compare>,
    then: Vec<TxnOp>,
    state: Option<State>,
    /// The live key is to stand on a lease for at least this long.
    live: Option<(Duration, Renewals)>,
    /// The live key goes.
    vacates: bool,
    /// A hold goes into the history.
    records: bool,
    /// Where it is written that an owner has withdrawn.
    withdrawn: Option<Vec<u8>>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.then.is_empty()
            && self.state.is_none()
            && self.live.is_none()
            && !self.vacates
            && self.withdrawn.is_none()
    }
}

enum Carried {
    Out(Head, Option<EtcdLease>),
    Changed(Box<Reading>, Head),
    LeaseGone,
}

/// The etcd lease that a call has asked for.
#[derive(Default)]
pub(super) struct OwnLease {
    granted: Option<EtcdLease>,
    coming: Option<JoinHandle<Result<EtcdLease, StoreError>>>,
}

impl OwnLease {
    /// Asks for it while something else is done.
    pub(super) fn ask_ahead(&mut self, hub: &Arc<Hub>, ttl: Duration, deadline: Instant) {
        if !ttl.is_zero() {
            let leases = Arc::clone(&hub.leases);
            self.coming = Some(tokio::spawn(async move { leases.at_least(ttl, deadline).await }));
        }
    }

    pub(super) async fn at_least(
        &mut self,
        hub: &Arc<Hub>,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<EtcdLease, StoreError> {
        if let Some(coming) = self.coming.take() {
            self.granted = coming.await.ok().and_then(Result::ok);
        }
        if let Some(lease) = self.granted.filter(|lease| lease.ttl >= ttl) {
            return Ok(lease);
        }
        self.give_back(hub);
        let lease = hub.leases.at_least(ttl, deadline).await?;
        self.granted = Some(lease);
        Ok(lease)
    }

    /// A live key stands on it, or it is gone.
    pub(super) fn forget(&mut self) {
        self.granted = None;
    }

    /// Nothing stands on it.
    pub(super) fn give_back(&mut self, hub: &Arc<Hub>) {
        if let Some(lease) = self.granted.take() {
            hub.leases.give_back(lease.id);
        }
        if let Some(coming) = self.coming.take() {
            let leases = Arc::clone(&hub.leases);
            tokio::spawn(async move {
                if let Ok(Ok(lease)) = coming.await {
                    leases.give_back(lease.id);
                }
            });
        }
    }
}
