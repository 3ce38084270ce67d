//! Whether the file is still the one that was opened.
//!
//! SQLite goes on with a file that was removed or renamed: nobody else sees what is written there. Two processes, one on
//! the old file and one on the new, would each hold the same lease, and neither would hear of the other.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{ErrorKind, StoreError};

/// The file and what lies beside it, as they were when it was opened. As long as a connection is open nobody who keeps
/// to SQLite's rules removes the log or the shared memory, so that these stay the same as well.
#[derive(Debug)]
pub(super) struct Identity(Vec<(PathBuf, Inode)>);

type Inode = (u64, u64);

impl Identity {
    /// Of a file that is open. `before` is what [`inode`] said before it was: a file that came in between is another.
    pub(super) fn of(path: &Path, before: Option<Inode>) -> Result<Self, StoreError> {
        // The folder that is the current one may be another later.
        let asked = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let found = before.filter(|before| inode(&asked) == Some(*before)).ok_or_else(|| gone(&asked))?;
        // Behind a link the log lies beside what the link points to.
        let real = path.canonicalize().map_err(|_| gone(&asked))?;
        let beside = ["-wal", "-shm"].map(|end| {
            let mut name = real.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        });
        let mut files = vec![(asked, found)];
        files.extend(beside.into_iter().filter_map(|path| inode(&path).map(|found| (path, found))));
        Ok(Self(files))
    }

    /// Three calls of `stat`: some microseconds, beside a commit that waits for the disk.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.iter().find(|(path, opened)| inode(path) != Some(*opened)) {
            Some((path, _)) => Err(gone(path)),
            None => Ok(()),
        }
    }
}

/// Which file lies at a path, if any.
pub(super) fn inode(path: &Path) -> Option<Inode> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// *Refused*: a holder asks again until its deadline, in case the file comes back, and stops its work then. There is
/// no epoch that it could be told instead.
fn gone(path: &Path) -> StoreError {
    StoreError::new(
        ErrorKind::NotSetUp,
        format!(
            "{} was removed or replaced while it was open: nothing is decided on what no other process sees. Put it back, or \
             stop everything that uses it and open it again",
            path.display()
        ),
    )
}
