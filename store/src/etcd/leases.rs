//! etcd's own leases, on which the live keys stand.
//!
//! None is ever kept alive: a renewal is a new lease, to which a transaction moves the live key. A keepalive is answered by
//! whoever believes to be the leader, and what it promises may never have been agreed upon. So a lease ends when it was said
//! to when it was granted, or later; never earlier.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::link::Link;
use crate::StoreError;
use crate::server::Here;

/// An etcd lease that was granted for a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct EtcdLease {
    pub(super) id: i64,
    /// What the server granted, which may be more than was asked for.
    pub(super) ttl: Duration,
}

pub(super) struct Leases {
    link: Arc<Link>,
    here: Here,
    /// Until when a lease lasts at least, by this machine's clock.
    deadlines: Mutex<HashMap<i64, Duration>>,
    /// On which the marks of withdrawn owners stand, and when it was granted.
    marks: tokio::sync::Mutex<Option<(i64, Duration)>>,
}

/// Deadlines that are remembered; more than that is not in use at once.
const MOST: usize = 8_192;

/// How long it is remembered that an owner has withdrawn, at most and at least.
const REMEMBERED: Duration = Duration::from_secs(2 * 3600);
const AT_LEAST: Duration = Duration::from_secs(3600);

impl Leases {
    pub(super) fn new(link: Arc<Link>, here: Here) -> Self {
        Self { link, here, deadlines: Mutex::default(), marks: tokio::sync::Mutex::default() }
    }

    /// One for at least `ttl`, in whole seconds.
    pub(super) async fn grant(&self, ttl: Duration, deadline: Instant) -> Result<EtcdLease, StoreError> {
        let sent = self.here.now();
        let (id, ttl) = self.link.grant_lease(whole_seconds(ttl), deadline).await?;
        self.note(id, sent.saturating_add(ttl));
        Ok(EtcdLease { id, ttl })
    }

    fn note(&self, id: i64, deadline: Duration) {
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        if deadlines.len() >= MOST {
            let now = self.here.now();
            deadlines.retain(|_, until| *until > now);
            if deadlines.len() >= MOST {
                deadlines.clear();
            }
        }
        deadlines.insert(id, deadline);
    }

    /// How long a lease lasts at least; zero for one that is over.
    pub(super) async fn remaining(&self, id: i64, deadline: Instant) -> Result<Duration, StoreError> {
        let now = self.here.now();
        let known = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
        if let Some(left) = known.and_then(|until| until.checked_sub(now)).filter(|left| !left.is_zero()) {
            return Ok(left);
        }
        let left = self.link.lease_left(id, deadline).await?;
        self.note(id, now.saturating_add(left));
        Ok(left)
    }

    /// The lease for marks of withdrawn owners: one serves an hour of them.
    pub(super) async fn for_marks(&self, deadline: Instant) -> Result<i64, StoreError> {
        let mut marks = self.marks.lock().await;
        let now = self.here.now();
        if let Some((id, since)) = *marks {
            if now.saturating_sub(since) < REMEMBERED.saturating_sub(AT_LEAST) {
                return Ok(id);
            }
        }
        let lease = self.grant(REMEMBERED, deadline).await?;
        *marks = Some((lease.id, now));
        Ok(lease.id)
    }

    /// The lease for marks is not there any more, whatever became of it.
    pub(super) async fn forget_marks(&self) {
        *self.marks.lock().await = None;
    }

    /// Gives one back that nothing stands on any more. Where that fails it runs out by itself.
    pub(super) fn give_back(self: &Arc<Self>, id: i64) {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let leases = Arc::clone(self);
        tokio::spawn(async move {
            let deadline = leases.link.deadline();
            let _ = leases.link.revoke_lease(id, deadline).await;
        });
    }
}

pub(super) fn whole_seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
    i64::try_from(seconds.max(1)).unwrap_or(i64::MAX)
}
