//! How many slots a pool has.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tokio::time::Instant;

use super::reading::{Asked, same};
use super::record::write_size;
use crate::etcd::hub::{Head, Hub};
use crate::pool::{MAX_SIZE, pool_name};
use crate::{ErrorKind, Resized, ResourceName, StoreError, check};

impl Hub {
    /// A slot that was cut off keeps its state. So does its owner's key: who asked for it is still remembered.
    pub(in crate::etcd) async fn resize_pool(
        &self,
        pool: &ResourceName,
        size: u32,
    ) -> Result<Resized, StoreError> {
        pool_name(pool)?;
        check::size(size)?;
        let deadline = self.link.deadline();
        let asked = Asked { pool, owner: None, numbers: size..MAX_SIZE, own: None };
        let mut reading = self.read_pool(&asked, deadline).await?;
        while Instant::now() < deadline {
            let at = self.at();
            let in_use = reading
                .slots
                .iter()
                .rev()
                .find_map(|(number, kept)| Some((*number, kept.row(None, &at).in_use(at.now)?)));
            if let Some((slot, remaining)) = in_use {
                return Ok(Resized::InUse { slot, remaining });
            }
            if reading.size == Some(size) {
                return Ok(Resized::Resized);
            }
            let mut when = vec![
                same(self.keys.standing(), reading.epochal.revision),
                same(self.keys.pool(pool), reading.size_revision),
            ];
            if !asked.numbers.is_empty() {
                // Nor has any been granted since that was never touched before.
                let (first, end) = (self.keys.slot(pool, size), self.keys.slot(pool, MAX_SIZE));
                let since = reading.revision.saturating_add(1);
                when.push(Compare::mod_revision(first, CompareOp::Less, since).with_range(end));
            }
            let put = TxnOp::put(self.keys.pool(pool), write_size(size), None);
            let txn = Txn::new().when(when).and_then([put]).or_else(asked.ops(&self.keys));
            let (answer, head) = self.transact(txn, deadline).await?;
            if answer.succeeded() {
                let head = Head { wrote: true, ..head };
                return self.settled(&reading, head, deadline).await.map(|()| Resized::Resized);
            }
            let found = asked.read(&self.keys, &answer, head.revision)?;
            reading = self.changed(&asked, found, head, deadline).await?;
        }
        let message = format!("others were faster in the pool {pool:?}, again and again");
        Err(StoreError::new(ErrorKind::Busy, message))
    }
}
