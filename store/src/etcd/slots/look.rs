//! What only looks at a pool. When a lease ends it says by the clock of the holder, without asking the cluster about each of them.

use etcd_client::KeyValue;

use super::reading::Asked;
use crate::decide;
use crate::etcd::hub::Hub;
use crate::pool::MAX_SIZE;
use crate::{HistoryEntry, PoolClaim, PoolInspection, ResourceName, Room, StoreError};

impl Hub {
    pub(in crate::etcd) async fn pools(&self) -> Result<Vec<ResourceName>, StoreError> {
        let mut names = Vec::new();
        let named = |kv: &KeyValue| {
            // A name that this program would refuse cannot be asked about either.
            names.extend(self.keys.pool_of(kv.key()));
            Ok(())
        };
        self.each_key(self.keys.pools(), self.link.deadline(), named).await?;
        Ok(names)
    }

    pub(in crate::etcd) async fn slots(&self, pool: &ResourceName) -> Result<PoolInspection, StoreError> {
        let asked = Asked { pool, owner: None, numbers: 0..MAX_SIZE, own: None };
        let reading = self.read_pool(&asked, self.link.deadline()).await?;
        let at = self.at();
        let epoch = reading.epochal.standing.epoch;
        let mut seen = PoolInspection::unseen(pool.clone(), epoch, decide::wall(&at));
        seen.size = reading.size.unwrap_or(0);
        let there = reading.slots.iter().filter(|(number, _)| reading.has(**number));
        seen.slots =
            there.filter_map(|(number, kept)| kept.row(None, &at).inspection(*number, &at)).collect();
        Ok(seen)
    }

    pub(in crate::etcd) async fn room(&self, claim: &PoolClaim) -> Result<Room, StoreError> {
        let rest = self.rest(claim);
        Ok(self.slots(&claim.pool).await?.room(&claim.clone().with_cool_down(rest)))
    }

    /// The current hold of a slot, for its history.
    pub(in crate::etcd) async fn current_hold(
        &self,
        pool: &ResourceName,
        number: u16,
    ) -> Result<Option<HistoryEntry>, StoreError> {
        let reading = self.read_pool(&Asked::one(pool, number), self.link.deadline()).await?;
        let at = self.at();
        Ok(reading.row(number, None, &at).row.current_hold(at.now, at.wall))
    }
}
