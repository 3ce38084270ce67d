//! One page of memory that two processes share: numbers that are overwritten, never queued.
//!
//! A process that was stopped for an hour must find the newest deadline, not a full socket with the oldest one first.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

const SLOTS: usize = 8;
const BYTES: usize = SLOTS * size_of::<AtomicU64>();

/// Eight numbers, all 0 at first, shared with whoever maps the same descriptor.
pub(crate) struct SharedPage {
    file: OwnedFd,
    slots: NonNull<[AtomicU64; SLOTS]>,
}

impl SharedPage {
    /// A new page.
    pub(crate) fn create() -> io::Result<Self> {
        let file = File::from(anonymous_file()?);
        file.set_len(BYTES as u64)?;
        Self::map(file.into())
    }

    /// The page behind a descriptor that another process made by [`create`](Self::create).
    pub(crate) fn map(file: OwnedFd) -> io::Result<Self> {
        // A shorter file would make every access a SIGBUS.
        let file = File::from(file);
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the shared page has another size"));
        }
        let file = OwnedFd::from(file);
        let length = NonZeroUsize::new(BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no memory of ours.
        let address = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Self { file, slots: address.cast() })
    }

    /// Reads a slot; 0 beyond the last one.
    pub(crate) fn load(&self, slot: usize) -> u64 {
        self.slots().get(slot).map_or(0, |slot| slot.load(Ordering::Acquire))
    }

    /// Overwrites a slot.
    pub(crate) fn store(&self, slot: usize, value: u64) {
        if let Some(slot) = self.slots().get(slot) {
            slot.store(value, Ordering::Release);
        }
    }

    fn slots(&self) -> &[AtomicU64; SLOTS] {
        // SAFETY: the mapping is as long as the array, page-aligned, zeroed by the kernel, and lives until drop. Other
        // processes write to it too, which is what atomics are for.
        unsafe { self.slots.as_ref() }
    }
}

impl AsFd for SharedPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map` with this length, and no reference into it outlives `self`.
        // Failing to unmap leaks a page at worst.
        let _ = unsafe { munmap(self.slots.cast(), BYTES) };
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn anonymous_file() -> io::Result<OwnedFd> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    Ok(memfd_create(c"lease-run", MFdFlags::MFD_CLOEXEC)?)
}

/// Elsewhere: a file that is unlinked as soon as it exists.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn anonymous_file() -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let nanos = super::clock::now().as_nanos();
    let path = std::env::temp_dir().join(format!("lease-run.{}.{nanos}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_mappings_see_each_other() {
        let one = SharedPage::create().unwrap();
        let two = SharedPage::map(one.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((one.load(0), two.load(SLOTS - 1)), (0, 0));
        one.store(0, u64::MAX);
        two.store(SLOTS - 1, 7);
        assert_eq!((two.load(0), one.load(SLOTS - 1)), (u64::MAX, 7));
        assert_eq!(one.load(SLOTS), 0, "beyond the last slot there is nothing");
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let file = File::from(anonymous_file().unwrap());
        file.set_len(1).unwrap();
        assert!(SharedPage::map(file.into()).is_err());
    }
}
