//! How a server is used.

use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::Limits;
use crate::server::{CONNECT_TIMEOUT, Here, Passwords, check_connect_timeout};
use crate::{Clock, ErrorKind, StoreError};

/// No wait is longer than the server can count in milliseconds.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// How a PostgreSQL server is used. [`PostgresStore::open`](crate::PostgresStore::open) takes them from a URL.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(super) schema: String,
    pub(super) limits: Limits,
    pub(super) connect_timeout: Duration,
    pub(super) connections: u16,
    pub(super) pooler: bool,
    pub(super) trust_failover: bool,
    pub(super) verify: bool,
    pub(super) root_cert: Option<PathBuf>,
    pub(super) passwords: Option<Passwords>,
    pub(super) here: Here,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "lease_machines".to_owned(),
            limits: Limits::DEFAULT,
            connect_timeout: CONNECT_TIMEOUT,
            connections: 8,
            pooler: false,
            trust_failover: false,
            verify: false,
            root_cert: None,
            passwords: None,
            here: Here::default(),
        }
    }
}

impl PostgresOptions {
    /// The schema that the tables and functions are in (`lease_machines`).
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Every request ends after this long (5 s).
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

    /// There is a pooler in front of the server, such as PgBouncer in transaction mode: no statement is given a name.
    /// Where this is not said, a pooler is found out by what it does to a connection's start.
    #[must_use]
    pub const fn pooler(mut self, pooler: bool) -> Self {
        self.pooler = pooler;
        self
    }

    /// A server that was promoted has everything that its predecessor answered, since that waited for it
    /// (`synchronous_standby_names`): its new timeline is no loss of history.
    #[must_use]
    pub const fn trust_failover(mut self, trust: bool) -> Self {
        self.trust_failover = trust;
        self
    }

    /// The server's certificate is verified, against the system's authorities (as `sslmode=verify-full`): a server without TLS
    /// is refused then.
    #[must_use]
    pub const fn verify_certificate(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// The server's certificate is verified against the authorities in this PEM file; the same holds.
    #[must_use]
    pub fn root_certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.root_cert = Some(file.into());
        self.verify = true;
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
        let wrong = |message: String| Err(StoreError::new(ErrorKind::Configuration, message));
        self.limits.check()?;
        check_connect_timeout(self.connect_timeout)?;
        for (name, span) in [("timeout", self.limits.timeout), ("connect_timeout", self.connect_timeout)] {
            if span < Duration::from_millis(1) || span > LONGEST_TIMEOUT {
                return wrong(format!("{name} is from 1ms to {LONGEST_TIMEOUT:?}, found {span:?}"));
            }
        }
        if self.connections == 0 {
            return wrong("a store has at least one connection, found 0".to_owned());
        }
        if self.schema.is_empty() || self.schema.len() > 63 || self.schema.contains('\0') {
            return wrong(format!("a schema's name has 1 to 63 bytes, found {:?}", self.schema));
        }
        Ok(self)
    }

    /// The schema's name as it stands in a statement.
    pub(super) fn quoted_schema(&self) -> String {
        format!("\"{}\"", self.schema.replace('"', "\"\""))
    }

    /// How many holds are kept, for the functions: 0 for none.
    pub(super) fn keep(&self) -> i32 {
        self.limits.history.map_or(0, |holds| i32::try_from(holds).unwrap_or(i32::MAX))
    }
}
