//! Which files the process has open, so that a forked child does not open them again.
//!
//! SQLite keeps the locks of a process in tables of its own. A fork copies the tables, not the locks: a child that
//! opens a file which its parent had open would believe in locks that it does not have, and could damage the file.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use std::{process, thread};

use super::connection::{create_missing, folder_of};
use crate::{ErrorKind, StoreError};

static OPEN: Mutex<Vec<(PathBuf, u32)>> = Mutex::new(Vec::new());

/// Says that a file is open, as long as it lives.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    process: u32,
}

impl OpenFile {
    /// # Errors
    ///
    /// [`Configuration`](ErrorKind::Configuration) where the parent had the file open when it forked this process.
    pub(super) fn enter(path: &Path) -> Result<Self, StoreError> {
        Self::enter_as(path, process::id(), false)
    }

    /// The same, and creates the file where it is missing.
    ///
    /// # Errors
    ///
    /// Also those of [`create_missing`].
    pub(super) fn enter_creating(path: &Path) -> Result<Self, StoreError> {
        Self::enter_as(path, process::id(), true)
    }

    fn enter_as(path: &Path, process: u32, create: bool) -> Result<Self, StoreError> {
        let name = one_name(path);
        let mut open = lock().ok_or_else(|| refused(&name, None))?;
        if let Some((_, parent)) = open.iter().find(|(other, by)| *other == name && *by != process) {
            return Err(refused(&name, Some(*parent)));
        }
        if create {
            // Under the lock, since to close a file drops all locks that the process has on it: nobody here may have
            // opened it before the one who made it has closed it.
            create_missing(path)?;
        }
        // What a link points to has a name from now on.
        let path = one_name(path);
        open.push((path.clone(), process));
        Ok(Self { path, process })
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(mut open) = lock() {
            if let Some(at) = open.iter().position(|(path, by)| *path == self.path && *by == self.process) {
                open.swap_remove(at);
            }
        }
    }
}

/// Whoever has the list may be creating a file on a busy disk.
const LONGEST_MILLIS: u32 = 5_000;

/// The list, unless the fork happened while another thread of the parent had it: then nobody will ever give it back.
fn lock() -> Option<MutexGuard<'static, Vec<(PathBuf, u32)>>> {
    for _ in 0..LONGEST_MILLIS {
        match OPEN.try_lock() {
            Ok(open) => return Some(open),
            Err(TryLockError::Poisoned(poisoned)) => return Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// The same for every way to write a path; the file itself may be missing yet.
fn one_name(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match path.file_name() {
        Some(name) => {
            let folder = folder_of(path);
            folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(name)
        }
        None => path.to_owned(),
    }
}

fn refused(path: &Path, parent: Option<u32>) -> StoreError {
    let who =
        parent.map_or_else(|| "its parent".to_owned(), |parent| format!("its parent, process {parent},"));
    StoreError::new(
        ErrorKind::Configuration,
        format!(
            "this process was forked while {who} had {} open: SQLite does not survive that. Open the store after the \
             fork, or in a program that the child executes",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Artemis PR#2632, filelock#634, redis-rb#1157: after a fork the child used, or released, what was its parent's.
    #[test]
    fn a_child_does_not_open_what_its_parent_has_open() {
        let path = std::env::temp_dir().join(format!("lease-forked-{}", process::id()));
        let parents = OpenFile::enter(&path).unwrap();
        let again = OpenFile::enter(&path).unwrap();
        let child = process::id() + 1;
        let error = OpenFile::enter_as(&path, child, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("forked"), "{error}");
        assert!(OpenFile::enter_as(&path.with_extension("other"), child, false).is_ok());
        drop(again);
        assert!(OpenFile::enter_as(&path, child, false).is_err());
        // Closed before the fork, it may be opened after it.
        drop(parents);
        assert!(OpenFile::enter_as(&path, child, false).is_ok());
    }
}
