//! How a slot is written.

use std::time::{Duration, SystemTime};

use etcd_client::KeyValue;
use lease_machines::OwnerId;

use crate::decide::{At, Held, Row, SlotRow, micros};
use crate::etcd::leases::LAST_MOMENT;
use crate::etcd::reading::LiveKey;
use crate::etcd::record::{Last, Reader, Writer, damaged};
use crate::{Epoch, StoreError, Vacated};

/// What is kept of a slot. Its times are by the clock of whoever wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::etcd) struct SlotState {
    pub(in crate::etcd) last: Last,
    /// Its hold, under the last token.
    pub(in crate::etcd) held: Option<SlotHold>,
    pub(in crate::etcd) vacated: Option<Vacated>,
    pub(super) asker: Option<(OwnerId, u64)>,
    pub(super) identity: Option<String>,
    /// From when on it counts as free, since Unix's origin: the end of its lease, its release, or the end of the lease that was
    /// revoked. `None` where it was only ever revoked.
    pub(super) free_from: Option<Duration>,
    pub(super) mark: Duration,
    pub(super) window_after: Option<Duration>,
    /// When it was written.
    pub(super) at: SystemTime,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::etcd) struct SlotHold {
    pub(in crate::etcd) owner: OwnerId,
    pub(super) epoch: Epoch,
    pub(super) granted: SystemTime,
    pub(super) renewed: SystemTime,
    pub(super) renewals: u64,
    pub(super) ttl: Duration,
    pub(super) label: Option<String>,
}

impl SlotState {
    /// What came of a decision.
    pub(super) fn of(slot: &SlotRow, last: Last, at: &At) -> Self {
        let lease = slot.row.lease.as_ref();
        Self {
            last,
            held: lease.map(|held| SlotHold {
                owner: held.owner,
                epoch: held.epoch,
                granted: held.granted_wall,
                renewed: held.renewed_wall,
                renewals: held.renewals,
                ttl: held.ttl,
                label: held.label.clone(),
            }),
            vacated: slot.row.vacated.clone(),
            asker: slot.row.asker,
            identity: slot.identity.clone(),
            free_from: lease.map(|held| held.expires_at).or(slot.freed_at),
            mark: slot.mark,
            window_after: slot.window_after,
            at: at.wall,
        }
    }

    pub(super) fn write(&self) -> String {
        let mut to = Writer::default();
        self.last.write(&mut to);
        to.at("at", self.at);
        to.asker(self.asker);
        to.text("identity", self.identity.as_deref());
        let mut stamp = |name, time: Option<Duration>| {
            if let Some(time) = time {
                to.put(name, time.as_micros());
            }
        };
        stamp("free", self.free_from);
        stamp("mark", Some(self.mark).filter(|mark| !mark.is_zero()));
        stamp("after", self.window_after);
        if let Some(held) = &self.held {
            to.owner("owner", held.owner);
            to.put("epoch", held.epoch);
            to.at("granted", held.granted);
            to.at("renewed", held.renewed);
            to.put("renewals", held.renewals);
            to.put("ttl", held.ttl.as_micros());
            to.text("label", held.label.as_deref());
        }
        to.vacated(self.vacated.as_ref());
        to.done()
    }

    pub(in crate::etcd) fn read(kv: &KeyValue) -> Result<Self, StoreError> {
        let from = Reader::of(kv)?;
        let stamp = |name| from.get(name).map(|_| from.micros(name)).transpose();
        let held = match from.get("owner") {
            None => None,
            Some(_) => Some(SlotHold {
                owner: from.owner("owner")?,
                epoch: from.epoch("epoch")?,
                granted: from.at("granted")?,
                renewed: from.at("renewed")?,
                renewals: from.number("renewals")?,
                ttl: from.micros("ttl")?,
                label: from.text("label"),
            }),
        };
        Ok(Self {
            last: from.last()?,
            held,
            vacated: from.vacated()?,
            asker: from.asker()?,
            identity: from.text("identity"),
            free_from: stamp("free")?,
            mark: stamp("mark")?.unwrap_or_default(),
            window_after: stamp("after")?,
            at: from.at("at")?,
        })
    }

    /// As the core sees it at this instant. `revision` is that of its key, `live` the key on an etcd lease, and `left` what is
    /// left of that lease, where it was asked for; else what whoever wrote it thought.
    pub(super) fn row(
        &self,
        revision: i64,
        live: Option<&LiveKey>,
        left: Option<Duration>,
        at: &At,
    ) -> SlotRow {
        let now = at.now;
        let until = |told: Duration| match (live, left) {
            // The cluster has ended it, whatever the clock of another machine showed.
            (None, _) => told.min(now),
            (Some(_), Some(left)) => now.saturating_add(left.max(LAST_MOMENT)),
            (Some(_), None) => told.max(now.saturating_add(LAST_MOMENT)),
        };
        let free_from = self.free_from.map(until);
        let last = self.last.token(revision);
        let lease = self.held.as_ref().zip(last).map(|(hold, token)| Held {
            owner: hold.owner,
            token,
            granted_at: Duration::from_micros(micros(hold.granted)).min(now),
            expires_at: free_from.unwrap_or(now),
            ttl: hold.ttl,
            epoch: hold.epoch,
            retained: false,
            granted_wall: hold.granted,
            renewed_wall: hold.renewed,
            renewals: hold.renewals,
            label: hold.label.clone(),
            identity: self.identity.clone(),
        });
        SlotRow {
            freed_at: if lease.is_none() { free_from } else { None },
            window_after: self.window_after.filter(|_| lease.is_some()),
            row: Row {
                last_issued: last,
                observed: now,
                lease,
                asker: self.asker,
                vacated: self.vacated.clone(),
            },
            identity: self.identity.clone(),
            mark: self.mark,
        }
    }
}

/// How many slots a pool has.
pub(super) fn write_size(size: u32) -> String {
    let mut to = Writer::default();
    to.put("size", size);
    to.done()
}

pub(super) fn read_size(kv: &KeyValue) -> Result<u32, StoreError> {
    Reader::of(kv)?.need("size", |text| text.parse().ok())
}

/// The number of the slot that an owner was granted last.
pub(super) fn read_owned(kv: &KeyValue) -> Result<u16, StoreError> {
    std::str::from_utf8(kv.value()).ok().and_then(|text| text.parse().ok()).ok_or_else(|| damaged(kv))
}
