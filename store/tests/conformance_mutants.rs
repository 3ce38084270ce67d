//! The suite must fail on stores that are wrong: each wrapper here breaks one promise.

// The wrappers are test code, though no #[test] functions.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Rejection, SlotRange, Window};
use lease_machines_store::conformance::{self, Fixture, Subject, block_on};
use lease_machines_store::{
    Acquired, Answer, Capabilities, Claim, Claimed, Ending, Epoch, ErrorKind, Grant, HistoryEntry,
    Inspection, LeaseRef, MemoryStore, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed,
    Resized, ResourceName, Revoked, SlotLease, SlotRef, SlotRenewed, Store, StoreError, Unclaimed,
};

macro_rules! mutants {
    ($($(#[$note:meta])* $name:ident,)*) => {
        /// One way to be wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Mutant {
            /// Right after all: the wrapper itself must pass.
            None,
            $($(#[$note])* $name,)*
        }

        /// All that are wrong.
        const MUTANTS: &[Mutant] = &[$(Mutant::$name,)*];
    };
}

mutants! {
    FoldsCase,
    TrimsNames,
    CutsNames,
    ListsPatterns,
    ForgetsEpoch,
    TtlTimesThousand,
    TtlInSeconds,
    EchoIsNew,
    EchoTellsFullTtl,
    ReleaseIgnoresOwner,
    ReleaseIgnoresToken,
    RenewsLate,
    RenewalShortens,
    GrantsWhileHeld,
    RepeatsToken,
    RevokeIgnoresExpect,
    RevokeBurnsNothing,
    WithdrawForgotten,
    WithdrawTakesAnyones,
    OnceIgnored,
    AtLeastIgnored,
    ReleasedTwice,
    WaitsForever,
    WaitsNever,
    NamesNobody,
    PruneTakesAll,
    LostHistoryUnseen,
    EveryTokenIsALoss,
    OldLeasesReleased,
    OldLeasesEchoed,
    GrantsAfterALoss,
    RenewManyOutOfOrder,
    HistoryBackwards,
    AnswersFromBefore,
    /// Only wrong when two come at once: it decides on a version of the row that it no longer locks.
    DecidesOnWhatItSaw,
    IdentityIgnored,
    CoolDownIgnored,
    IdentityTakesOver,
    ExclusiveIgnored,
    ProofIgnored,
    RangeIgnored,
    SizeIgnored,
    ClaimsGrowThePool,
    SlotAttemptsIgnored,
    SlotEpochForgotten,
    ReclaimIsAClaim,
    NextChanceUnsaid,
    BusyForNothing,
    WindowsOverlap,
    WindowsMoveOn,
    LastStampIgnored,
    RenewalReservesNothing,
    SlotTokenIgnored,
    SlotOwnerIgnored,
    SlotWithdrawForgotten,
    RevokedSlotIsFree,
    ShrinksAnyway,
    FreeSlotsUnseen,
    FreePoolsUnseen,
    /// Only wrong when two come at once.
    ClaimsWhatItSaw,
}

struct Wrong {
    inner: Arc<MemoryStore>,
    mutant: Mutant,
    fresh: AtomicU64,
    last: Mutex<Option<Grant>>,
}

impl Wrong {
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == mutant
    }

    fn name(&self, name: ResourceName) -> ResourceName {
        let text = name.as_str();
        let text = match self.mutant {
            Mutant::FoldsCase => text.to_lowercase(),
            Mutant::TrimsNames => text.trim_end_matches(' ').to_owned(),
            Mutant::CutsNames => text.chars().take(100).collect(),
            _ => return name,
        };
        ResourceName::new(text).unwrap()
    }

    fn ttl(&self, ttl: Duration) -> Duration {
        match self.mutant {
            Mutant::TtlTimesThousand => ttl * 1000,
            Mutant::TtlInSeconds => Duration::from_secs(ttl.as_secs()),
            _ => ttl,
        }
    }

    fn claim(&self, mut claim: Claim) -> Claim {
        claim.resource = self.name(claim.resource);
        claim.ttl = self.ttl(claim.ttl);
        match self.mutant {
            Mutant::ForgetsEpoch => claim.epoch = None,
            Mutant::EchoIsNew => claim.attempt = 1_000 + self.fresh.fetch_add(1, Ordering::SeqCst),
            Mutant::OnceIgnored => claim.once = None,
            _ => {}
        }
        claim
    }

    fn lease(&self, mut lease: LeaseRef) -> LeaseRef {
        lease.resource = self.name(lease.resource);
        if self.is(Mutant::ForgetsEpoch) {
            lease.epoch = None;
        }
        let seen = block_on(self.inner.inspect(lease.resource.clone())).unwrap();
        let ahead = seen.last_issued.is_some_and(|last| lease.token > last);
        if ahead && lease.epoch == Some(seen.epoch) {
            if self.is(Mutant::LostHistoryUnseen) {
                lease.epoch = None;
            } else if self.is(Mutant::EveryTokenIsALoss) {
                let _ = block_on(self.inner.open_epoch(Opening::new(seen.epoch)));
            }
        }
        if let Some(occupant) = seen.occupant {
            if self.is(Mutant::ReleaseIgnoresOwner) {
                lease.owner = occupant.owner;
            }
            if self.is(Mutant::ReleaseIgnoresToken) && lease.owner == occupant.owner {
                lease.token = occupant.token;
            }
        }
        lease
    }

    async fn take(&self, claim: Claim, again: bool) -> Result<Acquired, StoreError> {
        let asked = claim.ttl;
        let claim = self.claim(claim);
        let resource = claim.resource.clone();
        if self.is(Mutant::GrantsWhileHeld) && claim.attempt == 1 {
            let _ = block_on(self.inner.revoke(resource.clone(), None, None));
        }
        if self.is(Mutant::DecidesOnWhatItSaw) {
            let free = self.inner.inspect(resource.clone()).await?.occupant.is_none();
            std::thread::sleep(Duration::from_micros(200));
            if let (true, Some(held)) = (free, self.inner.inspect(resource.clone()).await?.occupant) {
                let lease = LeaseRef::new(resource.clone(), held.owner, held.token, None);
                let _ = self.inner.release(lease, Ending::default()).await?;
            }
        }
        let answer = if again { self.inner.reacquire(claim).await } else { self.inner.acquire(claim).await };
        let last = *self.last.lock().unwrap();
        if let (Err(error), Some(last), true) = (&answer, last, self.is(Mutant::OldLeasesEchoed)) {
            let current = self.inner.epoch().await?;
            if error.kind() == ErrorKind::Superseded && last.epoch != current {
                return Ok(Acquired::Granted(Grant::new(last.token, last.ttl, current)));
            }
        }
        Ok(match answer? {
            Acquired::Granted(mut grant) => {
                let mut last = self.last.lock().unwrap();
                if self.is(Mutant::EchoTellsFullTtl) {
                    grant.ttl = asked;
                }
                if self.is(Mutant::RepeatsToken) {
                    grant.token = last.get_or_insert(grant).token;
                }
                *last = Some(grant);
                Acquired::Granted(grant)
            }
            Acquired::Rejected(mut why) if self.is(Mutant::NamesNobody) => {
                why.occupant = None;
                Acquired::Rejected(why)
            }
            Acquired::Rejected(mut why) if self.is(Mutant::AnswersFromBefore) => {
                // The holder of a version that is gone by now.
                if let Some(occupant) = &mut why.occupant {
                    occupant.token = FencingToken::new(occupant.token.value() - 1).unwrap();
                }
                Acquired::Rejected(why)
            }
            other => other,
        })
    }
}

impl Store for Wrong {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn epoch(&self) -> Answer<'_, Epoch> {
        self.inner.epoch()
    }
    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        Box::pin(self.take(claim, false))
    }
    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired> {
        Box::pin(self.take(claim, true))
    }
    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed> {
        Box::pin(async move {
            let lease = self.lease(lease);
            let ttl = self.ttl(ttl);
            if self.is(Mutant::RenewalShortens) && !ttl.is_zero() {
                return Ok(match self.inner.renew(lease, ttl).await? {
                    Renewed::Renewed(mut grant) => {
                        grant.ttl = ttl;
                        Renewed::Renewed(grant)
                    }
                    other => other,
                });
            }
            match self.inner.renew(lease.clone(), ttl).await? {
                Renewed::Rejected(why) if why.reason == Rejection::Expired && self.is(Mutant::RenewsLate) => {
                    let epoch = self.inner.epoch().await?;
                    Ok(Renewed::Renewed(Grant::new(lease.token, ttl, epoch)))
                }
                answer => Ok(answer),
            }
        })
    }
    fn renew_many(
        &self,
        mut leases: Vec<(LeaseRef, Duration)>,
    ) -> Answer<'_, Vec<Result<Renewed, StoreError>>> {
        if self.is(Mutant::RenewManyOutOfOrder) {
            leases.sort_by(|one, two| one.0.resource.cmp(&two.0.resource));
        }
        self.inner.renew_many(leases)
    }
    fn release(&self, lease: LeaseRef, mut ending: Ending) -> Answer<'_, Released> {
        let lease = self.lease(lease);
        if self.is(Mutant::AtLeastIgnored) {
            ending.at_least = Duration::ZERO;
        }
        Box::pin(async move {
            let answer = self.inner.release(lease, ending).await;
            let is_old = |error: &StoreError| matches!(error.kind(), ErrorKind::NewEpoch { .. });
            if self.is(Mutant::OldLeasesReleased) && answer.as_ref().is_err_and(is_old) {
                return Ok(Released::Released);
            }
            match answer? {
                Released::AlreadyReleased if self.is(Mutant::ReleasedTwice) => Ok(Released::Released),
                answer => Ok(answer),
            }
        })
    }
    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        let resource = self.name(resource);
        Box::pin(async move {
            if self.is(Mutant::WithdrawForgotten) {
                // Vacates, but remembers nothing of it.
                let seen = self.inner.inspect(resource.clone()).await?;
                if let Some(held) = seen.occupant.filter(|held| held.owner == owner) {
                    let lease = LeaseRef::new(resource, owner, held.token, None);
                    return self.inner.release(lease, Ending::default()).await;
                }
            } else if self.is(Mutant::WithdrawTakesAnyones) {
                let seen = self.inner.inspect(resource.clone()).await?;
                if let Some(held) = seen.occupant {
                    return self.inner.withdraw(resource, held.owner).await;
                }
            }
            self.inner.withdraw(resource, owner).await
        })
    }
    fn revoke(
        &self,
        resource: ResourceName,
        mut expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        if self.is(Mutant::RevokeIgnoresExpect) {
            expect = None;
        }
        Box::pin(async move {
            let held = self.inner.inspect(resource.clone()).await?.occupant.map(|held| held.token);
            match (self.inner.revoke(resource, expect, reason).await?, held) {
                (Revoked::Burnt(_), Some(held)) if self.is(Mutant::RevokeBurnsNothing) => {
                    Ok(Revoked::Burnt(held))
                }
                (answer, _) => Ok(answer),
            }
        })
    }
    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection> {
        self.inner.inspect(self.name(resource))
    }
    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>> {
        if self.is(Mutant::ListsPatterns) {
            // As LIKE would: a % in it matches anything.
            return self.inner.list(prefix.split('%').next().unwrap_or_default().to_owned());
        }
        self.inner.list(prefix)
    }
    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>> {
        Box::pin(async move {
            let mut found = self.inner.history(resource, limit).await?;
            if self.is(Mutant::HistoryBackwards) {
                found.reverse();
            }
            Ok(found)
        })
    }
    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned> {
        self.inner.prune(if self.is(Mutant::PruneTakesAll) { Duration::ZERO } else { older_than })
    }
    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()> {
        match self.mutant {
            Mutant::WaitsNever => Box::pin(async { Ok(()) }),
            // For its limit, whatever happens.
            Mutant::WaitsForever => Box::pin(async move {
                let stuck = ResourceName::new("held by nobody else").unwrap();
                let _ = self.inner.occupy(&stuck);
                self.inner.wait(stuck, limit).await
            }),
            _ => self.inner.wait(resource, limit),
        }
    }
    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        let dead = self.is(Mutant::GrantsAfterALoss);
        self.inner.open_epoch(if dead { opening.with_dead_holders() } else { opening })
    }
    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        Box::pin(self.take_slot(claim, false))
    }
    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        Box::pin(self.take_slot(claim, true))
    }
    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        Box::pin(async move {
            let lease = self.slot_ref(lease).await?;
            let id_time = id_time && !self.is(Mutant::RenewalReservesNothing);
            Ok(match self.inner.renew_slot(lease, ttl, id_time).await? {
                SlotRenewed::Renewed(held) => SlotRenewed::Renewed(self.slot_lease(held)),
                rejected => rejected,
            })
        })
    }
    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        Box::pin(async move {
            let lease = self.slot_ref(lease).await?;
            let last_used = last_used.filter(|_| !self.is(Mutant::LastStampIgnored));
            self.inner.release_slot(lease, last_used).await
        })
    }
    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        Box::pin(async move {
            if self.is(Mutant::SlotWithdrawForgotten) {
                let seen = self.inner.slots(pool.clone()).await?;
                let mut held = seen.slots.into_iter().filter_map(|seen| Some((seen.slot, seen.occupant?)));
                if let Some((slot, held)) = held.find(|(_, held)| held.owner == owner) {
                    let lease = SlotRef::new(pool, slot, owner, held.token, None);
                    return self.inner.release_slot(lease, None).await;
                }
            }
            self.inner.withdraw_slot(pool, owner).await
        })
    }
    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        Box::pin(async move {
            let seen = self.inner.slots(pool.clone()).await?;
            let held = seen.slots.into_iter().find(|seen| seen.slot == slot).and_then(|seen| seen.occupant);
            if let (Some(held), true) = (held, self.is(Mutant::RevokedSlotIsFree)) {
                let lease = SlotRef::new(pool.clone(), slot, held.owner, held.token, None);
                let _ = self.inner.release_slot(lease, None).await?;
                return self.inner.revoke_slot(pool, slot, None, reason).await;
            }
            self.inner.revoke_slot(pool, slot, expect, reason).await
        })
    }
    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        Box::pin(async move {
            let mut listed = Vec::new();
            for pool in self.inner.pools().await? {
                let seen = self.inner.slots(pool.clone()).await?;
                if seen.holders() > 0 || !self.is(Mutant::FreePoolsUnseen) {
                    listed.push(pool);
                }
            }
            Ok(listed)
        })
    }
    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        Box::pin(async move {
            let mut seen = self.inner.slots(pool).await?;
            if self.is(Mutant::FreeSlotsUnseen) {
                seen.slots.retain(|slot| slot.occupant.is_some());
            }
            Ok(seen)
        })
    }
    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        Box::pin(async move {
            match self.inner.resize_pool(pool, size).await? {
                Resized::InUse { .. } if self.is(Mutant::ShrinksAnyway) => Ok(Resized::Resized),
                answer => Ok(answer),
            }
        })
    }
}

