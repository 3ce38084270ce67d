//! Pools: what is sent about slots, and what the functions answer.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId, Window};
use tokio::time::Instant;
use tokio_postgres::Row;

use super::answer::{self, Told, instant, micros, nonsense, token, violates};
use super::calls::{self, Call, bits, bytes, number, some_bits, some_small, some_span, span, text, truth};
use super::failure::Place;
use super::hub::Hub;
use crate::server::{ONE_SLOT_AN_OWNER, claim as patiently, not_granted};
use crate::{
    Claimed, Epoch, ErrorKind, Occupant, PoolClaim, PoolInspection, Released, Resized, ResourceName, Revoked,
    Room, SlotInspection, SlotLease, SlotRef, SlotRenewed, StoreError,
};

impl Hub {
    pub(super) async fn claim_slot(&self, claim: PoolClaim, again: bool) -> Result<Claimed, StoreError> {
        let met_its_double = |error: &StoreError| violates(error, ONE_SLOT_AN_OWNER);
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
                bytes(claim.pool.as_str()),
                calls::small(i32::try_from(claim.size).unwrap_or(i32::MAX)),
                calls::small(claim.range.first().into()),
                calls::small(claim.range.last().into()),
                bits(claim.owner.value()),
                span(claim.ttl),
                number(i64::try_from(claim.attempt).unwrap_or(i64::MAX)),
                some_bits(claim.epoch.map(Epoch::value)),
                span(claim.cool_down),
                text(claim.label.clone()),
                text(claim.identity.clone()),
                truth(claim.exclusive_identity),
                some_small(claim.gone.map(|gone| gone.slot.into())),
                some_bits(claim.gone.map(|gone| gone.token.value())),
                truth(claim.id_time),
                truth(again),
                calls::small(self.target.options.keep()),
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
        let shown = lease.as_lease();
        let parameters = || {
            vec![
                bytes(lease.pool.as_str()),
                calls::small(lease.slot.into()),
                bits(lease.owner.value()),
                number(answer::shown(&shown)),
                span(ttl),
                some_bits(lease.epoch.map(Epoch::value)),
                truth(id_time),
                calls::small(self.target.options.keep()),
            ]
        };
        let told = self.decide_lease(self.until(), Call::RenewSlot, &shown, &parameters).await?;
        let answer = match told.code.as_str() {
            "renewed" => SlotRenewed::Renewed(told.slot_lease()?),
            _ => SlotRenewed::Rejected(told.rejected()?),
        };
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
        let shown = lease.as_lease();
        let parameters = || {
            vec![
                bytes(lease.pool.as_str()),
                calls::small(lease.slot.into()),
                bits(lease.owner.value()),
                number(answer::shown(&shown)),
                some_bits(lease.epoch.map(Epoch::value)),
                some_span(last_used),
                calls::small(self.target.options.keep()),
            ]
        };
        self.decide_lease(self.until(), Call::ReleaseSlot, &shown, &parameters).await?.released()
    }

