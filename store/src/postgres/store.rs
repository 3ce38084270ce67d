//! The store itself: the trait, each call one statement.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config};

use super::answer::{self, shown};
use super::calls::{
    self, Call, Calls, bits, bytes, number, some_bits, some_bytes, some_small, span, text, truth,
};
use super::hub::Hub;
use super::link::{Link, Target};
use super::options::PostgresOptions;
use super::{passwords, schema, tls, url};
use crate::codes::result_code;
use crate::name::beyond;
use crate::pool::{pool_name, slot_named};
use crate::server::{Driver, Pool};
use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, Finding, HistoryEntry, Inspection,
    LeaseRef, Migration, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Room, SlotRef, SlotRenewed, Store, StoreError, check,
};

/// Leases on a PostgreSQL server, 13 or later, also behind a pooler in transaction mode.
///
/// It connects when it is first asked, from a thread of its own, so that its futures run on any runtime or none. The
/// tables have to be there: see [`migrate`](Self::migrate). A request whose connection breaks is *unknown*, one that could
/// not be sent is *not done*.
///
/// - The clock is the server's. Where it is set forward, leases end early; where it is set back, they last longer.
/// - A grant that the caller did not wait for stands until its term ends or its owner is withdrawn.
/// - Whoever waits looks again and again: a notification at every release would hold every commit of the server up.
/// - It does not survive `fork`: in the child every call is refused.
/// - A server whose timeline or system identifier has changed (promoted, or put back to an earlier time) is in a new
///   epoch from the first request on. One that was put back as a whole, as files, is noticed only when a holder shows a
///   token that it does not know: open a new epoch then.
pub struct PostgresStore {
    hub: Arc<Hub>,
    driver: Driver,
    capabilities: Capabilities,
}

