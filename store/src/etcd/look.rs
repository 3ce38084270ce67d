//! What only looks, and changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{GetOptions, KeyValue, SortOrder, SortTarget, Txn, TxnOp};

use super::epoch::beyond;
use super::hub::Hub;
use super::leases::LAST_MOMENT;
use super::reading::{self, Epochal, Reading, Wanted, gets};
use super::record::read_hold;
use crate::pool::slot_named;
use crate::server::{each, poll};
use crate::{HistoryEntry, Inspection, ResourceName, StoreError};

/// How long a waiter sleeps before it looks again, at first and at most.
const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);

/// Resources that are listed in one transaction.
const AT_ONCE: i64 = 250;

impl Hub {
    pub(super) async fn inspect(&self, resource: &ResourceName) -> Result<Inspection, StoreError> {
        let deadline = self.link.deadline();
        let wanted = Wanted { resource, owner: None, once: None, good: true };
        let reading = self.read(&wanted, deadline).await?;
        let shown = self.shown(resource.clone(), &reading, deadline).await;
        // Whoever waits looks, and asks for it next: it begins with what was seen.
        self.note(resource, reading, None);
        shown
    }

    async fn shown(
        &self,
        resource: ResourceName,
        reading: &Reading,
        deadline: tokio::time::Instant,
    ) -> Result<Inspection, StoreError> {
        let wall = self.wall();
        let left = match reading.live {
            None => Duration::ZERO,
            Some(live) => self.leases.remaining(live.lease, deadline).await?.unwrap_or(LAST_MOMENT),
        };
        let row = reading.row(left, reading.held_by_the_wall(wall), wall);
        let now = reading::at(wall).now;
        Ok(row.inspection(resource, reading.epochal.standing.epoch, now, reading.good.clone()))
    }

    pub(super) async fn list(self: &Arc<Self>, prefix: &str) -> Result<Vec<Inspection>, StoreError> {
        let mut all = Vec::new();
        let mut from = prefix.as_bytes().to_vec();
        loop {
            let deadline = self.link.deadline();
            let (page, last) = self.page(prefix, &from, deadline).await?;
            // How long each lasts is asked for all at once.
            let show = |(resource, reading): (ResourceName, Reading)| {
                let hub = Arc::clone(self);
                async move { hub.shown(resource, &reading, deadline).await }
            };
            for one in each(page.into_iter().map(show)).await {
                all.push(one?);
            }
            let Some(last) = last else { return Ok(all) };
            from = last;
            from.push(0);
        }
    }

    /// Resources whose names begin like this, from one on; and the name that the next page begins behind, where there may
    /// be more.
    pub(super) async fn page(
        &self,
        prefix: &str,
        from: &[u8],
        deadline: tokio::time::Instant,
    ) -> Result<(Vec<(ResourceName, Reading)>, Option<Vec<u8>>), StoreError> {
        let keys = &self.keys;
        let range = |first: Vec<u8>, all: Vec<u8>| {
            let options = GetOptions::new().with_range(beyond(all)).with_limit(AT_ONCE);
            TxnOp::get([first, from.to_vec()].concat(), Some(options))
        };
        let ops = [
            TxnOp::get(keys.standing(), None),
            TxnOp::get(keys.wait(), None),
            range(keys.states(""), keys.states(prefix)),
            range(keys.lives(""), keys.lives(prefix)),
            range(keys.reneweds(""), keys.reneweds(prefix)),
            TxnOp::get(
                [keys.goods(""), from.to_vec()].concat(),
                Some(GetOptions::new().with_range(beyond(keys.goods(prefix))).with_limit(AT_ONCE)),
            ),
        ];
        let (answer, _) =
            self.transact(Txn::new().and_then(ops), deadline).await.map_err(StoreError::nothing_changed)?;
        let mut found = gets(&answer).into_iter().map(|mut got| got.take_kvs());
        let mut next = || found.next().unwrap_or_default();
        let (epoch, wait, states, lives, renewed, goods) = (next(), next(), next(), next(), next(), next());
        let epochal = Epochal::of(keys, epoch.first(), wait.first())?;
        let mut page = Vec::with_capacity(states.len());
        for state in &states {
            let Some(resource) = keys.name_of(state.key()) else { continue };
            let of =
                |kvs: &[KeyValue], key: Vec<u8>| kvs.iter().find(|kv| kv.key() == key.as_slice()).cloned();
            let live = of(&lives, keys.live(&resource));
            let renewed = of(&renewed, keys.renewed(&resource));
            let good = of(&goods, keys.good(&resource));
            let reading = Reading::listed(epochal, state, live.as_ref(), renewed.as_ref(), good.as_ref())?;
            page.push((resource, reading));
        }
        let last = states.last().filter(|_| states.len() as i64 == AT_ONCE);
        Ok((
            page,
            last.and_then(|last| keys.name_of(last.key())).map(|name| name.as_str().as_bytes().to_vec()),
        ))
    }

    pub(super) async fn history(
        &self,
        resource: &ResourceName,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let deadline = self.link.deadline();
        let wanted = Wanted { resource, owner: None, once: None, good: false };
        let newest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Key, SortOrder::Descend)
            .with_limit(i64::try_from(limit.max(1)).unwrap_or(i64::MAX));
        let mut ops = wanted.ops(&self.keys);
        ops.push(TxnOp::get(self.keys.holds(resource), Some(newest)));
        let (answer, _) =
            self.transact(Txn::new().and_then(ops), deadline).await.map_err(StoreError::nothing_changed)?;
        let reading = wanted.read(&self.keys, &answer)?;
        let wall = self.wall();
        let left = match reading.live {
            None => Duration::ZERO,
            Some(live) => self.leases.remaining(live.lease, deadline).await?.unwrap_or(LAST_MOMENT),
        };
        let row = reading.row(left, reading.held_by_the_wall(wall), wall);
        let mut holds: Vec<HistoryEntry> =
            row.current_hold(reading::at(wall).now, wall).into_iter().collect();
        if let Some((pool, slot)) = slot_named(resource) {
            holds.extend(self.current_hold(&pool, slot).await?);
        }
        for kv in gets(&answer).last_mut().map(|got| got.take_kvs()).unwrap_or_default() {
            let hold = read_hold(&kv)?;
            if holds.iter().all(|other| other.token != hold.token) {
                holds.push(hold);
            }
        }
        holds.truncate(limit);
        Ok(holds)
    }

    /// Looks again and again, each at another moment than the others who wait, until the resource is free.
    pub(super) async fn wait(&self, resource: &ResourceName, limit: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        let look = || async {
            let occupant = self.inspect(resource).await?.occupant;
            Ok(occupant.map(|occupant| occupant.remaining))
        };
        poll(limit, FIRST..=MOST, || begun.elapsed(), look).await
    }
}
