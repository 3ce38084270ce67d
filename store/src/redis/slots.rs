//! What the script about pools is asked, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Rejection, Window};
use redis::Value;

use super::answer::{self, Reply, array, micros, nonsense, number, text};
use super::hub::Hub;
use super::request::{Request, Requests, optional, owner, token, whole_micros};
use super::script::SLOT;
use crate::pool::{slot_named, superseded, too_many};
use crate::{
    Claimed, Epoch, ErrorKind, HistoryEntry, PoolClaim, PoolInspection, Released, Resized, ResourceName,
    Room, SlotInspection, SlotLease, SlotRef, SlotRenewed, StoreError, Unclaimed, check,
};

/// Up to here, the year 2255, a stamp in microseconds is exact in Lua.
const LAST_STAMP: Duration = Duration::from_micros(1 << 53);

impl Requests {
    fn of_pool(&self, what: &str, pool: &ResourceName, epoch: Option<Epoch>) -> Request {
        self.decide(&SLOT, what, pool, epoch)
    }

    pub(super) fn claim_slot(&self, claim: &PoolClaim, again: bool) -> Request {
        let what = if again { "reclaim" } else { "claim" };
        let mut request = self.of_pool(what, &claim.pool, claim.epoch);
        request
            .cmd
            .arg(owner(claim.owner))
            .arg(whole_micros(claim.ttl))
            .arg(claim.attempt.to_string())
            .arg(optional(claim.label.as_deref()))
            .arg(optional(claim.identity.as_deref()))
            .arg(claim.size)
            .arg(claim.range.first())
            .arg(claim.range.last())
            .arg(whole_micros(claim.cool_down))
            .arg(u8::from(claim.exclusive_identity))
            .arg(claim.gone.map(|gone| gone.slot.to_string()).unwrap_or_default())
            .arg(claim.gone.map(|gone| token(gone.token)).unwrap_or_default())
            .arg(u8::from(claim.id_time));
        request
    }

    fn under(&self, what: &str, lease: &SlotRef) -> Request {
        let mut request = self.of_pool(what, &lease.pool, lease.epoch);
        request.cmd.arg(lease.slot).arg(owner(lease.owner)).arg(token(lease.token));
        request
    }

    pub(super) fn renew_slot(&self, lease: &SlotRef, ttl: Duration, id_time: bool) -> Request {
        let mut request = self.under("renew", lease);
        request.cmd.arg(whole_micros(ttl)).arg(u8::from(id_time));
        request
    }

    pub(super) fn release_slot(
        &self,
        lease: &SlotRef,
        last_used: Option<Duration>,
    ) -> Result<Request, StoreError> {
        if let Some(stamp) = last_used.filter(|stamp| *stamp > LAST_STAMP) {
            let message = format!(
                "a last stamp of {stamp:?} since Unix's origin: Redis keeps them up to {LAST_STAMP:?}"
            );
            return Err(StoreError::new(ErrorKind::Request, message));
        }
        let mut request = self.under("release", lease);
        request.cmd.arg(last_used.map(whole_micros).unwrap_or_default());
        Ok(request)
    }

    pub(super) fn withdraw_slot(&self, pool: &ResourceName, who: OwnerId) -> Request {
        let mut request = self.of_pool("withdraw", pool, None);
        request.cmd.arg(owner(who));
        request
    }

    pub(super) fn revoke_slot(
        &self,
        pool: &ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<&str>,
    ) -> Request {
        let mut request = self.of_pool("revoke", pool, None);
        request.cmd.arg(slot).arg(expect.map(token).unwrap_or_default()).arg(optional(reason));
        request
    }

    fn slot_history(&self, pool: &ResourceName, slot: u16, limit: usize) -> Request {
        let mut request = self.of_pool("history", pool, None);
        request.cmd.arg(slot).arg(limit.min(i32::MAX as usize));
        request
    }

    pub(super) fn slots(&self, pool: &ResourceName) -> Request {
        self.of_pool("slots", pool, None)
    }

    pub(super) fn room(&self, claim: &PoolClaim) -> Request {
        let mut request = self.of_pool("room", &claim.pool, None);
        request.cmd.arg(claim.range.first()).arg(claim.end(u32::MAX)).arg(whole_micros(claim.cool_down));
        request
    }

    pub(super) fn resize_pool(&self, pool: &ResourceName, size: u32) -> Request {
        let mut request = self.of_pool("resize", pool, None);
        request.cmd.arg(size);
        request
    }
}

impl Hub {
    pub(super) async fn claim_slot(&self, claim: PoolClaim, again: bool) -> Result<Claimed, StoreError> {
        let claim = check::pool_claim(claim, self.options.limits.max_ttl)?;
        let sent = self.now();
        let answer = self.ask(&self.requests.claim_slot(&claim, again)).await?.slot_claimed(&claim)?;
        if let Claimed::Granted(lease) = &answer {
            self.in_time(sent, lease.ttl)?;
        }
        Ok(answer)
    }

    pub(super) async fn renew_slot(
        self: &Arc<Self>,
        lease: &SlotRef,
        ttl: Duration,
        id_time: bool,
    ) -> Result<SlotRenewed, StoreError> {
        let ttl = check::ttl(ttl, self.options.limits.max_ttl)?;
        let sent = self.now();
        let reply = self.ask_under(lease, &self.requests.renew_slot(lease, ttl, id_time)).await?;
        let answer = reply.slot_renewed(lease.epoch)?;
        if let SlotRenewed::Renewed(lease) = &answer {
            self.in_time(sent, lease.ttl)?;
        }
        Ok(answer)
    }

