//! The store itself.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use super::answer::Reply;
use super::hub::Hub;
use super::link::Target;
use super::request::Request;
use super::{RedisOptions, address, doctor, rights};
use crate::pool::pool_name;
use crate::server::Driver;
use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, Finding, HistoryEntry, Inspection,
    LeaseRef, Migration, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Room, SlotRef, SlotRenewed, Store, StoreError, check,
};

/// Leases on a Redis server (6.2 or later) or a Valkey server, each decided by one script.
///
/// The server's own clock decides, read inside the script. Opening connects to nothing: the first call does, and every
/// later one where the connection was lost. One connection serves all calls; it lives on a thread of the store's own, so
/// that they can be awaited on any runtime.
///
/// # What it does not do
///
/// - What the server answers is only as durable as it is told to be: with `appendonly yes` and `appendfsync always` nothing
///   that was answered is lost by a crash. [`doctor`](Store::doctor) says what can be.
/// - A restart of a server that does not keep everything, and the promotion of a replica, open a new epoch: every lease is
///   lost, and nothing is granted before `max_ttl` has passed. See [`RedisOptions::trust_failover`].
/// - A server that was put back from a copy by hand, its own record of its run included, is noticed only when a client that
///   knows more asks it: whatever others have decided since, but not where that client is gone. Open a new epoch then.
/// - Nodes of a cluster are refused.
/// - A store does not survive `fork`: in the child every call is refused.
pub struct RedisStore {
    capabilities: Capabilities,
    hub: Arc<Hub>,
    driver: Driver,
}

impl RedisStore {
    /// A store at `redis://[[user]:password@]host[:port][/database]`; `rediss://` with TLS. Nothing is connected to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a URL or an option that is wrong.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let (address, options) = address::from_url(url)?;
        Self::start(Target::Address(address), options)
    }

    /// A store on the user's own client, with its TLS and its login; a password of the options' own takes the place of the
    /// client's.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_client(client: redis::Client, options: RedisOptions) -> Result<Self, StoreError> {
        Self::start(Target::Client(client), options)
    }

    /// The same server, with other options than its URL says, and those that a URL cannot say.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        url: &str,
        change: impl FnOnce(RedisOptions) -> RedisOptions,
    ) -> Result<Self, StoreError> {
        let (address, options) = address::from_url_with(url, change)?;
        Self::start(Target::Address(address), options)
    }

    fn start(target: Target, options: RedisOptions) -> Result<Self, StoreError> {
        let mut capabilities = Capabilities::all("redis", options.limits.max_ttl);
        capabilities.history = options.limits.history.is_some();
        // Waiters look again and again.
        capabilities.wakes_waiters = false;
        let driver = Driver::start(target.to_string())?;
        Ok(Self { capabilities, hub: Arc::new(Hub::new(target, options)?), driver })
    }

    /// Sets the store up: its epoch, in all its buckets. Nothing is changed where it is there; where a part of it is, a new
    /// epoch is opened, which grants nothing before `max_ttl` has passed. Any number of programs may do it at once.
    ///
    /// Blocks this thread until it is done.
    ///
    /// # Errors
    ///
    /// [`Unreachable`](crate::ErrorKind::Unreachable), [`Permission`](crate::ErrorKind::Permission),
    /// [`Configuration`](crate::ErrorKind::Configuration) for a server that cannot be used,
    /// [`Schema`](crate::ErrorKind::Schema) where a newer program has set it up.
    pub fn migrate(&self) -> Result<Migration, StoreError> {
        let hub = Arc::clone(&self.hub);
        self.driver.block(async move { hub.migrate().await })
    }

    /// The rights that a user needs who is not allowed everything, as commands to read or to run by hand.
    #[must_use]
    pub fn rights(&self) -> String {
        rights::printed(&self.hub.options.namespace)
    }

    /// Has something done on the store's own thread.
    fn run<'a, T, F>(&'a self, work: impl FnOnce(Arc<Hub>) -> F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.driver.run(work(Arc::clone(&self.hub)))
    }

    /// One request, and what its answer means.
    fn call<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Hub) -> Result<Request, StoreError> + Send + 'static,
        read: impl FnOnce(&Reply) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        self.run(move |hub| async move { read(&hub.ask(&request(&hub)?).await?) })
    }

    fn claim(&self, claim: Claim, again: bool) -> Answer<'_, Acquired> {
        self.run(move |hub| async move {
            let claim = check::claim(claim, hub.options.limits.max_ttl)?;
            let sent = hub.now();
            let answer = hub.ask(&hub.requests.acquire(&claim, again)).await?.acquired(&claim)?;
            if let Acquired::Granted(grant) = &answer {
                hub.in_time(sent, grant.ttl)?;
            }
            Ok(answer)
        })
    }

    fn slot(&self, claim: PoolClaim, again: bool) -> Answer<'_, Claimed> {
        self.run(move |hub| async move { hub.claim_slot(claim, again).await })
    }

    fn look<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Hub) -> Request + Send + 'static,
        read: impl FnOnce(&Reply) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        let answer = self.call(|hub| Ok(request(hub)), read);
        Box::pin(async move { answer.await.map_err(StoreError::nothing_changed) })
    }
}