/// Pools.
impl Wrong {
    async fn slot_claim(&self, mut claim: PoolClaim) -> Result<PoolClaim, StoreError> {
        let seen = self.inner.slots(claim.pool.clone()).await?;
        match self.mutant {
            Mutant::IdentityIgnored if !claim.exclusive_identity => claim.identity = None,
            Mutant::CoolDownIgnored => claim.cool_down = Duration::ZERO,
            Mutant::IdentityTakesOver => claim.exclusive_identity = claim.identity.is_some(),
            Mutant::ExclusiveIgnored => claim.exclusive_identity = false,
            Mutant::ProofIgnored => claim.gone = None,
            Mutant::RangeIgnored => claim.range = SlotRange::ALL,
            Mutant::SizeIgnored if seen.size > 0 && claim.size > 0 => claim.size = seen.size,
            Mutant::ClaimsGrowThePool if seen.size > 0 && claim.size > seen.size => {
                let _ = self.inner.resize_pool(claim.pool.clone(), claim.size).await?;
            }
            Mutant::SlotAttemptsIgnored if claim.attempt > 0 => {
                claim.attempt = 1_000 + self.fresh.fetch_add(1, Ordering::SeqCst);
            }
            Mutant::SlotEpochForgotten => claim.epoch = None,
            Mutant::ClaimsWhatItSaw => {
                let held =
                    |slot: u16| seen.slots.iter().any(|seen| seen.slot == slot && seen.occupant.is_some());
                let free = (0..u16::try_from(seen.size).unwrap_or(u16::MAX)).find(|slot| !held(*slot));
                std::thread::sleep(Duration::from_micros(200));
                let after = self.inner.slots(claim.pool.clone()).await?;
                let taken = after
                    .slots
                    .into_iter()
                    .find(|seen| Some(seen.slot) == free)
                    .and_then(|seen| seen.occupant);
                if let (Some(slot), Some(held)) = (free, taken) {
                    let lease = SlotRef::new(claim.pool.clone(), slot, held.owner, held.token, None);
                    let _ = self.inner.release_slot(lease, None).await?;
                    claim.range = SlotRange::new(slot, slot).unwrap();
                }
            }
            _ => {}
        }
        Ok(claim)
    }

