//! What all calls of a store share: calling a procedure, and noticing that the server is another one.

use std::error::Error as _;
use std::future::Future;
use std::time::{Duration, Instant as Begun};

use mysql_async::{Error, Row, Value};
use tokio::time::{Instant, timeout_at};

use super::answer::{self, Reading, Told, one};
use super::call::{Call, number, span, text};
use super::failure::{DEADLOCK, failed};
use super::link::{Link, Target};
use crate::decide::LEAP;
use crate::server::{self, Pool, Taken, poll};
use crate::{Epoch, ErrorKind, Finding, Inspection, LeaseRef, Pruned, ResourceName, StoreError};

/// Prunes as many resources in one transaction as a first grant can wait for.
const AT_ONCE: i64 = 2_000;

/// How often a request is made again that was undone since it and another one waited for each other: on slots, whose indexes are
/// locked entry by entry, that can be.
const DEADLOCKS: u32 = 20;

/// How long a waiter sleeps before it looks again, at first and at most.
const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);

pub(super) struct Hub {
    pub(super) target: Target,
    pool: Pool<Link>,
    /// There is one connection, the user's own; no other is made.
    lent: bool,
}

impl Hub {
    pub(super) fn new(target: Target) -> Self {
        let pool = Pool::new(target.options.connections);
        Self { target, pool, lent: false }
    }

    pub(super) fn of(target: Target, link: Link) -> Self {
        Self { target, pool: Pool::of(link), lent: true }
    }

