//! The store itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::Client;
use lease_machines::{FencingToken, OwnerId};

use super::EtcdOptions;
use super::decision::{Outcome, Question};
use super::hub::Hub;
use super::link::Link;
use super::reading::Wanted;
use super::url;
use crate::decide;
use crate::server::Driver;
use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, Finding, Grant, HistoryEntry, Inspection,
    LeaseRef, Migration, Opening, PoolClaim, PoolClock, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Room, SlotRef, SlotRenewed, Store, StoreError, check,
};

/// Leases on an etcd cluster, 3.4 or later.
///
/// It connects when it is first asked, from a thread of its own, so that its futures run on any runtime or none. The
/// store has to be set up: see [`migrate`](Self::migrate).
///
/// - A lease ends when etcd ends the lease under it: up to a second late, never early. Ttls are whole seconds, rounded up,
///   and at least what the cluster grants (2 s, where its settings are the usual ones).
/// - A grant or a renewal is two requests: etcd's lease, and the transaction that counts. A keepalive is never trusted: it is
///   answered by whoever believes to be the leader. Where a lease is kept ready ([`EtcdOptions::leases_ahead`]) it is the
///   transaction alone. All else is one request, and one more to look at a resource that was
///   changed by others, or at how long their lease still lasts.
/// - etcd tells no time. Times that people are shown, and what is old enough to be pruned, are by the clocks of the machines
///   that ask; no lease ends by them.
/// - So it is in pools: when a slot has rested, which one has been free for longest, and up to when ID time is reserved, go by
///   these clocks, which are taken to be no further apart than [`EtcdOptions::clock_skew`]. Who holds a slot does not, nor that no
///   stamp is given to two holders. A claim reads all slots that it may have, beside the request for the lease, and then writes
///   one; where another was faster at that, it chooses again.
/// - It does not survive `fork`: in the child every call is refused.
/// - A cluster under another identity (one that was made from a snapshot), or whose revision went down, is put into a new
///   epoch from the first request on. One whose disks were put back is noticed only by a client that knows a later
///   revision, or when a holder shows a token that it does not know: open a new epoch then.
pub struct EtcdStore {
    hub: Arc<Hub>,
    driver: Driver,
    capabilities: Capabilities,
}

impl EtcdStore {
    /// A store at `etcd://[user:password@]host[:port][,host[:port]…][/namespace]`: see [`open`](crate::open). Nothing is
    /// connected to.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for a URL or an option that is wrong. It never shows the
    /// password.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, |options| options)
    }

    /// The same cluster, with other options than its URL says, and those that a URL cannot say.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), also for options out of range.
    pub fn open_with(url: &str, change: impl FnOnce(EtcdOptions) -> EtcdOptions) -> Result<Self, StoreError> {
        let (members, options) = url::parse_with(url, change)?;
        Self::start(Link::to(&members, &options)?, options)
    }

    /// A store on a client of the program's own, with its members, TLS and login. Where the cluster takes that login for old, it is
    /// made anew.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for an option that is wrong.
    pub fn from_client(client: Client, options: EtcdOptions) -> Result<Self, StoreError> {
        options.check()?;
        Self::start(Link::of(client, &options), options)
    }

    fn start(link: Link, options: EtcdOptions) -> Result<Self, StoreError> {
        let mut capabilities = Capabilities::all("etcd", options.limits.max_ttl);
        capabilities.pool_clock = PoolClock::Clients { apart: options.clock_skew };
        capabilities.ttl_grain = Duration::from_secs(1);
        // Etcd's lease, and the transaction. A claim of a slot reads the pool beside the first.
        capabilities.round_trips = 2;
        capabilities.history = options.limits.history.is_some();
        // Waiters look again and again.
        capabilities.wakes_waiters = false;
        let driver = Driver::start(link.place.to_string())?;
        Ok(Self { hub: Arc::new(Hub::new(link, options)), driver, capabilities })
    }

    /// Sets the store up: its epoch. Nothing is changed where it is there. Any number of programs may do it at once.
    ///
    /// Blocks this thread until it is done.
    ///
    /// # Errors
    ///
    /// As of every call.
    pub fn migrate(&self) -> Result<Migration, StoreError> {
        let hub = Arc::clone(&self.hub);
        self.driver.block(async move { hub.migrate().await })
    }

    /// The rights that a role needs which is not allowed everything, as commands to read or to run by hand.
    #[must_use]
    pub fn rights(&self) -> String {
        let prefix = self.hub.keys.prefix();
        format!(
            "# An etcd store has no tables: setting up writes one key, {prefix}epoch.\n\
             # A role that uses the store:\n\
             etcdctl role add lease-user\n\
             etcdctl role grant-permission --prefix=true lease-user readwrite {prefix}\n\
             # For each user that is to have it:\n\
             etcdctl user grant-role USER lease-user\n\
             # As long as authentication is off (etcdctl auth enable), everybody may do everything.\n"
        )
    }

    /// Has something done on the store's own thread.
    fn run<'a, T, F>(&'a self, work: impl FnOnce(Arc<Hub>) -> F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.driver.run(work(Arc::clone(&self.hub)))
    }

    fn claim(&self, claim: Claim, again: bool) -> Answer<'_, Acquired> {
        self.run(move |hub| async move {
            let claim = check::claim(claim, hub.options.limits.max_ttl)?;
            let wanted = Wanted {
                resource: &claim.resource,
                owner: Some(claim.owner),
                once: claim.once.as_deref(),
                good: false,
            };
            let question = Question { wanted, exact: true, ahead: claim.ttl, counts_own_time: false };
            hub.decide(
                question,
                |row, standing, at, known| decide::acquire(row, standing, at, &claim, again, known),
                |answer, outcome| match answer {
                    Acquired::Granted(grant) => Acquired::Granted(granted(grant, outcome)),
                    other => other,
                },
            )
            .await
        })
    }
}

