//! Short forms.

use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, Claim, Grant, LeaseRef, ResourceName, Store};

pub fn claim(resource: &str, owner: u64) -> Claim {
    claim_for(resource, owner, Duration::from_secs(60))
}

pub fn claim_for(resource: &str, owner: u64, ttl: Duration) -> Claim {
    Claim::new(ResourceName::new(resource).unwrap(), OwnerId::new(owner), ttl)
}

/// Acquires, or fails the test.
#[track_caller]
pub fn granted(store: &dyn Store, claim: Claim) -> Grant {
    match block_on(store.acquire(claim)).unwrap() {
        Acquired::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub fn lease(resource: &str, owner: u64, grant: Grant) -> LeaseRef {
    LeaseRef::new(ResourceName::new(resource).unwrap(), OwnerId::new(owner), grant.token, Some(grant.epoch))
}
