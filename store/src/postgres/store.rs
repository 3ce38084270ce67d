//! The store itself: the trait, each call one statement.

use std::fmt;
use std::future::Future;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::{Client, Config, Row};

use super::answer::{self, Told, result_code, shown};
use super::calls::{self, Call, Calls, Parameter, bits, bytes, number, some_bits, some_bytes, text, truth};
use super::doctor;
use super::driver::Driver;
use super::failure::{Place, failed};
use super::link::{Link, Target};
use super::options::PostgresOptions;
use super::pool::Pool;
use super::{passwords, schema, tls, url};
use crate::owner::random;
use crate::{
    Acquired, Answer, Capabilities, Claim, Ending, Epoch, ErrorKind, Finding, HistoryEntry, Inspection,
    LeaseRef, Migration, Opening, Pruned, Released, Renewed, ResourceName, Revoked, Store, StoreError, check,
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
    inner: Arc<Inner>,
    driver: Driver,
    process: u32,
}

struct Inner {
    target: Target,
    pool: Pool,
    capabilities: Capabilities,
}

/// Prunes as many resources in one transaction as a first grant can wait for.
const AT_ONCE: i32 = 2_000;

/// How long a waiter sleeps before it looks again, at first and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl PostgresStore {
    /// Takes the server and the options from a URL: see [`open`](crate::open). It sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) for a URL that is wrong. It never shows the password.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let (target, connections) = target(url)?;
        Self::start(target, Pool::new(connections))
    }

    /// The server that a driver's configuration names, which may have a password from wherever the program has it.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) for options out of range.
    pub fn from_config(config: Config, options: PostgresOptions) -> Result<Self, StoreError> {
        let options = options.checked()?;
        let connections = options.connections;
        Self::start(target_of(config, options)?, Pool::new(connections))
    }

    /// A connection of the program's own, which it drives. No statement is given a name on it, since nobody here knows
    /// who stands between. Once it is closed, every call is *not done*.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) for options out of range.
    pub fn from_client(client: Client, options: PostgresOptions) -> Result<Self, StoreError> {
        Self::start(target_of(Config::new(), options.checked()?)?, Pool::lent(Link::of(client)))
    }

    /// Adds the tables and functions to the database that a URL names, and opens an epoch. Nothing is changed where they
    /// are there. Any number of processes may do it at once. It waits for the server.
    ///
    /// # Errors
    ///
    /// As of every call, and [`Permission`](ErrorKind::Permission) where the role may not create a schema.
    pub fn migrate(url: &str) -> Result<Migration, StoreError> {
        let (target, _) = target(url)?;
        let driver = Driver::start()?;
        let (slot, answer) = std::sync::mpsc::channel();
        driver.detach(async move {
            let _ = slot.send(schema::migrate(&target).await);
        });
        answer.recv().unwrap_or_else(|_| {
            Err(StoreError::new(ErrorKind::Unreachable, "the migrate ended without an answer"))
        })
    }

    /// The SQL that [`migrate`](Self::migrate) carries out, and the rights that a role needs which uses the store.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn migration_sql(url: &str) -> Result<String, StoreError> {
        Ok(schema::migration(&url::parse(url)?.options.quoted_schema()))
    }

    fn start(target: Target, pool: Pool) -> Result<Self, StoreError> {
        let mut capabilities = Capabilities::all("postgres", target.options.max_ttl);
        capabilities.history = target.options.history.is_some();
        capabilities.wakes_waiters = false;
        let inner = Arc::new(Inner { target, pool, capabilities });
        Ok(Self { inner, driver: Driver::start()?, process: process::id() })
    }

    /// Has something done on the store's own thread, once the future is polled.
    fn run<'a, T, F>(&'a self, work: impl FnOnce(Arc<Inner>) -> F + Send + 'a) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(async move {
            self.here()?;
            self.driver.run(work(Arc::clone(&self.inner))).await
        })
    }

    /// The parent's connections must not be used by its child.
    fn here(&self) -> Result<(), StoreError> {
        if process::id() == self.process {
            return Ok(());
        }
        Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "{} was opened by process {}, and this is its child {}: a store does not survive a fork",
                self.inner.target.place,
                self.process,
                process::id()
            ),
        ))
    }

    fn claim(&self, claim: Claim, again: bool) -> Answer<'_, Acquired> {
        let claim = match check::claim(claim, self.inner.capabilities.max_ttl) {
            Ok(claim) => claim,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        self.run(move |inner| async move {
            let sent = inner.target.options.here.now();
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
                    calls::small(inner.target.options.keep()),
                ]
            };
            let answer = inner.decide(Call::Acquire, &parameters).await?.acquired(&claim)?;
            match &answer {
                Acquired::Granted(grant) => inner.in_time(sent, grant.ttl)?,
                Acquired::AlreadyDone(_) | Acquired::Rejected(_) => {}
            }
            Ok(answer)
        })
    }
}

