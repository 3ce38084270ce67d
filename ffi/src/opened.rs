//! Where an open store is kept: opened once more in a child, and closed before a fork where it would not survive one.
//!
//! A store on a server is left as it is by a fork: the child's copy is forgotten, and the parent's goes on. An SQLite file
//! that is open while its process forks can never be opened by the child, since SQLite counts the parent's locks as the
//! child's. So it is closed before, and opened again by whoever needs it first. One in memory goes on, too: what a child would
//! find locked of SQLite's is in [`sqlite`].

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_id::Lent;
use lease_machines_os::PerProcess;
use lease_machines_store::{self as engine, ErrorKind, StoreError};

use crate::file::File;
use crate::process::{self, Own, Process};
use crate::sqlite;

/// For how long a fork waits for calls of other threads that are not answered yet. Where that is not enough, the child
/// cannot open the file, and is told so.
const PATIENCE: Duration = Duration::from_millis(500);

/// Between two looks.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// For how many of them a file waits for a fork, before it is opened all the same: who forks may be the one who asks.
const MOST_PAUSES: u32 = 1_000;

/// How many threads of the process are about to fork it: files are being closed, and none is to be opened before it is done.
/// A child begins with none, whoever else was about to.
static FORKING: PerProcess<AtomicUsize> = PerProcess::new();

/// The place of one store.
pub(crate) struct Slot {
    /// It may have a password in it, and is shown to nobody.
    url: String,
    /// What was opened first, and is to be opened again.
    file: Option<File>,
    /// Used by threads that have Ruby's lock alone, as whoever forks has: so no child finds it held.
    opened: Mutex<Option<Arc<Live>>>,
    closed: AtomicBool,
}

/// An open store. Dropped in its own process, it is closed by a thread that may wait for a disk: whoever drops it may have
/// Ruby's lock, or be its collector.
pub(crate) struct Live(Own<(Arc<dyn engine::Store>, Arc<Presence>)>);

impl Live {
    fn new(store: Arc<dyn engine::Store>, presence: Presence) -> Arc<Self> {
        let can = store.capabilities();
        let has_file = can.engine == "sqlite" && can.durable;
        let presence = if has_file { presence } else { presence.without_file() };
        Arc::new(Self(Own::new((store, Arc::new(presence)))))
    }

    /// Whether it is this process's.
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// What is asked.
    pub(crate) fn store(&self) -> Result<&dyn engine::Store, StoreError> {
        self.0.get().map(|(store, _)| &**store).ok_or_else(none)
    }

    fn presence(&self) -> Option<&Arc<Presence>> {
        self.0.get().map(|(_, presence)| presence)
    }

    /// For one call of a thread that is not Ruby's.
    pub(crate) fn lend(self: Arc<Self>) -> Result<Lent, StoreError> {
        let store = self.0.get().map(|(store, _)| Arc::clone(store)).ok_or_else(none)?;
        Ok(Box::new(Borrowed(store, self)))
    }

    pub(crate) fn has_file(&self) -> bool {
        self.presence().is_some_and(|presence| presence.counted_in.is_some())
    }
}

/// Nobody has a child ask its parent's, and it is only ever taken out when it is dropped.
fn none() -> StoreError {
    StoreError::new(ErrorKind::Unsupported, "a store that is none")
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((store, presence)) = self.0.take() {
            process::detach_blocking(move || {
                drop(store);
                drop(presence);
            });
        }
    }
}

/// One that was seen to be there.
struct Borrowed(
    Arc<dyn engine::Store>,
    #[expect(dead_code, reason = "closes the store when it goes")] Arc<Live>,
);

impl Deref for Borrowed {
    type Target = dyn engine::Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Goes when its store is closed, and no sooner. Until then a file counts as open.
pub(crate) struct Presence {
    counted_in: Option<&'static Process>,
}

impl Presence {
    /// That of something that is going to use a file, or may; `None` while files are being closed for a fork, unless it has
    /// paused often enough.
    pub(crate) fn begin(process: &'static Process, pauses: u32) -> Option<Self> {
        // First it is counted, then it looks: whoever forks does it the other way round.
        process.files().fetch_add(1, Ordering::SeqCst);
        let counted = Self { counted_in: Some(process) };
        (pauses >= MOST_PAUSES || forking().load(Ordering::SeqCst) == 0).then_some(counted)
    }

