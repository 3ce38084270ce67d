//! Which process something belongs to.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process that made something, as far as forks go. A fork copies memory, but neither threads nor rights.
///
/// On Linux it is a number in a page that the kernel empties in a child (`MADV_WIPEONFORK`): one load tells, whichever way
/// the process was forked, and a process number that is used again deceives nobody. Where there is no such page, it is the
/// number of the process, which takes a system call to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generation {
    number: u64,
    by_page: bool,
}

/// Counts the generations that this process and those before it have known, so that no child takes up a number which its
/// memory has from its parent.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Generation {
    /// That of the process which asks.
    #[must_use]
    pub fn current() -> Self {
        let Some(page) = page::get() else {
            return Self { number: u64::from(std::process::id()), by_page: false };
        };
        let mut number = page.load(Ordering::Relaxed);
        if number == 0 {
            let mine = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            number = match page.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => mine,
                Err(another_threads) => another_threads,
            };
        }
        Self { number, by_page: true }
    }

    /// Whether it is that of the process which asks.
    #[must_use]
    #[inline]
    pub fn is_current(self) -> bool {
        if self.by_page {
            page::get().is_some_and(|page| page.load(Ordering::Relaxed) == self.number)
        } else {
            self.number == u64::from(std::process::id())
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod page {
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Enough for the number; the kernel rounds it up to a page.
    const LENGTH: usize = size_of::<AtomicU64>();

    /// The page; null before the first call.
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    /// What stands there where the system has no such pages: never read.
    static NONE: AtomicU64 = AtomicU64::new(0);

    /// The number, in a page that is empty in every child.
    #[inline]
    pub(super) fn get() -> Option<&'static AtomicU64> {
        let found = PAGE.load(Ordering::Acquire);
        let found = if found.is_null() { make() } else { found };
        if ptr::eq(found, &raw const NONE) {
            return None;
        }
        // SAFETY: it is what `make` has mapped, aligned to a page, zeroed, of sufficient length, and never unmapped. It is
        // only ever used as an atomic number.
        unsafe { found.as_ref() }
    }

    /// Without a lock, which a child could find held by a thread that it does not have.
    #[cold]
    fn make() -> *mut AtomicU64 {
        let mine = map().map_or((&raw const NONE).cast_mut(), |page| page.as_ptr());
        match PAGE.compare_exchange(ptr::null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => mine,
            Err(anothers) => {
                if !ptr::eq(mine, &raw const NONE) {
                    // SAFETY: mapped above, with this length, and known to nobody else.
                    let _ = unsafe { munmap(mine.cast(), LENGTH) };
                }
                anothers
            }
        }
    }

    fn map() -> Option<NonNull<AtomicU64>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping, wherever the kernel puts it, touches no memory that is in use.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), LENGTH, access, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: it concerns this mapping alone, of which only children will see another content: zeros.
        if unsafe { madvise(page, LENGTH, Advice::LinuxWipeOnFork) }.is_err() {
            // SAFETY: mapped above, with this length, and known to nobody else.
            let _ = unsafe { munmap(page, LENGTH) };
            return None;
        }
        NonNull::new(page.cast())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod page {
    use std::sync::atomic::AtomicU64;

    pub(super) const fn get() -> Option<&'static AtomicU64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_is_one_generation_in_all_threads() {
        let here = Generation::current();
        let there = std::thread::spawn(Generation::current).join().expect("no panic");
        assert_eq!(here, there);
        assert!(here.is_current());
        #[cfg(target_os = "linux")]
        assert!(here.by_page, "Linux has had such pages since 4.14");
    }

    #[test]
    fn without_a_page_it_is_the_number_of_the_process() {
        let own = Generation { number: u64::from(std::process::id()), by_page: false };
        assert!(own.is_current());
        assert!(!Generation { number: own.number.wrapping_add(1), ..own }.is_current());
    }
}
