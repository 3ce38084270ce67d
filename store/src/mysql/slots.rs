//! Pools: what is sent about slots, and what the procedures answer.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Window};
use mysql_async::Row;
use tokio::time::Instant;

use super::answer::{Reading, Told, instant, micros, one, shown, token};
use super::call::{Call, bits, number, some_bits, some_text, span, text, truth};
use super::failure::is_duplicate;
use super::hub::Hub;
use crate::server::{ONE_SLOT_AN_OWNER, claim as patiently, not_granted};
use crate::{
    Claimed, Epoch, Occupant, PoolClaim, PoolInspection, Released, Resized, ResourceName, Revoked, Room,
    SlotInspection, SlotLease, SlotRef, SlotRenewed, StoreError,
};

impl Hub {
    pub(super) async fn claim_slot(&self, claim: PoolClaim, again: bool) -> Result<Claimed, StoreError> {
        let met_its_double = |error: &StoreError| is_duplicate(error, ONE_SLOT_AN_OWNER);
        let until = self.until();
        patiently(|| self.claim_once(until, &claim, again), met_its_double).await
    }

    async fn claim_once(
        &self,
        until: Instant,
        claim: &PoolClaim,
        again: bool,
    ) -> Result<Claimed, StoreError> {
        let sent = self.target.options.here.now();
        let parameters = || {
            vec![
                text(claim.pool.as_str()),
                number(claim.size.into()),
                number(claim.range.first().into()),
                number(claim.range.last().into()),
                bits(claim.owner.value()),
                span(claim.ttl),
                number(i64::try_from(claim.attempt).unwrap_or(i64::MAX)),
                some_bits(claim.epoch.map(Epoch::value)),
                span(claim.cool_down),
                some_text(claim.label.as_deref()),
                some_text(claim.identity.as_deref()),
                truth(claim.exclusive_identity),
                some_bits(claim.gone.map(|gone| gone.slot.into())),
                some_bits(claim.gone.map(|gone| gone.token.value())),
                truth(claim.id_time),
                truth(again),
                number(self.target.options.keep()),
            ]
        };
        let answer = self.decide(until, Call::ClaimSlot, &parameters).await?.claimed(claim)?;
        if let Claimed::Granted(held) = &answer {
            self.in_time(sent, held.ttl)?;
        }
        Ok(answer)
    }

    pub(super) async fn renew_slot(
        &self,
        lease: &SlotRef,
        ttl: Duration,
        id_time: bool,
    ) -> Result<SlotRenewed, StoreError> {
        let sent = self.target.options.here.now();
        let as_lease = lease.as_lease();
        let parameters = || {
            vec![
                text(lease.pool.as_str()),
                number(lease.slot.into()),
                bits(lease.owner.value()),
                number(shown(&as_lease)),
                span(ttl),
                some_bits(lease.epoch.map(Epoch::value)),
                truth(id_time),
                number(self.target.options.keep()),
            ]
        };
        let answer =
            self.decide_lease(self.until(), Call::RenewSlot, &as_lease, &parameters).await?.slot_renewed()?;
        if let SlotRenewed::Renewed(held) = &answer {
            self.in_time(sent, held.ttl)?;
        }
        Ok(answer)
    }

    pub(super) async fn release_slot(
        &self,
        lease: &SlotRef,
        last_used: Option<Duration>,
    ) -> Result<Released, StoreError> {
        let as_lease = lease.as_lease();
        let parameters = || {
            vec![
                text(lease.pool.as_str()),
                number(lease.slot.into()),
                bits(lease.owner.value()),
                number(shown(&as_lease)),
                some_bits(lease.epoch.map(Epoch::value)),
                last_used.map_or(mysql_async::Value::NULL, span),
                number(self.target.options.keep()),
            ]
        };
        self.decide_lease(self.until(), Call::ReleaseSlot, &as_lease, &parameters).await?.released()
    }

    pub(super) async fn withdraw_slot(
        &self,
        pool: ResourceName,
        owner: OwnerId,
    ) -> Result<Released, StoreError> {
        let keep = self.target.options.keep();
        let parameters = || vec![text(pool.as_str()), bits(owner.value()), number(keep)];
        self.decide(self.until(), Call::WithdrawSlot, &parameters).await?.released()
    }

    pub(super) async fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Result<Revoked, StoreError> {
        let expect = expect.map(|token| token.value().min(i64::MAX as u64));
        let parameters = || {
            vec![
                text(pool.as_str()),
                number(slot.into()),
                some_bits(expect),
                some_text(reason.as_deref()),
                number(self.target.options.keep()),
            ]
        };
        self.decide(self.until(), Call::RevokeSlot, &parameters).await?.revoked()
    }

