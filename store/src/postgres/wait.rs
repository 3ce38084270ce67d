//! Waiting until another try is worth it.

use std::time::{Duration, Instant};

use super::hub::Hub;
use crate::server::poll;
use crate::{ResourceName, StoreError};

/// How long a waiter sleeps before it looks again, at first and at most.
const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);

impl Hub {
    pub(super) async fn wait(&self, resource: ResourceName, limit: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        let look = || async {
            let occupant = self.inspect(resource.clone()).await?.occupant;
            Ok(occupant.map(|occupant| occupant.remaining))
        };
        poll(limit, FIRST..=MOST, || begun.elapsed(), look).await
    }
}
