//! Where an open store is kept: opened once more in a child, and closed before a fork where it would not survive one.
//!
//! A store on a server is left as it is by a fork: the child's copy is forgotten, and the parent's goes on. An SQLite file
//! that is open while its process forks can never be opened by the child, since SQLite counts the parent's locks as the
//! child's. So it is closed before, and opened again by whoever needs it first.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_os::Generation;
use lease_machines_store::{self as engine, ErrorKind, StoreError};

use crate::process::{self, Process};

/// For how long a fork waits for calls of other threads that are not answered yet. Where that is not enough, the child
/// cannot open the file, and is told so.
const PATIENCE: Duration = Duration::from_millis(500);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Files are being closed for a fork: none is to be opened before it is done.
static FORKING: AtomicBool = AtomicBool::new(false);

/// The place of one store.
pub(crate) struct Slot {
    /// It may have a password in it, and is shown to nobody.
    url: String,
    create: bool,
    opened: Mutex<Option<Arc<Live>>>,
    closed: AtomicBool,
}

/// An open store. Dropped in a child, it leaves the parent's as it is. Dropped in its own process, it is closed by a thread that may
/// wait for a disk: whoever drops it may have Ruby's lock, or be its collector.
pub(crate) struct Live {
    store: Option<Arc<dyn engine::Store>>,
    /// Goes when the store is closed, and no sooner.
    closed: Option<Arc<()>>,
    generation: Generation,
}

impl Live {
    fn is_here(&self) -> bool {
        self.generation.is_current()
    }

    /// What is asked.
    pub(crate) fn store(&self) -> Result<&dyn engine::Store, StoreError> {
        // It is only ever taken out when this is dropped.
        self.store.as_deref().ok_or_else(|| StoreError::new(ErrorKind::Unsupported, "a store that is none"))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let (store, closed) = (self.store.take(), self.closed.take());
        if self.generation.is_current() {
            process::detach_blocking(move || {
                drop(store);
                drop(closed);
            });
        } else {
            mem::forget(store);
        }
    }
}

impl Slot {
    pub(crate) fn new(url: String, create: bool) -> Self {
        Self { url, create, opened: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// Begins to open it; `None` while files are being closed for a fork, unless it has to be.
    pub(crate) fn begin(self: &Arc<Self>, process: &'static Process, has_to_be: bool) -> Option<Opening> {
        // First it is counted, then it looks: whoever forks does it the other way round.
        process.opening().fetch_add(1, Ordering::SeqCst);
        let opening = Opening { slot: Arc::clone(self), process };
        (has_to_be || !FORKING.load(Ordering::SeqCst)).then_some(opening)
    }

    /// This process's store, if it is open.
    pub(crate) fn get(&self) -> Option<Arc<Live>> {
        self.lock().as_ref().filter(|live| live.is_here()).cloned()
    }

    fn has_file(&self) -> bool {
        self.get().is_some_and(|live| {
            live.store().is_ok_and(|store| {
                let can = store.capabilities();
                can.engine == "sqlite" && can.durable
            })
        })
    }

    /// Takes it out. What is returned goes when it is closed.
    pub(crate) fn take(&self) -> Option<Weak<()>> {
        let live = self.lock().take();
        live.filter(|live| live.is_here()).and_then(|live| live.closed.as_ref().map(Arc::downgrade))
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// It is held for some instructions: by threads that have Ruby's lock, as whoever forks has, or that whoever forks
    /// waits for. So no child finds it held.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is being opened.
pub(crate) struct Opening {
    slot: Arc<Slot>,
    process: &'static Process,
}

impl Opening {
    /// Opens it, and puts it into its slot, unless another thread was faster: all have to use the same. It may block.
    pub(crate) fn open(self) -> Result<Arc<Live>, StoreError> {
        let slot = &self.slot;
        let store = if slot.create { engine::open(&slot.url) } else { engine::open_existing(&slot.url) }?;
        let (store, closed) = (Some(store), Some(Arc::new(())));
        let mine = Arc::new(Live { store, closed, generation: Generation::current() });
        let mut place = slot.lock();
        if let Some(others) = place.as_ref().filter(|live| live.is_here()) {
            return Ok(Arc::clone(others));
        }
        // What was there is a parent's.
        *place = Some(Arc::clone(&mine));
        Ok(mine)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.process.opening().fetch_sub(1, Ordering::SeqCst);
    }
}

/// Keeps files from being opened, until [`after_fork`]. Says whether there is something to close, for [`close_files`].
pub(crate) fn before_fork() -> bool {
    FORKING.store(true, Ordering::SeqCst);
    process::known().is_some_and(|process| {
        process.opening().load(Ordering::SeqCst) > 0 || process.opened().iter().any(|slot| slot.has_file())
    })
}

/// The fork is done, in the parent as in the child.
pub(crate) fn after_fork() {
    FORKING.store(false, Ordering::SeqCst);
}

/// Closes the files that a child could not open. Waits for those that are being opened, and that calls of other threads
/// still use. It blocks.
pub(crate) fn close_files(process: &'static Process) {
    let begun = Instant::now();
    while process.opening().load(Ordering::SeqCst) > 0 && begun.elapsed() < PATIENCE {
        thread::sleep(PAUSE);
    }
    let files = process.opened().into_iter().filter(|slot| slot.has_file());
    let going: Vec<Weak<()>> = files.filter_map(|slot| slot.take()).collect();
    for closed in going {
        until_closed(&closed, begun);
    }
}

/// Waits for it, but not for calls of other threads that go on for longer. It blocks.
pub(crate) fn until_closed(closed: &Weak<()>, begun: Instant) {
    while closed.strong_count() > 0 && begun.elapsed() < PATIENCE {
        thread::sleep(PAUSE);
    }
}