impl Inner {
    /// Sends a statement; its rows are the answer once the server is ready for the next.
    async fn ask(&self, call: Call, parameters: Vec<Parameter>) -> Result<Vec<Row>, StoreError> {
        let target = &self.target;
        let until = Instant::now() + target.options.timeout;
        let taken = timeout_at(until, self.pool.take(target)).await.map_err(|_| {
            let message =
                format!("no connection to {} was to be had for {:?}", target.place, target.options.timeout);
            StoreError::new(ErrorKind::Busy, message)
        })??;
        let left = until.saturating_duration_since(Instant::now());
        match timeout_at(until, taken.link.ask(target, call, parameters, left)).await {
            // Its answer may still come: nobody else must take it for theirs.
            Err(_) => {
                taken.link.cut();
                let message = format!("{} did not answer within {:?}", target.place, target.options.timeout);
                Err(StoreError::new(ErrorKind::Unreachable, message))
            }
            Ok(Err(error)) => {
                self.pool.put_back(taken);
                Err(failed(&target.place, "deciding", error))
            }
            Ok(Ok(_)) if taken.link.is_unsynced() => {
                self.pool.put_back(taken);
                let message = format!(
                    "{} has decided, but did not wait for the standbys that it was set to wait for",
                    target.place
                );
                Err(StoreError::new(ErrorKind::Unreachable, message))
            }
            Ok(Ok(rows)) => {
                self.pool.put_back(taken);
                Ok(rows)
            }
        }
    }

    /// Has one decision made. A server that turns out to have lost history is put into a new epoch, and asked again.
    async fn decide(
        &self,
        call: Call,
        parameters: &(dyn Fn() -> Vec<Parameter> + Sync),
    ) -> Result<Told, StoreError> {
        // Where it is lost a second time, something else is wrong.
        for _ in 0..2 {
            let rows = self.ask(call, parameters()).await?;
            let told = Told::read(one(rows, &self.target.place)?, &self.target.place)?;
            if !told.is_lost() {
                return Ok(told);
            }
            self.settle(told.epoch()?).await?;
        }
        Err(StoreError::new(
            ErrorKind::Busy,
            format!("{} has changed its timeline twice within one request", self.target.place),
        ))
    }

    async fn settle(&self, epoch: Epoch) -> Result<(), StoreError> {
        let until = Instant::now() + self.target.options.timeout;
        let settled = timeout_at(until, async {
            let taken = self.pool.take(&self.target).await?;
            taken.link.settle(&self.target, epoch).await?;
            self.pool.put_back(taken);
            Ok(())
        });
        settled.await.unwrap_or_else(|_| {
            Err(StoreError::new(
                ErrorKind::Unreachable,
                format!("{} did not open an epoch in time", self.target.place),
            )
            .nothing_changed())
        })
    }

    /// A decision on a caller's lease. Its token may show that history was lost: a new epoch is opened then, before the
    /// caller hears that its token is stale.
    async fn decide_lease(
        &self,
        call: Call,
        lease: &LeaseRef,
        parameters: &(dyn Fn() -> Vec<Parameter> + Sync),
    ) -> Result<Told, StoreError> {
        /// There may be tokens above this one that are lost, too.
        const LEAP: u64 = 1 << 32;
        let told = self.decide(call, parameters).await?;
        if told.is_rewound()? {
            // Where that fails the old epoch goes on; the caller is told that its token is stale.
            let _ = self.open_epoch(told.epoch()?, lease.token.value().saturating_add(LEAP), false).await;
        }
        Ok(told)
    }

    async fn open_epoch(&self, instead_of: Epoch, above: u64, dead: bool) -> Result<Epoch, StoreError> {
        let until = Instant::now() + self.target.options.timeout;
        let opened = timeout_at(until, async {
            let taken = self.pool.take(&self.target).await?;
            let epoch = taken.link.open_epoch(&self.target, instead_of, above, dead).await?;
            self.pool.put_back(taken);
            Ok(epoch)
        });
        opened.await.unwrap_or_else(|_| {
            let message = format!("{} did not open an epoch in time", self.target.place);
            Err(StoreError::new(ErrorKind::Unreachable, message))
        })
    }

    /// An answer that comes when the lease is over by the caller's own clock says nothing any more.
    fn in_time(&self, sent: Duration, ttl: Duration) -> Result<(), StoreError> {
        if self.target.options.here.now().saturating_sub(sent) < ttl {
            return Ok(());
        }
        let message = format!("{} answered when the lease of {ttl:?} was over", self.target.place);
        Err(StoreError::new(ErrorKind::Unreachable, message))
    }

