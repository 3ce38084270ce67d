//! How something is decided about one slot: by the core, on one version of it, which a transaction then finds unchanged and
//! writes, or finds changed and reads anew.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lease_machines::{FencingToken, OwnerId, Rejection};
use tokio::time::Instant;

use super::reading::{Asked, Kept, PoolReading, same};
use super::record::SlotState;
use crate::decide::{self, At, Decided, Effects, SlotRow, Standing, Write};
use crate::etcd::decision::{Outcome, OwnLease};
use crate::etcd::hub::{Head, Hub};
use crate::etcd::leases::{EtcdLease, LAST_MOMENT};
use crate::etcd::reading::{LiveKey, OWN, standing_at};
use crate::etcd::record::{Last, write_hold};
use crate::pool::slot_name;
use crate::{
    ErrorKind, HistoryEntry, Rejected, Released, ResourceName, Revoked, SlotLease, SlotRef, SlotRenewed,
    StoreError, Undecided, check,
};

impl Hub {
    pub(in crate::etcd) async fn renew_slot(
        self: &Arc<Self>,
        lease: &SlotRef,
        ttl: Duration,
        id_time: bool,
    ) -> Result<SlotRenewed, StoreError> {
        let ttl = check::ttl(ttl, self.options.limits.max_ttl)?;
        let sent = self.options.here.now();
        let decided = self.decide_slot(&lease.pool, lease.slot, true, |slot, standing, at, _| {
            decide::renew_slot(slot, standing, at, lease, ttl, id_time)
        });
        let (answer, outcome) = decided.await?;
        Ok(match answer {
            SlotRenewed::Renewed(lease) => {
                let lease = outcome.told(lease);
                self.options.here.in_time(sent, lease.ttl, &self.link.place)?;
                SlotRenewed::Renewed(lease)
            }
            other => other,
        })
    }

    pub(in crate::etcd) async fn release_slot(
        self: &Arc<Self>,
        lease: &SlotRef,
        last_used: Option<Duration>,
    ) -> Result<Released, StoreError> {
        let last_used = check::last_used(last_used)?;
        let decided = self.decide_slot(&lease.pool, lease.slot, false, |slot, standing, at, _| {
            decide::release_slot(slot, standing, at, lease, last_used)
        });
        decided.await.map(|(answer, _)| answer)
    }

