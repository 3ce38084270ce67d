//! Calls to the store that are on their way.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines_store::{
    Acquired, Claim, Ending, ErrorKind, LeaseRef, Released, Renewed, ResourceName, Store, StoreError,
};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::queue::Place;
use crate::{FenceMark, MarkError};

/// What came of a call.
pub(super) enum Reply {
    Acquired(Result<Acquired, StoreError>),
    Renewed(Result<Vec<Result<Renewed, StoreError>>, StoreError>),
    Released(Result<Released, StoreError>),
    Withdrawn(Result<Released, StoreError>),
    StrayReleased,
    Woken(Result<(), StoreError>),
    Fenced(Result<(), MarkError>),
}

/// For whom a call is made, and as which of their attempts.
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) sent: Duration,
    pub(super) asks: Vec<Ask>,
    /// Where its limit stands in the queue.
    pub(super) place: Option<Place>,
    handle: AbortHandle,
}

#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) lease: u64,
    pub(super) attempt: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Wait,
    Fences,
    Stray,
}

/// Each call is a task of its own, so that a store whose future blocks or panics stops nothing but that call. Held
/// leases have none: a renewal of them all is one call.
pub(super) struct Calls {
    store: Arc<dyn Store>,
    tasks: JoinSet<Reply>,
    calls: HashMap<Id, Call>,
}

impl Calls {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, tasks: JoinSet::new(), calls: HashMap::new() }
    }

    pub(super) fn acquire(&mut self, ask: Ask, now: Duration, claim: Claim, again: bool) -> Id {
        let store = Arc::clone(&self.store);
        self.start(Kind::Request, vec![ask], now, async move {
            Reply::Acquired(if again { store.reacquire(claim).await } else { store.acquire(claim).await })
        })
    }

    pub(super) fn renew(&mut self, asks: Vec<Ask>, now: Duration, leases: Vec<(LeaseRef, Duration)>) -> Id {
        let store = Arc::clone(&self.store);
        self.start(Kind::Request, asks, now, async move { Reply::Renewed(store.renew_many(leases).await) })
    }

    pub(super) fn release(&mut self, ask: Ask, now: Duration, lease: LeaseRef, ending: Ending) -> Id {
        let store = Arc::clone(&self.store);
        self.start(Kind::Request, vec![ask], now, async move {
            Reply::Released(store.release(lease, ending).await)
        })
    }

    pub(super) fn withdraw(&mut self, ask: Ask, now: Duration, claim: &Claim) -> Id {
        let store = Arc::clone(&self.store);
        let (resource, owner) = (claim.resource.clone(), claim.owner);
        self.start(Kind::Request, vec![ask], now, async move {
            Reply::Withdrawn(store.withdraw(resource, owner).await)
        })
    }

    pub(super) fn release_stray(&mut self, now: Duration, lease: LeaseRef) -> Id {
        let store = Arc::clone(&self.store);
        self.start(Kind::Stray, Vec::new(), now, async move {
            // A lease that nobody knows of ends by itself where this comes to nothing.
            let _ = store.release(lease, Ending::default()).await;
            Reply::StrayReleased
        })
    }

    pub(super) fn wait(&mut self, ask: Ask, now: Duration, resource: ResourceName, limit: Duration) -> Id {
        let store = Arc::clone(&self.store);
        self.start(Kind::Wait, vec![ask], now, async move { Reply::Woken(store.wait(resource, limit).await) })
    }

    pub(super) fn advance(
        &mut self,
        ask: Ask,
        now: Duration,
        fences: Vec<Arc<dyn FenceMark>>,
        lease: LeaseRef,
    ) -> Id {
        self.start(Kind::Fences, vec![ask], now, async move {
            for fence in fences {
                if let Err(error) = fence.advance(lease.clone()).await {
                    return Reply::Fenced(Err(error));
                }
            }
            Reply::Fenced(Ok(()))
        })
    }

    fn start(
        &mut self,
        kind: Kind,
        asks: Vec<Ask>,
        sent: Duration,
        call: impl Future<Output = Reply> + Send + 'static,
    ) -> Id {
        let handle = self.tasks.spawn(call);
        let id = handle.id();
        self.calls.insert(id, Call { kind, sent, asks, place: None, handle });
        id
    }

    /// Remembers where the call's limit stands in the queue.
    pub(super) fn limit(&mut self, id: Id, place: Place) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.place = Some(place);
        }
    }

    /// Waits for the call no longer. Its end is still reported, without a reply.
    pub(super) fn abort(&mut self, id: Id) {
        if let Some(call) = self.calls.get(&id) {
            call.handle.abort();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next call that has ended, with its reply if there is one.
    pub(super) async fn next(&mut self) -> Option<(Id, Option<Reply>)> {
        self.tasks.join_next_with_id().await.map(ended)
    }

    pub(super) fn try_next(&mut self) -> Option<(Id, Option<Reply>)> {
        self.tasks.try_join_next_with_id().map(ended)
    }

    pub(super) fn take(&mut self, id: Id) -> Option<Call> {
        self.calls.remove(&id)
    }
}

fn ended(joined: Result<(Id, Reply), JoinError>) -> (Id, Option<Reply>) {
    match joined {
        Ok((id, reply)) => (id, Some(reply)),
        // Aborted, or the store panicked: nobody knows what was done.
        Err(error) => (error.id(), None),
    }
}

/// What a renewal of many says to each of them, however many it was asked for.
pub(super) fn each(
    replies: Result<Vec<Result<Renewed, StoreError>>, StoreError>,
) -> impl Iterator<Item = Result<Renewed, StoreError>> {
    let (replies, rest) = match replies {
        Ok(replies) => (
            replies,
            StoreError::new(ErrorKind::Unreachable, "the store's answer said nothing of this lease"),
        ),
        Err(error) => (Vec::new(), error),
    };
    replies.into_iter().chain(std::iter::repeat_with(move || Err(rest.clone())))
}
