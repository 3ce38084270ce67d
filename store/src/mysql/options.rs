//! How a server is used.

use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::Limits;
use crate::server::{CONNECT_TIMEOUT, Here, Passwords, check_connect_timeout};
use crate::url::wrong;
use crate::{Clock, StoreError};

/// How a MySQL or MariaDB server is used. [`MysqlStore::open`](crate::MysqlStore::open) takes them from a URL.
#[derive(Clone, Debug)]
pub struct MysqlOptions {
    pub(super) limits: Limits,
    pub(super) connect_timeout: Duration,
    pub(super) connections: u16,
    pub(super) trust_failover: bool,
    pub(super) tls: Tls,
    pub(super) passwords: Option<Passwords>,
    pub(super) here: Here,
}

/// What is expected of a connection over TCP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tls {
    Off,
    /// Encrypted against whoever listens, with any certificate.
    Unverified,
    /// The certificate and its name are verified, by the authorities in a file or the system's.
    Verified(Option<PathBuf>),
}

impl Default for MysqlOptions {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            connect_timeout: CONNECT_TIMEOUT,
            connections: 8,
            trust_failover: false,
            tls: Tls::Off,
            passwords: None,
            here: Here::default(),
        }
    }
}

impl MysqlOptions {
    /// Every request ends after this long (5 s). The server waits for locks in whole seconds: under 2 s, what a lock held up
    /// may be *unknown* instead of *not done*.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// A connection that is not there after this long is given up (5 s); never longer than the request that needs it.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The longest ttl that is granted (24 h; at most 365 days). The same for all who use the store: after a loss of
    /// history, nothing is granted for so long.
    #[must_use]
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.limits.max_ttl = max_ttl;
        self
    }

    /// How many holds of each resource are remembered, a few more at times (100); `None` keeps no history.
    #[must_use]
    pub const fn history(mut self, holds: Option<u32>) -> Self {
        self.limits.history = holds;
        self
    }

    /// How many connections there are at most (8). Each waits for its own commit: several of them share one.
    #[must_use]
    pub const fn connections(mut self, connections: u16) -> Self {
        self.connections = connections;
        self
    }

    /// A server that took over has everything that its predecessor answered, since that waited for it: it is no loss of
    /// history.
    #[must_use]
    pub const fn trust_failover(mut self, trust: bool) -> Self {
        self.trust_failover = trust;
        self
    }

    /// The connection is encrypted, whatever certificate the server shows. See the feature `mysql-tls`.
    #[must_use]
    pub fn encrypted(mut self) -> Self {
        self.tls = Tls::Unverified;
        self
    }

    /// The connection is encrypted, and the server's certificate verified: by the authorities in this PEM file, or by the
    /// system's.
    #[must_use]
    pub fn verified(mut self, authorities: Option<PathBuf>) -> Self {
        self.tls = Tls::Verified(authorities);
        self
    }

    /// Asks for a password at each new connection, in place of one in the URL or in a file: for those that are replaced at
    /// times, or hold for minutes. It is awaited on the store's own thread, on tokio, and has `connect_timeout` to answer: what
    /// would block that thread belongs on another one. An error makes the request that needed the connection *not done*; it is
    /// shown, and the password never. A connection that is there stays as it is.
    #[must_use]
    pub fn password_from<F, E>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.passwords = Some(Passwords::of(ask));
        self
    }

    /// What the time between a request and its answer is counted by (a clock that goes on while the machine sleeps).
    /// The server decides by its own; a grant that has run out by this one before it was heard of is *unknown*.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.here = Here::new(clock);
        self
    }

    /// The options, where they are in range.
    pub(super) fn checked(self) -> Result<Self, StoreError> {
        self.limits.check()?;
        check_connect_timeout(self.connect_timeout)?;
        if self.connections == 0 {
            return Err(wrong("a store has at least one connection, found 0".to_owned()));
        }
        Ok(self)
    }

    /// How many holds are kept, for the procedures: 0 for none.
    pub(super) fn keep(&self) -> i64 {
        i64::from(self.limits.history.map_or(0, |holds| holds.min(i32::MAX as u32)))
    }
}