    async fn take_slot(&self, claim: PoolClaim, again: bool) -> Result<Claimed, StoreError> {
        if self.is(Mutant::BusyForNothing) && self.fresh.fetch_add(1, Ordering::SeqCst) % 5 == 4 {
            return Ok(Claimed::Rejected(Unclaimed::Busy));
        }
        let claim = self.slot_claim(claim).await?;
        let again = again && !self.is(Mutant::ReclaimIsAClaim);
        let answer =
            if again { self.inner.reclaim_slot(claim).await? } else { self.inner.claim_slot(claim).await? };
        Ok(match answer {
            Claimed::Granted(held) => Claimed::Granted(self.slot_lease(held)),
            Claimed::Rejected(Unclaimed::Exhausted { .. }) if self.is(Mutant::NextChanceUnsaid) => {
                Claimed::Rejected(Unclaimed::Exhausted { next_chance: None })
            }
            rejected => rejected,
        })
    }

    fn slot_lease(&self, mut held: SlotLease) -> SlotLease {
        if let Some(window) = &mut held.window {
            match self.mutant {
                Mutant::WindowsOverlap => window.after = Duration::ZERO,
                Mutant::WindowsMoveOn => *window = Window { after: held.wall, ..*window },
                _ => {}
            }
        }
        held
    }