    pub(super) async fn withdraw_slot(
        &self,
        pool: ResourceName,
        owner: OwnerId,
    ) -> Result<Released, StoreError> {
        let keep = self.target.options.keep();
        let parameters = || vec![bytes(pool.as_str()), bits(owner.value()), calls::small(keep)];
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
                bytes(pool.as_str()),
                calls::small(slot.into()),
                some_bits(expect),
                text(reason.clone()),
                calls::small(self.target.options.keep()),
            ]
        };
        self.decide(self.until(), Call::RevokeSlot, &parameters).await?.revoked()
    }

    pub(super) async fn resize_pool(&self, pool: ResourceName, size: u32) -> Result<Resized, StoreError> {
        let size = i32::try_from(size).unwrap_or(i32::MAX);
        let rows =
            self.ask(self.until(), Call::ResizePool, vec![bytes(pool.as_str()), calls::small(size)]).await?;
        let read = |row: &Row| -> Result<Resized, tokio_postgres::Error> {
            let slot = u16::try_from(row.try_get::<_, i32>(0)?).unwrap_or(u16::MAX);
            Ok(Resized::InUse { slot, remaining: micros(row.try_get(1)?) })
        };
        match rows.first() {
            Some(row) => read(row).map_err(|error| nonsense(&self.target.place, &error.to_string())),
            None => Ok(Resized::Resized),
        }
    }

    pub(super) async fn pools(&self) -> Result<Vec<ResourceName>, StoreError> {
        let rows = self.look(Call::Pools, Vec::new()).await?;
        let place = &self.target.place;
        let name = |row: &Row| -> Result<ResourceName, StoreError> {
            let bytes: &[u8] = row.try_get(0).map_err(|error| nonsense(place, &error.to_string()))?;
            let name = std::str::from_utf8(bytes).ok().and_then(|name| ResourceName::new(name).ok());
            name.ok_or_else(|| nonsense(place, "a pool whose name is none"))
        };
        rows.iter().map(name).collect()
    }

    pub(super) async fn slots(&self, pool: ResourceName) -> Result<PoolInspection, StoreError> {
        let rows = self.look(Call::Slots, vec![bytes(pool.as_str())]).await?;
        let place = &self.target.place;
        let first = rows.first().ok_or_else(|| unset(place))?;
        let wrong = |error: tokio_postgres::Error| nonsense(place, &error.to_string());
        let epoch = answer::epoch(place, first.try_get(0).map_err(wrong)?)?;
        let wall: i64 = first.try_get(1).map_err(wrong)?;
        let mut seen = PoolInspection::unseen(pool, epoch, micros(wall));
        let size: Option<i32> = first.try_get(2).map_err(wrong)?;
        seen.size = u32::try_from(size.unwrap_or(0)).unwrap_or(0);
        for row in &rows {
            seen.slots.extend(slot(row, wall).map_err(wrong)?);
        }
        Ok(seen)
    }

    pub(super) async fn room(&self, claim: PoolClaim) -> Result<Room, StoreError> {
        let end = i32::try_from(claim.end(u32::MAX)).unwrap_or(i32::MAX);
        let parameters = vec![
            bytes(claim.pool.as_str()),
            calls::small(claim.range.first().into()),
            calls::small(end),
            span(claim.cool_down),
        ];
        let rows = self.look(Call::Room, parameters).await?;
        let place = &self.target.place;
        let row = rows.first().ok_or_else(|| unset(place))?;
        let wrong = |error: tokio_postgres::Error| nonsense(place, &error.to_string());
        let (size, taken): (Option<i32>, i64) =
            (row.try_get(0).map_err(wrong)?, row.try_get(1).map_err(wrong)?);
        let size = u32::try_from(size.unwrap_or(0)).unwrap_or(0);
        Ok(Room::within(&claim, size, u32::try_from(taken).unwrap_or(u32::MAX)))
    }
}

fn unset(place: &Place) -> StoreError {
    StoreError::new(ErrorKind::NotSetUp, format!("{place} has no epoch: it was never set up, or was wiped"))
}

/// A row of `Slots`; `None` where it is of none.
fn slot(row: &Row, wall: i64) -> Result<Option<SlotInspection>, tokio_postgres::Error> {
    let Some(number) = row.try_get::<_, Option<i32>>(3)? else { return Ok(None) };
    let mut seen = SlotInspection::new(u16::try_from(number).unwrap_or(u16::MAX));
    seen.last_issued = token(row.try_get(4)?);
    let now = wall.max(row.try_get(5)?);
    let free_from: Option<i64> = row.try_get(9)?;
    seen.identity = row.try_get(11)?;
    let (held, owner) = (token(row.try_get(6)?), row.try_get::<_, Option<i64>>(7)?);
    if let (Some(token), Some(owner), Some(ends)) = (held, owner, free_from.filter(|ends| now < *ends)) {
        let held_for = now.saturating_sub(row.try_get(8)?);
        let left = ends.saturating_sub(now);
        let mut occupant = Occupant::new(OwnerId::new(owner as u64), token, micros(held_for), micros(left));
        occupant.label = row.try_get(10)?;
        occupant.identity.clone_from(&seen.identity);
        seen.occupant = Some(occupant);
    }
    seen.free_from = free_from.map(|time| -> SystemTime { instant(time) });
    seen.mark = micros(row.try_get(12)?);
    Ok(Some(seen))
}

impl Told {
    fn slot_lease(&self) -> Result<SlotLease, StoreError> {
        let place: &Place = self.place();
        let slot: Option<i32> = self.get("o_slot")?;
        let slot = slot.and_then(|slot| u16::try_from(slot).ok());
        let slot = slot.ok_or_else(|| nonsense(place, "a slot without a number"))?;
        let grant = self.grant()?;
        let (after, until): (Option<i64>, Option<i64>) = (self.get("o_after")?, self.get("o_until")?);
        let window =
            after.zip(until).map(|(after, until)| Window { after: micros(after), until: micros(until) });
        let wall = micros(self.get("o_wall")?);
        Ok(SlotLease::new(slot, grant.token, grant.ttl, window, wall, grant.epoch))
    }

    fn claimed(&self, claim: &PoolClaim) -> Result<Claimed, StoreError> {
        let next_chance = self.get::<Option<i64>>("o_next")?.map(micros);
        let size = u32::try_from(self.get::<Option<i32>>("o_size")?.unwrap_or(0)).unwrap_or(0);
        match self.code.as_str() {
            "granted" => Ok(Claimed::Granted(self.slot_lease()?)),
            "held back" => Err(self.held_back()?),
            code => not_granted(code, claim, next_chance, size).unwrap_or_else(|| Err(self.refused()?)),
        }
    }
}
