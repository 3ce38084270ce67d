//! The task that keeps all leases of one process on one store.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{Command, Event};
use lease_machines_store::LeaseRef;
use tokio::task::Id;

use super::calls::{Ask, Call, Calls, Kind, Reply, each};
use super::entry::{Entry, Waiting};
use super::hub::{Hub, Order};
use super::queue::Queue;
use crate::lease::Shared;
use crate::{MarkError, Timer, telemetry};

/// How long the release of a grant that came too late is waited for.
const STRAY_LIMIT: Duration = Duration::from_secs(5);

/// Carries out what the keepers of the leases say. Nothing here waits for the store alone: calls are tasks of their
/// own, and whatever comes first (an order, a reply, an instant) is looked at.
pub(super) struct Driver {
    hub: Arc<Hub>,
    timer: Box<dyn Timer>,
    entries: HashMap<u64, Box<Entry>>,
    queue: Queue<Due>,
    calls: Calls,
    batch: Batch,
    /// Nothing is left to do, and nothing will come: another task takes the next order.
    resting: bool,
}

enum Due {
    Lease(u64),
    Limit(Id),
}

/// Renewals that leave together.
#[derive(Default)]
struct Batch {
    asks: Vec<Ask>,
    leases: Vec<(LeaseRef, Duration)>,
    limit: Duration,
}

