//! The store itself: the trait, each call one procedure.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use mysql_async::{Conn, Opts, OptsBuilder};

use super::answer::{self, shown};
use super::call::{Call, bits, number, some_bits, some_text, span, text, truth};
use super::hub::Hub;
use super::link::{Link, Target};
use super::options::MysqlOptions;
use super::{schema, tls, url};
use crate::codes::result_code;
use crate::name::beyond;
use crate::pool::{pool_name, slot_named};
use crate::server::Driver;
use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, Finding, HistoryEntry, Inspection,
    LeaseRef, Migration, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Room, SlotRef, SlotRenewed, Store, StoreError, check,
};

/// Leases on a MySQL server, 8.0.19 or later, or a MariaDB server, 10.6 or later.
///
/// It connects when it is first asked, from a thread of its own, so that its futures run on any runtime or none. The
/// tables have to be there: see [`migrate`](Self::migrate). A request whose connection breaks is *unknown*, one that could
/// not be sent is *not done*.
///
/// - The clock is the server's. Where it is set forward, leases end early; where it is set back, they last longer.
/// - A grant that the caller did not wait for stands until its term ends or its owner is withdrawn.
/// - Whoever waits looks again and again: these servers wake nobody.
/// - It does not survive `fork`: in the child every call is refused.
/// - A server with another `server_uuid` (MySQL) or `server_id` (MariaDB) is in a new epoch from the first request on. One
///   that was put back from a copy and kept these is noticed only when a holder shows a token that it does not know: open a
///   new epoch then.
/// - How soon a commit is on the disk is set for the whole server (`innodb_flush_log_at_trx_commit`): its
///   [`doctor`](Store::doctor) says where that is less than it should be.
pub struct MysqlStore {
    hub: Arc<Hub>,
    driver: Driver,
    capabilities: Capabilities,
}

impl MysqlStore {
    /// Takes the server and the options from a URL: see [`open`](crate::open). It sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for a URL that is wrong. It never shows the password.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::start(url::target(url)?)
    }

    /// The same server, with other options than its URL says, and those that a URL cannot say.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), also for options out of range.
    pub fn open_with(
        url: &str,
        change: impl FnOnce(MysqlOptions) -> MysqlOptions,
    ) -> Result<Self, StoreError> {
        Self::start(url::target_with(url, change)?)
    }

    /// The server that a driver's options name, which may have a password from wherever the program has it. Their own
    /// settings of TLS count where `options` has none.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for options out of range.
    pub fn from_opts(opts: Opts, options: MysqlOptions) -> Result<Self, StoreError> {
        let (options, place) = (options.checked()?, place_of(&opts));
        let mut opts = OptsBuilder::from_opts(opts);
        if let Some(tls) = tls::of(&options.tls)? {
            opts = opts.ssl_opts(tls);
        }
        Self::start(Target::new(opts, options, place))
    }

    /// A connection of the program's own, to the database that has the tables. It belongs to the runtime that it was made on, which
    /// has to go on running. When it is first used its session is reset, and what is open on it is rolled back. Once it is
    /// closed, every call is *not done*.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) for options out of range.
    pub fn from_conn(conn: Conn, options: MysqlOptions) -> Result<Self, StoreError> {
        let (options, opts) = (options.checked()?, conn.opts().clone());
        let place = place_of(&opts);
        let target = Target::new(OptsBuilder::from_opts(opts), options, place);
        Self::on(Hub::of(target, Link::of(conn)))
    }

    /// Adds the tables and procedures to the database that a URL names, and opens an epoch. Where they are there, procedures of
    /// an older program are replaced, and those that a dump left out put back; nothing else is changed.
    /// Any number of processes may do it at once. It waits for the server.
    ///
    /// # Errors
    ///
    /// As of every call, and [`Permission`](crate::ErrorKind::Permission) where the account may not create tables.
    pub fn migrate(url: &str) -> Result<Migration, StoreError> {
        let target = url::target(url)?;
        Driver::start(target.place.clone())?.block(async move { schema::migrate(&target).await })
    }

    /// The SQL that [`migrate`](Self::migrate) carries out, for the commands `mysql` and `mariadb`, and the rights that an
    /// account needs which uses the store.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn migration_sql(url: &str) -> Result<String, StoreError> {
        Ok(schema::migration(&url::parse(url)?.server.path))
    }

    fn start(target: Target) -> Result<Self, StoreError> {
        Self::on(Hub::new(target))
    }

    fn on(hub: Hub) -> Result<Self, StoreError> {
        let target = &hub.target;
        let mut capabilities = Capabilities::all("mysql", target.options.limits.max_ttl);
        capabilities.history = target.options.limits.history.is_some();
        capabilities.wakes_waiters = false;
        let driver = Driver::start(target.place.clone())?;
        Ok(Self { hub: Arc::new(hub), driver, capabilities })
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
                    text(claim.resource.as_str()),
                    bits(claim.owner.value()),
                    span(claim.ttl),
                    number(i64::try_from(claim.attempt).unwrap_or(i64::MAX)),
                    some_bits(claim.epoch.map(Epoch::value)),
                    some_text(claim.label.as_deref()),
                    some_text(claim.identity.as_deref()),
                    some_text(claim.once.as_deref()),
                    truth(again),
                    number(hub.target.options.keep()),
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

/// The server and the database that a driver's options name, for people.
fn place_of(opts: &Opts) -> String {
    let database = opts.db_name().unwrap_or_default();
    format!("mysql://{}:{}/{database}", opts.ip_or_hostname(), opts.tcp_port())
}

impl Store for MysqlStore {
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
            Ok(leases) => self.run(move |hub| async move { hub.renew_many(&leases).await }),
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
                    text(lease.resource.as_str()),
                    bits(lease.owner.value()),
                    number(shown(&lease)),
                    some_bits(lease.epoch.map(Epoch::value)),
                    number(result_code(ending.result).into()),
                    some_text(ending.once.as_deref()),
                    span(ending.at_least),
                    number(hub.target.options.keep()),
                ]
            };
            hub.decide_lease(hub.until(), Call::Release, &lease, &parameters).await?.released()
        })
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.run(move |hub| async move {
            let keep = hub.target.options.keep();
            let parameters = || vec![text(resource.as_str()), bits(owner.value()), number(keep)];
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
                    text(resource.as_str()),
                    some_bits(expect),
                    some_text(reason.as_deref()),
                    number(hub.target.options.keep()),
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
            let rows = hub.look(Call::List, vec![text(&prefix), beyond(&prefix).into()]).await?;
            rows.iter().map(|row| answer::inspection(row, &hub.target.place, None)).collect()
        })
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.run(move |hub| async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let slot = slot_named(&resource);
            let parameters = vec![
                text(resource.as_str()),
                number(limit),
                some_text(slot.as_ref().map(|(pool, _)| pool.as_str())),
                some_bits(slot.as_ref().map(|(_, slot)| (*slot).into())),
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

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore").field("place", &self.hub.target.place).finish_non_exhaustive()
    }
}
