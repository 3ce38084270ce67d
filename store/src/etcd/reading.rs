//! One version of a resource, as it is read in one transaction, and as the core decides on it.

use std::time::{Duration, SystemTime};

use etcd_client::{Compare, CompareOp, GetResponse, KeyValue, TxnOp, TxnOpResponse, TxnResponse};
use lease_machines::OwnerId;

use super::keys::Keys;
use super::record::{Last, Renewals, Standing, State, read_end};
use crate::decide::{self, At, Held, MAX_TOKEN, Row};
use crate::{End, ErrorKind, ResourceName, StoreError};

/// The instant at which decisions are made here: etcd tells no time. What has been lies before it, what remains after.
const NOW: Duration = Duration::from_secs(1 << 33);

/// What is read of a resource.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) resource: &'a ResourceName,
    /// Whether this owner has withdrawn.
    pub(super) owner: Option<OwnerId>,
    /// Whether work was done under this key.
    pub(super) once: Option<&'a str>,
    /// Its last good end.
    pub(super) good: bool,
}

/// The store's epoch as it was read, and the revision of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epochal {
    pub(super) standing: Standing,
    pub(super) revision: i64,
    /// The etcd lease for as long as which nothing is granted.
    pub(super) waits: Option<i64>,
}

/// The key that stands on an etcd lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveKey {
    pub(super) revision: i64,
    pub(super) lease: i64,
    /// Other live keys stand on the same lease.
    pub(super) shared: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) epochal: Epochal,
    /// Its record, and the revision of its key; 0 where there is none.
    pub(super) state: Option<State>,
    pub(super) revision: i64,
    pub(super) live: Option<LiveKey>,
    pub(super) renewals: Option<Renewals>,
    pub(super) withdrawn: bool,
    pub(super) done: Option<End>,
    pub(super) good: Option<End>,
}

/// How a live key's value says whether its lease is its own.
pub(super) const OWN: &str = "own";
pub(super) const SHARED: &str = "shared";

impl Wanted<'_> {
    pub(super) fn ops(&self, keys: &Keys) -> Vec<TxnOp> {
        let resource = self.resource;
        let mut all = vec![
            keys.standing(),
            keys.wait(),
            keys.state(resource),
            keys.live(resource),
            keys.renewed(resource),
        ];
        all.extend(self.owner.map(|owner| keys.withdrawn(resource, owner)));
        all.extend(self.once.map(|once| keys.done(resource, once)));
        all.extend(self.good.then(|| keys.good(resource)));
        all.into_iter().map(|key| TxnOp::get(key, None)).collect()
    }

    /// What [`ops`](Self::ops) were answered.
    pub(super) fn read(&self, keys: &Keys, answer: &TxnResponse) -> Result<Reading, StoreError> {
        let mut found = gets(answer).into_iter();
        let mut next = || found.next().and_then(|mut got| got.take_kvs().into_iter().next());
        let epoch = next();
        let wait = next();
        let (state, live, renewed) = (next(), next(), next());
        let withdrawn = self.owner.and_then(|_| next()).is_some();
        let done = self.once.and_then(|_| next());
        let good = if self.good { next() } else { None };
        Reading::of(keys, [epoch, wait, state, live, renewed], withdrawn, [done, good])
    }
}

/// The answers of a transaction that only looks.
pub(super) fn gets(answer: &TxnResponse) -> Vec<GetResponse> {
    let each = answer.op_responses().into_iter();
    each.filter_map(|op| if let TxnOpResponse::Get(got) = op { Some(got) } else { None }).collect()
}

pub(super) fn not_set_up(keys: &Keys) -> StoreError {
    StoreError::new(
        ErrorKind::NotSetUp,
        format!(
            "the store has no epoch ({}epoch): it was never set up, or was wiped (`lease migrate` sets it up)",
            keys.prefix()
        ),
    )
}

impl Epochal {
    pub(super) fn of(
        keys: &Keys,
        epoch: Option<&KeyValue>,
        wait: Option<&KeyValue>,
    ) -> Result<Self, StoreError> {
        let epoch = epoch.ok_or_else(|| not_set_up(keys))?;
        Ok(Self {
            standing: Standing::read(epoch)?,
            revision: epoch.mod_revision(),
            waits: wait.map(KeyValue::lease),
        })
    }
}

