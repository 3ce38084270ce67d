//! How a cluster is to be used.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::check::exact;
use crate::limits::Limits;
use crate::server::{CONNECT_TIMEOUT, Here, Passwords, check_connect_timeout, check_namespace};
use crate::url::wrong;
use crate::{Clock, StoreError};

/// Settings of an [`EtcdStore`](super::EtcdStore). Everybody who uses one namespace gives the same.
#[derive(Clone)]
#[must_use]
pub struct EtcdOptions {
    pub(super) limits: Limits,
    pub(super) connect_timeout: Duration,
    pub(super) namespace: String,
    pub(super) tls: bool,
    pub(super) authorities: Option<PathBuf>,
    pub(super) trust_failover: bool,
    pub(super) leases_ahead: u8,
    pub(super) passwords: Option<Passwords>,
    pub(super) clock_skew: Duration,
    pub(super) here: Here,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            connect_timeout: CONNECT_TIMEOUT,
            namespace: Self::NAMESPACE.to_owned(),
            tls: false,
            authorities: None,
            trust_failover: false,
            leases_ahead: 0,
            passwords: None,
            clock_skew: Self::CLOCK_SKEW,
            here: Here::default(),
        }
    }
}

impl EtcdOptions {
    /// The namespace unless told otherwise: keys begin with `/lease-machines/default/`.
    pub const NAMESPACE: &'static str = "default";

    /// How far apart the clocks of machines that share a pool are taken to be unless told otherwise: 10 s.
    pub const CLOCK_SKEW: Duration = Duration::from_secs(10);

    /// The most that they may be: 1 h.
    const GREATEST_SKEW: Duration = Duration::from_secs(3600);

    /// Tells stores in one cluster apart: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Every request ends after this long, connecting included (5 s).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// A member that is not connected to after this long is given up (5 s), or after its share of `timeout`, where that is less:
    /// there may be others.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// A longer ttl is refused (24 h; at most 365 days).
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.limits.max_ttl = max_ttl;
        self
    }

    /// How many holds of each resource to remember, up to 16 more at times (100); `None` for none.
    pub const fn history(mut self, keep: Option<u32>) -> Self {
        self.limits.history = keep;
        self
    }

    /// Connects with TLS, and verifies the server's certificate by the system's authorities (not the default).
    pub const fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// The same, by the authorities in this PEM file.
    pub fn root_certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.authorities = Some(file.into());
        self.tls = true;
        self
    }

    /// Take a cluster under another identity (made from a snapshot, say) for one that has lost nothing (not the default).
    /// Only where whoever makes it sees to that. The same cluster is never believed against what a store was told.
    pub const fn trust_failover(mut self, trust: bool) -> Self {
        self.trust_failover = trust;
        self
    }

    /// How many of etcd's leases are kept ready, at most (none). A grant or a renewal that finds one is one request and not two.
    /// They are asked for with an eighth of the ttl to spare, 2 s at least, so that a lease may last longer than asked for by as
    /// much, which its grant says. Those that are not used in that time are given back, and none is asked for until the next
    /// grant.
    pub const fn leases_ahead(mut self, most: u8) -> Self {
        self.leases_ahead = most;
        self
    }

    /// Asks for a password at each new connection, in place of one in the URL: for those that are replaced at times, or hold for
    /// minutes. It is awaited on the store's own thread, on tokio, and has `connect_timeout` to answer: what would block that
    /// thread belongs on another one. An error makes the request that needed the connection *not done*; it is shown, and the
    /// password never. A new connection is also made where the cluster takes the last login for old: after a while, and after a
    /// change of its users.
    pub fn password_from<F, E>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.passwords = Some(Passwords::of(ask));
        self
    }

    /// By how much the wall clocks of two machines that use the store's pools may differ (10 s; at most 1 h). etcd tells no time,
    /// so that a slot's rest and the order of free slots go by them: a freed slot rests for this long beyond its cool-down, and a
    /// machine whose clock is further behind the latest that was seen in the pool is granted no slot. That no two holders of a
    /// slot have the same ID time, and that nobody loses a slot early, does not depend on it.
    pub const fn clock_skew(mut self, skew: Duration) -> Self {
        self.clock_skew = skew;
        self
    }

    /// What the time between a request and its answer is counted by (a clock that goes on while the machine sleeps), and this
    /// machine's wall clock, by which pools and histories go. etcd ends leases by its own; a grant that has run out by this one
    /// before it was heard of is *unknown*.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.here = Here::new(clock);
        self
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.limits.check()?;
        check_connect_timeout(self.connect_timeout)?;
        if self.clock_skew > Self::GREATEST_SKEW {
            return Err(wrong(format!("clock_skew is {}, expected 0s to 1h", exact(self.clock_skew))));
        }
        check_namespace(&self.namespace)
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("limits", &self.limits)
            .field("connect_timeout", &self.connect_timeout)
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .field("authorities", &self.authorities)
            .field("trust_failover", &self.trust_failover)
            .field("leases_ahead", &self.leases_ahead)
            .field("clock_skew", &self.clock_skew)
            .finish_non_exhaustive()
    }
}