impl Driver {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self {
            timer: hub.clock.timer(),
            calls: Calls::new(Arc::clone(&hub.store)),
            hub,
            entries: HashMap::new(),
            queue: Queue::new(),
            batch: Batch::default(),
            resting: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            for order in self.hub.take_orders() {
                self.obey(order);
            }
            while let Some((id, reply)) = self.calls.try_next() {
                self.landed(id, reply);
            }
            let now = self.hub.clock.now();
            while let Some(due) = self.queue.pop_due(now) {
                match due {
                    Due::Lease(id) => self.attend(id, None, now),
                    Due::Limit(call) => self.calls.abort(call),
                }
            }
            self.renew_together(now);
            self.resting = self.entries.is_empty() && self.calls.is_empty() && self.hub.rest();
            if self.resting {
                return;
            }
            self.wait().await;
        }
    }

    async fn wait(&mut self) {
        let next = self.queue.next();
        let timer = &mut self.timer;
        let instant = poll_fn(|cx| timer.poll_until(next.unwrap_or(Duration::MAX), cx));
        let landed = tokio::select! {
            () = self.hub.bell.notified() => None,
            landed = self.calls.next(), if !self.calls.is_empty() => landed,
            () = instant, if next.is_some() => None,
        };
        if let Some((id, reply)) = landed {
            self.landed(id, reply);
        }
    }

    fn obey(&mut self, order: Order) {
        let now = self.hub.clock.now();
        match order {
            Order::Hold(request) => {
                let id = request.id;
                let tells_expired = self.hub.store.capabilities().tells_expired;
                self.entries.insert(id, Box::new(Entry::new(*request, tells_expired)));
                self.attend(id, None, now);
            }
            Order::Take(id) => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.held_back = false;
                    self.attend(id, None, now);
                }
            }
            Order::GiveUp(id) => match self.entries.get_mut(&id) {
                Some(entry) => {
                    entry.winding_up += 1;
                    let event = entry.give_up();
                    self.attend(id, Some(event), now);
                }
                None => self.hub.wound_up(1),
            },
            Order::Finish { id, result, reply } => match self.entries.get_mut(&id) {
                Some(entry) => {
                    entry.winding_up += 1;
                    entry.finish(result, reply);
                    self.attend(id, Some(Event::WorkFinished), now);
                }
                None => self.hub.wound_up(1),
            },
            Order::Fenced(id) => self.attend(id, Some(Event::Fenced), now),
        }
    }

    /// Takes in what came of a call.
    fn landed(&mut self, id: Id, reply: Option<Reply>) {
        let Some(call) = self.calls.take(id) else { return };
        if let Some(place) = call.place {
            self.queue.remove(place);
        }
        let now = self.hub.clock.now();
        match reply {
            Some(Reply::Renewed(replies)) => {
                for (ask, reply) in call.asks.iter().zip(each(replies)) {
                    self.answered(*ask, now, |entry| entry.renewed(ask.attempt, call.sent, reply));
                }
            }
            Some(Reply::StrayReleased) => {}
            reply => {
                if let Some(ask) = call.asks.first() {
                    self.answered_alone(id, &call, *ask, reply, now);
                }
                // A renewal that was given up, or whose store panicked, was for many.
                for ask in call.asks.iter().skip(1) {
                    self.attend(ask.lease, Some(Event::NoAnswer { attempt: ask.attempt }), now);
                }
            }
        }
    }

    /// What came of a call that was made for one lease, or of any without a reply.
    fn answered_alone(&mut self, id: Id, call: &Call, ask: Ask, reply: Option<Reply>, now: Duration) {
        let Some(entry) = self.entries.get_mut(&ask.lease) else { return };
        let awaited = entry.call == Some(id);
        if awaited {
            entry.call = None;
        }
        let attempt = ask.attempt;
        match reply {
            Some(Reply::Acquired(reply)) => {
                self.answered(ask, now, |entry| entry.acquired(attempt, call.sent, reply));
            }
            Some(Reply::Released(reply)) => self.answered(ask, now, |entry| entry.released(attempt, reply)),
            Some(Reply::Withdrawn(reply)) => self.answered(ask, now, |entry| entry.withdrawn(attempt, reply)),
            Some(Reply::Woken(reply)) => {
                entry.wait = Waiting::Over;
                if reply.is_ok() {
                    self.attend(ask.lease, Some(Event::Woken), now);
                }
            }
            Some(Reply::Fenced(reply)) if awaited => self.advanced(ask.lease, reply, now),
            Some(Reply::Fenced(_) | Reply::Renewed(_) | Reply::StrayReleased) => {}
            None => match call.kind {
                Kind::Request => self.attend(ask.lease, Some(Event::NoAnswer { attempt }), now),
                Kind::Wait => entry.wait = Waiting::Over,
                Kind::Fences if awaited => {
                    let error = "the code that advances it panicked".into();
                    self.advanced(ask.lease, Err(MarkError::Unavailable(error)), now);
                }
                Kind::Fences | Kind::Stray => {}
            },
        }
    }

    fn answered(&mut self, ask: Ask, now: Duration, read: impl FnOnce(&mut Entry) -> Event) {
        if let Some(entry) = self.entries.get_mut(&ask.lease) {
            let event = read(entry);
            telemetry::answered(&event);
            self.attend(ask.lease, Some(event), now);
        }
    }

    fn advanced(&mut self, id: u64, advanced: Result<(), MarkError>, now: Duration) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.is_asked_for()) else { return };
        match advanced {
            Ok(()) => entry.deliver(),
            Err(error) => {
                let event = entry.fence_failed(error);
                self.attend(id, Some(event), now);
            }
        }
    }

    /// Tells a lease's keeper what happened, and does what it says.
    fn attend(&mut self, id: u64, event: Option<Event>, now: Duration) {
        let Some(mut entry) = self.entries.remove(&id) else { return };
        if let Some(place) = entry.place.take() {
            self.queue.remove(place);
        }
        if let Some(event) = event {
            entry.keeper.handle(event, now);
        }
        if entry.shared.is_none() && entry.keeper.holder().is_some() {
            self.begin(id, &mut entry, now);
        }
        let over = if entry.held_back {
            self.hold_back(id, &mut entry, now)
        } else {
            self.command(id, &mut entry, now)
        };
        if let (Some(shared), Some(holder)) = (&entry.shared, entry.keeper.holder()) {
            shared.publish(holder, now);
        }
        if over {
            self.leave(&mut entry, now);
        } else {
            self.entries.insert(id, entry);
        }
    }

    /// Does what the keeper says until it says to wait; true once it is over.
    fn command(&mut self, id: u64, entry: &mut Entry, now: Duration) -> bool {
        // No keeper asks for an instant that has passed. One that did would keep everybody else waiting.
        let later = now.saturating_add(Duration::from_nanos(1));
        loop {
            let until = match entry.keeper.poll(now) {
                Some(Command::WaitUntil(until)) => until,
                Some(Command::AwaitVacancy { until }) => {
                    if entry.wait == Waiting::No {
                        let limit = until.saturating_sub(now);
                        let ask = Ask { lease: id, attempt: 0 };
                        let call = self.calls.wait(ask, now, entry.claim.resource.clone(), limit);
                        entry.wait = Waiting::Asked(call);
                    }
                    until
                }
                Some(command) => {
                    self.carry_out(id, entry, command, now);
                    continue;
                }
                None => return true,
            };
            entry.place = Some(self.queue.push(until.max(later), Due::Lease(id)));
            return false;
        }
    }

    /// Lets a lease that nobody has taken yet run towards its end; true once that has come.
    fn hold_back(&mut self, id: u64, entry: &mut Entry, now: Duration) -> bool {
        entry.keeper.handle(Event::Tick, now);
        match entry.keeper.stop_deadline() {
            Some(deadline) => {
                entry.place = Some(self.queue.push(deadline, Due::Lease(id)));
                false
            }
            None => true,
        }
    }

    fn carry_out(&mut self, id: u64, entry: &mut Entry, command: Command, now: Duration) {
        telemetry::asked(&command);
        match command {
            Command::Acquire { attempt, ttl, limit } => {
                self.acquire(id, entry, attempt, ttl, limit, now, false)
            }
            Command::Reacquire { attempt, ttl, limit } => {
                self.acquire(id, entry, attempt, ttl, limit, now, true);
            }
            Command::Renew { attempt, token, ttl, limit } => {
                self.batch.asks.push(Ask { lease: id, attempt });
                self.batch.leases.push((entry.lease_ref(token), ttl));
                self.batch.limit = self.batch.limit.max(limit);
            }
            Command::Release { attempt, token, limit } => {
                let (lease, ending) = (entry.lease_ref(token), entry.ending());
                let call = self.calls.release(Ask { lease: id, attempt }, now, lease, ending);
                self.made(entry, call, limit);
            }
            Command::Withdraw { attempt, limit } => {
                let call = self.calls.withdraw(Ask { lease: id, attempt }, now, &entry.claim);
                self.made(entry, call, limit);
            }
            Command::ReleaseStray { token } => {
                let call = self.calls.release_stray(now, entry.lease_ref(token));
                self.limit(call, now.saturating_add(STRAY_LIMIT));
            }
            Command::Warn => entry.trace.at_risk(),
            Command::StopWork { reason } => entry.stop(reason),
            // Whoever asked has begun by taking it. The others were told apart before.
            Command::StartWork { .. } | Command::AwaitVacancy { .. } | Command::WaitUntil(_) => {}
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one command's fields, taken apart once")]
    fn acquire(
        &mut self,
        id: u64,
        entry: &mut Entry,
        attempt: u64,
        ttl: Duration,
        limit: Duration,
        now: Duration,
        again: bool,
    ) {
        if let Waiting::Asked(wait) = entry.wait {
            self.calls.abort(wait);
        }
        entry.wait = Waiting::No;
        entry.claim.ttl = ttl;
        entry.claim.attempt = attempt;
        let call = self.calls.acquire(Ask { lease: id, attempt }, now, entry.claim.clone(), again);
        self.made(entry, call, limit);
    }

    /// The lease is granted: its marks are advanced, then whoever asked gets it.
    fn begin(&mut self, id: u64, entry: &mut Entry, now: Duration) {
        let (Some(grant), Some(holder)) = (entry.granted(), entry.keeper.holder()) else { return };
        let (epoch, holder) = (grant.epoch, holder.clone());
        let lease = entry.lease_ref(holder.token());
        let shared = Shared::new(Arc::clone(&self.hub), id, lease.clone(), epoch, holder);
        entry.begin(Arc::new(shared), now);
        if entry.parts.fences.is_empty() {
            entry.deliver();
        } else {
            let fences = entry.parts.fences.clone();
            // Its limit is the end of the first term.
            entry.call = Some(self.calls.advance(Ask { lease: id, attempt: 0 }, now, fences, lease));
        }
    }

    fn made(&mut self, entry: &mut Entry, call: Id, limit: Duration) {
        if let Some(earlier) = entry.call.replace(call) {
            self.calls.abort(earlier);
        }
        self.limit(call, limit);
    }

    fn limit(&mut self, call: Id, limit: Duration) {
        let place = self.queue.push(limit, Due::Limit(call));
        self.calls.limit(call, place);
    }

    /// All renewals that fell due leave in one call.
    fn renew_together(&mut self, now: Duration) {
        if self.batch.asks.is_empty() {
            return;
        }
        let Batch { asks, leases, limit } = std::mem::take(&mut self.batch);
        telemetry::renewed_together(asks.len());
        let call = self.calls.renew(asks, now, leases);
        self.limit(call, limit);
    }

    fn leave(&mut self, entry: &mut Entry, now: Duration) {
        for call in entry.call.take().into_iter().chain(match entry.wait {
            Waiting::Asked(wait) => Some(wait),
            Waiting::No | Waiting::Over => None,
        }) {
            self.calls.abort(call);
        }
        if let Some(outcome) = entry.keeper.outcome() {
            entry.over(outcome, now);
        }
        self.hub.wound_up(entry.winding_up);
    }
}

/// The runtime goes down, or has let the task go.
impl Drop for Driver {
    fn drop(&mut self) {
        if !self.resting {
            self.entries.values().for_each(|entry| entry.abandon());
            self.hub.abandon();
        }
    }
}