impl Store for RedisStore {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.run(move |hub| async move { hub.epoch().await })
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, false)
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, true)
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        self.run(move |hub| async move { hub.renew(&lease, ttl).await })
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        self.run(move |hub| async move { hub.renew_many(leases).await })
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        self.run(move |hub| async move {
            check::ending(&ending, hub.options.limits.max_ttl)?;
            let reply = hub.ask(&hub.requests.release(&lease, &ending)).await?;
            if reply.rewound {
                hub.rewound(&lease, reply.epoch).await?;
            }
            reply.released(lease.epoch)
        })
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.call(move |hub| Ok(hub.requests.withdraw(&resource, owner)), |reply| reply.released(None))
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.call(
            move |hub| {
                check::text("reason", reason.as_deref())?;
                Ok(hub.requests.revoke(&resource, expect, reason.as_deref()))
            },
            Reply::revoked,
        )
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        let name = resource.clone();
        self.look(move |hub| hub.requests.inspect(&resource), move |reply| reply.seen(name))
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.run(move |hub| async move {
            let mut all = Vec::new();
            let listed = hub.ask_all(
                |bucket| hub.requests.list(bucket, &prefix),
                |reply| reply.list().map(|some| all.extend(some)),
            );
            listed.await.map_err(StoreError::nothing_changed)?;
            all.sort_by(|a, b| a.resource.cmp(&b.resource));
            Ok(all)
        })
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.run(move |hub| async move {
            hub.history(&resource, limit).await.map_err(StoreError::nothing_changed)
        })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.run(move |hub| async move {
            let mut pruned = Pruned::default();
            let asked = hub.ask_all(
                |bucket| hub.requests.prune(bucket, older_than),
                |reply| {
                    let (resources, history, floor) = reply.pruned()?;
                    pruned.resources = pruned.resources.saturating_add(resources);
                    pruned.history = pruned.history.saturating_add(history);
                    pruned.floor = pruned.floor.max(floor);
                    Ok(())
                },
            );
            asked.await.map_err(|error| pruned.up_to(error))?;
            // What is promised of the floor holds for all resources.
            let raised = hub.ask_all(|bucket| hub.requests.raise(bucket, pruned.floor), |_| Ok(()));
            raised.await.map_err(|error| pruned.up_to(error))?;
            Ok(pruned)
        })
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        self.run(move |hub| async move { hub.wait(resource, limit).await })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.run(move |hub| async move {
            let deadline = hub.link.deadline();
            // Also on a server that has lost history: this takes the place of the epoch that would be opened there.
            let live = hub.link.live(deadline).await?;
            let opened = hub.open_epoch(&live, &opening, deadline).await;
            hub.link.look_anew(&live).await;
            opened
        })
    }

    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.slot(claim, false)
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.slot(claim, true)
    }

    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        self.run(move |hub| async move { hub.renew_slot(&lease, ttl, id_time).await })
    }

    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        self.run(move |hub| async move { hub.release_slot(&lease, last_used).await })
    }

    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.call(
            move |hub| {
                pool_name(&pool)?;
                Ok(hub.requests.withdraw_slot(&pool, owner))
            },
            |reply| reply.released(None),
        )
    }

    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.call(
            move |hub| {
                pool_name(&pool)?;
                check::text("reason", reason.as_deref())?;
                Ok(hub.requests.revoke_slot(&pool, slot, expect, reason.as_deref()))
            },
            Reply::revoked,
        )
    }

    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        self.run(|hub| async move {
            let mut all = Vec::new();
            let listed = hub.ask_all(
                |bucket| hub.requests.pools(bucket),
                |reply| reply.pools().map(|some| all.extend(some)),
            );
            listed.await.map_err(StoreError::nothing_changed)?;
            all.sort();
            Ok(all)
        })
    }

    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        let name = pool.clone();
        self.look(move |hub| hub.requests.slots(&pool), move |reply| reply.pool(name))
    }

    fn room(&self, claim: PoolClaim) -> Answer<'_, Room> {
        let asked = claim.clone();
        self.look(move |hub| hub.requests.room(&asked), move |reply| reply.room(&claim))
    }

    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        self.call(
            move |hub| {
                pool_name(&pool)?;
                check::size(size)?;
                Ok(hub.requests.resize_pool(&pool, size))
            },
            Reply::resized,
        )
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        self.run(move |hub| async move { doctor::look(&hub).await })
    }
}