    pub(super) async fn resize_pool(&self, pool: ResourceName, size: u32) -> Result<Resized, StoreError> {
        let rows =
            self.ask(self.until(), Call::ResizePool, vec![text(pool.as_str()), number(size.into())]).await?;
        let place = &self.target.place;
        let row = Reading::new(one(&rows, place)?, place);
        Ok(match row.number("slot")? {
            None => Resized::Resized,
            Some(slot) => Resized::InUse {
                slot: u16::try_from(slot).unwrap_or(u16::MAX),
                remaining: micros(row.some("remaining")?),
            },
        })
    }

    pub(super) async fn pools(&self) -> Result<Vec<ResourceName>, StoreError> {
        let rows = self.look(Call::Pools, Vec::new()).await?;
        let name = |row: &Row| {
            let row = Reading::new(row, &self.target.place);
            let name = row.text("name")?.unwrap_or_default();
            ResourceName::new(name).map_err(|error| row.nonsense(&error.to_string()))
        };
        rows.iter().map(name).collect()
    }

    pub(super) async fn slots(&self, pool: ResourceName) -> Result<PoolInspection, StoreError> {
        let rows = self.look(Call::Slots, vec![text(pool.as_str())]).await?;
        let place = &self.target.place;
        let first = Reading::new(rows.first().ok_or_else(|| self.target.unset())?, place);
        let mut seen = PoolInspection::unseen(pool, first.epoch("epoch")?, micros(first.some("wall")?));
        seen.size = u32::try_from(first.number("size")?.unwrap_or(0)).unwrap_or(0);
        for row in &rows {
            seen.slots.extend(slot(row, place)?);
        }
        Ok(seen)
    }

    pub(super) async fn room(&self, claim: PoolClaim) -> Result<Room, StoreError> {
        let parameters = vec![
            text(claim.pool.as_str()),
            number(claim.range.first().into()),
            number(claim.end(u32::MAX).into()),
            span(claim.cool_down),
        ];
        let rows = self.look(Call::Room, parameters).await?;
        let row = Reading::new(rows.first().ok_or_else(|| self.target.unset())?, &self.target.place);
        let size = u32::try_from(row.number("size")?.unwrap_or(0)).unwrap_or(0);
        Ok(Room::within(&claim, size, u32::try_from(row.some("taken")?).unwrap_or(u32::MAX)))
    }
}

/// A row of `Slots`; `None` where it is of none.
fn slot(row: &Row, place: &str) -> Result<Option<SlotInspection>, StoreError> {
    let row = Reading::new(row, place);
    let Some(number) = row.number("slot")? else { return Ok(None) };
    let mut seen = SlotInspection::new(u16::try_from(number).unwrap_or(u16::MAX));
    seen.last_issued = token(row.number("last_issued")?);
    seen.identity = row.text("identity")?;
    let now = row.some("wall")?.max(row.some("observed")?);
    let free_from = row.number("free_from")?;
    let ends = free_from.filter(|ends| now < *ends);
    if let (Some(token), Some(ends)) = (token(row.number("token")?), ends) {
        let owner = OwnerId::new(row.some("owner")? as u64);
        let held_for = now.saturating_sub(row.some("granted_at")?);
        let mut occupant = Occupant::new(owner, token, micros(held_for), micros(ends.saturating_sub(now)));
        occupant.label = row.text("label")?;
        occupant.identity.clone_from(&seen.identity);
        seen.occupant = Some(occupant);
    }
    seen.free_from = free_from.map(instant);
    seen.mark = micros(row.some("mark")?);
    Ok(Some(seen))
}

impl Told {
    fn slot_lease(&self) -> Result<SlotLease, StoreError> {
        let (row, grant) = (self.row(), self.grant()?);
        let slot = u16::try_from(row.some("slot")?).unwrap_or(u16::MAX);
        let window = row.number("window_after")?.zip(row.number("window_until")?);
        let window = window.map(|(after, until)| Window { after: micros(after), until: micros(until) });
        Ok(SlotLease::new(slot, grant.token, grant.ttl, window, micros(row.some("wall")?), grant.epoch))
    }

    fn claimed(&self, claim: &PoolClaim) -> Result<Claimed, StoreError> {
        let next_chance = self.row().number("remaining")?.map(micros);
        let size = u32::try_from(self.row().number("size")?.unwrap_or(0)).unwrap_or(0);
        match self.code() {
            "granted" => Ok(Claimed::Granted(self.slot_lease()?)),
            "held back" => Err(self.held_back()?),
            code => not_granted(code, claim, next_chance, size).unwrap_or_else(|| Err(self.refused()?)),
        }
    }

    fn slot_renewed(&self) -> Result<SlotRenewed, StoreError> {
        match self.code() {
            "renewed" => Ok(SlotRenewed::Renewed(self.slot_lease()?)),
            _ => self.rejected().map(SlotRenewed::Rejected),
        }
    }
}