    pub(super) async fn release_slot(
        self: &Arc<Self>,
        lease: &SlotRef,
        last_used: Option<Duration>,
    ) -> Result<Released, StoreError> {
        let request = self.requests.release_slot(lease, check::last_used(last_used)?)?;
        self.ask_under(lease, &request).await?.released(lease.epoch)
    }

    /// A request that shows a token.
    async fn ask_under(self: &Arc<Self>, lease: &SlotRef, request: &Request) -> Result<Reply, StoreError> {
        let reply = self.ask(request).await?;
        if reply.rewound {
            self.rewound(&lease.as_lease(), reply.epoch).await?;
        }
        Ok(reply)
    }

    /// Who held a resource, or the slot of that name, which lies in its pool's bucket.
    pub(super) async fn history(
        self: &Arc<Self>,
        resource: &ResourceName,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        if let Some((pool, slot)) = slot_named(resource) {
            let reply = self.ask(&self.requests.slot_history(&pool, slot, limit)).await?;
            if reply.part(1, number)? == 1 {
                return reply.holds();
            }
        }
        self.ask(&self.requests.history(resource, limit)).await?.holds()
    }
}

impl Reply {
    /// The slot that was granted or renewed.
    fn slot(&self) -> Result<SlotLease, StoreError> {
        let slot = self.part(2, slot)?;
        let after = self.part(3, stamp)?;
        let mark = self.part(4, micros)?;
        let window = after.map(|after| Window { after, until: mark });
        let (token, ttl, wall) = (self.part(0, answer::token)?, self.part(1, micros)?, self.part(5, micros)?);
        Ok(SlotLease::new(slot, token, ttl, window, wall, self.epoch))
    }

    pub(super) fn slot_claimed(&self, about: &PoolClaim) -> Result<Claimed, StoreError> {
        match self.what.as_str() {
            "granted" => Ok(Claimed::Granted(self.slot()?)),
            "unclaimed" => {
                let why = self.part(0, text)?;
                let next_chance = self.optional(1, micros)?;
                Ok(Claimed::Rejected(match why.as_str() {
                    "Exhausted" => Unclaimed::Exhausted { next_chance },
                    "NoSuchSlot" => Unclaimed::NoSuchSlot,
                    _ => Unclaimed::Invalid(self.part::<Rejection>(0, answer::reason)?),
                }))
            }
            "size" => Err(too_many(about, self.part(0, size)?)),
            "superseded" => Err(superseded(about, &self.part(0, text)?)),
            "held back" => Err(self.held_back()?),
            "epoch" => Err(self.epoch_is_over(about.epoch)),
            _ => Err(nonsense(self)),
        }
    }

    pub(super) fn slot_renewed(&self, believed: Option<Epoch>) -> Result<SlotRenewed, StoreError> {
        match self.what.as_str() {
            "renewed" => Ok(SlotRenewed::Renewed(self.slot()?)),
            "rejected" => Ok(SlotRenewed::Rejected(self.rejected()?)),
            "epoch" => Err(self.epoch_is_over(believed)),
            _ => Err(nonsense(self)),
        }
    }

    pub(super) fn resized(&self) -> Result<Resized, StoreError> {
        match self.what.as_str() {
            "resized" => Ok(Resized::Resized),
            "in use" => Ok(Resized::InUse { slot: self.part(0, slot)?, remaining: self.part(1, micros)? }),
            _ => Err(nonsense(self)),
        }
    }

    /// The names of a bucket's pools.
    pub(super) fn pools(&self) -> Result<Vec<ResourceName>, StoreError> {
        let name = |value: &Value| ResourceName::new(text(value)?).ok();
        self.part(0, |names| array(names)?.iter().map(name).collect())
    }

    pub(super) fn pool(&self, name: ResourceName) -> Result<PoolInspection, StoreError> {
        let mut seen = PoolInspection::unseen(name, self.epoch, self.part(1, micros)?);
        seen.size = self.part(0, size)?;
        seen.slots = self.part(2, |slots| array(slots)?.iter().map(inspection).collect())?;
        Ok(seen)
    }

    pub(super) fn room(&self, claim: &PoolClaim) -> Result<Room, StoreError> {
        Ok(Room::within(claim, self.part(0, size)?, self.part(1, size)?))
    }
}

fn inspection(value: &Value) -> Option<SlotInspection> {
    let [at, last, who, identity, free_from, mark] = array(value)? else { return None };
    let mut inspection = SlotInspection::new(slot(at)?);
    inspection.last_issued = Some(answer::token(last)?);
    if !matches!(who, Value::Nil) {
        inspection.occupant = Some(answer::occupant(who)?);
    }
    inspection.identity = answer::optional(identity)?;
    if stamp(free_from)?.is_some() {
        inspection.free_from = Some(answer::wall(free_from)?);
    }
    inspection.mark = micros(mark)?;
    Some(inspection)
}

fn slot(value: &Value) -> Option<u16> {
    number(value)?.try_into().ok()
}

fn size(value: &Value) -> Option<u32> {
    number(value)?.try_into().ok()
}

/// A time that may be missing is an empty text then.
#[allow(clippy::option_option)]
fn stamp(value: &Value) -> Option<Option<Duration>> {
    if text(value).is_some_and(|text| text.is_empty()) { Some(None) } else { micros(value).map(Some) }
}