    /// The same, once no fork stands in the way. It blocks.
    pub(crate) fn begin_patiently(process: &'static Process) -> Self {
        let mut pauses = 0;
        loop {
            if let Some(presence) = Self::begin(process, pauses) {
                return presence;
            }
            thread::sleep(PAUSE);
            pauses += 1;
        }
    }

    /// The same for what turns out to use no file.
    fn without_file(self) -> Self {
        Self { counted_in: None }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(process) = self.counted_in {
            process.files().fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Slot {
    /// Opens the store at a URL, which from then on is this one. It may block.
    pub(crate) fn of(
        url: String,
        create: bool,
        presence: Presence,
    ) -> Result<(Arc<Self>, Arc<Live>), StoreError> {
        sqlite::check(&url)?;
        let path = File::path_of(&url);
        let store = if create { engine::open(&url) } else { engine::open_existing(&url) }?;
        let live = Live::new(store, presence);
        let file = if live.has_file() { Some(File::opened(path?, &url)?) } else { None };
        Ok((Arc::new(Self { url, file, opened: Mutex::default(), closed: AtomicBool::new(false) }), live))
    }

    /// Opens it for this process, and a file only if it is still the same. It may block.
    pub(crate) fn open(&self, presence: Presence) -> Result<Arc<Live>, StoreError> {
        sqlite::check(&self.url)?;
        let store = match &self.file {
            Some(file) => file.open_again(),
            None => engine::open(&self.url),
        };
        Ok(Live::new(store?, presence))
    }

    /// Puts it in its place, unless another thread was faster: all have to use the same. Where files are being closed for a
    /// fork it has no place, and is for one call.
    pub(crate) fn put(self: &Arc<Self>, mine: Arc<Live>) -> Arc<Live> {
        if mine.has_file() {
            if forking().load(Ordering::SeqCst) > 0 {
                return mine;
            }
            if let Some(process) = process::known() {
                process.remember(Arc::downgrade(self));
            }
        }
        let mut place = self.lock();
        match place.as_ref().filter(|live| live.is_here()) {
            Some(others) => Arc::clone(others),
            // What was there is a parent's.
            None => Arc::clone(place.insert(mine)),
        }
    }

    /// This process's store, if it is open.
    pub(crate) fn get(&self) -> Option<Arc<Live>> {
        self.lock().as_ref().filter(|live| live.is_here()).cloned()
    }

    /// Takes it out. What is returned goes when it is closed.
    pub(crate) fn take(&self) -> Option<Weak<Presence>> {
        let live = self.lock().take();
        live.and_then(|live| live.presence().map(Arc::downgrade))
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps files from being opened until [`after_fork`], and begins to close those that are open. Says whether there is
/// anything to wait for, by [`until_no_file`].
pub(crate) fn before_fork() -> bool {
    forking().fetch_add(1, Ordering::SeqCst);
    let Some(process) = process::known() else { return false };
    for slot in process.with_files() {
        slot.take();
    }
    process.files().load(Ordering::SeqCst) > 0
}

/// The fork is done, or came to nothing.
pub(crate) fn after_fork() {
    // A child has counted none.
    if let Some(forking) = FORKING.get() {
        forking.fetch_sub(1, Ordering::SeqCst);
    }
}

fn forking() -> &'static AtomicUsize {
    let Ok(forking) = FORKING.get_or_try_init(|| Ok::<_, Infallible>(AtomicUsize::new(0)));
    forking
}

/// Waits until no file is open any more, but not for calls of other threads that go on for longer. It blocks.
pub(crate) fn until_no_file() {
    patiently(|| process::known().is_none_or(|process| process.files().load(Ordering::SeqCst) == 0));
}

/// The same for one store.
pub(crate) fn until_closed(presence: &Weak<Presence>) {
    patiently(|| presence.strong_count() == 0);
}

fn patiently(is_done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_done() && begun.elapsed() < PATIENCE {
        thread::sleep(PAUSE);
    }
}
