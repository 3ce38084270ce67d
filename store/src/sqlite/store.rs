//! The store itself: three threads around one file.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, mem};

use lease_machines::{FencingToken, OwnerId};
use rusqlite::Connection;

use super::batch::Batch;
use super::connection::Target;
use super::echoes::Unheard;
use super::failure::sqlite_error;
use super::forked::OpenFile;
use super::lane::{Lane, Worked, request, unasked};
use super::prepare::{Prepared, prepare};
use super::reader::Reads;
use super::schema::{self, Missing};
use super::settings::Settings;
use super::waiters::Waiters;
use super::watch::Watch;
use super::{SqliteOptions, committer, reader};
use crate::home::Home;
use crate::owner::random;
use crate::pool::pool_name;
use crate::slot::{Outcome, Slot, Undelivered};
use crate::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, ErrorKind, Finding, HistoryEntry,
    Inspection, LeaseRef, Migration, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized,
    ResourceName, Revoked, Room, SlotRef, SlotRenewed, Store, StoreError, check,
};

/// Leases in one SQLite file, decided by the core inside an immediate transaction.
///
/// A decision is durable before it is answered (`synchronous=FULL` on a write-ahead log). Requests that arrive together
/// share one commit. Any number of processes of one machine may use the file; [`wait`](Store::wait) is woken at once
/// by a release of the same store, and by one of another process within some 25 ms.
///
/// The clock is the machine's time since boot, which nobody sets and which counts sleep. After a restart live leases
/// get their full ttl again, see [`SqliteOptions::single_host`].
///
/// # What it does not do
///
/// - One file belongs to one machine. Network and pass-through file systems are refused.
/// - One file has one name: SQLite's log and locks lie beside it. A file with hard links is refused when it is opened, and
///   so is one that was mounted without its folder, as containers do with single files.
/// - A process must not use the file through two copies of the SQLite library: closing a file in one of them drops the
///   locks of the other.
/// - A store does not survive `fork`: in the child every call is refused, and the child cannot open the same file
///   again while the parent has it open, for the copied library still counts the parent's locks as its own. A program
///   that the child executes may.
/// - A file that is removed or replaced under an open store decides nothing any more: every call is refused, with
///   [`NotSetUp`](ErrorKind::NotSetUp). Whoever holds a lease in it keeps it until its deadline, and somebody else may
///   get the same one in the new file meanwhile.
/// - A file that was put back from a backup is noticed only when a holder shows a token that the file does not know.
///   Open a new epoch after putting one back.
pub struct SqliteStore {
    settings: Arc<Settings>,
    capabilities: Capabilities,
    writes: Arc<Lane<Batch>>,
    reads: Arc<Lane<Reads>>,
    waiters: Arc<Waiters>,
    watch: Arc<Watch>,
    threads: Vec<JoinHandle<()>>,
    home: Home,
    /// Last, so that it is dropped when the connections are closed.
    _open: Option<OpenFile>,
}

