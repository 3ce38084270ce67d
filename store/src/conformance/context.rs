//! Short forms for the cases.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::{OwnerId, Rejection};

use super::{Fixture, Subject, block_on};
use crate::{
    Acquired, Claim, Ending, Grant, LeaseRef, Rejected, Released, Renewed, ResourceName, Store, StoreError,
};

/// A case's empty store.
pub(super) struct Context<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) fixture: Box<dyn Fixture>,
    store: Arc<dyn Store>,
}

pub(super) type Outcome<T> = Result<T, String>;

impl<'a> Context<'a> {
    pub(super) fn new(subject: &'a dyn Subject, fixture: Box<dyn Fixture>) -> Self {
        let store = fixture.store();
        Self { subject, fixture, store }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// So many of the fixture's units.
    pub(super) fn units(&self, count: u32) -> Duration {
        self.fixture.unit().saturating_mul(count)
    }

    pub(super) fn pass(&self, units: u32) {
        self.fixture.pass(self.units(units));
    }

    /// A claim for ten units.
    pub(super) fn claim(&self, resource: &str, owner: u64) -> Outcome<Claim> {
        Ok(Claim::new(name(resource)?, OwnerId::new(owner), self.units(10)))
    }

    pub(super) fn acquire(&self, claim: Claim) -> Outcome<Acquired> {
        block_on(self.store.acquire(claim)).map_err(told)
    }

    pub(super) fn reacquire(&self, claim: Claim) -> Outcome<Acquired> {
        block_on(self.store.reacquire(claim)).map_err(told)
    }

    pub(super) fn granted(&self, resource: &str, owner: u64) -> Outcome<Grant> {
        grant(self.acquire(self.claim(resource, owner)?)?)
    }

    pub(super) fn lease(&self, resource: &str, owner: u64, grant: Grant) -> Outcome<LeaseRef> {
        Ok(LeaseRef::new(name(resource)?, OwnerId::new(owner), grant.token, Some(grant.epoch)))
    }

    pub(super) fn renew(&self, lease: &LeaseRef) -> Outcome<Renewed> {
        block_on(self.store.renew(lease.clone(), self.units(10))).map_err(told)
    }

    pub(super) fn release(&self, lease: &LeaseRef) -> Outcome<Released> {
        self.end(lease, Ending::default())
    }

    pub(super) fn end(&self, lease: &LeaseRef, ending: Ending) -> Outcome<Released> {
        block_on(self.store.release(lease.clone(), ending)).map_err(told)
    }

    pub(super) fn withdraw(&self, resource: &str, owner: u64) -> Outcome<Released> {
        block_on(self.store.withdraw(name(resource)?, OwnerId::new(owner))).map_err(told)
    }

    /// Whether two times are the same, as exactly as the fixture's clock allows.
    pub(super) fn same(&self, found: Duration, expected: Duration) -> bool {
        if self.fixture.is_driven() {
            found == expected
        } else {
            found <= expected && found.saturating_add(self.fixture.unit()) >= expected
        }
    }
}

pub(super) fn name(name: &str) -> Outcome<ResourceName> {
    ResourceName::new(name).map_err(|error| error.to_string())
}

pub(super) fn told(error: StoreError) -> String {
    format!("not decided: {error:?}")
}

pub(super) fn grant(answer: Acquired) -> Outcome<Grant> {
    Ok(expect!(answer, Acquired::Granted(grant) => grant, "expected a grant"))
}

pub(super) fn refused(answer: Acquired) -> Outcome<Rejected> {
    Ok(expect!(answer, Acquired::Rejected(rejected) => rejected, "expected a refusal"))
}

pub(super) fn not_renewed(answer: Renewed) -> Outcome<Rejected> {
    Ok(expect!(answer, Renewed::Rejected(rejected) => rejected, "expected that nothing is renewed"))
}

pub(super) fn not_released(answer: Released) -> Outcome<Rejected> {
    Ok(expect!(answer, Released::Rejected(rejected) => rejected, "expected that nothing is released"))
}

/// How a late request is told that its lease is over: the engine may have removed it by itself.
pub(super) fn over(store: &dyn Store, reason: Rejection) -> bool {
    reason == Rejection::Expired || (!store.capabilities().tells_expired && reason == Rejection::Vacant)
}
