//! What is asked of the store, and how its answers reach the keeper.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{Command, Event, FencingToken, OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Claim, End, Ending, Epoch, GuardError, LeaseRef, MarkKey, Marks, Occupant, Rejected, Released,
    Renewed, ResourceName, StoreError,
};

use super::lessor::Lessor;

type Reply = Pin<Box<dyn Future<Output = Heard>>>;

/// What an answer means for the keeper, and what a person may want to know of it.
pub(crate) struct Heard {
    /// For the keeper.
    pub(crate) event: Event,
    /// For people.
    pub(crate) news: Option<News>,
}

/// What an answer said besides yes or no.
pub(crate) enum News {
    /// The epoch of a grant.
    Granted(Epoch),
    /// The holder that is in the way.
    Held(Occupant),
    /// Every slot of the pool is in the way.
    Full,
    /// The work was done before.
    Done(End),
    /// The call brought no decision.
    Failed(StoreError),
    /// The lease had been released before.
    AlreadyReleased,
    /// The fence has raised its mark, or refused to.
    Marked(Result<(), GuardError>),
}

/// The requests of one run. One is in flight at most; a newer one takes the place of the one before, which nobody waits
/// for any more.
pub(crate) struct Requests {
    lessor: Arc<Lessor>,
    /// Names no epoch: whichever the store is in will do.
    claim: Claim,
    /// Of the last grant.
    epoch: Option<Epoch>,
    ending: Ending,
    /// A command runs, or has run, under the lease.
    started: bool,
    in_flight: Option<Reply>,
    vacancy: Option<(Duration, Reply)>,
    /// A grant that came too late is given back beside everything else.
    stray: Option<Reply>,
    marks: Option<Arc<dyn Marks>>,
    marking: Option<Reply>,
}

impl Requests {
    /// `claim` is what an acquire asks for; its attempt and ttl are the keeper's.
    pub(crate) fn new(lessor: Lessor, claim: Claim) -> Self {
        Self {
            lessor: Arc::new(lessor),
            claim,
            epoch: None,
            ending: Ending::default(),
            started: false,
            in_flight: None,
            vacancy: None,
            stray: None,
            marks: None,
            marking: None,
        }
    }

    /// The same, with marks to be raised before the work begins.
    pub(crate) fn with_marks(mut self, marks: Option<Arc<dyn Marks>>) -> Self {
        self.marks = marks;
        self
    }

    /// Whether there is a mark to be raised.
    pub(crate) fn has_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// Raises the mark to the lease of this token; the answer is [`News::Marked`].
    pub(crate) fn advance(&mut self, token: FencingToken) {
        let mut lease = self.lease(token);
        lease.resource = self.lessor.fenced(&lease.resource);
        if self.slot().is_some() {
            // The strict guard looks among leases that are not slots.
            lease.epoch = None;
        }
        let key = MarkKey::new(lease.resource.clone());
        self.marking = self.marks.clone().map(|marks| -> Reply {
            Box::pin(async move {
                let news = News::Marked(marks.advance(key, lease).await);
                Heard { event: Event::Tick, news: Some(news) }
            })
        });
    }

    /// What a release will say of the work.
    pub(crate) fn set_ending(&mut self, ending: Ending) {
        self.ending = ending;
    }

    /// From now on a command has used what the lease is on.
    pub(crate) fn set_started(&mut self) {
        self.started = true;
    }

    /// Who asks.
    pub(crate) fn owner(&self) -> OwnerId {
        self.claim.owner
    }

    /// The slot that was granted, where the lease is on one.
    pub(crate) fn slot(&self) -> Option<u16> {
        self.lessor.slot()
    }

    /// What a fence knows the lease by.
    pub(crate) fn fenced(&self) -> ResourceName {
        self.lessor.fenced(&self.claim.resource)
    }

    /// The epoch that the lease was granted in.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Whether a late grant is still being given back.
    pub(crate) fn has_stray(&self) -> bool {
        self.stray.is_some()
    }

