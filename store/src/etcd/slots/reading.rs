//! One version of a pool, or of a part of it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp, TxnResponse};
use lease_machines::OwnerId;
use tokio::time::Instant;

use super::record::{SlotState, read_owned, read_size};
use crate::decide::{At, SlotRow};
use crate::etcd::hub::Hub;
use crate::etcd::keys::Keys;
use crate::etcd::reading::{Epochal, LiveKey, gets};
use crate::{ResourceName, StoreError};

/// Slots that are read at once: as many as machine IDs have, and so few that also the longest names fit into one answer.
const PAGE: i64 = 512;

/// What is read of a pool.
pub(super) struct Asked<'a> {
    pub(super) pool: &'a ResourceName,
    /// Whether this owner has withdrawn, and what it was granted last.
    pub(super) owner: Option<OwnerId>,
    /// The slots with these numbers that were ever touched.
    pub(super) numbers: Range<u32>,
    /// And one that the owner may have.
    pub(super) own: Option<u16>,
}

#[derive(Clone, Debug)]
pub(in crate::etcd) struct PoolReading {
    pub(super) epochal: Epochal,
    /// At which all of this stood.
    pub(super) revision: i64,
    /// `None` for a pool that there is not; and the revision of the key that says so.
    pub(super) size: Option<u32>,
    pub(super) size_revision: i64,
    pub(super) withdrawn: bool,
    /// The slot that the owner was granted last; and the revision of the key that says so.
    pub(super) own: Option<u16>,
    pub(super) own_revision: i64,
    pub(super) slots: BTreeMap<u16, Kept>,
    /// From which number on it is not read yet.
    rest: Option<u32>,
}

/// A slot that was ever touched.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) state: SlotState,
    pub(super) revision: i64,
    pub(super) live: Option<LiveKey>,
}

impl Kept {
    /// See [`SlotState::row`].
    pub(super) fn row(&self, left: Option<Duration>, at: &At) -> SlotRow {
        self.state.row(self.revision, self.live.as_ref(), left, at)
    }
}

impl<'a> Asked<'a> {
    pub(super) fn one(pool: &'a ResourceName, number: u16) -> Self {
        Self { pool, owner: None, numbers: only(number), own: None }
    }

    pub(super) fn ops(&self, keys: &Keys) -> Vec<TxnOp> {
        let mut all = vec![keys.standing(), keys.wait(), keys.pool(self.pool)];
        all.extend(self.owner.map(|owner| keys.slot_withdrawn(self.pool, owner)));
        all.extend(self.owner.map(|owner| keys.slot_owner(self.pool, owner)));
        let mut ops: Vec<_> = all.into_iter().map(|key| TxnOp::get(key, None)).collect();
        for numbers in self.parts() {
            ops.extend(self.ranges(keys, &numbers, None));
        }
        ops
    }

    fn parts(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let own = self.own.map(only);
        [Some(self.numbers.clone()), own].into_iter().flatten().filter(|numbers| !numbers.is_empty())
    }

    /// Two looks at these slots: their states, and their live keys.
    fn ranges(&self, keys: &Keys, numbers: &Range<u32>, revision: Option<i64>) -> [TxnOp; 2] {
        let look = |key: &dyn Fn(u32) -> Vec<u8>| {
            let range = GetOptions::new().with_range(key(numbers.end)).with_limit(PAGE);
            let range = match revision {
                Some(revision) => range.with_revision(revision),
                None => range,
            };
            TxnOp::get(key(numbers.start), Some(range))
        };
        [look(&|number| keys.slot(self.pool, number)), look(&|number| keys.slot_live(self.pool, number))]
    }

    /// What [`ops`](Self::ops) were answered, at this revision.
    pub(super) fn read(
        &self,
        keys: &Keys,
        answer: &TxnResponse,
        revision: i64,
    ) -> Result<PoolReading, StoreError> {
        let mut found = gets(answer).into_iter();
        let mut next = || found.next().map(|mut got| got.take_kvs()).unwrap_or_default();
        let (epoch, wait, size) = (next(), next(), next());
        let (withdrawn, own) = match self.owner {
            Some(_) => (next(), next()),
            None => (Vec::new(), Vec::new()),
        };
        let revision_of = |kvs: &[KeyValue]| kvs.first().map_or(0, KeyValue::mod_revision);
        let mut reading = PoolReading {
            epochal: Epochal::of(keys, epoch.first(), wait.first())?,
            revision,
            size: size.first().map(read_size).transpose()?,
            size_revision: revision_of(&size),
            withdrawn: !withdrawn.is_empty(),
            own: own.first().map(read_owned).transpose()?,
            own_revision: revision_of(&own),
            slots: BTreeMap::new(),
            rest: None,
        };
        for numbers in self.parts() {
            let rest = reading.add(keys, self.pool, &numbers, &next(), &next())?;
            reading.rest = reading.rest.or(rest);
        }
        Ok(reading)
    }
}