impl PostgresStore {
    /// Takes the server and the options from a URL: see [`open`](crate::open). It sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for a URL that is wrong. It never shows the password.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, |options| options)
    }

    /// The same server, with other options than its URL says, and those that a URL cannot say.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), also for options out of range.
    pub fn open_with(
        url: &str,
        change: impl FnOnce(PostgresOptions) -> PostgresOptions,
    ) -> Result<Self, StoreError> {
        let (target, connections) = target(url, change)?;
        Self::start(target, Pool::new(connections), false)
    }

    /// The server that a driver's configuration names, which may have a password from wherever the program has it.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for options out of range.
    pub fn from_config(config: Config, options: PostgresOptions) -> Result<Self, StoreError> {
        let options = options.checked()?;
        let connections = options.connections;
        Self::start(target_of(config, options)?, Pool::new(connections), false)
    }

    /// A connection of the program's own, which it drives. No statement is given a name on it, since nobody here knows
    /// who stands between; that the server did not wait for its standbys is told to the program alone. Once it is closed, every
    /// call is *not done*.
    ///
    /// It is looked at when it is first used: one in a transaction, or with a `search_path` that has another schema before
    /// `pg_catalog`, is refused. Transactions may be at any level by default; one that is read-only by default decides nothing.
    ///
    /// The server's warnings come to whoever drives it. So where a commit's wait for a standby is cancelled
    /// (`synchronous_standby_names`), its answer counts all the same.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for options out of range.
    pub fn from_client(client: Client, options: PostgresOptions) -> Result<Self, StoreError> {
        Self::start(target_of(Config::new(), options.checked()?)?, Pool::of(Link::of(client)), true)
    }

    /// Adds the tables and functions to the database that a URL names, and opens an epoch. Nothing is changed where they
    /// are there. Any number of processes may do it at once. It waits for the server.
    ///
    /// # Errors
    ///
    /// As of every call, and [`Permission`](crate::ErrorKind::Permission) where the role may not create a schema.
    pub fn migrate(url: &str) -> Result<Migration, StoreError> {
        let (target, _) = target(url, |options| options)?;
        Driver::start(target.place.to_string())?.block(async move { schema::migrate(&target).await })
    }

    /// The SQL that [`migrate`](Self::migrate) carries out, and the rights that a role needs which uses the store.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn migration_sql(url: &str) -> Result<String, StoreError> {
        Ok(schema::migration(&url::parse(url)?.options.quoted_schema()))
    }

    fn start(target: Target, pool: Pool<Link>, lent: bool) -> Result<Self, StoreError> {
        let mut capabilities = Capabilities::all("postgres", target.options.limits.max_ttl);
        capabilities.history = target.options.limits.history.is_some();
        capabilities.wakes_waiters = false;
        let driver = Driver::start(target.place.to_string())?;
        Ok(Self { hub: Arc::new(Hub { target, pool, lent }), driver, capabilities })
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
        let claim = match check::claim(claim, self.capabilities.max_ttl) {
            Ok(claim) => claim,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        self.run(move |hub| async move {
            let sent = hub.target.options.here.now();
            let parameters = || {
                vec![
                    bytes(claim.resource.as_str()),
                    bits(claim.owner.value()),
                    span(claim.ttl),
                    number(i64::try_from(claim.attempt).unwrap_or(i64::MAX)),
                    some_bits(claim.epoch.map(Epoch::value)),
                    text(claim.label.clone()),
                    text(claim.identity.clone()),
                    text(claim.once.clone()),
                    truth(again),
                    calls::small(hub.target.options.keep()),
                ]
            };
            let answer = hub.decide(hub.until(), Call::Acquire, &parameters).await?.acquired(&claim)?;
            match &answer {
                Acquired::Granted(grant) => hub.in_time(sent, grant.ttl)?,
                Acquired::AlreadyDone(_) | Acquired::Rejected(_) => {}
            }
            Ok(answer)
        })
    }

    fn slot_claim(&self, claim: PoolClaim, again: bool) -> Answer<'_, Claimed> {
        match check::pool_claim(claim, self.capabilities.max_ttl) {
            Ok(claim) => self.run(move |hub| async move { hub.claim_slot(claim, again).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.run(|hub| async move { hub.epoch(hub.until()).await })
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, false)
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, true)
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        match check::ttl(ttl, self.capabilities.max_ttl) {
            Ok(ttl) => self.run(move |hub| async move { hub.renew(hub.until(), &lease, ttl).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        let max_ttl = self.capabilities.max_ttl;
        let leases: Result<Vec<_>, StoreError> =
            leases.into_iter().map(|(lease, ttl)| Ok((lease, check::ttl(ttl, max_ttl)?))).collect();
        match leases {
            Ok(leases) => self.run(move |hub| async move { hub.renew_many(leases).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        if let Err(error) = check::ending(&ending, self.capabilities.max_ttl) {
            return Box::pin(async { Err(error) });
        }
        self.run(move |hub| async move {
            let parameters = || {
                vec![
                    bytes(lease.resource.as_str()),
                    bits(lease.owner.value()),
                    number(shown(&lease)),
                    some_bits(lease.epoch.map(Epoch::value)),
                    calls::small(result_code(ending.result).into()),
                    text(ending.once.clone()),
                    span(ending.at_least),
                    calls::small(hub.target.options.keep()),
                ]
            };
            hub.decide_lease(hub.until(), Call::Release, &lease, &parameters).await?.released()
        })
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.run(move |hub| async move {
            let keep = hub.target.options.keep();
            let parameters = || vec![bytes(resource.as_str()), bits(owner.value()), calls::small(keep)];
            hub.decide(hub.until(), Call::Withdraw, &parameters).await?.released()
        })
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        if let Err(error) = check::text("reason", reason.as_deref()) {
            return Box::pin(async { Err(error) });
        }
        self.run(move |hub| async move {
            let expect = expect.map(|token| token.value().min(i64::MAX as u64));
            let parameters = || {
                vec![
                    bytes(resource.as_str()),
                    some_bits(expect),
                    text(reason.clone()),
                    calls::small(hub.target.options.keep()),
                ]
            };
            hub.decide(hub.until(), Call::Revoke, &parameters).await?.revoked()
        })
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.run(move |hub| async move { hub.inspect(resource).await })
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.run(move |hub| async move {
            let parameters = vec![bytes(&prefix), some_bytes(beyond(&prefix))];
            let rows = hub.look(Call::List, parameters).await?;
            rows.iter().map(|row| answer::inspection(row, &hub.target.place, None)).collect()
        })
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.run(move |hub| async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let slot = slot_named(&resource);
            let parameters = vec![
                bytes(resource.as_str()),
                number(limit),
                some_bytes(slot.as_ref().map(|(pool, _)| pool.as_str().as_bytes().to_vec())),
                some_small(slot.map(|(_, slot)| slot.into())),
            ];
            let rows = hub.look(Call::History, parameters).await?;
            rows.iter().map(|row| answer::hold(row, &hub.target.place)).collect()
        })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.run(move |hub| async move { hub.prune(older_than).await })
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        self.run(move |hub| async move { hub.wait(resource, limit).await })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.run(move |hub| async move {
            let above = opening.above.map_or(0, FencingToken::value);
            hub.open_epoch(hub.until(), opening.instead_of, above, opening.old_holders_are_dead).await
        })
    }

    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.slot_claim(claim, false)
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.slot_claim(claim, true)
    }

    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        match check::ttl(ttl, self.capabilities.max_ttl) {
            Ok(ttl) => self.run(move |hub| async move { hub.renew_slot(&lease, ttl, id_time).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        match check::last_used(last_used) {
            Ok(last_used) => self.run(move |hub| async move { hub.release_slot(&lease, last_used).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        match pool_name(&pool) {
            Ok(()) => self.run(move |hub| async move { hub.withdraw_slot(pool, owner).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        match check::text("reason", reason.as_deref()) {
            Ok(()) => self.run(move |hub| async move { hub.revoke_slot(pool, slot, expect, reason).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        self.run(|hub| async move { hub.pools().await })
    }

    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        self.run(move |hub| async move { hub.slots(pool).await })
    }

    fn room(&self, claim: PoolClaim) -> Answer<'_, Room> {
        self.run(move |hub| async move { hub.room(claim).await })
    }

    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        match pool_name(&pool).and_then(|()| check::size(size)) {
            Ok(()) => self.run(move |hub| async move { hub.resize_pool(pool, size).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        self.run(|hub| async move { hub.doctor().await })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.hub.target.place;
        f.debug_struct("PostgresStore").field("place", &place.to_string()).finish_non_exhaustive()
    }
}

pub(super) fn target(
    url: &str,
    change: impl FnOnce(PostgresOptions) -> PostgresOptions,
) -> Result<(Target, u16), StoreError> {
    let url::Parsed { mut config, options, passfile } = url::parse(url)?;
    let options = change(options).checked()?;
    if options.passwords.is_none() {
        passwords::add(&mut config, passfile.as_deref());
    }
    let connections = options.connections;
    Ok((target_of(config, options)?, connections))
}

fn target_of(mut config: Config, options: PostgresOptions) -> Result<Target, StoreError> {
    if options.verify {
        // Otherwise whoever stands between would only have to say that the server has no TLS.
        config.ssl_mode(SslMode::Require);
    }
    let (place, tls) = (url::place(&config), tls::connector(&options)?);
    let calls = Calls::new(&options.quoted_schema());
    Ok(Target { config, options, place, calls, tls })
}
