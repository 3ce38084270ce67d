//! Waiting until another try is worth it.

use std::time::{Duration, Instant};

use super::core::Core;
use crate::{ResourceName, StoreError};

/// How long nobody looks: somebody who waits hears of a release this much later at most, and asks twenty times a second.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Core {
    /// Looks again and again, each at another moment than the others who wait, until the resource is free.
    pub(super) async fn wait(&self, resource: ResourceName, limit: Duration) -> Result<(), StoreError> {
        let begun = self.moment();
        loop {
            let seen =
                self.ask(&self.requests.inspect(&resource)).await.map_err(StoreError::nothing_changed)?;
            let Some(occupant) = seen.seen(resource.clone())?.occupant else { return Ok(()) };
            let left = limit.saturating_sub(self.moment().saturating_sub(begun));
            if left.is_zero() {
                return Ok(());
            }
            let sleep = if self.options.clock.is_some() {
                Duration::from_millis(5)
            } else {
                Self::jitter(LOOK_AGAIN).min(left).min(occupant.remaining)
            };
            tokio::time::sleep(sleep.max(Duration::from_millis(1))).await;
        }
    }

    /// What the waiting is measured by: the test's clock where there is one, as the leases are.
    fn moment(&self) -> Duration {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        match &self.options.clock {
            Some(clock) => clock.now(),
            None => START.get_or_init(Instant::now).elapsed(),
        }
    }
}