impl PoolReading {
    /// Takes up what was found of these slots, and says from which number on there may be more.
    fn add(
        &mut self,
        keys: &Keys,
        pool: &ResourceName,
        numbers: &Range<u32>,
        states: &[KeyValue],
        lives: &[KeyValue],
    ) -> Result<Option<u32>, StoreError> {
        let number = |kv: &KeyValue| keys.number_of(pool, kv.key());
        let lives: HashMap<_, _> =
            lives.iter().filter_map(|kv| Some((number(kv)?, LiveKey::of(kv)))).collect();
        let mut last = None;
        for kv in states {
            let Some(number) = number(kv) else { continue };
            // As many live keys as states are read, and each is a slot's that has a state.
            let live = lives.get(&number).copied();
            let kept = Kept { state: SlotState::read(kv)?, revision: kv.mod_revision(), live };
            self.slots.insert(number, kept);
            last = Some(u32::from(number));
        }
        let next = last.map(|last| last.saturating_add(1));
        Ok(next.filter(|next| states.len() as i64 == PAGE && *next < numbers.end))
    }

    /// The slot as the core sees it.
    pub(super) fn row(&self, number: u16, left: Option<Duration>, at: &At) -> SlotRow {
        self.slots.get(&number).map(|kept| kept.row(left, at)).unwrap_or_default()
    }

    /// Whether the pool has a slot of this number.
    pub(super) fn has(&self, number: u16) -> bool {
        self.size.is_some_and(|size| u32::from(number) < size)
    }

    /// That nothing of this slot has changed.
    pub(super) fn stands(&self, keys: &Keys, pool: &ResourceName, number: u16) -> Vec<Compare> {
        let kept = self.slots.get(&number);
        let (revision, live) = (kept.map(|kept| kept.revision), kept.and_then(|kept| kept.live));
        vec![
            same(keys.standing(), self.epochal.revision),
            same(keys.slot(pool, number.into()), revision.unwrap_or(0)),
            same(keys.slot_live(pool, number.into()), live.map_or(0, |live| live.revision)),
        ]
    }

    /// This one slot of it, as the guess that the next call begins with.
    pub(super) fn guess(&self, number: u16, kept: Option<Kept>) -> Self {
        let mut epochal = self.epochal;
        epochal.waits = None;
        let slots = kept.map(|kept| (number, kept)).into_iter().collect();
        Self { epochal, withdrawn: false, own: None, own_revision: 0, slots, rest: None, ..*self }
    }
}

impl Hub {
    /// Reads a part of a pool. Where it shows that history was lost, a new epoch is opened first.
    pub(super) async fn read_pool(
        &self,
        asked: &Asked<'_>,
        deadline: Instant,
    ) -> Result<PoolReading, StoreError> {
        loop {
            let txn = Txn::new().and_then(asked.ops(&self.keys));
            let (answer, head) = self.transact(txn, deadline).await.map_err(StoreError::nothing_changed)?;
            let reading = asked.read(&self.keys, &answer, head.revision)?;
            if self.settle(&reading.epochal, head, deadline).await?.is_none() {
                return self.read_rest(asked, reading, deadline).await;
            }
        }
    }

    /// The rest of it, as it stood at the same revision: what did not fit into one answer, and the owner's slot.
    pub(super) async fn read_rest(
        &self,
        asked: &Asked<'_>,
        mut reading: PoolReading,
        deadline: Instant,
    ) -> Result<PoolReading, StoreError> {
        let mut own = reading.own;
        loop {
            let numbers = match (reading.rest.take(), own.take()) {
                (Some(from), later) => {
                    own = later;
                    from..asked.numbers.end
                }
                (None, Some(own)) if !reading.slots.contains_key(&own) => only(own),
                (None, _) => return Ok(reading),
            };
            let ranges = asked.ranges(&self.keys, &numbers, Some(reading.revision));
            let (answer, _) = self
                .transact(Txn::new().and_then(ranges), deadline)
                .await
                .map_err(StoreError::nothing_changed)?;
            let mut found = gets(&answer).into_iter().map(|mut got| got.take_kvs());
            let mut next = || found.next().unwrap_or_default();
            let (states, lives) = (next(), next());
            reading.rest = reading.add(&self.keys, asked.pool, &numbers, &states, &lives)?;
        }
    }
}

pub(super) fn same(key: Vec<u8>, revision: i64) -> Compare {
    Compare::mod_revision(key, CompareOp::Equal, revision)
}

fn only(number: u16) -> Range<u32> {
    let number = u32::from(number);
    number..number + 1
}