impl Reading {
    fn of(
        keys: &Keys,
        [epoch, wait, state, live, renewed]: [Option<KeyValue>; 5],
        withdrawn: bool,
        [done, good]: [Option<KeyValue>; 2],
    ) -> Result<Self, StoreError> {
        Ok(Self {
            epochal: Epochal::of(keys, epoch.as_ref(), wait.as_ref())?,
            revision: state.as_ref().map_or(0, KeyValue::mod_revision),
            state: state.as_ref().map(State::read).transpose()?,
            live: live.as_ref().map(LiveKey::of),
            renewals: renewed.as_ref().map(Renewals::read).transpose()?,
            withdrawn,
            done: done.as_ref().map(read_end).transpose()?,
            good: good.as_ref().map(read_end).transpose()?,
        })
    }

    /// One of many, as a list is read.
    pub(super) fn listed(
        epochal: Epochal,
        state: &KeyValue,
        live: Option<&KeyValue>,
        renewed: Option<&KeyValue>,
        good: Option<&KeyValue>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            epochal,
            revision: state.mod_revision(),
            state: Some(State::read(state)?),
            live: live.map(LiveKey::of),
            renewals: renewed.map(Renewals::read).transpose()?,
            withdrawn: false,
            done: None,
            good: good.map(read_end).transpose()?,
        })
    }

    /// That nothing of it has changed.
    pub(super) fn stands(&self, wanted: &Wanted<'_>, keys: &Keys) -> Vec<Compare> {
        let same = |key, revision| Compare::mod_revision(key, CompareOp::Equal, revision);
        vec![
            same(keys.standing(), self.epochal.revision),
            same(keys.state(wanted.resource), self.revision),
            same(keys.live(wanted.resource), self.live.map_or(0, |live| live.revision)),
        ]
    }

    /// As the core sees it, when its lease lasts for `left` and has lasted for `held`.
    pub(super) fn row(&self, left: Duration, held: Duration, wall: SystemTime) -> Row {
        let Some(state) = &self.state else { return Row::default() };
        let last = match state.last {
            Last::Known(token) => Some(token),
            Last::Now { .. } => state.last.token(self.revision),
        };
        let lease = state.held.as_ref().zip(last).map(|(hold, token)| {
            let renewals =
                self.renewals.unwrap_or(Renewals { at: hold.granted, count: 0, ttl: Duration::ZERO });
            let expires_at = if self.live.is_some() {
                NOW.saturating_add(left)
            } else {
                // The live key is gone: it has run out, for people about when its last term was over.
                let ended = renewals.at.checked_add(renewals.ttl).unwrap_or(wall);
                NOW.saturating_sub(wall.duration_since(ended).unwrap_or_default())
            };
            Held {
                owner: hold.owner,
                token,
                granted_at: NOW.saturating_sub(held),
                expires_at,
                ttl: renewals.ttl,
                epoch: hold.epoch,
                retained: hold.retained,
                granted_wall: hold.granted,
                renewed_wall: renewals.at,
                renewals: renewals.count,
                label: hold.label.clone(),
                identity: hold.identity.clone(),
            }
        });
        Row { last_issued: last, observed: NOW, lease, asker: state.asker, vacated: state.vacated.clone() }
    }

    /// How long it has been held, for people: between the clocks of two machines.
    pub(super) fn held_by_the_wall(&self, wall: SystemTime) -> Duration {
        let held = self.state.as_ref().and_then(|state| state.held.as_ref());
        held.and_then(|hold| wall.duration_since(hold.granted).ok()).unwrap_or_default().min(NOW)
    }
}

impl LiveKey {
    pub(super) fn of(kv: &KeyValue) -> Self {
        Self { revision: kv.mod_revision(), lease: kv.lease(), shared: kv.value() == SHARED.as_bytes() }
    }
}

/// What holds for all resources, as the core sees it, when nothing is granted for another `waits`.
pub(super) fn standing(epochal: &Epochal, waits: Duration) -> decide::Standing {
    standing_at(epochal, waits, NOW)
}

/// The same, where decisions are made at another instant.
pub(super) fn standing_at(epochal: &Epochal, waits: Duration, now: Duration) -> decide::Standing {
    /// Revisions that are still left when tokens are taken to be exhausted: more than any cluster writes.
    const RESERVE: u64 = 1 << 40;
    let floor = match epochal.standing.floor {
        floor if floor > MAX_TOKEN - RESERVE => MAX_TOKEN,
        floor => floor,
    };
    let grants_from = if waits.is_zero() { Duration::ZERO } else { now.saturating_add(waits) };
    let Standing { epoch, stamps_above, .. } = epochal.standing;
    decide::Standing { epoch, floor, grants_from, stamps_above }
}

pub(super) fn at(wall: SystemTime) -> At {
    At { now: NOW, wall }
}

/// What is left at that instant.
pub(super) fn left(until: Duration) -> Duration {
    until.saturating_sub(NOW)
}
