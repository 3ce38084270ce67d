//! Which life of the store it is, and what shows that it is another.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnResponse,
};
use lease_machines::{FencingToken, OwnerId};
use tokio::time::Instant;

use super::hub::{Head, Hub};
use super::reading::{Epochal, gets};
use super::record::{Standing, State, lacks_stamp};
use super::slots::SlotState;
use crate::decide::{EARLIEST_MICROS, LEAP, MAX_TOKEN, micros};
use crate::url::wrong;
use crate::{Epoch, Migration, Opening, StoreError};

/// Records that are looked through at a time.
const AT_ONCE: i64 = 500;

impl Hub {
    /// The epoch as it stands. Where its cluster shows that history was lost, a new one is opened first.
    pub(super) async fn epochal(&self, deadline: Instant) -> Result<Epochal, StoreError> {
        loop {
            let ops = [self.keys.standing(), self.keys.wait()].map(|key| TxnOp::get(key, None));
            let (answer, head) = self
                .transact(Txn::new().and_then(ops), deadline)
                .await
                .map_err(StoreError::nothing_changed)?;
            let mut found = gets(&answer).into_iter();
            let mut next = || found.next().and_then(|mut got| got.take_kvs().into_iter().next());
            let (epoch, wait) = (next(), next());
            let epochal = Epochal::of(&self.keys, epoch.as_ref(), wait.as_ref())?;
            if self.settle(&epochal, head, deadline).await?.is_none() {
                return Ok(epochal);
            }
        }
    }

    /// Whether an answer shows that the cluster has lost history: it is another one, or less far than it was, or in an epoch
    /// that had been replaced. A new epoch is opened then, before anybody hears of that answer, and is returned.
    pub(super) async fn settle(
        &self,
        epochal: &Epochal,
        head: Head,
        deadline: Instant,
    ) -> Result<Option<Epoch>, StoreError> {
        let Standing { epoch, cluster, left, .. } = epochal.standing;
        let goes_on = self.goes_on(epoch, left, head);
        let same = cluster == head.cluster;
        if same && goes_on {
            return Ok(None);
        }
        // That another cluster has lost nothing may be believed; not that the same one has not, against what is known.
        if self.options.trust_failover && goes_on {
            let text = Standing { cluster: head.cluster, ..epochal.standing }.write();
            let as_read = self.as_read(epochal);
            let put = TxnOp::put(self.keys.standing(), text, None);
            // Its key has another revision then, at which whoever knows the old one reads anew.
            self.transact(Txn::new().when([as_read]).and_then([put]), deadline).await?;
            return Ok(None);
        }
        self.open_on(epochal, head.cluster, &Opening::new(epoch), deadline).await.map(Some)
    }

    fn as_read(&self, epochal: &Epochal) -> Compare {
        Compare::mod_revision(self.keys.standing(), CompareOp::Equal, epochal.revision)
    }

    /// Opens an epoch, and returns the one that the store is in afterwards.
    pub(super) async fn open_epoch(&self, opening: &Opening) -> Result<Epoch, StoreError> {
        let deadline = self.link.deadline();
        let epochal = self.epochal(deadline).await?;
        self.open_on(&epochal, epochal.standing.cluster, opening, deadline).await
    }

