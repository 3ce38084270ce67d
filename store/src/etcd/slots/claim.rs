//! How a claim finds its slot.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use lease_machines::Gone;
use tokio::time::Instant;

use super::choice::{Crowd, choose};
use super::decision::{Before, SlotCarried};
use super::reading::{Asked, PoolReading, same};
use super::record::write_size;
use crate::decide::{self, At, Course, Decided, SlotRow, Standing};
use crate::etcd::decision::{Outcome, OwnLease};
use crate::etcd::hub::Hub;
use crate::etcd::reading::standing_at;
use crate::owner::random;
use crate::url::wrong;
use crate::{Claimed, PoolClaim, StoreError, Unclaimed, Undecided, check};

/// So often a claim chooses a slot. Of several hundred that come at once, two in three get the slot that they choose; whoever has met
/// others so often is told that the pool is busy.
const TRIES: u32 = 24;

impl Hub {
    pub(in crate::etcd) async fn claim_slot(
        self: &Arc<Self>,
        claim: PoolClaim,
        again: bool,
    ) -> Result<Claimed, StoreError> {
        let claim = check::pool_claim(claim, self.options.limits.max_ttl)?;
        let sent = self.options.here.now();
        let mut own = OwnLease::default();
        let decided = self.claim_slot_by(self.link.deadline(), &claim, again, &mut own).await;
        // Where nobody knows, a live key may stand on it.
        if !decided.as_ref().is_err_and(|error| error.undecided() == Undecided::Unknown) {
            own.give_back(self);
        }
        let (answer, outcome) = decided?;
        Ok(match answer {
            Claimed::Granted(lease) => {
                let lease = outcome.told(lease);
                self.options.here.in_time(sent, lease.ttl, &self.link.place)?;
                Claimed::Granted(lease)
            }
            other => other,
        })
    }

    /// Nothing is answered from what was seen before: a claim begins with a read of all slots that it may have.
    async fn claim_slot_by(
        self: &Arc<Self>,
        deadline: Instant,
        claim: &PoolClaim,
        again: bool,
        own: &mut OwnLease,
    ) -> Result<(Claimed, Outcome), StoreError> {
        let mut asked =
            Asked { pool: &claim.pool, owner: Some(claim.owner), numbers: numbers(claim), own: None };
        own.ask_ahead(self, claim.ttl, deadline);
        let mut reading = self.read_pool(&asked, deadline).await?;
        let (mut over, mut failures) = (None, 0);
        loop {
            if failures >= TRIES || Instant::now() >= deadline {
                return Ok((Claimed::Rejected(Unclaimed::Busy), Outcome::default()));
            }
            asked.own = reading.own.filter(|own| !asked.numbers.contains(&u32::from(*own)));
            // What its owner is told to have left must be so.
            let mine = reading.own.and_then(|number| Some((number, reading.slots.get(&number)?)));
            let mine =
                mine.filter(|(_, kept)| kept.state.asker.is_some_and(|(asker, _)| asker == claim.owner));
            let live = mine.and_then(|(_, kept)| kept.live);
            let Ok(left) = self.left_of(live, &mut over, deadline).await? else {
                reading = self.read_pool(&asked, deadline).await?;
                continue;
            };
            let waits = self.waits(&reading.epochal, deadline).await?;
            let at = self.at();
            let standing = standing_at(&reading.epochal, waits, at.now);
            let mut mine = mine.map(|(number, kept)| (number, kept.row(left, &at)));
            let size = reading.size.unwrap_or(claim.size);
            let row = mine.as_mut().map(|(number, slot)| (*number, slot));
            let (number, mut slot) =
                match (decide::course(&standing, &at, claim, again, size, reading.withdrawn, row), mine) {
                    // Where that is an end which was told, the live key does not come back.
                    (Course::Answered(decided), _) => return Ok((decided.answer?, Outcome::default())),
                    (Course::Again, Some(mine)) => mine,
                    (Course::Again | Course::Free, _) => {
                        self.check_clock(claim, &reading, &at)?;
                        match self.first_slot(claim, &reading, &standing, &at, failures)? {
                            Ok(number) => (number, reading.row(number, None, &at)),
                            Err(why) => return Ok((Claimed::Rejected(why), Outcome::default())),
                        }
                    }
                };
            let same_slot = reading.own == Some(number) && slot_is_of(&slot, claim);
            let before = Before::of(&slot);
            let asker = slot.row.asker;
            let Decided { answer, effects } =
                decide::take(&mut slot, number, &standing, &at, claim, again && same_slot);
            if !matches!(answer, Ok(Claimed::Granted(_))) {
                return answer.map(|answer| (answer, Outcome::default()));
            }
            let mut plan = self.plan_slot(&asked, number, &reading, &before, &slot, &effects, &at);
            let keys = &self.keys;
            plan.only_without(keys.wait());
            plan.only_without(keys.slot_withdrawn(&claim.pool, claim.owner));
            // Of two doubles of one claim that choose different slots, one comes through; and none that was cut off meanwhile.
            plan.when.push(same(keys.slot_owner(&claim.pool, claim.owner), reading.own_revision));
            plan.when.push(same(keys.pool(&claim.pool), reading.size_revision));
            plan.then.push(TxnOp::put(keys.slot_owner(&claim.pool, claim.owner), number.to_string(), None));
            if reading.size.is_none() {
                plan.then.push(TxnOp::put(keys.pool(&claim.pool), write_size(claim.size), None));
            }
            if let Some((former, _)) = asker.filter(|(former, _)| *former != claim.owner) {
                // Unless it has asked through another slot since.
                let key = keys.slot_owner(&claim.pool, former);
                let still = Compare::value(key.clone(), CompareOp::Equal, number.to_string());
                let forget = Txn::new().when([still]).and_then([TxnOp::delete(key, None)]);
                plan.then.push(TxnOp::txn(forget));
            }
            match self.carry_out_slot(&asked, number, &plan, &reading, own, deadline).await? {
                SlotCarried::Out(head, lease) => {
                    self.settled(&reading, head, deadline).await?;
                    reading.size.get_or_insert(claim.size);
                    let outcome = self.slot_written(&claim.pool, number, &reading, plan, head, lease);
                    return Ok((answer?, outcome));
                }
                SlotCarried::Changed(found, head) => {
                    failures += 1;
                    reading = self.changed(&asked, *found, head, deadline).await?;
                }
                SlotCarried::LeaseGone => {}
            }
        }
    }