    async fn slot_ref(&self, mut lease: SlotRef) -> Result<SlotRef, StoreError> {
        let seen = self.inner.slots(lease.pool.clone()).await?;
        let held = seen.slots.into_iter().find(|seen| seen.slot == lease.slot).and_then(|seen| seen.occupant);
        if let Some(held) = held {
            match self.mutant {
                Mutant::SlotTokenIgnored if held.owner == lease.owner => lease.token = held.token,
                Mutant::SlotOwnerIgnored if held.token == lease.token => lease.owner = held.owner,
                _ => {}
            }
        }
        if self.is(Mutant::SlotEpochForgotten) {
            lease.epoch = None;
        }
        Ok(lease)
    }
}

struct Mutated(Mutant);

struct Fresh(Arc<Wrong>);

impl Subject for Mutated {
    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let inner = Arc::new(MemoryStore::new()?);
        let wrong = Wrong { inner, mutant: self.0, fresh: AtomicU64::new(0), last: Mutex::new(None) };
        Ok(Box::new(Fresh(Arc::new(wrong))))
    }
}

impl Fixture for Fresh {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn pass(&self, time: Duration) {
        self.0.inner.advance(time);
    }
}

#[test]
fn every_mutant_is_caught() {
    let right = conformance::run(&Mutated(Mutant::None));
    assert!(right.failed.is_empty(), "the wrapper itself is wrong: {right}");
    let mut survivors = Vec::new();
    // Waits that do not end take their time, see below.
    for &mutant in MUTANTS.iter().filter(|mutant| **mutant != Mutant::WaitsForever) {
        let report = conformance::run(&Mutated(mutant));
        let failed: Vec<_> = report.failed.iter().map(|failed| failed.case).collect();
        println!("{mutant:?}: {failed:?}");
        if report.failed.is_empty() {
            survivors.push(mutant);
        }
    }
    assert!(survivors.is_empty(), "nothing failed on {survivors:?}");
}

/// It hangs every wait, which the suite gives up after a while.
#[test]
fn waits_that_do_not_end_are_caught() {
    let report = conformance::run(&Mutated(Mutant::WaitsForever));
    let failed: Vec<_> = report.failed.iter().map(|failed| failed.case).collect();
    assert!(failed.contains(&"a release wakes those who wait"), "{report}");
}