    pub(in crate::etcd) async fn revoke_slot(
        self: &Arc<Self>,
        pool: &ResourceName,
        number: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Result<Revoked, StoreError> {
        check::text("reason", reason.as_deref())?;
        let decided = self.decide_slot(pool, number, false, |slot, standing, at, there| {
            if there {
                decide::revoke_slot(slot, standing, at, expect, reason.clone())
            } else {
                let none = Revoked::Rejected(Rejected::new(Rejection::Vacant));
                Decided { answer: Ok(none), effects: Effects::default() }
            }
        });
        let (answer, outcome) = decided.await?;
        Ok(match answer {
            Revoked::Burnt(token) => Revoked::Burnt(outcome.token.unwrap_or(token)),
            other => other,
        })
    }

    /// The slot is looked up under the owner, and what is decided holds only where the owner was granted no other since.
    pub(in crate::etcd) async fn withdraw_slot(
        self: &Arc<Self>,
        pool: &ResourceName,
        owner: OwnerId,
    ) -> Result<Released, StoreError> {
        let deadline = self.link.deadline();
        let mut asked = Asked { pool, owner: Some(owner), numbers: 0..0, own: None };
        let mut reading = self.read_pool(&asked, deadline).await?;
        loop {
            self.before(deadline, pool)?;
            asked.own = reading.own;
            let (at, waits) = (self.at(), self.waits(&reading.epochal, deadline).await?);
            let standing = standing_at(&reading.epochal, waits, at.now);
            // One that was cut off since is nobody's.
            let own = reading.own.filter(|own| reading.has(*own));
            let number = own.unwrap_or(0);
            let mut slot = own.map(|own| reading.row(own, None, &at)).unwrap_or_default();
            let before = Before::of(&slot);
            let Decided { answer, effects } = decide::withdraw_slot(&mut slot, &standing, &at, owner);
            let mut plan = match own {
                Some(_) => self.plan_slot(&asked, number, &reading, &before, &slot, &effects, &at),
                None => SlotPlan::default(),
            };
            let on = PutOptions::new().with_lease(self.leases.for_marks(deadline).await?);
            plan.then.push(TxnOp::put(self.keys.slot_withdrawn(pool, owner), "", Some(on)));
            plan.when.push(same(self.keys.slot_owner(pool, owner), reading.own_revision));
            let mut nothing = OwnLease::default();
            match self.carry_out_slot(&asked, number, &plan, &reading, &mut nothing, deadline).await? {
                SlotCarried::Out(head, lease) => {
                    self.settled(&reading, head, deadline).await?;
                    self.slot_written(pool, number, &reading, plan, head, lease);
                    return answer;
                }
                SlotCarried::Changed(found, head) => {
                    reading = self.changed(&asked, *found, head, deadline).await?;
                }
                SlotCarried::LeaseGone => {}
            }
        }
    }

    /// Has something decided about a slot. The last argument of the decision says whether the pool has it: one that it does not
    /// have is decided upon as one that nobody ever held, and nothing of it is kept.
    async fn decide_slot<T: Send>(
        self: &Arc<Self>,
        pool: &ResourceName,
        number: u16,
        exact: bool,
        decision: impl Fn(&mut SlotRow, &Standing, &At, bool) -> Decided<T> + Send,
    ) -> Result<(T, Outcome), StoreError> {
        let deadline = self.link.deadline();
        let mut own = OwnLease::default();
        let decided = self.decide_slot_by(deadline, pool, number, exact, &mut own, decision).await;
        // Where nobody knows, a live key may stand on it.
        if !decided.as_ref().is_err_and(|error| error.undecided() == Undecided::Unknown) {
            own.give_back(self);
        }
        decided
    }

    async fn decide_slot_by<T: Send>(
        self: &Arc<Self>,
        deadline: Instant,
        pool: &ResourceName,
        number: u16,
        exact: bool,
        own: &mut OwnLease,
        decision: impl Fn(&mut SlotRow, &Standing, &At, bool) -> Decided<T> + Send,
    ) -> Result<(T, Outcome), StoreError> {
        let asked = Asked::one(pool, number);
        // An etcd lease that was found to be over.
        let mut over = None;
        // What was seen before is a guess; only what is read in this call may be told.
        let (mut reading, mut is_read) = match self.known_slot(pool, number) {
            Some(known) => (known, false),
            None => (self.read_pool(&asked, deadline).await?, true),
        };
        loop {
            self.before(deadline, pool)?;
            let live = reading.slots.get(&number).and_then(|kept| kept.live).filter(|_| exact);
            let left = match self.left_of(live, &mut over, deadline).await? {
                Ok(left) => left,
                Err(IsOver) => {
                    (reading, is_read) = (self.read_pool(&asked, deadline).await?, true);
                    continue;
                }
            };
            let waits = self.waits(&reading.epochal, deadline).await?;
            let at = self.at();
            let standing = standing_at(&reading.epochal, waits, at.now);
            let there = reading.has(number);
            let mut slot = if there { reading.row(number, left, &at) } else { SlotRow::default() };
            let before = Before::of(&slot);
            let Decided { answer, effects } = decision(&mut slot, &standing, &at, there);
            let plan = self.plan_slot(&asked, number, &reading, &before, &slot, &effects, &at);
            if plan.is_empty() || !there {
                if !mem::replace(&mut is_read, true) {
                    reading = self.read_pool(&asked, deadline).await?;
                    continue;
                }
                if let Some((owner, token)) = effects.rewound {
                    self.rewound(owner, token, &reading.epochal, false).await?;
                }
                let kept = reading.slots.get(&number).cloned();
                self.note_slot(pool, number, reading.guess(number, kept));
                return Ok((answer?, Outcome::default()));
            }
            match self.carry_out_slot(&asked, number, &plan, &reading, own, deadline).await? {
                SlotCarried::Out(head, lease) => {
                    self.settled(&reading, head, deadline).await?;
                    let outcome = self.slot_written(pool, number, &reading, plan, head, lease);
                    return Ok((answer?, outcome));
                }
                SlotCarried::Changed(found, head) => {
                    reading = self.changed(&asked, *found, head, deadline).await?;
                    is_read = true;
                }
                SlotCarried::LeaseGone => {}
            }
        }
    }

    /// The instant at which something about a pool is decided: by this machine's wall clock.
    pub(super) fn at(&self) -> At {
        let wall = self.wall();
        let mut at = At { now: Duration::ZERO, wall };
        at.now = decide::wall(&at);
        at
    }

    /// There is still time.
    fn before(&self, deadline: Instant, pool: &ResourceName) -> Result<(), StoreError> {
        if Instant::now() < deadline {
            return Ok(());
        }
        let message = format!("others were faster in the pool {pool:?}, again and again");
        Err(StoreError::new(ErrorKind::Busy, message))
    }

    /// What is left of the etcd lease under a live key. One that is found to be over was given back since the key was read, by a
    /// renewal or for good, or the cluster is about to end it: the second time it is.
    pub(super) async fn left_of(
        &self,
        live: Option<LiveKey>,
        over: &mut Option<i64>,
        deadline: Instant,
    ) -> Result<Result<Option<Duration>, IsOver>, StoreError> {
        let Some(live) = live else { return Ok(Ok(None)) };
        Ok(match self.leases.remaining(live.lease, deadline).await? {
            Some(left) => Ok(Some(left)),
            None if *over == Some(live.lease) => Ok(Some(LAST_MOMENT)),
            None => {
                *over = Some(live.lease);
                Err(IsOver)
            }
        })
    }

    /// What was written is to be believed.
    pub(super) async fn settled(
        &self,
        reading: &PoolReading,
        head: Head,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        match self.settle(&reading.epochal, head, deadline).await? {
            Some(new) => Err(StoreError::new_epoch(reading.epochal.standing.epoch, new)),
            None => Ok(()),
        }
    }

    /// What a transaction has found instead.
    pub(super) async fn changed(
        &self,
        asked: &Asked<'_>,
        found: PoolReading,
        head: Head,
        deadline: Instant,
    ) -> Result<PoolReading, StoreError> {
        match self.settle(&found.epochal, head, deadline).await? {
            Some(_) => self.read_pool(asked, deadline).await,
            None => self.read_rest(asked, found, deadline).await,
        }
    }

    /// What a decision about a slot makes of it.
    #[allow(clippy::too_many_arguments, reason = "what was read, what was decided, and when")]
    pub(super) fn plan_slot(
        &self,
        asked: &Asked<'_>,
        number: u16,
        reading: &PoolReading,
        before: &Before,
        slot: &SlotRow,
        effects: &Effects,
        at: &At,
    ) -> SlotPlan {
        let mut plan = SlotPlan::default();
        let until = slot.row.lease.as_ref().map(|held| held.expires_at);
        plan.live = match (effects.write, until) {
            // That a lease has run out stays so by itself: its key never comes back.
            (Write::Nothing | Write::Observation, _) => return plan,
            (Write::Renewal, until) if until <= before.until => Live::Stays,
            (_, Some(until)) => Live::For(until.saturating_sub(at.now)),
            // Closed for as long as the lease that was revoked would have lasted: the cluster goes on counting it.
            (_, None) if slot.freed_at.is_some_and(|free| free > at.now) => Live::Stays,
            (_, None) => Live::Goes,
        };
        let floor = reading.epochal.standing.floor;
        let last = match slot.row.last_issued {
            Some(token) if slot.row.last_issued == before.last => Last::Known(token),
            _ => Last::Now { floor },
        };
        plan.state = Some(SlotState::of(slot, last, at));
        // A pool whose name has no room for a number has no slots, and no history.
        if let (Some(_), Ok(name)) = (self.options.limits.history, slot_name(asked.pool, number)) {
            let hold = |entry: &HistoryEntry, last| {
                TxnOp::put(self.keys.hold(&name, entry.token), write_hold(entry, last), None)
            };
            plan.then.extend(effects.ended.as_ref().map(|entry| hold(entry, Last::Known(entry.token))));
            plan.then.extend(effects.burnt.as_ref().map(|entry| hold(entry, Last::Now { floor })));
            plan.records = (!plan.then.is_empty()).then_some(name);
        }
        plan
    }

    /// Writes it where all stands as it was read.
    pub(super) async fn carry_out_slot(
        self: &Arc<Self>,
        asked: &Asked<'_>,
        number: u16,
        plan: &SlotPlan,
        reading: &PoolReading,
        own: &mut OwnLease,
        deadline: Instant,
    ) -> Result<SlotCarried, StoreError> {
        let (keys, pool) = (&self.keys, asked.pool);
        let lease = match plan.live {
            Live::For(ttl) => Some(own.at_least(self, ttl, deadline).await?),
            Live::Stays | Live::Goes => None,
        };
        let (mut when, mut then) = (plan.when.clone(), plan.then.clone());
        match &plan.state {
            Some(state) => {
                when.extend(reading.stands(keys, pool, number));
                let text = state.clone().on(lease).write();
                then.push(TxnOp::put(keys.slot(pool, number.into()), text, None));
            }
            None => when.push(same(keys.standing(), reading.epochal.revision)),
        }
        if let Some(lease) = lease {
            let on = PutOptions::new().with_lease(lease.id);
            then.push(TxnOp::put(keys.slot_live(pool, number.into()), OWN, Some(on)));
        }
        if plan.state.is_some() && matches!(plan.live, Live::Goes) {
            then.push(TxnOp::delete(keys.slot_live(pool, number.into()), None));
        }
        let txn = Txn::new().when(when).and_then(then).or_else(asked.ops(keys));
        let (answer, head) = match self.transact(txn, deadline).await {
            // Nothing was done; another is asked for.
            Err(error) if error.kind() == ErrorKind::Busy => {
                own.forget();
                self.leases.forget_marks().await;
                return Ok(SlotCarried::LeaseGone);
            }
            other => other?,
        };
        if !answer.succeeded() {
            return Ok(SlotCarried::Changed(Box::new(asked.read(keys, &answer, head.revision)?), head));
        }
        if lease.is_some() {
            own.forget();
        }
        Ok(SlotCarried::Out(Head { wrote: true, ..head }, lease))
    }

    /// Takes note of what was written. The lease that a live key stood on before is given back.
    pub(super) fn slot_written(
        self: &Arc<Self>,
        pool: &ResourceName,
        number: u16,
        reading: &PoolReading,
        plan: SlotPlan,
        head: Head,
        lease: Option<EtcdLease>,
    ) -> Outcome {
        let mut outcome = Outcome { token: None, ttl: lease.map(|lease| lease.ttl) };
        let Some(state) = plan.state else { return outcome };
        let mut state = state.on(lease);
        let before = reading.slots.get(&number).and_then(|kept| kept.live);
        let live = match plan.live {
            Live::Stays => before,
            Live::Goes | Live::For(_) => {
                if let Some(old) = before {
                    self.leases.give_back(old.lease);
                }
                lease.map(|lease| LiveKey { revision: head.revision, lease: lease.id, shared: false })
            }
        };
        if let (Last::Now { .. }, Some(token)) = (state.last, state.last.token(head.revision)) {
            outcome.token = Some(token);
            state.last = Last::Known(token);
        }
        let kept = Kept { state, revision: head.revision, live };
        self.note_slot(pool, number, reading.guess(number, Some(kept)));
        if let Some(name) = plan.records {
            self.trim_at_times(&name);
        }
        outcome
    }
}

impl SlotState {
    /// As it is under the lease that the cluster has granted, which may last longer than was asked for.
    fn on(mut self, lease: Option<EtcdLease>) -> Self {
        if let (Some(lease), Some(held)) = (lease, &mut self.held) {
            held.ttl = lease.ttl;
            let now = decide::wall(&At { now: Duration::ZERO, wall: self.at });
            self.free_from = self.free_from.max(now.checked_add(lease.ttl));
        }
        self
    }
}

impl Outcome {
    /// With the token that the transaction issued, and the time for which the cluster granted it.
    pub(super) fn told(self, lease: SlotLease) -> SlotLease {
        SlotLease { token: self.token.unwrap_or(lease.token), ttl: self.ttl.unwrap_or(lease.ttl), ..lease }
    }
}

/// It is not there any more, and what stood on it is to be read anew.
pub(super) struct IsOver;

/// What stood before a decision.
pub(super) struct Before {
    last: Option<FencingToken>,
    until: Option<Duration>,
}

impl Before {
    pub(super) fn of(slot: &SlotRow) -> Self {
        Self { last: slot.row.last_issued, until: slot.row.lease.as_ref().map(|held| held.expires_at) }
    }
}

/// What a transaction is to write, and what it depends on beside the version of the slot.
#[derive(Default)]
pub(super) struct SlotPlan {
    pub(super) when: Vec<Compare>,
    pub(super) then: Vec<TxnOp>,
    state: Option<SlotState>,
    live: Live,
    /// Under this name a hold goes into the history.
    records: Option<ResourceName>,
}

/// What becomes of the live key.
#[derive(Clone, Copy, Default)]
enum Live {
    #[default]
    Stays,
    Goes,
    /// It is to stand on a lease for at least this long.
    For(Duration),
}

impl SlotPlan {
    fn is_empty(&self) -> bool {
        self.state.is_none() && self.then.is_empty()
    }

    /// Only where there is no key of this name.
    pub(super) fn only_without(&mut self, key: Vec<u8>) {
        self.when.push(Compare::version(key, CompareOp::Equal, 0));
    }
}

pub(super) enum SlotCarried {
    Out(Head, Option<EtcdLease>),
    Changed(Box<PoolReading>, Head),
    LeaseGone,
}
