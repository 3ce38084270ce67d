//! Who waits for which resource.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ResourceName;
use crate::slot::Slot;

/// No waiter goes without a look for longer, whatever it was told to expect.
const LOOK_AT_LEAST: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Waiters(Vec<Waiter>);

struct Waiter {
    resource: ResourceName,
    /// By the machine's clock, which counts sleep.
    until: Duration,
    /// When the lease that it waits for runs out; zero before the first look.
    next_look: Duration,
    slot: Arc<Slot<()>>,
}

impl Waiters {
    pub(super) fn add(&mut self, resource: ResourceName, until: Duration, slot: Arc<Slot<()>>) {
        self.0.push(Waiter { resource, until, next_look: Duration::ZERO, slot });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Answers those whose limit has passed or whose resource is free. `remaining` looks at a resource: how long the
    /// lease on it goes on, `None` where it is free.
    pub(super) fn look(
        &mut self,
        now: Duration,
        changed: bool,
        mut remaining: impl FnMut(&ResourceName) -> Option<Duration>,
    ) {
        let mut seen: HashMap<ResourceName, Option<Duration>> = HashMap::new();
        self.0.retain_mut(|waiter| {
            if !waiter.slot.begin() {
                return false;
            }
            if now >= waiter.until {
                waiter.slot.answer(Ok(()));
                return false;
            }
            if !changed && now < waiter.next_look {
                return true;
            }
            let left =
                *seen.entry(waiter.resource.clone()).or_insert_with_key(|resource| remaining(resource));
            match left {
                None => {
                    waiter.slot.answer(Ok(()));
                    false
                }
                Some(left) => {
                    waiter.next_look = now.saturating_add(left.min(LOOK_AT_LEAST));
                    true
                }
            }
        });
    }
}