    /// Sends what the keeper commands. `now` is the poll's.
    pub(crate) fn send(&mut self, command: Command, now: Duration) {
        let (lessor, started) = (Arc::clone(&self.lessor), self.started);
        match command {
            Command::Acquire { attempt, ttl, .. } => {
                let claim = self.claim(attempt, ttl);
                self.in_flight =
                    Some(Box::pin(async move { claimed(attempt, now, lessor.acquire(claim, false).await) }));
            }
            Command::Reacquire { attempt, ttl, .. } => {
                let claim = self.claim(attempt, ttl);
                self.in_flight =
                    Some(Box::pin(async move { claimed(attempt, now, lessor.acquire(claim, true).await) }));
            }
            Command::Renew { attempt, token, ttl, .. } => {
                let lease = self.lease(token);
                self.in_flight =
                    Some(Box::pin(async move { renewed(attempt, now, lessor.renew(lease, ttl).await) }));
            }
            Command::Release { attempt, token, .. } => {
                let (lease, ending) = (self.lease(token), self.ending.clone());
                self.in_flight =
                    Some(Box::pin(
                        async move { released(attempt, lessor.release(lease, ending, started).await) },
                    ));
            }
            Command::Withdraw { attempt, .. } => {
                let (resource, owner) = (self.resource(), self.claim.owner);
                self.in_flight = Some(Box::pin(async move {
                    released(attempt, lessor.withdraw(resource, owner, started).await)
                }));
            }
            Command::ReleaseStray { token } => {
                let lease = self.lease(token);
                self.stray = Some(Box::pin(async move {
                    // It may come in beside the command: whose time it is, nobody looks.
                    let _ = lessor.release(lease, Ending::default(), true).await;
                    Heard { event: Event::Tick, news: None }
                }));
            }
            // Not requests.
            Command::StartWork { .. }
            | Command::Warn
            | Command::StopWork { .. }
            | Command::AwaitVacancy { .. }
            | Command::WaitUntil(_) => {}
        }
    }

    /// Watches for the release of the resource until that instant.
    pub(crate) fn await_vacancy(&mut self, until: Duration, now: Duration) {
        if self.vacancy.as_ref().is_some_and(|(watched, _)| *watched == until) {
            return;
        }
        let (lessor, resource, limit) =
            (Arc::clone(&self.lessor), self.resource(), until.saturating_sub(now));
        let watch = Box::pin(async move {
            match lessor.wait(resource, limit).await {
                Ok(()) => Heard { event: Event::Woken, news: None },
                // Whoever cannot watch asks again at the end of the wait.
                Err(error) => Heard { event: Event::Tick, news: Some(News::Failed(error)) },
            }
        });
        self.vacancy = Some((until, watch));
    }

    /// The next answer. Dropping this future loses none.
    pub(crate) async fn answer(&mut self) -> Heard {
        let Self { in_flight, vacancy, stray, marking, .. } = self;
        let heard = tokio::select! {
            biased;
            heard = landed(in_flight) => { *in_flight = None; heard }
            heard = landed(stray) => { *stray = None; heard }
            heard = landed(marking) => { *marking = None; heard }
            heard = async {
                match vacancy {
                    Some((_, watch)) => watch.await,
                    None => pending().await,
                }
            } => { *vacancy = None; heard }
        };
        if let Some(News::Granted(epoch)) = heard.news {
            self.epoch = Some(epoch);
            self.vacancy = None;
        }
        heard
    }

    fn claim(&self, attempt: u64, ttl: Duration) -> Claim {
        let mut claim = self.claim.clone().with_attempt(attempt);
        claim.ttl = ttl;
        claim
    }

    fn lease(&self, token: FencingToken) -> LeaseRef {
        LeaseRef::new(self.resource(), self.claim.owner, token, self.epoch)
    }

    fn resource(&self) -> ResourceName {
        self.claim.resource.clone()
    }
}

async fn landed(reply: &mut Option<Reply>) -> Heard {
    match reply {
        Some(reply) => reply.await,
        None => pending().await,
    }
}

fn claimed(attempt: u64, sent: Duration, answer: Result<Acquired, StoreError>) -> Heard {
    let event = Acquired::event(&answer, attempt, sent);
    let news = match answer {
        Ok(Acquired::Granted(grant)) => Some(News::Granted(grant.epoch)),
        Ok(Acquired::AlreadyDone(end)) => Some(News::Done(end)),
        Ok(Acquired::Rejected(Rejected { reason: Rejection::Occupied, occupant: None, .. })) => {
            Some(News::Full)
        }
        Ok(Acquired::Rejected(rejected)) => rejected.occupant.map(News::Held),
        Err(error) => Some(News::Failed(error)),
        Ok(_) => None,
    };
    Heard { event, news }
}

fn renewed(attempt: u64, sent: Duration, answer: Result<Renewed, StoreError>) -> Heard {
    let event = Renewed::event(&answer, attempt, sent);
    let news = match answer {
        Ok(Renewed::Rejected(rejected)) => rejected.occupant.map(News::Held),
        Err(error) => Some(News::Failed(error)),
        Ok(_) => None,
    };
    Heard { event, news }
}

fn released(attempt: u64, answer: Result<Released, StoreError>) -> Heard {
    let event = Released::event(&answer, attempt);
    let news = match answer {
        Ok(Released::AlreadyReleased) => Some(News::AlreadyReleased),
        Ok(Released::Rejected(rejected)) => rejected.occupant.map(News::Held),
        Err(error) => Some(News::Failed(error)),
        Ok(_) => None,
    };
    Heard { event, news }
}
