//! `serde`, behind the feature of that name. What the constructors refuse is refused on the way in.

use core::time::Duration;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::{Checkpoint, FencingToken, Lease, OwnerId};

impl Serialize for OwnerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OwnerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::new)
    }
}

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| de::Error::custom("a fencing token is at least 1, found 0"))
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename = "Lease", deny_unknown_fields)]
struct LeaseRepr {
    owner: OwnerId,
    token: FencingToken,
    expires_at: Duration,
}

impl Serialize for Lease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LeaseRepr { owner: self.owner(), token: self.token(), expires_at: self.expires_at() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let lease = LeaseRepr::deserialize(deserializer)?;
        Ok(Self::new(lease.owner, lease.token, lease.expires_at))
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename = "Checkpoint", deny_unknown_fields)]
struct CheckpointRepr {
    last_issued: Option<FencingToken>,
    lease: Option<Lease>,
    observed: Duration,
}

impl Serialize for Checkpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CheckpointRepr { last_issued: self.last_issued(), lease: self.lease(), observed: self.observed() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Checkpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = CheckpointRepr::deserialize(deserializer)?;
        Self::from_parts(parts.last_issued, parts.lease, parts.observed)
            .ok_or_else(|| de::Error::custom("the lease is under a token that was never issued"))
    }
}
