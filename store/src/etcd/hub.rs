//! What all calls of a store share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use etcd_client::{Txn, TxnResponse};
use lease_machines::FencingToken;
use tokio::time::Instant;

use super::EtcdOptions;
use super::keys::Keys;
use super::leases::Leases;
use super::link::Link;
use super::reading::{Epochal, Reading, Wanted};
use super::slots::PoolReading;
use crate::server::Epochs;
use crate::{Epoch, ResourceName, StoreError};

pub(super) struct Hub {
    pub(super) link: Arc<Link>,
    pub(super) leases: Arc<Leases>,
    pub(super) keys: Keys,
    pub(super) options: EtcdOptions,
    seen: Mutex<Seen>,
}

/// What this store was told. It is no more than a guess: every transaction compares.
#[derive(Default)]
struct Seen {
    resources: HashMap<ResourceName, Known>,
    slots: HashMap<(ResourceName, u16), PoolReading>,
    epochs: Epochs,
    /// The cluster, and the greatest revision in the last epoch. One that is lower afterwards shows that the cluster has lost
    /// what it answered. What is written proves nothing by the revision that it gets: that makes up for one that was lost.
    cluster: u64,
    revision: i64,
}

#[derive(Clone)]
pub(super) struct Known {
    pub(super) reading: Reading,
    /// A grant that was made here, and when its answer came, by this machine's clock.
    pub(super) granted: Option<(FencingToken, Duration)>,
}

/// Resources that are remembered, and slots; whoever uses more of them is told again.
const MOST: usize = 4_096;

impl Hub {
    pub(super) fn new(link: Link, options: EtcdOptions) -> Self {
        let link = Arc::new(link);
        Self {
            leases: Arc::new(Leases::new(Arc::clone(&link), &options)),
            link,
            keys: Keys::new(&options.namespace),
            options,
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self, resource: &ResourceName) -> Option<Known> {
        self.seen().resources.get(resource).cloned()
    }

    pub(super) fn remember(&self, resource: &ResourceName, known: Known) {
        let mut seen = self.seen();
        if seen.resources.len() >= MOST && !seen.resources.contains_key(resource) {
            seen.resources.clear();
        }
        seen.resources.insert(resource.clone(), known);
    }

    pub(super) fn known_slot(&self, pool: &ResourceName, number: u16) -> Option<PoolReading> {
        self.seen().slots.get(&(pool.clone(), number)).cloned()
    }

    pub(super) fn note_slot(&self, pool: &ResourceName, number: u16, reading: PoolReading) {
        let (mut seen, slot) = (self.seen(), (pool.clone(), number));
        if seen.slots.len() >= MOST && !seen.slots.contains_key(&slot) {
            seen.slots.clear();
        }
        seen.slots.insert(slot, reading);
    }

    /// When a grant under this token was heard of here.
    pub(super) fn granted_here(&self, resource: &ResourceName, token: FencingToken) -> Option<Duration> {
        self.known(resource)?.granted.filter(|(granted, _)| *granted == token).map(|(_, at)| at)
    }

    /// One transaction, and its answer's header. `Ok` also where what it compares did not hold.
    pub(super) async fn transact(
        &self,
        txn: Txn,
        deadline: Instant,
    ) -> Result<(TxnResponse, Head), StoreError> {
        // Only what was known before it was sent says something: answers overtake each other.
        let before = self.seen().before();
        let answer = self.link.transact(txn, deadline).await?;
        let head = answer.header().map_or_else(Head::default, |header| Head {
            cluster: header.cluster_id(),
            revision: header.revision(),
            wrote: false,
            before,
        });
        Ok((answer, head))
    }

    /// Takes note of how far the cluster is, where it is no less far than it was. `left` is the epoch that this one has
    /// replaced.
    pub(super) fn goes_on(&self, epoch: Epoch, left: Option<Epoch>, head: Head) -> bool {
        self.seen().goes_on(epoch, left, head)
    }

    /// The greatest revision that this store was told of.
    pub(super) fn greatest_revision(&self) -> u64 {
        u64::try_from(self.seen().revision).unwrap_or(0)
    }

    /// How many epochs are known to have come after this one.
    pub(super) fn epochs_after(&self, epoch: Epoch) -> u64 {
        self.seen().epochs.after(epoch) as u64
    }

    /// Reads a resource. Where it shows that history was lost, a new epoch is opened first.
    pub(super) async fn read(&self, wanted: &Wanted<'_>, deadline: Instant) -> Result<Reading, StoreError> {
        loop {
            let txn = Txn::new().and_then(wanted.ops(&self.keys));
            let (answer, head) = self.transact(txn, deadline).await.map_err(StoreError::nothing_changed)?;
            let reading = wanted.read(&self.keys, &answer)?;
            if self.settle(&reading.epochal, head, deadline).await?.is_none() {
                return Ok(reading);
            }
        }
    }

    /// How long nothing is granted yet.
    pub(super) async fn waits(&self, epochal: &Epochal, deadline: Instant) -> Result<Duration, StoreError> {
        match epochal.waits {
            None => Ok(Duration::ZERO),
            // It is there, however little is left of it.
            Some(lease) => {
                let left = self.leases.remaining(lease, deadline).await?;
                Ok(left.unwrap_or_default().max(Duration::from_secs(1)))
            }
        }
    }

    /// This machine's wall clock: etcd tells no time.
    pub(super) fn wall(&self) -> SystemTime {
        self.options.here.wall()
    }
}

/// Which cluster answered, and where it stood.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Head {
    pub(super) cluster: u64,
    pub(super) revision: i64,
    /// It has written, and its revision is that of what it wrote.
    pub(super) wrote: bool,
    /// What was known when it was asked.
    pub(super) before: Before,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Before {
    epoch: Option<Epoch>,
    cluster: u64,
    revision: i64,
}

impl Seen {
    fn before(&self) -> Before {
        Before { epoch: self.epochs.current(), cluster: self.cluster, revision: self.revision }
    }

