//! etcd leases that are kept ready, so that a grant is one request.
//!
//! A lease that was granted ahead has been running since, and nothing lengthens it. So it is asked for with some time to
//! spare, and serves while what is left of it is at least what is promised under it; what is left is then what is promised,
//! counted from before it is used. That it is used for one hold at a time is seen to by taking it out of here; it comes back
//! when a transaction has shown that nothing stands on it any more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::leases::{EtcdLease, whole_seconds};

/// A lease on which nothing stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) id: i64,
    /// Until when it lasts at least, by this machine's clock.
    pub(super) until: Duration,
    /// It is of no use any more where less than this is left.
    pub(super) serves: Duration,
}

impl Ready {
    fn left(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }

    fn is_stale(&self, now: Duration) -> bool {
        self.left(now) < self.serves
    }
}

/// Those that are ready. With none at most, every lease is asked for when it is needed, and given back behind its use.
#[derive(Debug)]
pub(super) struct Ahead {
    most: usize,
    longest: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default, Debug)]
struct Kept {
    ready: Vec<Ready>,
    coming: usize,
}

impl Ahead {
    /// At most so many, and none that outlasts `longest`: after a loss of history nothing is granted for as long as that.
    pub(super) fn new(most: usize, longest: Duration) -> Self {
        Self { most, longest, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long a lease is asked for that is to serve for `ttl`.
    pub(super) fn with_spare(&self, ttl: Duration) -> Duration {
        if self.most == 0 { ttl } else { ttl.saturating_add(spare(ttl)).min(self.longest.max(ttl)) }
    }

    /// One that lasts for `ttl` in whole seconds, and not much longer.
    pub(super) fn take(&self, ttl: Duration, now: Duration) -> Option<EtcdLease> {
        let serves = whole(ttl)..=whole(ttl.saturating_add(spare(ttl)));
        let mut kept = self.kept();
        let which = kept.ready.iter().position(|ready| serves.contains(&ready.left(now)))?;
        let ready = kept.ready.swap_remove(which);
        // Whole seconds are what is written down.
        Some(EtcdLease { id: ready.id, ttl: Duration::from_secs(ready.left(now).as_secs()) })
    }

    /// Whether one more is to be asked for, for claims of this length: the next caller will find none. It is expected then.
    pub(super) fn expect(&self, ttl: Duration, now: Duration) -> bool {
        let mut kept = self.kept();
        let some = kept.coming > 0 || kept.ready.iter().any(|ready| ready.left(now) >= whole(ttl));
        let more = !some && kept.ready.len() < self.most && self.with_spare(ttl) > ttl;
        kept.coming += usize::from(more);
        more
    }

    /// What was expected has come, or will not.
    pub(super) fn has_come(&self) {
        let mut kept = self.kept();
        kept.coming = kept.coming.saturating_sub(1);
    }

    /// Keeps one that nothing stands on, or says no.
    pub(super) fn keep(&self, ready: Ready, now: Duration) -> bool {
        let mut kept = self.kept();
        let keeps = kept.ready.len() < self.most && !ready.is_stale(now);
        if keeps {
            kept.ready.push(ready);
        }
        keeps
    }

    /// Takes out what is of no use any more.
    pub(super) fn stale(&self, now: Duration) -> Vec<i64> {
        let mut kept = self.kept();
        let stale = kept.ready.iter().filter(|ready| ready.is_stale(now)).map(|ready| ready.id).collect();
        kept.ready.retain(|ready| !ready.is_stale(now));
        stale
    }
}

/// How long a lease that serves for `ttl` may wait for its use, and so how much longer than asked for a hold may last.
fn spare(ttl: Duration) -> Duration {
    (ttl / 8).max(Duration::from_secs(2))
}

fn whole(ttl: Duration) -> Duration {
    Duration::from_secs(u64::try_from(whole_seconds(ttl)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(16);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ready(id: i64, until: u64) -> Ready {
        Ready { id, until: seconds(until), serves: TTL }
    }

    fn pool(most: usize) -> Ahead {
        Ahead::new(most, seconds(3600))
    }

    #[test]
    fn what_is_promised_is_what_is_left_and_at_least_what_was_asked_for() {
        for now in 0..30_u64 {
            let pool = pool(1);
            assert_eq!(pool.keep(ready(1, 18), seconds(now)), now <= 2, "at {now} s");
            match pool.take(TTL, seconds(now)) {
                Some(lease) => {
                    assert!(
                        lease.ttl >= TTL && seconds(now) + lease.ttl <= seconds(18),
                        "at {now} s: {lease:?}"
                    )
                }
                None => assert!(now > 2, "at {now} s"),
            }
        }
        // A part of a second is not promised.
        let pool = pool(1);
        assert!(pool.keep(ready(1, 18), seconds(0)));
        let lease = pool.take(TTL, Duration::from_millis(1_500)).unwrap();
        assert_eq!(lease.ttl, TTL);
    }

    #[test]
    fn each_is_taken_once() {
        let pool = pool(2);
        assert!(pool.keep(ready(1, 18), seconds(0)) && pool.keep(ready(2, 18), seconds(0)));
        assert!(!pool.keep(ready(3, 18), seconds(0)), "more than it was told to keep");
        let mut taken: Vec<i64> = (0..3).filter_map(|_| Some(pool.take(TTL, seconds(0))?.id)).collect();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    }

    #[test]
    fn none_is_taken_that_lasts_much_longer() {
        let pool = pool(1);
        assert!(pool.keep(Ready { id: 1, until: seconds(60), serves: TTL }, seconds(0)));
        assert!(pool.take(TTL, seconds(0)).is_none());
        assert!(pool.take(TTL, seconds(41)).is_none());
        assert!(pool.take(TTL, seconds(42)).is_some());
        // One that was asked for just now, where that is rounded up to seconds.
        let (pool, ttl) = (self::pool(1), seconds(60));
        let granted = seconds(u64::try_from(whole_seconds(pool.with_spare(ttl))).unwrap());
        assert!(pool.keep(Ready { id: 1, until: granted, serves: ttl }, seconds(0)));
        assert!(pool.take(ttl, seconds(0)).is_some());
    }

    #[test]
    fn one_is_expected_where_the_next_caller_would_find_none() {
        let pool = pool(2);
        assert!(pool.expect(TTL, seconds(0)));
        assert!(!pool.expect(TTL, seconds(0)), "it is on its way");
        pool.has_come();
        assert!(pool.keep(ready(1, 18), seconds(0)));
        assert!(!pool.expect(TTL, seconds(0)), "it is there");
        assert!(pool.expect(TTL, seconds(3)), "it is of no use any more");
        assert!(pool.stale(seconds(2)).is_empty());
        assert_eq!(pool.stale(seconds(3)), [1]);
        assert!(pool.stale(seconds(3)).is_empty());
    }

    #[test]
    fn nothing_is_kept_unless_it_is_asked_for() {
        let pool = pool(0);
        assert!(!pool.expect(TTL, seconds(0)) && !pool.keep(ready(1, 18), seconds(0)));
        assert_eq!(pool.with_spare(TTL), TTL);
    }

    #[test]
    fn none_outlasts_what_nothing_is_granted_for_after_a_loss() {
        let pool = Ahead::new(1, seconds(17));
        assert_eq!(pool.with_spare(TTL), seconds(17));
        assert_eq!(pool.with_spare(seconds(17)), seconds(17));
        assert!(!pool.expect(seconds(17), seconds(0)), "it could not wait for its use");
    }
}