    async fn renew(&self, lease: &LeaseRef, ttl: Duration) -> Result<Renewed, StoreError> {
        let sent = self.target.options.here.now();
        let parameters = || {
            vec![
                bytes(lease.resource.as_str()),
                bits(lease.owner.value()),
                number(shown(lease)),
                span(ttl),
                some_bits(lease.epoch.map(Epoch::value)),
                truth(false),
                calls::small(self.target.options.keep()),
            ]
        };
        let answer = self.decide_lease(Call::Renew, lease, &parameters).await?.renewed()?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(answer)
    }

    async fn renew_many(
        &self,
        leases: &[(LeaseRef, Duration)],
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let sent = self.target.options.here.now();
        let each =
            |of: fn(&LeaseRef, Duration) -> i64| leases.iter().map(|(lease, ttl)| of(lease, *ttl)).collect();
        let parameters = vec![
            calls::names(
                leases.iter().map(|(lease, _)| lease.resource.as_str().as_bytes().to_vec()).collect(),
            ),
            calls::numbers(each(|lease, _| lease.owner.value() as i64)),
            calls::numbers(each(|lease, _| shown(lease))),
            calls::numbers(each(|_, ttl| micros(ttl))),
            calls::some_numbers(
                leases.iter().map(|(lease, _)| lease.epoch.map(|epoch| epoch.value() as i64)).collect(),
            ),
            calls::small(self.target.options.keep()),
        ];
        let rows = self.ask(Call::RenewMany, parameters).await?;
        let mut answers: Vec<Option<Result<Renewed, StoreError>>> = leases.iter().map(|_| None).collect();
        for row in rows {
            let told = Told::read(row, &self.target.place)?;
            let place = told.place_in_order()?;
            let (Some(slot), Some((lease, ttl))) = (answers.get_mut(place), leases.get(place)) else {
                continue;
            };
            // What was locked, and whatever else one statement for all cannot do, is asked for alone.
            *slot = Some(if told.code == "locked" || told.is_lost() || told.is_rewound()? {
                self.renew(lease, *ttl).await
            } else {
                match told.renewed() {
                    Ok(Renewed::Renewed(grant)) => {
                        self.in_time(sent, grant.ttl).map(|()| Renewed::Renewed(grant))
                    }
                    other => other,
                }
            });
        }
        let missing = || Err(answer::nonsense(&self.target.place, "fewer answers than renewals"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
    }

    async fn inspect(&self, resource: ResourceName) -> Result<Inspection, StoreError> {
        let rows = self.look(Call::Inspect, vec![bytes(resource.as_str())]).await?;
        let place = &self.target.place;
        let row = rows.first().ok_or_else(|| {
            let message = format!("{place} has no epoch: it was never set up, or was wiped");
            StoreError::new(ErrorKind::NotSetUp, message)
        })?;
        answer::inspection(row, place, Some(resource))
    }

    /// What only looks has changed nothing, whatever becomes of it.
    async fn look(&self, call: Call, parameters: Vec<Parameter>) -> Result<Vec<Row>, StoreError> {
        self.ask(call, parameters).await.map_err(StoreError::nothing_changed)
    }

    async fn wait(&self, resource: ResourceName, limit: Duration) -> Result<(), StoreError> {
        let until = Instant::now().checked_add(limit);
        let mut pause = LOOK_AGAIN.0;
        loop {
            let Some(occupant) = self.inspect(resource.clone()).await?.occupant else { return Ok(()) };
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            // Those who wait for the same do not look at the same instants.
            let share = f64::from((random()? >> 32) as u32) / f64::from(u32::MAX);
            sleep(pause.mul_f64(0.5 + share).min(occupant.remaining).min(left)).await;
            pause = pause.mul_f64(1.5).min(LOOK_AGAIN.1);
        }
    }

    async fn prune(&self, older_than: Duration) -> Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            let rows = self.ask(Call::Prune, vec![span(older_than), calls::small(AT_ONCE)]).await?;
            let (pruned, more) = answer::pruned(&one(rows, &self.target.place)?, &self.target.place)?;
            all.resources = all.resources.saturating_add(pruned.resources);
            all.history = all.history.saturating_add(pruned.history);
            all.floor = pruned.floor;
            if !more {
                return Ok(all);
            }
        }
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        for _ in 0..2 {
            let rows = self.look(Call::Epoch, Vec::new()).await?;
            let Some(row) = rows.first() else {
                let message =
                    format!("{} has no epoch: it was never set up, or was wiped", self.target.place);
                return Err(StoreError::new(ErrorKind::NotSetUp, message));
            };
            let nonsense =
                |error: tokio_postgres::Error| answer::nonsense(&self.target.place, &error.to_string());
            let epoch = answer::epoch(&self.target.place, row.try_get(0).map_err(nonsense)?)?;
            if row.try_get(1).map_err(nonsense)? {
                return Ok(epoch);
            }
            self.settle(epoch).await?;
        }
        Err(StoreError::new(
            ErrorKind::Busy,
            format!("{} has changed its timeline twice within one request", self.target.place),
        ))
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.run(|inner| async move { inner.epoch().await })
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, false)
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, true)
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        match check::ttl(ttl, self.inner.capabilities.max_ttl) {
            Ok(ttl) => self.run(move |inner| async move { inner.renew(&lease, ttl).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        let max_ttl = self.inner.capabilities.max_ttl;
        let leases: Result<Vec<_>, StoreError> =
            leases.into_iter().map(|(lease, ttl)| Ok((lease, check::ttl(ttl, max_ttl)?))).collect();
        match leases {
            Ok(leases) => self.run(move |inner| async move { inner.renew_many(&leases).await }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        if let Err(error) = check::ending(&ending, self.inner.capabilities.max_ttl) {
            return Box::pin(async { Err(error) });
        }
        self.run(move |inner| async move {
            let parameters = || {
                vec![
                    bytes(lease.resource.as_str()),
                    bits(lease.owner.value()),
                    number(shown(&lease)),
                    some_bits(lease.epoch.map(Epoch::value)),
                    calls::small(result_code(ending.result)),
                    text(ending.once.clone()),
                    span(ending.at_least),
                    calls::small(inner.target.options.keep()),
                ]
            };
            inner.decide_lease(Call::Release, &lease, &parameters).await?.released()
        })
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.run(move |inner| async move {
            let keep = inner.target.options.keep();
            let parameters = || vec![bytes(resource.as_str()), bits(owner.value()), calls::small(keep)];
            inner.decide(Call::Withdraw, &parameters).await?.released()
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
        self.run(move |inner| async move {
            let expect = expect.map(|token| token.value().min(i64::MAX as u64));
            let parameters = || {
                vec![
                    bytes(resource.as_str()),
                    some_bits(expect),
                    text(reason.clone()),
                    calls::small(inner.target.options.keep()),
                ]
            };
            inner.decide(Call::Revoke, &parameters).await?.revoked()
        })
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.run(move |inner| async move { inner.inspect(resource).await })
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.run(move |inner| async move {
            let parameters = vec![bytes(&prefix), some_bytes(beyond(&prefix))];
            let rows = inner.look(Call::List, parameters).await?;
            rows.iter().map(|row| answer::inspection(row, &inner.target.place, None)).collect()
        })
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.run(move |inner| async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = inner.look(Call::History, vec![bytes(resource.as_str()), number(limit)]).await?;
            rows.iter().map(|row| answer::hold(row, &inner.target.place)).collect()
        })
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.run(move |inner| async move { inner.prune(older_than).await })
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        self.run(move |inner| async move { inner.wait(resource, limit).await })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.run(move |inner| async move {
            let above = opening.above.map_or(0, FencingToken::value);
            inner.open_epoch(opening.instead_of, above, opening.old_holders_are_dead).await
        })
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        self.run(move |inner| async move {
            let taken = inner.pool.take(&inner.target).await?;
            let findings = doctor::examine(&inner.target, &taken.link).await;
            inner.pool.put_back(taken);
            findings
        })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.inner.target.place;
        f.debug_struct("PostgresStore").field("place", &place.to_string()).finish_non_exhaustive()
    }
}

pub(super) fn target(url: &str) -> Result<(Target, u16), StoreError> {
    let url::Parsed { mut config, options, passfile } = url::parse(url)?;
    passwords::add(&mut config, passfile.as_deref());
    let connections = options.connections;
    Ok((target_of(config, options)?, connections))
}

fn target_of(config: Config, options: PostgresOptions) -> Result<Target, StoreError> {
    let (place, tls) = (url::place(&config), tls::connector(&options)?);
    let calls = Calls::new(&options.quoted_schema());
    Ok(Target { config, options, place, calls, tls })
}

fn one(rows: Vec<Row>, place: &Place) -> Result<Row, StoreError> {
    rows.into_iter().next().ok_or_else(|| answer::nonsense(place, "no row at all"))
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn span(time: Duration) -> Parameter {
    number(micros(time))
}

/// The first name, in the order of bytes, behind all that begin with `prefix`; UTF-8 has no byte of 255.
fn beyond(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    let last = bytes.last_mut()?;
    *last = last.saturating_add(1);
    Some(bytes)
}
