//! etcd's own leases, on which the live keys stand.
//!
//! None is ever kept alive: a renewal is a new lease, to which a transaction moves the live key. A keepalive is answered by
//! whoever believes to be the leader, and what it promises may never have been agreed upon. So a lease ends when it was said
//! to when it was granted, or later; never earlier.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::EtcdOptions;
use super::ahead::{Ahead, Ready};
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
    /// Until when a lease lasts at least, by this machine's clock, and what it was asked for here.
    deadlines: Mutex<HashMap<i64, (Duration, Option<Duration>)>>,
    ahead: Ahead,
    /// On which the marks of withdrawn owners stand, and when it was granted.
    marks: tokio::sync::Mutex<Option<(i64, Duration)>>,
}

/// Deadlines that are remembered; more than that is not in use at once.
const MOST: usize = 8_192;

/// How long it is remembered that an owner has withdrawn, at most and at least.
const REMEMBERED: Duration = Duration::from_secs(2 * 3600);
const AT_LEAST: Duration = Duration::from_secs(3600);

/// What is left of a lease that is there, however little it is.
pub(super) const LAST_MOMENT: Duration = Duration::from_millis(1);

impl Leases {
    pub(super) fn new(link: Arc<Link>, options: &EtcdOptions) -> Self {
        Self {
            link,
            here: options.here.clone(),
            deadlines: Mutex::default(),
            ahead: Ahead::new(options.leases_ahead.into(), options.limits.max_ttl),
            marks: tokio::sync::Mutex::default(),
        }
    }

    /// One that lasts for at least `ttl` from now on, on which nothing stands.
    pub(super) async fn at_least(
        self: &Arc<Self>,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<EtcdLease, StoreError> {
        let ready = self.ahead.take(ttl, self.here.now());
        if self.ahead.expect(ttl, self.here.now()) {
            let leases = Arc::clone(self);
            tokio::spawn(async move {
                let granted = leases.spared(ttl, leases.link.deadline()).await;
                leases.ahead.has_come();
                if let Ok(lease) = granted {
                    leases.give_back(lease.id);
                }
            });
        }
        match ready {
            Some(lease) => Ok(lease),
            None => self.spared(ttl, deadline).await,
        }
    }

    /// One that may wait for its use.
    async fn spared(&self, ttl: Duration, deadline: Instant) -> Result<EtcdLease, StoreError> {
        let lease = self.grant(self.ahead.with_spare(ttl), deadline).await?;
        let serves = Duration::from_secs(u64::try_from(whole_seconds(ttl)).unwrap_or(0));
        if let Some((_, asked)) = self.deadlines().get_mut(&lease.id) {
            *asked = Some(serves);
        }
        Ok(lease)
    }

    fn deadlines(&self) -> MutexGuard<'_, HashMap<i64, (Duration, Option<Duration>)>> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One for at least `ttl`, in whole seconds.
    pub(super) async fn grant(&self, ttl: Duration, deadline: Instant) -> Result<EtcdLease, StoreError> {
        let sent = self.here.now();
        let (id, ttl) = self.link.grant_lease(whole_seconds(ttl), deadline).await?;
        self.note(id, sent.saturating_add(ttl));
        Ok(EtcdLease { id, ttl })
    }

    fn note(&self, id: i64, deadline: Duration) {
        let mut deadlines = self.deadlines();
        if deadlines.len() >= MOST {
            let now = self.here.now();
            deadlines.retain(|_, (until, _)| *until > now);
            if deadlines.len() >= MOST {
                deadlines.clear();
            }
        }
        deadlines.insert(id, (deadline, None));
    }

    /// How long a lease lasts at least, also where its last second has begun; `None` for one that is over. What stood on that has
    /// run out since it was read, or has been given another one, unless the cluster is about to end it.
    pub(super) async fn remaining(&self, id: i64, deadline: Instant) -> Result<Option<Duration>, StoreError> {
        let now = self.here.now();
        let known = self.deadlines().get(&id).copied();
        if let Some(left) = known.and_then(|(until, _)| until.checked_sub(now)).filter(|left| !left.is_zero())
        {
            return Ok(Some(left));
        }
        let Some(left) = self.link.lease_left(id, deadline).await? else { return Ok(None) };
        self.note(id, now.saturating_add(left));
        Ok(Some(left.max(LAST_MOMENT)))
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

    /// Gives one back that nothing stands on any more: to whoever needs one next, or to etcd.
    pub(super) fn give_back(self: &Arc<Self>, id: i64) {
        let now = self.here.now();
        let known = self.deadlines().get(&id).copied();
        let leases = Arc::clone(self);
        if let Some((until, Some(serves))) = known {
            if self.ahead.keep(Ready { id, until, serves }, now) {
                let unused = until.saturating_sub(serves).saturating_sub(now) + Duration::from_millis(50);
                tokio::spawn(async move {
                    tokio::time::sleep(unused).await;
                    leases.ahead.stale(leases.here.now()).into_iter().for_each(|id| leases.revoke(id));
                });
                return;
            }
        }
        self.revoke(id);
    }

    /// Where that fails it runs out by itself.
    fn revoke(self: &Arc<Self>, id: i64) {
        self.deadlines().remove(&id);
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