impl Hub {
    pub(super) async fn renew(
        self: &Arc<Self>,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Renewed, StoreError> {
        let ttl = check::ttl(ttl, self.options.limits.max_ttl)?;
        let question = Question { exact: true, ..asks(&lease.resource, None) };
        self.decide(
            question,
            |row, standing, at, _| decide::renew(row, standing, at, lease, ttl),
            |answer, outcome| match answer {
                Renewed::Renewed(grant) => Renewed::Renewed(granted(grant, outcome)),
                other => other,
            },
        )
        .await
    }
}

/// A call that only has to know the resource.
fn asks(resource: &ResourceName, owner: Option<OwnerId>) -> Question<'_> {
    let wanted = Wanted { resource, owner, once: None, good: false };
    Question { wanted, exact: false, ahead: Duration::ZERO, counts_own_time: false }
}

/// With the token that the transaction issued, and the time for which the cluster granted it.
fn granted(grant: Grant, outcome: Outcome) -> Grant {
    let (token, ttl) = (outcome.token.unwrap_or(grant.token), outcome.ttl.unwrap_or(grant.ttl));
    Grant::new(token, ttl, grant.epoch)
}

impl Store for EtcdStore {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.run(|hub| async move {
            let epochal = hub.epochal(hub.link.deadline()).await?;
            Ok(epochal.standing.epoch)
        })
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
        self.run(move |hub| async move { Ok(hub.renew_many(leases).await) })
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        self.run(move |hub| async move {
            check::ending(&ending, hub.options.limits.max_ttl)?;
            let question = Question { counts_own_time: true, ..asks(&lease.resource, None) };
            hub.decide(
                question,
                |row, standing, at, _| decide::release(row, standing, at, &lease, &ending),
                |answer, outcome| match answer {
                    Released::Retained(left) => Released::Retained(outcome.ttl.unwrap_or(left)),
                    other => other,
                },
            )
            .await
        })
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.run(move |hub| async move {
            hub.decide(
                asks(&resource, None),
                |row, standing, at, _| decide::withdraw(row, standing, at, owner),
                |answer, _| answer,
            )
            .await
        })
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.run(move |hub| async move {
            check::text("reason", reason.as_deref())?;
            hub.decide(
                asks(&resource, None),
                |row, standing, at, _| decide::revoke(row, standing, at, expect, reason.clone()),
                |answer, outcome| match answer {
                    Revoked::Burnt(token) => Revoked::Burnt(outcome.token.unwrap_or(token)),
                    other => other,
                },
            )
            .await
        })
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.run(move |hub| async move { hub.inspect(&resource).await })
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.run(move |hub| async move { hub.list(&prefix).await })
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.run(move |hub| async move { hub.history(&resource, limit).await })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.run(move |hub| async move { hub.prune(older_than).await })
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        self.run(move |hub| async move { hub.wait(&resource, limit).await })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.run(move |hub| async move { hub.open_epoch(&opening).await })
    }

    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.run(move |hub| async move { hub.claim_slot(claim, false).await })
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.run(move |hub| async move { hub.claim_slot(claim, true).await })
    }

    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        self.run(move |hub| async move { hub.renew_slot(&lease, ttl, id_time).await })
    }

    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        self.run(move |hub| async move { hub.release_slot(&lease, last_used).await })
    }

    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.run(move |hub| async move { hub.withdraw_slot(&pool, owner).await })
    }

    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        self.run(move |hub| async move { hub.revoke_slot(&pool, slot, expect, reason).await })
    }

    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        self.run(|hub| async move { hub.pools().await })
    }

    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        self.run(move |hub| async move { hub.slots(&pool).await })
    }

    fn room(&self, claim: PoolClaim) -> Answer<'_, Room> {
        self.run(move |hub| async move { hub.room(&claim).await })
    }

    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        self.run(move |hub| async move { hub.resize_pool(&pool, size).await })
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        self.run(move |hub| async move { hub.doctor().await })
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("place", &self.hub.link.place.to_string()).finish_non_exhaustive()
    }
}
