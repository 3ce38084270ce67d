//! How a file is to be used.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Clock;
use crate::limits::Limits;

/// Settings of a [`SqliteStore`](super::SqliteStore). Where several processes use one file, give them the same.
#[derive(Clone)]
#[must_use]
pub struct SqliteOptions {
    pub(super) limits: Limits,
    pub(super) single_host: bool,
    pub(super) allow_network_fs: bool,
    pub(super) create: bool,
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            single_host: false,
            allow_network_fs: false,
            create: true,
            clock: None,
        }
    }
}

impl SqliteOptions {
    /// How many holds of a resource are remembered unless told otherwise. Trimmed at every sixteenth grant, so that up
    /// to 15 more may be there.
    pub const HISTORY: u32 = Limits::HISTORY;

    /// The longest `max_ttl`: 365 days.
    pub const LONGEST_TTL: Duration = Limits::LONGEST_TTL;

    /// Every request ends after this long, or at most an eighth later (5 s).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// A longer ttl is refused (24 h; at most [`LONGEST_TTL`](Self::LONGEST_TTL)).
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.limits.max_ttl = max_ttl;
        self
    }

    /// No other machine ever uses the file: after a restart of this one every lease is over, and a boot that the file
    /// does not know is taken for this machine's, whatever the wall clock says. Otherwise (the default) leases that
    /// were live get their full ttl again, since how long the machine was off is not known.
    pub const fn single_host(mut self, single_host: bool) -> Self {
        self.single_host = single_host;
        self
    }

    /// Accept a network or pass-through file system, a file with hard links, or one that was mounted without its folder
    /// (all refused by default). Two machines on one file do not see each other's locks, nor do two programs that use it
    /// by two names: the promises hold only as long as one machine alone uses it, by one name.
    pub const fn allow_network_fs(mut self, allow: bool) -> Self {
        self.allow_network_fs = allow;
        self
    }

    /// Create and set up a file that is missing or empty (the default). Otherwise it is
    /// [`NotSetUp`](crate::ErrorKind::NotSetUp): for programs that look, whose mistyped path is not to become a store.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How many holds of each resource to remember ([`HISTORY`](Self::HISTORY)); `None` for none.
    pub const fn history(mut self, keep: Option<u32>) -> Self {
        self.limits.history = keep;
        self
    }

    /// A clock to decide by instead of the machine's, for tests: every process on the file must use the same.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("limits", &self.limits)
            .field("single_host", &self.single_host)
            .field("allow_network_fs", &self.allow_network_fs)
            .field("create", &self.create)
            .finish_non_exhaustive()
    }
}
