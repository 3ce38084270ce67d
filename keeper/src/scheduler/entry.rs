//! One lease, as the scheduler sees it.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::{Event, FencingToken, Keeper, Loss, NotHeld, Outcome, StopReason};
use lease_machines_store::{
    Acquired, Claim, End, Ending, ErrorKind, Grant, LeaseRef, Occupant, Rejected, Released, Renewed,
    StoreError, Vacated, VacatedHow, WorkResult,
};
use tokio::sync::oneshot;
use tokio::task::Id;

use super::hub::Request;
use super::queue::Place;
use crate::error::{AlreadyDone, Occupied};
use crate::lease::Shared;
use crate::options::Parts;
use crate::telemetry::Trace;
use crate::{HoldError, LossReason, MarkError, StopCause, Verdict};

/// A lease that is asked for, held or given back.
pub(super) struct Entry {
    pub(super) keeper: Keeper,
    pub(super) claim: Claim,
    pub(super) parts: Parts,
    pub(super) trace: Trace,
    /// The lease as its holder sees it, from the grant on.
    pub(super) shared: Option<Arc<Shared>>,
    /// When it wants to be looked at again.
    pub(super) place: Option<Place>,
    /// The call that is made for this lease alone: an acquire, a release, a withdrawal.
    pub(super) call: Option<Id>,
    pub(super) wait: Waiting,
    /// It is granted, and whoever asked has not taken it yet: the keeper is not told to begin, so nothing is renewed, and
    /// a question that nobody waits for any more leaves nothing held beyond the first term.
    pub(super) held_back: bool,
    /// Orders that whoever is through with the lease waits for.
    pub(super) winding_up: usize,
    asked: Duration,
    began: Duration,
    /// Who asked, until it is answered.
    asker: Option<oneshot::Sender<Result<Arc<Shared>, HoldError>>>,
    /// Who said that the work has ended, and waits for the verdict.
    finisher: Option<oneshot::Sender<Verdict>>,
    ending: Ending,
    grant: Option<Grant>,
    // What the store said last, for whoever asks why.
    error: Option<Arc<StoreError>>,
    occupant: Option<Occupant>,
    vacated: Option<Vacated>,
    done: Option<End>,
    fence: Option<MarkError>,
    tells_expired: bool,
}

/// The wait for the resource to be free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    No,
    /// The store is asked to say when.
    Asked(Id),
    /// It has said so, or failed. Until the next acquire it is not asked again.
    Over,
}

impl Entry {
    pub(super) fn new(request: Request, tells_expired: bool) -> Self {
        let seed = request.claim.owner.value();
        Self {
            keeper: Keeper::new(request.options, seed, request.asked),
            claim: request.claim,
            parts: request.parts,
            trace: request.trace,
            shared: None,
            place: None,
            call: None,
            wait: Waiting::No,
            held_back: false,
            winding_up: 0,
            asked: request.asked,
            began: request.asked,
            asker: Some(request.answer),
            finisher: None,
            ending: Ending::default(),
            grant: None,
            error: None,
            occupant: None,
            vacated: None,
            done: None,
            fence: None,
            tells_expired,
        }
    }

    pub(super) fn lease_ref(&self, token: FencingToken) -> LeaseRef {
        let epoch = self.grant.map(|grant| grant.epoch);
        LeaseRef::new(self.claim.resource.clone(), self.claim.owner, token, epoch)
    }

    pub(super) fn ending(&self) -> Ending {
        self.ending.clone()
    }