    async fn open_on(
        &self,
        epochal: &Epochal,
        cluster: u64,
        opening: &Opening,
        deadline: Instant,
    ) -> Result<Epoch, StoreError> {
        let old = epochal.standing;
        if old.epoch != opening.instead_of {
            return Ok(old.epoch);
        }
        // Each epoch that was lost may have begun that far above the one before, and have issued tokens above that.
        let leaps = LEAP.saturating_mul(1 + 2 * self.epochs_after(old.epoch));
        let known = old.floor.saturating_add(self.greatest_revision()).saturating_add(leaps);
        let above = opening.above.map_or(0, FencingToken::value);
        let wall = self.sane_clock()?;
        let floor = wall.max(known).max(above).min(MAX_TOKEN);
        let stamps_above = old.stamps_above.max(self.latest_stamp(wall));
        let left = Some(old.epoch);
        let new = Standing { epoch: Epoch::draw()?, floor, cluster, left, stamps_above, ..old };
        let mut then = vec![TxnOp::put(self.keys.standing(), new.write(), None)];
        if opening.old_holders_are_dead {
            let all = DeleteOptions::new().with_prefix();
            then.push(TxnOp::delete(self.keys.lives(""), Some(all.clone())));
            then.push(TxnOp::delete(self.keys.all_slot_lives(), Some(all)));
            then.push(TxnOp::delete(self.keys.wait(), None));
        } else {
            // Leases may be missing here; none of them lasts longer.
            let lease = self.leases.grant(self.options.limits.max_ttl, deadline).await?;
            let on = PutOptions::new().with_lease(lease.id);
            then.push(TxnOp::put(self.keys.wait(), old.epoch.to_string(), Some(on)));
        }
        let look = TxnOp::get(self.keys.standing(), None);
        let txn = Txn::new().when([self.as_read(epochal)]).and_then(then).or_else([look]);
        let (answer, _) = self.transact(txn, deadline).await?;
        if answer.succeeded() {
            return Ok(new.epoch);
        }
        Epochal::of(&self.keys, first_of(&answer).as_ref(), None).map(|epochal| epochal.standing.epoch)
    }

    /// Sets the store up where it is not; where it is, it says who may use it from then on.
    pub(super) async fn migrate(&self) -> Result<Migration, StoreError> {
        let deadline = self.link.deadline();
        let look = TxnOp::get(self.keys.standing(), None);
        let (answer, head) = self.transact(Txn::new().and_then([look]), deadline).await?;
        if let Some(kv) = first_of(&answer) {
            let there = Standing::read(&kv)?;
            if lacks_stamp(&kv)? {
                let as_read = Compare::mod_revision(kv.key(), CompareOp::Equal, kv.mod_revision());
                let put = TxnOp::put(kv.key(), there.write(), None);
                // Where it is another by now, somebody else did it, or has opened an epoch, which does it as well.
                self.transact(Txn::new().when([as_read]).and_then([put]), deadline).await?;
            }
            return Ok(Migration::UpToDate);
        }
        // What is left of a store that has lost its epoch is not granted over at once.
        let mut greatest = 0;
        self.each_last(deadline, |last| {
            greatest = greatest.max(last.token.map_or(0, FencingToken::value));
        })
        .await?;
        let wall = self.sane_clock()?;
        let (floor, stamps_above) = match greatest {
            0 => (wall, Duration::ZERO),
            _ => (wall.max(greatest.saturating_add(LEAP)), self.latest_stamp(wall)),
        };
        let new = Standing { stamps_above, ..Standing::new(Epoch::draw()?, floor, head.cluster) };
        let mut then = vec![TxnOp::put(self.keys.standing(), new.write(), None)];
        if greatest > 0 {
            let lease = self.leases.grant(self.options.limits.max_ttl, deadline).await?;
            then.push(TxnOp::put(self.keys.wait(), "", Some(PutOptions::new().with_lease(lease.id))));
        }
        let first = Compare::version(self.keys.standing(), CompareOp::Equal, 0);
        let (answer, _) = self.transact(Txn::new().when([first]).and_then(then), deadline).await?;
        Ok(if answer.succeeded() { Migration::SetUp } else { Migration::UpToDate })
    }

    /// A caller has shown a token that its resource never had. Owners are drawn for every hold, so that one which is known
    /// under another name was not lost: whoever shows it has the name wrong. Of a resource that is not there it may have been
    /// forgotten.
    pub(super) async fn rewound(
        &self,
        owner: OwnerId,
        token: FencingToken,
        epochal: &Epochal,
        may_be_forgotten: bool,
    ) -> Result<(), StoreError> {
        let deadline = self.link.deadline();
        if may_be_forgotten && token.value() <= self.pruned_up_to(epochal, deadline).await? {
            return Ok(());
        }
        let mut known = false;
        self.each_last(deadline, |last| {
            let held = last.owner.zip(last.token);
            known |= [held, last.vacated].contains(&Some((owner, token)));
        })
        .await?;
        if known {
            return Ok(());
        }
        let above = FencingToken::new(token.value().saturating_add(LEAP).min(MAX_TOKEN));
        let opening = Opening::new(epochal.standing.epoch).with_tokens_above(above);
        self.open_on(epochal, epochal.standing.cluster, &opening, deadline).await.map(drop)
    }

