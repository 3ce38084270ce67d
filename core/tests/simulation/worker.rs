//! A process that keeps a lease, with a clock of its own.

use super::*;

impl Worker {
    pub(super) fn new(plan: KeeperPlan) -> Self {
        Self {
            plan,
            keeper: None,
            sent: BTreeMap::new(),
            round: 0,
            holds: 0,
            working_under: None,
            worked_under: Vec::new(),
            superseding: Vec::new(),
            unused: BTreeMap::new(),
            given_back: BTreeSet::new(),
            waits: false,
        }
    }

    /// Its clock at a true instant.
    pub(super) fn clock(&self, at: Duration) -> Duration {
        let nanos = at.as_nanos() as i128;
        let shown = nanos + nanos * i128::from(self.plan.faster) / 1_000_000;
        self.plan.origin + Duration::from_nanos(shown as u64)
    }

    /// The first true instant at which its clock shows `shown` or later.
    pub(super) fn true_time_of(&self, shown: Duration) -> Duration {
        let since = shown.saturating_sub(self.plan.origin).as_nanos() as i128;
        let guess = since * 1_000_000 / (1_000_000 + i128::from(self.plan.faster));
        let mut at = Duration::from_nanos((guess - 2).max(0) as u64);
        while self.clock(at) < shown {
            at += Duration::from_nanos(1);
        }
        at
    }

    pub(super) fn paused_until(&self, at: Duration) -> Option<Duration> {
        let pause = self.plan.pauses.iter().find(|(from, lasts)| *from <= at && at < *from + *lasts);
        pause.map(|(from, lasts)| *from + *lasts)
    }
}
