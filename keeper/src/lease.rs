//! A lease as its holder sees it.

use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lease_machines::{FencingToken, Holder, HolderState, OwnerId};
use lease_machines_store::{Epoch, LeaseRef, ResourceName};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fork::Process;
use crate::scheduler::{Hub, Order};
use crate::{LossReason, StopCause};

/// Where a lease stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LeaseState {
    /// The last answer confirmed it.
    Confirmed,
    /// A renewal is outstanding. Nothing is wrong yet.
    Unconfirmed,
    /// The warning deadline has passed without a confirmation. Work that can come to a safe point should.
    AtRisk,
    /// It is over: it ran out, or was taken, revoked or lost in another way.
    Expired,
    /// It is over: the resource refused the token.
    Fenced,
    /// The work was said to have ended; the lease is being released, or has been.
    Ended,
}

/// A lease that was granted, for whoever does the work. Cheap to clone; clones are the same lease. It does not keep the
/// lease: the [`Guard`](crate::Guard) does.
///
/// - **As the clock has it**, whatever else goes on: [`may_act`](Self::may_act), [`state`](Self::state),
///   [`remaining`](Self::remaining), [`loss`](Self::loss).
/// - **Told when it happens**: [`watch`](Self::watch), [`lost`](Self::lost), [`stopped`](Self::stopped),
///   [`cancellation_token`](Self::cancellation_token).
/// - **For the writes**: [`token`](Self::token), [`epoch`](Self::epoch), [`owner`](Self::owner),
///   [`resource`](Self::resource), all of them in [`lease_ref`](Self::lease_ref).
/// - **In**: [`fenced`](Self::fenced), when the resource refused the token.
#[derive(Clone)]
pub struct Lease {
    shared: Arc<Shared>,
}

impl Lease {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What it is on.
    #[must_use]
    pub fn resource(&self) -> &ResourceName {
        &self.shared.lease.resource
    }

    /// The token to write under.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.shared.lease.token
    }

    /// The owner that was drawn for this hold.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.shared.lease.owner
    }

    /// The epoch that the lease belongs to.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// All of it, as stores and fences take it.
    #[must_use]
    pub fn lease_ref(&self) -> &LeaseRef {
        &self.shared.lease
    }

    /// The state as the clock has it at this moment, also where nothing could be told yet: a process that slept past
    /// the deadline sees [`LeaseState::Expired`] in its first question.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.shared.state()
    }

    /// The states as they come. The value is as old as the last change that was seen; ask [`state`](Self::state).
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<LeaseState> {
        self.shared.states.subscribe()
    }

    /// The time left until the work must have stopped; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    /// Whether the work may act now: what a writer asks before each write. It is a hint to the honest; between the
    /// question and the write a process can sleep. Only a fence is sure.
    #[must_use]
    pub fn may_act(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Why it was lost, if it was.
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.shared.loss()
    }

    /// Why the work is to end, if it is and has been told.
    #[must_use]
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.shared.cause.get().cloned()
    }

    /// Resolves with the reason once the lease is lost, by the local clock alone where the store says nothing. Never
    /// resolves for a lease that is released in time.
    pub async fn lost(&self) -> LossReason {
        let mut states = self.shared.states.subscribe();
        loop {
            if let Some(loss) = self.shared.told_loss() {
                return loss;
            }
            if states.changed().await.is_err() {
                return pending().await;
            }
        }
    }

    /// Resolves once the work is to end, for whatever reason.
    pub async fn stopped(&self) -> StopCause {
        self.shared.stop.cancelled().await;
        self.shared.cause.get().cloned().unwrap_or(StopCause::Ended)
    }

    /// Cancelled once the work is to end, for whatever reason: lost, held for too long, or said to have ended. A child
    /// of the lease's own: cancelling it ends nothing but what was made from it.
    ///
    /// Work on threads of its own (`spawn_blocking`) is not stopped by this unless it looks: the fence is for that.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.shared.stop.child_token()
    }

    /// The resource refused the token: a newer holder has been there, so the lease is lost, whatever the store says.
    pub fn fenced(&self) {
        if self.shared.process.is_current() {
            self.shared.close(LeaseState::Fenced);
            self.shared.hub.submit(Order::Fenced(self.shared.id));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("lease", &self.shared.lease).field("state", &self.state()).finish()
    }
}

