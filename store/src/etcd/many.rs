//! What concerns many resources at once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, SortOrder, SortTarget, Txn, TxnOp};

use super::hub::Hub;
use super::reading::{Reading, gets};
use super::record::read_hold;
use crate::server::each;
use crate::{LeaseRef, Pruned, Renewed, ResourceName, StoreError};

/// A transaction has at most 128 operations.
const IN_ONE: usize = 40;

impl Hub {
    /// Each on its own, all on their way before the first answer is.
    pub(super) async fn renew_many(
        self: &Arc<Self>,
        leases: Vec<(LeaseRef, Duration)>,
    ) -> Vec<Result<Renewed, StoreError>> {
        let renew = |(lease, ttl): (LeaseRef, Duration)| {
            let hub = Arc::clone(self);
            async move { hub.renew(&lease, ttl).await }
        };
        each(leases.into_iter().map(renew)).await
    }

    /// Deletes what nobody has held for so long. Tokens come from the cluster's revision, which no prune lowers.
    pub(super) async fn prune(&self, older_than: Duration) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        let done = self.forget(older_than, &mut pruned).await;
        done.map(|()| pruned).map_err(|error| pruned.up_to(error))
    }

    async fn forget(&self, older_than: Duration, pruned: &mut Pruned) -> Result<(), StoreError> {
        let before = self.wall().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut from = Vec::new();
        loop {
            let deadline = self.link.deadline();
            let (page, last) = self.page("", &from, deadline).await?;
            let old: Vec<_> = page.into_iter().filter(|(_, reading)| is_old(reading, before)).collect();
            for some in old.chunks(IN_ONE) {
                self.delete(some, &mut pruned.resources).await?;
            }
            let Some(last) = last else { break };
            from = last;
            from.push(0);
        }
        self.prune_history(before, &mut pruned.history).await?;
        let epochal = self.epochal(self.link.deadline()).await?;
        pruned.floor = epochal.standing.floor.saturating_add(self.greatest_revision());
        Ok(())
    }

    /// Deletes some together; one by one where one of them has changed. Counts them.
    async fn delete(&self, some: &[(ResourceName, Reading)], deleted: &mut u64) -> Result<(), StoreError> {
        if self.delete_all(some).await? {
            *deleted += some.len() as u64;
            return Ok(());
        }
        for one in some {
            *deleted += u64::from(self.delete_all(std::slice::from_ref(one)).await?);
        }
        Ok(())
    }

    async fn delete_all(&self, some: &[(ResourceName, Reading)]) -> Result<bool, StoreError> {
        let (mut when, mut then) = (Vec::new(), Vec::new());
        for (resource, reading) in some {
            let state = self.keys.state(resource);
            when.push(Compare::mod_revision(state.clone(), CompareOp::Equal, reading.revision));
            when.push(Compare::version(self.keys.live(resource), CompareOp::Equal, 0));
            then.push(TxnOp::delete(state, None));
            then.push(TxnOp::delete(self.keys.renewed(resource), None));
        }
        then.push(TxnOp::put(self.keys.pruned(), "", None));
        let (answer, _) = self.transact(Txn::new().when(when).and_then(then), self.link.deadline()).await?;
        Ok(answer.succeeded())
    }

    async fn prune_history(&self, before: SystemTime, pruned: &mut u64) -> Result<(), StoreError> {
        const PAGE: i64 = 500;
        let all = self.keys.all_holds();
        let mut from = all.clone();
        loop {
            let range = GetOptions::new().with_range(super::epoch::beyond(all.clone())).with_limit(PAGE);
            let look = TxnOp::get(from, Some(range));
            let (answer, _) = self.transact(Txn::new().and_then([look]), self.link.deadline()).await?;
            let found: Vec<_> = gets(&answer).into_iter().flat_map(|mut got| got.take_kvs()).collect();
            let mut old = Vec::new();
            for kv in &found {
                if read_hold(kv)?.ends_at <= before {
                    old.push(kv.key().to_vec());
                }
            }
            for some in old.chunks(IN_ONE * 3) {
                let ops: Vec<_> = some.iter().map(|key| TxnOp::delete(key.clone(), None)).collect();
                self.transact(Txn::new().and_then(ops), self.link.deadline()).await?;
                *pruned += some.len() as u64;
            }
            match found.last() {
                Some(last) if found.len() as i64 == PAGE => {
                    from = last.key().to_vec();
                    from.push(0);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Forgets the oldest holds of a resource that has more than are kept. Nobody waits for it.
    pub(super) async fn trim(&self, resource: &ResourceName) -> Result<(), StoreError> {
        let Some(keep) = self.options.limits.history else { return Ok(()) };
        let newest = GetOptions::new()
            .with_prefix()
            .with_keys_only()
            .with_sort(SortTarget::Key, SortOrder::Descend)
            .with_limit(i64::from(keep));
        let look = TxnOp::get(self.keys.holds(resource), Some(newest));
        let (answer, _) = self.transact(Txn::new().and_then([look]), self.link.deadline()).await?;
        let kept: Vec<_> = gets(&answer).into_iter().flat_map(|mut got| got.take_kvs()).collect();
        let Some(oldest) = kept.last().filter(|_| kept.len() as u64 == u64::from(keep)) else {
            return Ok(());
        };
        let older = DeleteOptions::new().with_range(oldest.key().to_vec());
        let delete = TxnOp::delete(self.keys.holds(resource), Some(older));
        self.transact(Txn::new().and_then([delete]), self.link.deadline()).await.map(drop)
    }
}

/// Nobody holds it, and the last who did gave it back, or let it run out, before that.
fn is_old(reading: &Reading, before: SystemTime) -> bool {
    let Some(state) = reading.state.as_ref().filter(|_| reading.live.is_none()) else { return false };
    let ran_out =
        reading.renewals.and_then(|last| last.at.checked_add(last.ttl)).filter(|_| state.held.is_some());
    ran_out.unwrap_or(state.at).max(state.at) <= before
}