    /// The slot that the claim gets, of those that it may have.
    fn first_slot(
        &self,
        claim: &PoolClaim,
        reading: &PoolReading,
        standing: &Standing,
        at: &At,
        failures: u32,
    ) -> Result<Result<u16, Unclaimed>, StoreError> {
        let mut slots = Vec::new();
        for number in numbers(claim) {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            slots.push(reading.row(number, None, at).slot(standing, at)?);
        }
        // The core counts from the first of the range.
        let first = claim.range.first();
        let gone = claim.gone.and_then(|gone| Some(Gone { slot: gone.slot.checked_sub(first)?, ..gone }));
        let asked = decide::core_claim(claim, gone);
        let wall = claim.id_time.then(|| decide::wall(at));
        // What is to be taken over is one slot, whoever else is there.
        let takes_over = claim.exclusive_identity || claim.gone.is_some();
        let crowd = match failures {
            0 => None,
            _ if takes_over => None,
            _ => Some(Crowd { failures, random: random()? }),
        };
        let rest = self.rest(claim);
        let chosen = choose(&mut slots, claim.identity.as_ref(), rest, &asked, at.now, wall, crowd);
        Ok(match chosen {
            Ok(place) => Ok(first.saturating_add(place)),
            Err(why) => Err(decide::unclaimed(why, at.now)),
        })
    }

    /// How long a slot rests: when it was freed, another machine's clock said.
    pub(super) fn rest(&self, claim: &PoolClaim) -> Duration {
        claim.cool_down.saturating_add(self.options.clock_skew)
    }

    /// A machine whose clock is behind what was seen in the pool would not know which slots have rested.
    fn check_clock(&self, claim: &PoolClaim, reading: &PoolReading, at: &At) -> Result<(), StoreError> {
        let latest = reading.slots.iter().map(|(number, kept)| (kept.state.at, *number)).max();
        let Some((latest, number)) = latest else { return Ok(()) };
        let skew = self.options.clock_skew;
        match latest.duration_since(at.wall) {
            Ok(behind) if behind > skew => Err(wrong(format!(
                "this machine's clock is {} behind the latest that was seen in the pool {:?} (at slot {number}), and clocks of those \
                 who share a pool are to be no more than {} apart (clock_skew): set it right. Where that one was wrong, a revoke of \
                 the slot forgets it",
                check::left(behind),
                claim.pool,
                check::exact(skew)
            ))),
            _ => Ok(()),
        }
    }
}

/// The slots that the claim may have in a pool which is as large as it takes it to be.
fn numbers(claim: &PoolClaim) -> Range<u32> {
    let first = u32::from(claim.range.first());
    first..claim.end(claim.size).max(first)
}

/// Its last asker is the claim's owner.
fn slot_is_of(slot: &SlotRow, claim: &PoolClaim) -> bool {
    slot.row.asker.is_some_and(|(asker, _)| asker == claim.owner)
}
