//! SQLite's own locks, at a fork.
//!
//! SQLite has a dozen locks of the whole process: for memory, pages, random numbers, file systems. A thread that works
//! in a database has one or another of them every few instructions, and a store in memory goes on working while its process
//! forks. A child that was forked at such a moment would have a copy of a lock that nobody ever gives back, and its first store
//! would hang in it. So whoever forks has all of them meanwhile, as the C library does with those of its `malloc`.

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_store::{ErrorKind, StoreError};
use rusqlite::ffi;

const LOCKS: RangeInclusive<c_int> = ffi::SQLITE_MUTEX_STATIC_MAIN..=ffi::SQLITE_MUTEX_STATIC_VFS3;

/// For how long a fork waits for them. They are held for some instructions each, one of them for the opening of a file.
const PATIENCE: Duration = Duration::from_millis(500);

thread_local! {
    /// This thread forks, and has them.
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// This process was forked while one of them was held for too long.
static LOST: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

/// From now on a child finds SQLite as it should be. For the thread that loads the library.
pub(crate) fn survive_forks() {
    // SAFETY: both may be called at any time. SQLite is made ready now, since a child could not go on with what a thread had
    // begun; where it cannot be, opening says so. The handlers are there as long as the process: Ruby unloads nothing. For
    // more of them than there is memory, forks are as they were.
    unsafe {
        let _ = ffi::sqlite3_initialize();
        let _ = pthread_atfork(Some(before), Some(after), Some(after_in_child));
    }
}

/// # Errors
///
/// Where this process's SQLite cannot be used.
pub(crate) fn check(url: &str) -> Result<(), StoreError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    if LOST.load(Ordering::Relaxed) && scheme.eq_ignore_ascii_case("sqlite") {
        let message = "this process was forked while a thread of its parent's was in SQLite, and did not come out of it \
                       in time: no store of SQLite can be opened here. Fork again, or execute a program";
        return Err(StoreError::new(ErrorKind::Configuration, message));
    }
    Ok(())
}

unsafe extern "C" fn before() {
    let begun = Instant::now();
    // All or none: whoever has one may be about to take another.
    let held = loop {
        if take_all() {
            break true;
        }
        if begun.elapsed() > PATIENCE {
            break false;
        }
        thread::yield_now();
    };
    HELD.set(held);
}

unsafe extern "C" fn after() {
    if HELD.take() {
        give_back(LOCKS);
    }
}

unsafe extern "C" fn after_in_child() {
    if HELD.take() {
        give_back(LOCKS);
    } else {
        LOST.store(true, Ordering::Relaxed);
    }
}

fn take_all() -> bool {
    for id in LOCKS {
        // SAFETY: for these numbers it is a lock that is there as long as the process, and null in an SQLite without threads,
        // where taking and giving back do nothing.
        let taken = unsafe { ffi::sqlite3_mutex_try(ffi::sqlite3_mutex_alloc(id)) } == ffi::SQLITE_OK;
        if !taken {
            give_back(*LOCKS.start()..=id.saturating_sub(1));
            return false;
        }
    }
    true
}

fn give_back(taken: RangeInclusive<c_int>) {
    for id in taken {
        // SAFETY: as in `take_all`; this thread, or in a child what was this thread, has taken it.
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(id)) };
    }
}
