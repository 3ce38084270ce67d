//! A caller of a store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, Ending, Grant, LeaseRef, Released, Renewed, ResourceName, Store,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

pub(crate) const RESOURCES: usize = 100;
pub(crate) const TTL: Duration = Duration::from_secs(3600);

/// Holds some resources of a store.
pub(crate) struct Holder {
    pub(crate) store: Arc<dyn Store>,
    owner: OwnerId,
    held: Vec<(ResourceName, Grant)>,
    attempt: u64,
}

impl Holder {
    pub(crate) fn new(store: Arc<dyn Store>, owner: u64, prefix: &str, resources: usize) -> Self {
        let names: Vec<ResourceName> =
            (0..resources).map(|index| name(&format!("{prefix}-{index:07}"))).collect();
        let mut holder = Self { store, owner: OwnerId::new(owner), held: Vec::new(), attempt: 0 };
        for name in names {
            let grant = holder.take(&name);
            holder.held.push((name, grant));
        }
        holder
    }

    fn take(&mut self, name: &ResourceName) -> Grant {
        self.attempt += 1;
        let claim = Claim::new(name.clone(), self.owner, TTL).with_attempt(self.attempt).with_label("bench");
        granted(block_on(self.store.reacquire(claim)).expect("a server of one's own decides"))
    }

    /// Ends one of its leases and begins the next.
    pub(crate) fn grant(&mut self, count: usize) {
        let which = count % self.held.len();
        let name = self.held[which].0.clone();
        self.held[which].1 = self.take(&name);
    }

    pub(crate) fn renew(&mut self, count: usize) {
        let lease = self.lease(count % self.held.len());
        let renewed = block_on(self.store.renew(lease, TTL)).expect("a server of one's own decides");
        assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    }

    /// All of its leases, in one call.
    pub(crate) fn renew_all(&mut self) {
        let leases: Vec<_> = (0..self.held.len()).map(|which| (self.lease(which), TTL)).collect();
        let renewed = block_on(self.store.renew_many(leases)).expect("a server of one's own decides");
        assert!(renewed.iter().all(|one| matches!(one, Ok(Renewed::Renewed(_)))));
    }

    fn lease(&self, which: usize) -> LeaseRef {
        let (name, grant) = &self.held[which];
        LeaseRef::new(name.clone(), self.owner, grant.token, Some(grant.epoch))
    }
}

/// Takes a resource that is free, and gives it back.
pub(crate) async fn take_and_give_back(store: &dyn Store, resource: ResourceName, owner: u64) {
    let owner = OwnerId::new(owner);
    let answer = store.acquire(Claim::new(resource.clone(), owner, TTL).with_label("bench")).await;
    let grant = granted(answer.expect("a server of one's own decides"));
    let lease = LeaseRef::new(resource, owner, grant.token, Some(grant.epoch));
    let released = store.release(lease, Ending::default()).await.expect("a server of one's own decides");
    assert!(matches!(released, Released::Released), "{released:?}");
}

/// The time that each of `each` renewals of `tasks` tasks takes of all of them together, on one thread.
pub(crate) fn together(runtime: &Runtime, store: &Arc<dyn Store>, tasks: usize, each: usize) -> Duration {
    let leases: Vec<LeaseRef> = (0..tasks)
        .map(|task| {
            let holder = Holder::new(Arc::clone(store), 1_000 + task as u64, &format!("together-{task}"), 1);
            holder.lease(0)
        })
        .collect();
    let begun = Instant::now();
    runtime.block_on(async {
        let mut all = JoinSet::new();
        for lease in leases {
            let store = Arc::clone(store);
            all.spawn(async move {
                for _ in 0..each {
                    let renewed =
                        store.renew(lease.clone(), TTL).await.expect("a server of one's own decides");
                    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
                }
            });
        }
        all.join_all().await;
    });
    begun.elapsed() / u32::try_from(tasks * each).unwrap_or(1)
}

fn granted(answer: Acquired) -> Grant {
    match answer {
        Acquired::Granted(grant) => grant,
        other => unreachable!("nobody else asks: {other:?}"),
    }
}

pub(crate) fn name(name: &str) -> ResourceName {
    ResourceName::new(name).expect("a plain name")
}

/// What a peer runs on: its connection on a thread of its own, whoever asks on another.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread can be started")
}
