//! What happens to a file before a store is around it.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::attach::{Boot, attach};
use super::boot_clock::BootClock;
use super::connection::{Target, check_path, configure};
use super::failure::Place;
use super::forked::OpenFile;
use super::identity::{Identity, inode};
use super::schema::{self, Missing};
use super::settings::Settings;
use super::{SqliteOptions, filesystem};
use crate::{Clock, ErrorKind, StoreError};

/// A connection to a file that is set up, and whose clock is this machine's.
pub(super) struct Prepared {
    pub(super) connection: Connection,
    pub(super) settings: Settings,
    /// Whether it had to be set up.
    pub(super) made: bool,
    /// Last, so that it is dropped when the connection is closed.
    pub(super) open: Option<OpenFile>,
}

pub(super) fn prepare(
    target: &Target,
    options: SqliteOptions,
    missing: Missing,
) -> Result<Prepared, StoreError> {
    options.limits.check()?;
    let place = Place { path: target.name().map(Path::to_owned), timeout: options.limits.timeout };
    if let (Some(path), false) = (target.name(), options.allow_network_fs) {
        filesystem::check(path)?;
        filesystem::check_name(path)?;
    }
    let clock: Arc<dyn Clock> = match options.clock {
        Some(clock) => clock,
        None => Arc::new(BootClock::read()?),
    };
    let boot = Boot::new(clock);
    let open = target.name().map(|path| enter(path, missing)).transpose()?;
    let before = target.path().and_then(inode);
    let connection = target.connect(&place)?;
    let made = schema::ensure(&connection, &place, &boot, missing)?;
    configure(&connection, &place)?;
    attach(&connection, &place, &boot, options.single_host, options.limits.max_ttl)?;
    let identity = target.path().map(|path| Identity::of(path, before)).transpose()?;
    let settings =
        Settings { place, identity, boot, max_ttl: options.limits.max_ttl, keep: options.limits.history };
    Ok(Prepared { connection, settings, made, open })
}

fn enter(path: &Path, missing: Missing) -> Result<OpenFile, StoreError> {
    let create = missing != Missing::Leave;
    if !create && matches!(path.try_exists(), Ok(false)) {
        return Err(StoreError::new(
            ErrorKind::NotSetUp,
            format!(
                "no such file: {}, expected a lease store. `lease migrate`, or the first `lease run` or `lease acquire`, \
                 creates it",
                path.display()
            ),
        ));
    }
    check_path(path)?;
    if create { OpenFile::enter_creating(path) } else { OpenFile::enter(path) }
}
