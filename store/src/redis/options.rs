//! How a server is to be used.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::Limits;
use crate::server::{CONNECT_TIMEOUT, Passwords, check_connect_timeout, check_namespace};
use crate::url::wrong;
use crate::{Clock, StoreError};

/// Settings of a [`RedisStore`](super::RedisStore). Everybody who uses one namespace gives the same.
#[derive(Clone)]
#[must_use]
pub struct RedisOptions {
    pub(super) namespace: String,
    pub(super) limits: Limits,
    pub(super) connect_timeout: Duration,
    pub(super) replicas: u32,
    pub(super) trust_failover: bool,
    pub(super) passwords: Option<Passwords>,
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            namespace: Self::NAMESPACE.to_owned(),
            limits: Limits::DEFAULT,
            connect_timeout: CONNECT_TIMEOUT,
            replicas: 0,
            trust_failover: false,
            passwords: None,
            clock: None,
        }
    }
}

impl RedisOptions {
    /// The namespace unless told otherwise: keys begin with `{lease:default:`.
    pub const NAMESPACE: &'static str = "default";

    /// How many holds of a resource are remembered unless told otherwise.
    pub const HISTORY: u32 = Limits::HISTORY;

    /// The longest `max_ttl`: 365 days.
    pub const LONGEST_TTL: Duration = Limits::LONGEST_TTL;

    /// Tells stores on one server apart: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Every request ends after this long, connecting included (5 s).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// A connection that is not there after this long is given up (5 s); never longer than the request that needs it.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// A longer ttl is refused (24 h; at most [`LONGEST_TTL`](Self::LONGEST_TTL)).
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.limits.max_ttl = max_ttl;
        self
    }

    /// How many holds of each resource to remember ([`HISTORY`](Self::HISTORY)); `None` for none.
    pub const fn history(mut self, keep: Option<u32>) -> Self {
        self.limits.history = keep;
        self
    }

    /// A decision counts only when this many replicas have it (0): with fewer, or later than the time-out, the answer is
    /// *unknown*. At most 64.
    pub const fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Take a server that was promoted, or restarted without having written everything down first, for one that has lost
    /// nothing (not the default). Only where whoever promotes replicas sees to that. A store that was told of something
    /// which is missing opens a new epoch all the same.
    pub const fn trust_failover(mut self, trust: bool) -> Self {
        self.trust_failover = trust;
        self
    }

    /// Asks for a password at each new connection, in place of one in the URL: for those that are replaced at times, or hold for
    /// minutes. It is awaited on the store's own thread, on tokio, and has `connect_timeout` to answer: what would block that
    /// thread belongs on another one. An error makes the request that needed the connection *not done*; it is shown, and the
    /// password never. A connection that is there stays as it is.
    pub fn password_from<F, E>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.passwords = Some(Passwords::of(ask));
        self
    }

    /// A clock to decide by instead of the server's, for tests: everybody on the namespace must use the same. What is
    /// asked of it is its wall.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        check_namespace(&self.namespace)?;
        self.limits.check()?;
        check_connect_timeout(self.connect_timeout)?;
        if self.replicas > 64 {
            return Err(wrong(format!("option replicas: found {}, expected at most 64", self.replicas)));
        }
        Ok(())
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("namespace", &self.namespace)
            .field("limits", &self.limits)
            .field("connect_timeout", &self.connect_timeout)
            .field("replicas", &self.replicas)
            .field("trust_failover", &self.trust_failover)
            .finish_non_exhaustive()
    }
}