    /// The greatest token that may have been forgotten by a prune, with the resource that it was granted for.
    async fn pruned_up_to(&self, epochal: &Epochal, deadline: Instant) -> Result<u64, StoreError> {
        let look = TxnOp::get(self.keys.pruned(), None);
        let (answer, _) = self.transact(Txn::new().and_then([look]), deadline).await?;
        let revision = first_of(&answer).map_or(0, |mark| u64::try_from(mark.mod_revision()).unwrap_or(0));
        Ok(if revision == 0 { 0 } else { epochal.standing.floor.saturating_add(revision) })
    }

    /// Looks at every record of a resource and of a slot, some at a time.
    async fn each_last(
        &self,
        deadline: Instant,
        mut look: impl FnMut(LastHold) + Send,
    ) -> Result<(), StoreError> {
        let states = self.keys.states("");
        self.each_key(states, deadline, |kv| State::read(kv).map(|state| look(LastHold::of(&state)))).await?;
        let slots = self.keys.all_slots();
        self.each_key(slots, deadline, |kv| SlotState::read(kv).map(|slot| look(LastHold::of_slot(&slot))))
            .await
    }

    /// Looks at every key that begins like this, in their order.
    pub(super) async fn each_key(
        &self,
        prefix: Vec<u8>,
        deadline: Instant,
        mut look: impl FnMut(&KeyValue) -> Result<(), StoreError> + Send,
    ) -> Result<(), StoreError> {
        let end = beyond(prefix.clone());
        let mut from = prefix;
        loop {
            let range = GetOptions::new().with_range(end.clone()).with_limit(AT_ONCE);
            let txn = Txn::new().and_then([TxnOp::get(from.clone(), Some(range))]);
            let (answer, _) = self.transact(txn, deadline).await.map_err(StoreError::nothing_changed)?;
            let found: Vec<_> = gets(&answer).into_iter().flat_map(|mut got| got.take_kvs()).collect();
            for kv in &found {
                look(kv)?;
            }
            match found.last() {
                Some(last) if found.len() as i64 == AT_ONCE => {
                    from = last.key().to_vec();
                    from.push(0);
                }
                _ => return Ok(()),
            }
        }
    }

    /// This machine's clock in microseconds, since the cluster tells none: first tokens lie above it.
    fn sane_clock(&self) -> Result<u64, StoreError> {
        let wall = micros(self.wall());
        if wall < EARLIEST_MICROS {
            return Err(wrong(format!(
                "this machine's clock stands at {wall} µs since 1970, before this program was made: set it right"
            )));
        }
        Ok(wall)
    }

    /// No slot of a history that is lost has reserved ID time beyond this, whatever machine it was granted to.
    fn latest_stamp(&self, wall: u64) -> Duration {
        let longest = self.options.limits.max_ttl.saturating_add(self.options.clock_skew);
        Duration::from_micros(wall).saturating_add(longest)
    }
}

/// The last hold of a resource or a slot, and the last that was given back.
struct LastHold {
    token: Option<FencingToken>,
    /// Of the one under that token.
    owner: Option<OwnerId>,
    vacated: Option<(OwnerId, FencingToken)>,
}

impl LastHold {
    fn of(state: &State) -> Self {
        Self {
            token: state.last.token(0),
            owner: state.held.as_ref().map(|held| held.owner),
            vacated: state.vacated.as_ref().map(|last| (last.owner, last.token)),
        }
    }

    fn of_slot(slot: &SlotState) -> Self {
        Self {
            token: slot.last.token(0),
            owner: slot.held.as_ref().map(|held| held.owner),
            vacated: slot.vacated.as_ref().map(|last| (last.owner, last.token)),
        }
    }
}

/// The first key behind all that begin with this one. The keys here have no byte of 255 at their end.
pub(super) fn beyond(mut key: Vec<u8>) -> Vec<u8> {
    if let Some(last) = key.last_mut() {
        *last = last.saturating_add(1);
    }
    key
}

/// What the first look of a transaction has found.
fn first_of(answer: &TxnResponse) -> Option<KeyValue> {
    gets(answer).into_iter().next().and_then(|mut got| got.take_kvs().into_iter().next())
}