    fn goes_on(&mut self, epoch: Epoch, left: Option<Epoch>, head: Head) -> bool {
        // What was written has a revision of its own.
        let since = head.revision.saturating_sub(i64::from(head.wrote));
        let before = head.before;
        // Another cluster counts on its own.
        let same = before.epoch == Some(epoch) && before.cluster == head.cluster;
        if same && since < before.revision || self.epochs.went_back(before.epoch, epoch) {
            return false;
        }
        let current = self.epochs.current();
        if self.epochs.enter(before.epoch, epoch) {
            self.epochs.left(left);
            let counts_on = current == Some(epoch) && self.cluster == head.cluster;
            self.revision = if counts_on { head.revision.max(self.revision) } else { head.revision };
            self.cluster = head.cluster;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_does_not_make_up_for_one_that_was_lost() {
        let epochs = [1, 2].map(|value| Epoch::new(value).unwrap());
        let mut seen = Seen::default();
        let mut goes_on = |epoch: usize, cluster, revision, wrote| {
            let head = Head { cluster, revision, wrote, before: seen.before() };
            seen.goes_on(epochs[epoch], None, head)
        };
        assert!(goes_on(0, 7, 10, true) && goes_on(0, 7, 10, false) && goes_on(0, 7, 11, true));
        assert!(!goes_on(0, 7, 10, false) && !goes_on(0, 7, 11, true) && !goes_on(0, 7, 10, true));
        assert!(goes_on(0, 7, 12, true));
        // One that was made of a snapshot counts on its own, and is told by its identity.
        assert!(goes_on(0, 8, 3, false) && !goes_on(0, 8, 2, false));
        assert!(goes_on(1, 8, 2, false), "an epoch that was opened where less is known");
        assert!(!goes_on(0, 8, 9, false), "the one before does not come again");
    }
}