    /// When a call that begins now has to be answered: all that is asked for it, together.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.target.options.limits.timeout
    }

    /// Takes a connection that is there.
    pub(super) async fn take(&self, until: Instant) -> Result<Taken<Link>, StoreError> {
        let taking = async {
            loop {
                let mut taken = self.pool.take(|_| false, || self.connect()).await?;
                if !taken.link.is_usable().await {
                    continue;
                }
                match taken.link.make_fit(&self.target).await {
                    Ok(()) => return Ok(taken),
                    Err(unfit) => {
                        self.keep_lent(taken, unfit.source());
                        return Err(unfit);
                    }
                }
            }
        };
        // One that is free is had at once, also when it is too late to ask.
        if until <= Instant::now() {
            return Err(self.late());
        }
        timeout_at(until, taking).await.unwrap_or_else(|_| Err(self.late()))
    }

    fn late(&self) -> StoreError {
        let (place, timeout) = (&self.target.place, self.target.options.limits.timeout);
        StoreError::new(ErrorKind::Busy, format!("{place} could not be asked within {timeout:?}"))
    }

    /// Locks are waited for no longer than there is time. Nothing has been decided yet where that cannot be said.
    async fn limited(&self, until: Instant, link: &mut Link) -> Result<(), StoreError> {
        let left = until.saturating_duration_since(Instant::now());
        match timeout_at(until, link.wait_at_most(&self.target, left)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                Err(failed(&self.target.place, "setting how long it waits", error).nothing_changed())
            }
            Err(_) => Err(self.late()),
        }
    }

    async fn connect(&self) -> Result<Link, StoreError> {
        if self.lent {
            let message =
                format!("the connection to {} that was lent to this store is closed", self.target.place);
            return Err(StoreError::new(ErrorKind::Unreachable, message).nothing_changed());
        }
        Link::connect(&self.target).await
    }

    /// There is no other than one that was lent. Where the server itself said what went wrong it is still there, and made fit
    /// again before it is used.
    fn keep_lent(&self, mut taken: Taken<Link>, cause: Option<&(dyn std::error::Error + 'static)>) {
        let told: Option<&Error> = cause.and_then(|cause| cause.downcast_ref());
        if self.lent && matches!(told, None | Some(Error::Server(_))) {
            taken.link.distrust();
            self.pool.put_back(taken);
        }
    }

    /// Calls a procedure. A connection on which anything went wrong is not used again: a transaction may be open there.
    pub(super) async fn ask(
        &self,
        until: Instant,
        call: Call,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut taken = self.take(until).await?;
        let place = &self.target.place;
        let mut undone = 0;
        let answer = loop {
            if let Err(unset) = self.limited(until, &mut taken.link).await {
                if unset.source().is_some() {
                    self.keep_lent(taken, unset.source());
                }
                return Err(unset);
            }
            match timeout_at(until, taken.link.ask(call, parameters.clone())).await {
                // All of it was, for another one that is through by now.
                Ok(Err(Error::Server(told))) if told.code == DEADLOCK && undone < DEADLOCKS => undone += 1,
                answer => break answer,
            }
        };
        match answer {
            Err(_) => {
                let timeout = self.target.options.limits.timeout;
                Err(StoreError::new(
                    ErrorKind::Unreachable,
                    format!("{place} did not answer within {timeout:?}"),
                ))
            }
            Ok(Err(error)) => {
                let error = failed(place, "deciding", error);
                let explained = timeout_at(until, taken.link.explained(&self.target, error.clone())).await;
                self.keep_lent(taken, error.source());
                Err(explained.unwrap_or(error))
            }
            Ok(Ok(rows)) => {
                self.pool.put_back(taken);
                Ok(rows)
            }
        }
    }

    /// What only looks has changed nothing, whatever becomes of it.
    pub(super) async fn look(&self, call: Call, parameters: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.ask(self.until(), call, parameters).await.map_err(StoreError::nothing_changed)
    }

    /// Has one decision made. A server that turns out to be another one is put into a new epoch, and asked again.
    pub(super) async fn decide(
        &self,
        until: Instant,
        call: Call,
        parameters: &(dyn Fn() -> Vec<Value> + Sync),
    ) -> Result<Told, StoreError> {
        // Where it is lost a second time, something else is wrong.
        for _ in 0..2 {
            let told = Told::read(self.ask(until, call, parameters()).await?, &self.target.place)?;
            if !told.is_lost() {
                return Ok(told);
            }
            self.settle(until, told.epoch()?).await?;
        }
        Err(self.unsteady())
    }

    /// A decision on a caller's lease. Its token may show that history was lost: a new epoch is opened then, before the
    /// caller hears that its token is stale.
    pub(super) async fn decide_lease(
        &self,
        until: Instant,
        call: Call,
        lease: &LeaseRef,
        parameters: &(dyn Fn() -> Vec<Value> + Sync),
    ) -> Result<Told, StoreError> {
        let told = self.decide(until, call, parameters).await?;
        if told.is_rewound()? {
            // Where that fails the old epoch goes on; the caller is told that its token is stale.
            let above = lease.token.value().saturating_add(LEAP);
            let _ = self.open_epoch(until, told.epoch()?, above, false).await;
        }
        Ok(told)
    }

    fn unsteady(&self) -> StoreError {
        let message = format!("{} has been two other servers within one request", self.target.place);
        StoreError::new(ErrorKind::Busy, message)
    }

    async fn settle(&self, until: Instant, epoch: Epoch) -> Result<(), StoreError> {
        let mut taken = self.take(until).await?;
        let settled = self.in_limit(until, "open an epoch", taken.link.settle(&self.target, epoch));
        settled.await.map_err(StoreError::nothing_changed)?;
        self.pool.put_back(taken);
        Ok(())
    }

    pub(super) async fn open_epoch(
        &self,
        until: Instant,
        instead_of: Epoch,
        above: u64,
        dead: bool,
    ) -> Result<Epoch, StoreError> {
        let mut taken = self.take(until).await?;
        let opened = taken.link.open_epoch(&self.target, instead_of, above, dead);
        let epoch = self.in_limit(until, "open an epoch", opened).await?;
        self.pool.put_back(taken);
        Ok(epoch)
    }

    async fn in_limit<T>(
        &self,
        until: Instant,
        doing: &str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timeout_at(until, work).await.unwrap_or_else(|_| {
            let message = format!("{} did not {doing} in time", self.target.place);
            Err(StoreError::new(ErrorKind::Unreachable, message))
        })
    }

    /// An answer that comes when the lease is over by the caller's own clock says nothing any more.
    pub(super) fn in_time(&self, sent: Duration, ttl: Duration) -> Result<(), StoreError> {
        self.target.options.here.in_time(sent, ttl, &self.target.place)
    }

    pub(super) async fn inspect(&self, resource: ResourceName) -> Result<Inspection, StoreError> {
        let rows = self.look(Call::Inspect, vec![text(resource.as_str())]).await?;
        let row = rows.first().ok_or_else(|| self.target.unset())?;
        answer::inspection(row, &self.target.place, Some(resource))
    }

    pub(super) async fn wait(&self, resource: ResourceName, limit: Duration) -> Result<(), StoreError> {
        let begun = Begun::now();
        let look = || async {
            let occupant = self.inspect(resource.clone()).await?.occupant;
            Ok(occupant.map(|occupant| occupant.remaining))
        };
        poll(limit, FIRST..=MOST, || begun.elapsed(), look).await
    }

    /// Each of its transactions has the time of a call.
    pub(super) async fn prune(&self, older_than: Duration) -> Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            let asked = self.ask(self.until(), Call::Prune, vec![span(older_than), number(AT_ONCE)]);
            let rows = asked.await.map_err(|error| all.up_to(error))?;
            let (pruned, more) = answer::pruned(&rows, &self.target.place)?;
            all.resources = all.resources.saturating_add(pruned.resources);
            all.history = all.history.saturating_add(pruned.history);
            all.floor = pruned.floor;
            if !more {
                return Ok(all);
            }
        }
    }

    pub(super) async fn epoch(&self, until: Instant) -> Result<Epoch, StoreError> {
        let place = &self.target.place;
        for _ in 0..2 {
            let asked = self.ask(until, Call::Epoch, Vec::new());
            let rows = asked.await.map_err(StoreError::nothing_changed)?;
            if rows.is_empty() {
                return Err(self.target.unset());
            }
            let row = Reading::new(one(&rows, place)?, place);
            let (epoch, here) = (row.epoch("epoch")?, row.truth("here")?);
            if here {
                return Ok(epoch);
            }
            self.settle(until, epoch).await?;
        }
        Err(self.unsteady())
    }

    pub(super) async fn doctor(&self) -> Result<Vec<Finding>, StoreError> {
        let until = self.until();
        let examined = self.in_limit(until, "say what it is set to", async {
            // One for decisions looks for the tables first. A replica does not get past that, nor an account without rights.
            if self.lent {
                let mut taken = self.pool.take(|_| false, || self.connect()).await?;
                let found = super::doctor::examine(&self.target, &mut taken.link).await;
                let cause = found.as_ref().err().and_then(|error| error.source());
                self.keep_lent(taken, cause);
                return found;
            }
            let mut link = Link::open(&self.target).await?;
            super::doctor::examine(&self.target, &mut link).await
        });
        server::with_epoch(examined.await?, self.epoch(until).await)
    }
}