/// What the scheduler and the lease's holders share.
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) id: u64,
    pub(crate) process: Process,
    pub(crate) lease: LeaseRef,
    pub(crate) epoch: Epoch,
    /// Nanoseconds on the clock: from then on nothing may be done. Zero once it is over.
    deadline: AtomicU64,
    view: Mutex<View>,
    states: watch::Sender<LeaseState>,
    stop: CancellationToken,
    cause: OnceLock<StopCause>,
    loss: OnceLock<LossReason>,
}

struct View {
    holder: Holder,
    /// Set once it is over for another reason than the clock: nothing the scheduler still believes opens it again.
    closed: Option<LeaseState>,
}

impl Shared {
    pub(crate) fn new(hub: Arc<Hub>, id: u64, lease: LeaseRef, epoch: Epoch, holder: Holder) -> Self {
        let shared = Self {
            process: Process::current(),
            hub,
            id,
            lease,
            epoch,
            deadline: AtomicU64::new(0),
            view: Mutex::new(View { holder, closed: None }),
            states: watch::Sender::new(LeaseState::Confirmed),
            stop: CancellationToken::new(),
            cause: OnceLock::new(),
            loss: OnceLock::new(),
        };
        let deadline = shared.view().holder.stop_deadline();
        shared.deadline.store(deadline.map_or(0, nanos), Ordering::Release);
        shared
    }

    /// The scheduler's view of the lease at `now`.
    pub(crate) fn publish(&self, holder: &Holder, now: Duration) {
        let mut view = self.view();
        view.holder.clone_from(holder);
        if view.closed.is_none() {
            let deadline = holder.stop_deadline().map_or(0, nanos);
            self.deadline.store(deadline, Ordering::Release);
            let state = seen(holder.state_at(now));
            self.states.send_if_modified(|last| std::mem::replace(last, state) != state);
        }
    }

    /// It is lost; only the first reason counts.
    pub(crate) fn lose(&self, reason: LossReason) {
        let state = match reason {
            LossReason::Fenced => LeaseState::Fenced,
            _ => LeaseState::Expired,
        };
        let _ = self.loss.set(reason.clone());
        let _ = self.cause.set(StopCause::Lost(reason));
        self.close(state);
        self.stop.cancel();
    }

    /// The work is to end, though the lease stands.
    pub(crate) fn stop(&self, cause: StopCause) {
        let _ = self.cause.set(cause);
        self.stop.cancel();
    }

    /// Its holder says that the work has ended.
    pub(crate) fn end(&self) {
        if self.loss.get().is_none() {
            self.close(LeaseState::Ended);
        }
        self.stop(StopCause::Ended);
    }

    /// The reason, once the scheduler has told it.
    pub(crate) fn told_loss(&self) -> Option<LossReason> {
        if self.process.is_current() { self.loss.get().cloned() } else { Some(LossReason::Forked) }
    }

    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.told_loss().or_else(|| match self.state() {
            LeaseState::Expired => Some(LossReason::Expired),
            LeaseState::Fenced => Some(LossReason::Fenced),
            _ => None,
        })
    }

    fn remaining(&self) -> Duration {
        if !self.process.is_current() {
            return Duration::ZERO;
        }
        let deadline = Duration::from_nanos(self.deadline.load(Ordering::Acquire));
        deadline.saturating_sub(self.hub.clock.now())
    }

    fn state(&self) -> LeaseState {
        // First, since the lock may have been held by another thread when the process was forked.
        if !self.process.is_current() {
            return LeaseState::Expired;
        }
        let view = self.view();
        view.closed.unwrap_or_else(|| seen(view.holder.state_at(self.hub.clock.now())))
    }

    fn close(&self, state: LeaseState) {
        let mut view = self.view();
        view.closed = Some(state);
        self.deadline.store(0, Ordering::Release);
        self.states.send_replace(state);
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seen(state: HolderState) -> LeaseState {
    match state {
        HolderState::Confirmed => LeaseState::Confirmed,
        HolderState::Unconfirmed => LeaseState::Unconfirmed,
        HolderState::AtRisk => LeaseState::AtRisk,
        HolderState::Fenced => LeaseState::Fenced,
        _ => LeaseState::Expired,
    }
}

/// An instant too far off to be counted in nanoseconds is some 584 years away.
fn nanos(instant: Duration) -> u64 {
    u64::try_from(instant.as_nanos()).unwrap_or(u64::MAX)
}