impl SqliteStore {
    /// Opens a file; one that is missing or empty is created, for its owner alone, and set up, unless
    /// [`SqliteOptions::create`] says otherwise.
    ///
    /// # Errors
    ///
    /// [`NotSetUp`](ErrorKind::NotSetUp) where the file holds something else, or has lost its tables: see
    /// [`migrate`](Self::migrate). [`Schema`](ErrorKind::Schema) where a newer program has set it up.
    /// [`Damaged`](ErrorKind::Damaged), [`Permission`](ErrorKind::Permission), [`Storage`](ErrorKind::Storage) as they
    /// say. [`Configuration`](ErrorKind::Configuration) for a folder that does not exist, a network file system, a file
    /// that another machine seems to use.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::start(Target::file(path.as_ref()), options)
    }

    /// A database in memory, gone when the store is dropped.
    ///
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) for settings out of range, or an SQLite older than 3.36.
    pub fn open_in_memory(options: SqliteOptions) -> Result<Self, StoreError> {
        let name = format!("/lease-{:016x}", random()?);
        Self::start(Target::Memory(name), options)
    }

    /// Adds the tables of a lease store to a file, whatever else is in it, so that leases and the data that they guard
    /// can be in one database. Nothing is changed where they are there. Any number of processes may do it at once.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn migrate(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Migration, StoreError> {
        let target = Target::file(path.as_ref());
        let prepared = prepare(&target, options, Missing::SetUp)?;
        Ok(if prepared.made { Migration::SetUp } else { Migration::UpToDate })
    }

    /// The SQL that [`migrate`](Self::migrate) carries out, beside writing one row with a random epoch. SQLite has no
    /// rights to grant: whoever may write the file and its folder may use the store.
    #[must_use]
    pub const fn migration_sql() -> &'static str {
        schema::TABLES
    }

    /// What a decision is measured against: one row written through the same queue and commit, decided by nobody.
    #[cfg(feature = "measure")]
    #[doc(hidden)]
    pub fn bare_upsert(&self, resource: ResourceName, value: i64) -> Answer<'_, ()> {
        self.write(move |batch| batch.bare_upsert(&resource, value).map(Ok))
    }

    fn start(target: Target, options: SqliteOptions) -> Result<Self, StoreError> {
        let history = options.limits.history;
        let max_ttl = options.limits.max_ttl;
        let missing = if options.create { Missing::SetUpIfEmpty } else { Missing::Leave };
        let Prepared { connection, settings, open, .. } = prepare(&target, options, missing)?;
        let looking = target.connect(&settings.place)?;
        settings.is_still_there()?;
        looking
            .execute_batch("PRAGMA query_only = ON")
            .map_err(|error| sqlite_error(&settings.place, "setting up", error))?;
        let mut capabilities = Capabilities::all("sqlite", max_ttl);
        capabilities.durable = settings.place.path().is_some();
        capabilities.history = history.is_some();
        // What another process releases is seen by looking.
        capabilities.wakes_waiters = settings.place.path().is_none();
        let mut store = Self {
            settings: Arc::new(settings),
            capabilities,
            writes: Arc::new(Lane::new()),
            reads: Arc::new(Lane::new()),
            waiters: Arc::default(),
            watch: Watch::new(),
            threads: Vec::new(),
            home: Home::here(),
            _open: open,
        };
        // A thread that cannot be started ends the others, as dropping the store does.
        store.start_committer(connection)?;
        store.start_reader(looking)?;
        store.start_watch()?;
        Ok(store)
    }

    fn start_committer(&mut self, connection: Connection) -> Result<(), StoreError> {
        let (settings, lane) = (Arc::clone(&self.settings), Arc::clone(&self.writes));
        let (reads, waiters) = (Arc::clone(&self.reads), Arc::clone(&self.waiters));
        self.spawn("lease-writer", move || {
            committer::run(connection, &settings, &lane, &|| {
                if !waiters.is_empty() {
                    reads.nudge();
                }
            });
        })
    }

    fn start_reader(&mut self, connection: Connection) -> Result<(), StoreError> {
        let (settings, lane) = (Arc::clone(&self.settings), Arc::clone(&self.reads));
        let waiters = Arc::clone(&self.waiters);
        self.spawn("lease-reader", move || reader::run(connection, settings, &lane, &waiters))
    }

    fn start_watch(&mut self) -> Result<(), StoreError> {
        let (settings, watch) = (Arc::clone(&self.settings), Arc::clone(&self.watch));
        let (writes, reads) = (Arc::clone(&self.writes), Arc::clone(&self.reads));
        let waiters = Arc::clone(&self.waiters);
        self.spawn("lease-watch", move || {
            let place = &settings.place;
            let waiting = || {
                let message = format!(
                    "{place} was locked by another process, or did not answer, for {:?}",
                    place.timeout
                );
                StoreError::new(ErrorKind::Busy, message)
            };
            let running = || {
                let message = format!("{place} did not finish within {:?}", place.timeout);
                StoreError::new(ErrorKind::Unreachable, message)
            };
            watch.run(place.timeout, || {
                let writing = writes.end_overdue(place.timeout, &waiting, &running);
                let reading = reads.end_overdue(place.timeout, &waiting, &|| running().nothing_changed());
                // Usually the thread that looks has ended them, unless it hangs.
                let some_wait = !waiters.is_empty() && waiters.end_over(settings.boot.at(0).now);
                writing || reading || some_wait
            });
        })
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
            StoreError::new(ErrorKind::Configuration, format!("no thread can be started: {error}"))
                .with_source(error)
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// The parent's connections must not be used by its child.
    fn here(&self) -> Result<(), StoreError> {
        self.home.check(&self.settings.place)
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Batch) -> Worked<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.write_or(Box::new(drop), work)
    }

    /// Has the work done once the future is polled, and not before.
    fn write_or<T: Send + 'static>(
        &self,
        undelivered: Undelivered<T>,
        work: impl FnMut(&Batch) -> Worked<T> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            self.here()?;
            let (work, pending) = request(undelivered, work);
            self.writes.push(work);
            self.watch.arm();
            pending.await
        })
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnMut(&Reads) -> Worked<T> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            self.here()?;
            let (work, pending) = request(Box::new(drop), work);
            self.reads.push(work);
            self.watch.arm();
            pending.await
        })
    }

    fn claim(&self, claim: Claim, again: bool) -> Answer<'_, Acquired> {
        let claim = match check::claim(claim, self.capabilities.max_ttl) {
            Ok(claim) => claim,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let lane = Arc::downgrade(&self.writes);
        let (resource, owner) = (claim.resource.clone(), claim.owner);
        let undelivered = move |answer: Outcome<(Acquired, Option<Unheard>)>| {
            // Decided, but the caller left before it heard: nobody would ever release it.
            if let (Ok((Acquired::Granted(grant), Some(unheard))), Some(lane)) = (answer, lane.upgrade()) {
                let (resource, token) = (resource.clone(), grant.token);
                lane.push(unasked(move |batch: &Batch| batch.undo(&resource, owner, token, unheard)));
            }
        };
        let answer = self.write_or(Box::new(undelivered), move |batch: &Batch| batch.acquire(&claim, again));
        Box::pin(async move { answer.await.map(|(acquired, _)| acquired) })
    }

    fn slot_claim(&self, claim: PoolClaim, again: bool) -> Answer<'_, Claimed> {
        let claim = match check::pool_claim(claim, self.capabilities.max_ttl) {
            Ok(claim) => claim,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let lane = Arc::downgrade(&self.writes);
        let (pool, owner) = (claim.pool.clone(), claim.owner);
        let undelivered = move |answer: Outcome<(Claimed, Option<Unheard>)>| {
            if let (Ok((Claimed::Granted(held), Some(unheard))), Some(lane)) = (answer, lane.upgrade()) {
                let pool = pool.clone();
                lane.push(unasked(move |batch: &Batch| {
                    batch.undo_slot(&pool, held.slot, owner, held.token, unheard)
                }));
            }
        };
        let answer =
            self.write_or(Box::new(undelivered), move |batch: &Batch| batch.claim_slot(&claim, again));
        Box::pin(async move { answer.await.map(|(claimed, _)| claimed) })
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn epoch(&self) -> Answer<'_, Epoch> {
        self.read(Reads::epoch)
    }

    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, false)
    }

    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        self.claim(claim, true)
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        match check::ttl(ttl, self.capabilities.max_ttl) {
            Ok(ttl) => self.write(move |batch| batch.renew(&lease, ttl)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        self.write(move |batch| batch.renew_many(&leases).map(Ok))
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released> {
        match check::ending(&ending, self.capabilities.max_ttl) {
            Ok(()) => self.write(move |batch| batch.release(&lease, &ending)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        self.write(move |batch| batch.withdraw(&resource, owner))
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        match check::text("reason", reason.as_deref()) {
            Ok(()) => self.write(move |batch| batch.revoke(&resource, expect, reason.as_deref())),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.read(move |reads| reads.inspect(&resource))
    }

    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        self.read(move |reads| reads.list(&prefix))
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        self.read(move |reads| reads.history(&resource, limit))
    }

    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        Box::pin(async move {
            let mut all = Pruned::default();
            loop {
                let written = self.write(move |batch| batch.prune(older_than).map(Ok));
                let (pruned, more) = written.await.map_err(|error| all.up_to(error))?;
                all.resources = all.resources.saturating_add(pruned.resources);
                all.history = all.history.saturating_add(pruned.history);
                all.floor = pruned.floor;
                if !more {
                    return Ok(all);
                }
            }
        })
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            self.here()?;
            let until = self.settings.boot.at(0).now.saturating_add(limit);
            let (slot, pending) = Slot::new(Box::new(drop));
            self.waiters.add(resource, until, slot);
            self.reads.nudge();
            self.watch.arm();
            pending.await
        })
    }

    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        self.write(move |batch| batch.open_epoch(&opening))
    }

    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.slot_claim(claim, false)
    }

    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        self.slot_claim(claim, true)
    }

    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        match check::ttl(ttl, self.capabilities.max_ttl) {
            Ok(ttl) => self.write(move |batch| batch.renew_slot(&lease, ttl, id_time)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        match check::last_used(last_used) {
            Ok(last_used) => self.write(move |batch| batch.release_slot(&lease, last_used)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        match pool_name(&pool) {
            Ok(()) => self.write(move |batch| batch.withdraw_slot(&pool, owner)),
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
            Ok(()) => self.write(move |batch| batch.revoke_slot(&pool, slot, expect, reason.as_deref())),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        self.read(Reads::pools)
    }

    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        self.read(move |reads| reads.slots(&pool))
    }

    fn room(&self, claim: PoolClaim) -> Answer<'_, Room> {
        self.read(move |reads| reads.room(&claim))
    }

    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        match pool_name(&pool).and_then(|()| check::size(size)) {
            Ok(()) => self.write(move |batch| batch.resize_pool(&pool, size)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        Box::pin(async move {
            // A setting of that connection alone; it is not stored in the file.
            let level = self.write(|batch| batch.synchronous().map(Ok)).await.ok();
            self.read(move |reads| reads.doctor(level)).await
        })
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("place", &self.settings.place.to_string()).finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    /// Finishes what is queued, grants that nobody heard of taken back among it, and closes the file. Where another
    /// process keeps the file locked, that is waited for no longer than a request would be.
    fn drop(&mut self) {
        let threads = mem::take(&mut self.threads);
        if !self.home.is_here() {
            // The threads are the parent's; there is nothing here to join, nor a connection that may be closed.
            mem::forget(threads);
            mem::forget(self._open.take());
            return;
        }
        self.writes.close();
        self.reads.close();
        self.watch.close();
        for thread in threads {
            // A panic there has been reported on stderr, and the watch has ended its requests.
            let _ = thread.join();
        }
    }
}
