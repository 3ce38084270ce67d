//! What all calls of a store share: sending a statement, and noticing that the server has lost history.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::answer::{self, Told};
use super::calls::{self, Call, Parameter, bytes, span};
use super::doctor::examine;
use super::failure::{Place, failed};
use super::link::{Link, Target};
use crate::decide::LEAP;
use crate::server::{self, Pool, Taken};
use crate::{Epoch, ErrorKind, Finding, Inspection, LeaseRef, Pruned, ResourceName, StoreError};

/// Prunes as many resources in one transaction as a first grant can wait for.
const AT_ONCE: i32 = 2_000;

pub(super) struct Hub {
    pub(super) target: Target,
    pub(super) pool: Pool<Link>,
    /// There is one connection, the user's own; no other is made.
    pub(super) lent: bool,
}

impl Hub {
    /// When a call that begins now has to be answered: all that is asked for it, together.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.target.options.limits.timeout
    }

    /// Waits for a connection, or makes it. One that was lent is looked at when it is first used.
    pub(super) async fn take(&self) -> Result<Taken<Link>, StoreError> {
        let taken = self.take_unseen().await?;
        if let Err(unfit) = taken.link.make_fit(&self.target).await {
            self.pool.put_back(taken);
            return Err(unfit);
        }
        Ok(taken)
    }

    /// One that was lent as it is.
    async fn take_unseen(&self) -> Result<Taken<Link>, StoreError> {
        let connect = || async {
            if self.lent {
                let message =
                    format!("the connection to {} that was lent to this store is closed", self.target.place);
                return Err(StoreError::new(ErrorKind::Unreachable, message).nothing_changed());
            }
            Link::connect(&self.target).await
        };
        self.pool.take(Link::is_closed, connect).await
    }

    /// Sends a statement; its rows are the answer once the server is ready for the next.
    pub(super) async fn ask(
        &self,
        until: Instant,
        call: Call,
        parameters: Vec<Parameter>,
    ) -> Result<Vec<Row>, StoreError> {
        self.ask_soon(until, until, call, parameters).await
    }

    /// The same, where neither a connection nor a lock is waited for beyond `soon`. The answer still is, until `until`.
    pub(super) async fn ask_soon(
        &self,
        soon: Instant,
        until: Instant,
        call: Call,
        parameters: Vec<Parameter>,
    ) -> Result<Vec<Row>, StoreError> {
        let target = &self.target;
        let begun = Instant::now();
        let late = || {
            let left = soon.saturating_duration_since(begun);
            let message = format!("{} could not be asked within the {left:?} that were left", target.place);
            StoreError::new(ErrorKind::Busy, message)
        };
        // A connection that is free is had at once, also when it is too late to ask.
        if soon <= Instant::now() {
            return Err(late());
        }
        let taken = timeout_at(soon, self.take()).await.map_err(|_| late())??;
        let left = soon.saturating_duration_since(Instant::now());
        match timeout_at(until, taken.link.ask(target, call, parameters, left)).await {
            // Its answer may still come: nobody else must take it for theirs.
            Err(_) => {
                taken.link.cut();
                let message =
                    format!("{} did not answer within {:?}", target.place, target.options.limits.timeout);
                Err(StoreError::new(ErrorKind::Unreachable, message))
            }
            Ok(Err(error)) => {
                self.pool.put_back(taken);
                Err(failed(&target.place, "deciding", error))
            }
            Ok(Ok(rows)) => {
                let synced = taken.link.synced(&target.place);
                self.pool.put_back(taken);
                synced.map(|()| rows)
            }
        }
    }

    /// Has one decision made. A server that turns out to have lost history is put into a new epoch, and asked again.
    pub(super) async fn decide(
        &self,
        until: Instant,
        call: Call,
        parameters: &(dyn Fn() -> Vec<Parameter> + Sync),
    ) -> Result<Told, StoreError> {
        // Where it is lost a second time, something else is wrong.
        for _ in 0..2 {
            let rows = self.ask(until, call, parameters()).await?;
            let told = Told::read(one(rows, &self.target.place)?, &self.target.place)?;
            if !told.is_lost() {
                return Ok(told);
            }
            self.settle(until, told.epoch()?).await?;
        }
        Err(StoreError::new(
            ErrorKind::Busy,
            format!("{} has changed its timeline twice within one request", self.target.place),
        ))
    }

    /// Whatever becomes of it, the decision for which it is done was not made.
    async fn settle(&self, until: Instant, epoch: Epoch) -> Result<(), StoreError> {
        let settled = timeout_at(until, async {
            let taken = self.take().await?;
            taken.link.settle(&self.target, epoch).await?;
            self.pool.put_back(taken);
            Ok(())
        });
        let settled = settled.await.unwrap_or_else(|_| {
            Err(StoreError::new(
                ErrorKind::Unreachable,
                format!("{} did not open an epoch in time", self.target.place),
            ))
        });
        settled.map_err(StoreError::nothing_changed)
    }

    /// A decision on a caller's lease. Its token may show that history was lost: a new epoch is opened then, before the
    /// caller hears that its token is stale.
    pub(super) async fn decide_lease(
        &self,
        until: Instant,
        call: Call,
        lease: &LeaseRef,
        parameters: &(dyn Fn() -> Vec<Parameter> + Sync),
    ) -> Result<Told, StoreError> {
        let told = self.decide(until, call, parameters).await?;
        if told.is_rewound()? {
            // Where that fails the old epoch goes on; the caller is told that its token is stale.
            let above = lease.token.value().saturating_add(LEAP);
            let _ = self.open_epoch(until, told.epoch()?, above, false).await;
        }
        Ok(told)
    }

    pub(super) async fn open_epoch(
        &self,
        until: Instant,
        instead_of: Epoch,
        above: u64,
        dead: bool,
    ) -> Result<Epoch, StoreError> {
        let opened = timeout_at(until, async {
            let taken = self.take().await?;
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
    pub(super) fn in_time(&self, sent: Duration, ttl: Duration) -> Result<(), StoreError> {
        self.target.options.here.in_time(sent, ttl, &self.target.place)
    }

    pub(super) async fn inspect(&self, resource: ResourceName) -> Result<Inspection, StoreError> {
        let rows = self.look(Call::Inspect, vec![bytes(resource.as_str())]).await?;
        let place = &self.target.place;
        let row = rows.first().ok_or_else(|| {
            let message = format!("{place} has no epoch: it was never set up, or was wiped");
            StoreError::new(ErrorKind::NotSetUp, message)
        })?;
        answer::inspection(row, place, Some(resource))
    }

    /// What only looks has changed nothing, whatever becomes of it.
    pub(super) async fn look(&self, call: Call, parameters: Vec<Parameter>) -> Result<Vec<Row>, StoreError> {
        self.ask(self.until(), call, parameters).await.map_err(StoreError::nothing_changed)
    }

    /// Each of its transactions has the time of a call.
    pub(super) async fn prune(&self, older_than: Duration) -> Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            let asked = self.ask(self.until(), Call::Prune, vec![span(older_than), calls::small(AT_ONCE)]);
            let rows = asked.await.map_err(|error| all.up_to(error))?;
            let (pruned, more) = answer::pruned(&one(rows, &self.target.place)?, &self.target.place)?;
            all.resources = all.resources.saturating_add(pruned.resources);
            all.history = all.history.saturating_add(pruned.history);
            all.floor = pruned.floor;
            if !more {
                return Ok(all);
            }
        }
    }

    pub(super) async fn epoch(&self, until: Instant) -> Result<Epoch, StoreError> {
        for _ in 0..2 {
            let asked = self.ask(until, Call::Epoch, Vec::new());
            let rows = asked.await.map_err(StoreError::nothing_changed)?;
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
            self.settle(until, epoch).await?;
        }
        Err(StoreError::new(
            ErrorKind::Busy,
            format!("{} has changed its timeline twice within one request", self.target.place),
        ))
    }

    pub(super) async fn doctor(&self) -> Result<Vec<Finding>, StoreError> {
        let (target, until) = (&self.target, self.until());
        let examined = timeout_at(until, async {
            if self.lent {
                let taken = self.take_unseen().await?;
                let found = examine(target, &taken.link, None).await;
                self.pool.put_back(taken);
                return found;
            }
            // One for decisions looks for the tables first. A standby does not get past that, nor a role without rights.
            let (link, tag) = Link::open(target).await?;
            examine(target, &link, tag.as_deref()).await
        });
        let found = examined.await.unwrap_or_else(|_| {
            let message = format!("{} did not say what it is set to in time", target.place);
            Err(StoreError::new(ErrorKind::Unreachable, message).nothing_changed())
        });
        server::with_epoch(found?, self.epoch(until).await)
    }
}

pub(super) fn one(rows: Vec<Row>, place: &Place) -> Result<Row, StoreError> {
    rows.into_iter().next().ok_or_else(|| answer::nonsense(place, "no row at all"))
}
