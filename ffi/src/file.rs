//! Which file a store was opened on: it is closed and opened again, and then no other may have come in its place, nor is it
//! looked for in whatever folder is the current one by then. Processes on two files would each hold the same lease.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::time::SystemTime;

use lease_machines_store::{self as engine, ErrorKind, StoreError, StoreUrl};

pub(crate) struct File {
    /// From the root. What lies there may be a link.
    path: PathBuf,
    mark: Mark,
    /// With this path.
    url: String,
}

/// Nobody has the file open in between, so that another may get its inode. Where the file system knows when a file was made,
/// that tells them apart.
type Mark = (u64, u64, Option<SystemTime>);

impl File {
    /// The path that a URL of SQLite's has, from the root as it is now.
    pub(crate) fn path_of(url: &str) -> Result<PathBuf, StoreError> {
        let path = StoreUrl::parse(url)?.path;
        Ok(absolute(&path).unwrap_or_else(|_| path.into()))
    }

    /// That at `path`, which was opened by this URL.
    pub(crate) fn opened(path: PathBuf, url: &str) -> Result<Self, StoreError> {
        let Some(text) = path.to_str() else {
            let message = format!(
                "the current folder is not UTF-8, found {}: open the store by a path from the root that is",
                path.display()
            );
            return Err(StoreError::new(ErrorKind::Configuration, message));
        };
        let mut again = format!("sqlite:{}", text.replace('%', "%25").replace('?', "%3F"));
        if let Some((_, options)) = url.split_once('?') {
            again += "?";
            again += options;
        }
        let mark = mark(&path).ok_or_else(|| gone(&path))?;
        Ok(Self { path, mark, url: again })
    }

    /// It and no other. Nothing is created.
    pub(crate) fn open_again(&self) -> Result<Arc<dyn engine::Store>, StoreError> {
        self.check()?;
        let store = engine::open_existing(&self.url)?;
        // From here on the store looks for itself.
        self.check()?;
        Ok(store)
    }

    fn check(&self) -> Result<(), StoreError> {
        if mark(&self.path) == Some(self.mark) { Ok(()) } else { Err(gone(&self.path)) }
    }
}

fn mark(path: &Path) -> Option<Mark> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino(), found.created().ok()))
}

fn gone(path: &Path) -> StoreError {
    StoreError::new(
        ErrorKind::NotSetUp,
        format!(
            "{} was removed or replaced since the store was opened: nothing is decided on what no other process sees. Put it \
             back, or stop everything that uses it and open the store again",
            path.display()
        ),
    )
}
