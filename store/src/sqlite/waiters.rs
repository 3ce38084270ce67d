//! Who waits for which resource.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ResourceName;
use crate::slot::Slot;

/// No waiter goes without a look for longer, whatever it was told to expect.
const LOOK_AT_LEAST: Duration = Duration::from_secs(5);

/// Nobody holds on to the list while a disk is read or a caller is woken: a runtime that polls a wait must not be held up
/// by either.
#[derive(Default)]
pub(super) struct Waiters {
    list: Mutex<Vec<Waiter>>,
    count: AtomicUsize,
}

/// How long the lease on a resource goes on; `None` where it is free.
pub(super) type Remaining = Option<Duration>;

struct Waiter {
    resource: ResourceName,
    /// By the machine's clock, which counts sleep.
    until: Duration,
    /// When the lease that it waits for runs out; zero before the first look.
    next_look: Duration,
    slot: Arc<Slot<()>>,
}

impl Waiters {
    pub(super) fn add(&self, resource: ResourceName, until: Duration, slot: Arc<Slot<()>>) {
        let mut list = self.list();
        list.push(Waiter { resource, until, next_look: Duration::ZERO, slot });
        self.count.store(list.len(), Ordering::SeqCst);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Answers those whose limit has passed, and forgets those who left. Says whether any is left.
    pub(super) fn end_over(&self, now: Duration) -> bool {
        self.answer_where(|waiter| now >= waiter.until)
    }

    /// The resources that have to be looked at for those who wait.
    pub(super) fn to_look_at(&self, now: Duration, changed: bool) -> HashSet<ResourceName> {
        let list = self.list();
        let due = list.iter().filter(|waiter| changed || now >= waiter.next_look);
        due.map(|waiter| waiter.resource.clone()).collect()
    }

    /// Answers those whose resource was seen to be free.
    pub(super) fn seen(&self, now: Duration, seen: &HashMap<ResourceName, Remaining>) {
        self.answer_where(|waiter| match seen.get(&waiter.resource) {
            None => false,
            Some(None) => true,
            Some(Some(left)) => {
                waiter.next_look = now.saturating_add(*left.min(&LOOK_AT_LEAST));
                false
            }
        });
    }

    fn answer_where(&self, mut is_over: impl FnMut(&mut Waiter) -> bool) -> bool {
        let mut list = self.list();
        let mut over = Vec::new();
        for mut waiter in mem::take(&mut *list) {
            if !waiter.slot.begin() {
                // Its caller has left.
            } else if is_over(&mut waiter) {
                over.push(waiter.slot);
            } else {
                list.push(waiter);
            }
        }
        self.count.store(list.len(), Ordering::SeqCst);
        let any_left = !list.is_empty();
        drop(list);
        over.into_iter().for_each(|slot| slot.answer(Ok(())));
        any_left
    }

    fn list(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