    pub(super) fn granted(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// Whoever asked is still waiting.
    pub(super) fn is_asked_for(&self) -> bool {
        self.asker.is_some()
    }

    // What happened, as the keeper takes it.

    pub(super) fn acquired(
        &mut self,
        attempt: u64,
        sent: Duration,
        reply: Result<Acquired, StoreError>,
    ) -> Event {
        let event = Acquired::event(&reply, attempt, sent);
        match reply {
            Ok(Acquired::Granted(grant)) => {
                self.grant = Some(grant);
                self.error = None;
            }
            Ok(Acquired::AlreadyDone(end)) => self.done = Some(end),
            Ok(Acquired::Rejected(rejected)) => self.rejected(rejected),
            Err(error) => self.error = Some(Arc::new(error)),
            Ok(_) => {}
        }
        event
    }

    pub(super) fn renewed(
        &mut self,
        attempt: u64,
        sent: Duration,
        reply: Result<Renewed, StoreError>,
    ) -> Event {
        let event = Renewed::event(&reply, attempt, sent);
        match reply {
            Ok(Renewed::Renewed(_)) => self.error = None,
            Ok(Renewed::Rejected(rejected)) => self.rejected(rejected),
            Err(error) => self.error = Some(Arc::new(error)),
            Ok(_) => {}
        }
        event
    }

    pub(super) fn released(&mut self, attempt: u64, reply: Result<Released, StoreError>) -> Event {
        let event = Released::event(&reply, attempt);
        match reply {
            Ok(Released::Rejected(rejected)) => self.rejected(rejected),
            Err(error) => self.error = Some(Arc::new(error)),
            Ok(_) => {}
        }
        event
    }

    pub(super) fn withdrawn(&mut self, attempt: u64, reply: Result<Released, StoreError>) -> Event {
        match reply {
            // Nothing to vacate is as good as vacated, and the reason why nothing is held stays what it was.
            Ok(_) => Event::Released { attempt },
            Err(_) => Event::NotDone { attempt },
        }
    }

    fn rejected(&mut self, rejected: Rejected) {
        self.error = None;
        self.occupant = rejected.occupant;
        self.vacated = rejected.vacated;
    }

    // What the keeper said, as those who wait for it take it.

    /// The lease is granted; its work may begin once the marks are advanced.
    pub(super) fn begin(&mut self, shared: Arc<Shared>, now: Duration) {
        self.began = now;
        self.trace.granted(shared.lease.token, shared.epoch, now.saturating_sub(self.asked));
        self.shared = Some(shared);
        self.held_back = true;
    }

    /// Hands the lease to whoever asked. Where nobody does any more, an order to give it up is on its way.
    pub(super) fn deliver(&mut self) {
        if let (Some(asker), Some(shared)) = (self.asker.take(), &self.shared) {
            let _ = asker.send(Ok(Arc::clone(shared)));
        }
    }

    /// A mark could not be advanced: the work does not begin, and what was granted is vacated.
    pub(super) fn fence_failed(&mut self, error: MarkError) -> Event {
        self.fence = Some(error);
        self.held_back = false;
        if let Some(shared) = &self.shared {
            shared.end();
        }
        Event::StopRequested
    }

    /// The work is told to end.
    pub(super) fn stop(&self, reason: StopReason) {
        let Some(shared) = &self.shared else { return };
        match reason {
            StopReason::Lost(loss) => {
                let reason = self.reason(loss);
                self.trace.lost(&reason);
                shared.lose(reason);
            }
            StopReason::MaxHold => shared.stop(StopCause::MaxHold),
            StopReason::Requested => shared.stop(StopCause::Ended),
        }
    }

    /// Whoever held the lease is through with it.
    pub(super) fn finish(&mut self, result: WorkResult, reply: Option<oneshot::Sender<Verdict>>) {
        let once = self.claim.once.clone().filter(|_| result == WorkResult::Good);
        self.ending = Ending::new(result).with_once(once).with_at_least(self.parts.at_least);
        self.finisher = reply;
    }

    /// Nobody will hear of the lease: it is given back as if it had not been.
    pub(super) fn give_up(&mut self) -> Event {
        self.asker = None;
        if let Some(shared) = &self.shared {
            shared.end();
        }
        // What was taken has been begun, and is released; what was not is withdrawn.
        if std::mem::take(&mut self.held_back) || self.shared.is_none() {
            Event::StopRequested
        } else {
            Event::WorkFinished
        }
    }

    /// It is over: tells whoever waits.
    pub(super) fn over(&mut self, outcome: Outcome, now: Duration) {
        let verdict = match outcome {
            Outcome::Stood => Verdict::Stood,
            Outcome::Unconfirmed => Verdict::Unconfirmed,
            Outcome::Lost(loss) => Verdict::Lost(self.lost(loss)),
            Outcome::NotHeld(why) => return self.not_held(why, now),
        };
        self.trace.ended(&verdict, now.saturating_sub(self.began));
        if let Some(finisher) = self.finisher.take() {
            let _ = finisher.send(verdict);
        } else if let Some(asker) = self.asker.take() {
            // The first term ran out under it.
            let error = MarkError::Unavailable("it was not answered within the lease's first term".into());
            let _ = asker.send(Err(HoldError::Fence { resource: self.claim.resource.clone(), error }));
        }
    }

    fn not_held(&mut self, why: NotHeld, now: Duration) {
        let resource = self.claim.resource.clone();
        let waited = now.saturating_sub(self.asked);
        let last = self.error.take();
        let error = match (self.fence.take(), why, last, self.done.take()) {
            (Some(error), ..) => HoldError::Fence { resource, error },
            (_, NotHeld::Occupied, ..) => {
                HoldError::Occupied(Box::new(Occupied { resource, by: self.occupant.take(), waited }))
            }
            (_, NotHeld::AlreadyDone, _, Some(end)) => {
                let key = self.claim.once.clone().unwrap_or_default();
                HoldError::AlreadyDone(Box::new(AlreadyDone { resource, key, end }))
            }
            (_, NotHeld::Refused, Some(error), _) => HoldError::Refused { resource, error },
            (_, NotHeld::Invalid(reason), ..) => HoldError::Invalid { resource, reason },
            (_, _, last, _) => HoldError::Unreachable { resource, waited, last },
        };
        self.trace.not_held(&error, waited);
        if let Some(asker) = self.asker.take() {
            let _ = asker.send(Err(error));
        }
    }

    /// The reason in full; the first one that was told counts.
    fn lost(&self, loss: Loss) -> LossReason {
        let Some(shared) = &self.shared else { return self.reason(loss) };
        shared.told_loss().unwrap_or_else(|| {
            let reason = self.reason(loss);
            self.trace.lost(&reason);
            shared.lose(reason.clone());
            reason
        })
    }

    fn reason(&self, loss: Loss) -> LossReason {
        match loss {
            Loss::Unreachable => LossReason::Unreachable { last: self.error.clone() },
            Loss::Taken => LossReason::Taken { by: self.occupant.clone() },
            Loss::Vacated => match self.vacated.as_ref().map(|vacated| vacated.how) {
                Some(VacatedHow::Revoked) => LossReason::Revoked,
                // The engine removes what has run out, and then knows no more of it.
                None if !self.tells_expired => LossReason::Expired,
                _ => LossReason::Vacated,
            },
            Loss::NewEpoch => {
                let current = self.error.as_ref().and_then(|error| match error.kind() {
                    ErrorKind::NewEpoch { current } => Some(current),
                    _ => None,
                });
                match self.grant {
                    Some(grant) => LossReason::NewEpoch { held: grant.epoch, current },
                    None => LossReason::Expired,
                }
            }
            Loss::Fenced => LossReason::Fenced,
            _ => LossReason::Expired,
        }
    }

    /// The runtime goes down, and with it whatever renews.
    pub(super) fn abandon(&self) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.winding_up == 0) {
            shared.lose(LossReason::RuntimeGone);
        }
    }
}
