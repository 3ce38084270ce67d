//! Waiting until another try is worth it.

use std::time::{Duration, Instant};

use super::hub::Hub;
use crate::server::poll;
use crate::{ResourceName, StoreError};

/// How long nobody looks: somebody who waits hears of a release this much later at most, and asks twenty times a second.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The same by a test's clock, which is moved by others.
const LOOK_AT_TEST: Duration = Duration::from_millis(5);

impl Hub {
    pub(super) async fn wait(&self, resource: ResourceName, limit: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        let look = || async {
            let seen =
                self.ask(&self.requests.inspect(&resource)).await.map_err(StoreError::nothing_changed)?;
            Ok(seen.seen(resource.clone())?.occupant.map(|occupant| occupant.remaining))
        };
        match &self.options.clock {
            Some(clock) => poll(limit, LOOK_AT_TEST..=LOOK_AT_TEST, || clock.now(), look).await,
            None => poll(limit, LOOK_AGAIN..=LOOK_AGAIN, || begun.elapsed(), look).await,
        }
    }
}
