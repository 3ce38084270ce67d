//! How what is kept is written: as in the query of a URL, so that people can read it with `etcdctl get`.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use etcd_client::KeyValue;
use lease_machines::{FencingToken, OwnerId};

use crate::decide::micros;
use crate::url::query;
use crate::version::{Known, Stamp};
use crate::{
    End, Epoch, ErrorKind, HistoryEntry, HoldOutcome, LeaseRef, StoreError, Vacated, VacatedHow, WorkResult,
};

/// The versions of what the keys hold that this program writes and uses. A later one that still admits programs of this one may
/// add keys and fields: a record that this program writes anew is without those.
const KNOWN: Known = Known::alone(1);

/// Which life of the store it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    pub(super) epoch: Epoch,
    /// A token is this, and the revision of the transaction that issued it.
    pub(super) floor: u64,
    /// The cluster that the epoch was opened on.
    pub(super) cluster: u64,
    /// The version of all that is stored.
    pub(super) stamp: Stamp,
    /// The epoch whose place it has taken.
    pub(super) left: Option<Epoch>,
    /// Stamps of ID time up to here, since Unix's origin, may have been given out by a history that was lost: zero in a store's
    /// first epoch.
    pub(super) stamps_above: Duration,
}

/// The last token of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Last {
    /// Issued by the very transaction that writes this, above this floor: no transaction knows its own revision.
    Now {
        floor: u64,
    },
    Known(FencingToken),
}

/// Who holds a resource, or held it last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) last: Last,
    /// The epoch and the rest are the last hold's, `None` where it was vacated.
    pub(super) held: Option<Held>,
    pub(super) asker: Option<(OwnerId, u64)>,
    pub(super) vacated: Option<Vacated>,
    /// When it was written, for prunes.
    pub(super) at: SystemTime,
}

/// A hold, under the last token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) owner: OwnerId,
    pub(super) epoch: Epoch,
    pub(super) granted: SystemTime,
    pub(super) retained: bool,
    pub(super) label: Option<String>,
    pub(super) identity: Option<String>,
}

/// The renewals of the hold that goes on, or went on last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Renewals {
    pub(super) at: SystemTime,
    pub(super) count: u64,
    pub(super) ttl: Duration,
}

/// Text under construction.
#[derive(Default)]
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        let separator = if self.0.is_empty() { "" } else { "&" };
        let _ = write!(self.0, "{separator}{name}={value}");
    }

    pub(super) fn text(&mut self, name: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        let mut value = String::with_capacity(text.len());
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.:/@ ".contains(&byte) {
                value.push(char::from(byte));
            } else {
                let _ = write!(value, "%{byte:02X}");
            }
        }
        self.put(name, value);
    }

    pub(super) fn owner(&mut self, name: &str, owner: OwnerId) {
        self.put(name, format_args!("{:016x}", owner.value()));
    }

    pub(super) fn at(&mut self, name: &str, at: SystemTime) {
        self.put(name, micros(at));
    }

    pub(super) fn asker(&mut self, asker: Option<(OwnerId, u64)>) {
        if let Some((owner, attempt)) = asker {
            self.owner("asker", owner);
            self.put("attempt", attempt);
        }
    }

    pub(super) fn vacated(&mut self, vacated: Option<&Vacated>) {
        if let Some(vacated) = vacated {
            self.put("vacated", vacated.token.value());
            self.owner("by", vacated.owner);
            self.put("how", named(&HOWS, vacated.how));
        }
    }

    pub(super) fn done(self) -> String {
        self.0
    }
}

/// What stands under a key.
pub(super) struct Reader<'a> {
    kv: &'a KeyValue,
    fields: Vec<(String, String)>,
}

impl<'a> Reader<'a> {
    pub(super) fn of(kv: &'a KeyValue) -> Result<Self, StoreError> {
        let text = std::str::from_utf8(kv.value()).ok();
        match text.and_then(|text| query(Some(text)).ok()) {
            Some(fields) => Ok(Self { kv, fields }),
            None => Err(damaged(kv)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn need<T>(&self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
        self.get(name).and_then(read).ok_or_else(|| damaged(self.kv))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(ToOwned::to_owned)
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        self.need(name, |text| text.parse().ok())
    }

    pub(super) fn owner(&self, name: &str) -> Result<OwnerId, StoreError> {
        self.need(name, |text| u64::from_str_radix(text, 16).ok().map(OwnerId::new))
    }

    pub(super) fn epoch(&self, name: &str) -> Result<Epoch, StoreError> {
        self.need(name, |text| text.parse().ok())
    }

    pub(super) fn token(&self, name: &str) -> Result<FencingToken, StoreError> {
        self.need(name, |text| text.parse().ok().and_then(FencingToken::new))
    }

    pub(super) fn at(&self, name: &str) -> Result<SystemTime, StoreError> {
        let micros = self.number(name)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros)).ok_or_else(|| damaged(self.kv))
    }

    /// A time since Unix's origin.
    pub(super) fn micros(&self, name: &str) -> Result<Duration, StoreError> {
        self.number(name).map(Duration::from_micros)
    }

    pub(super) fn last(&self) -> Result<Last, StoreError> {
        match self.get("floor") {
            Some(_) => {
                let revision = u64::try_from(self.kv.mod_revision()).unwrap_or(0);
                let token = self.number("floor")?.checked_add(revision).and_then(FencingToken::new);
                token.map(Last::Known).ok_or_else(|| damaged(self.kv))
            }
            None => self.token("token").map(Last::Known),
        }
    }

    pub(super) fn asker(&self) -> Result<Option<(OwnerId, u64)>, StoreError> {
        match self.get("asker") {
            None => Ok(None),
            Some(_) => Ok(Some((self.owner("asker")?, self.number("attempt")?))),
        }
    }

    pub(super) fn vacated(&self) -> Result<Option<Vacated>, StoreError> {
        match self.get("vacated") {
            None => Ok(None),
            Some(_) => Ok(Some(Vacated::new(
                self.token("vacated")?,
                self.owner("by")?,
                self.need("how", |text| value(&HOWS, text))?,
            ))),
        }
    }
}

pub(super) fn damaged(kv: &KeyValue) -> StoreError {
    StoreError::new(
        ErrorKind::Damaged,
        format!("the key {:?} holds what no lease store writes", String::from_utf8_lossy(kv.key())),
    )
}

impl Last {
    pub(super) fn write(self, to: &mut Writer) {
        match self {
            Self::Now { floor } => to.put("floor", floor),
            Self::Known(token) => to.put("token", token.value()),
        }
    }

    /// The token, once it is known which revision issued it.
    pub(super) fn token(self, revision: i64) -> Option<FencingToken> {
        match self {
            Self::Now { floor } => {
                floor.checked_add(u64::try_from(revision).ok()?).and_then(FencingToken::new)
            }
            Self::Known(token) => Some(token),
        }
    }
}

impl Standing {
    /// As this program sets a store up.
    pub(super) const fn new(epoch: Epoch, floor: u64, cluster: u64) -> Self {
        Self { epoch, floor, cluster, left: None, stamp: KNOWN.writes, stamps_above: Duration::ZERO }
    }

    pub(super) fn write(&self) -> String {
        let mut to = Writer::default();
        to.put("version", self.stamp.version);
        to.put("usable_by", self.stamp.usable_by);
        to.put("epoch", self.epoch);
        to.put("floor", self.floor);
        to.put("cluster", format_args!("{:016x}", self.cluster));
        if let Some(left) = self.left {
            to.put("left", left);
        }
        if !self.stamps_above.is_zero() {
            to.put("stamps", self.stamps_above.as_micros());
        }
        to.0
    }

    pub(super) fn read(kv: &KeyValue) -> Result<Self, StoreError> {
        let from = Reader::of(kv)?;
        let place = Under(kv);
        let stamp = Stamp::read(&place, from.get("version"), from.get("usable_by"))?;
        KNOWN.admit(&place, stamp)?;
        Ok(Self {
            stamp,
            epoch: from.epoch("epoch")?,
            floor: from.number("floor")?,
            cluster: from.need("cluster", |text| u64::from_str_radix(text, 16).ok())?,
            left: from.get("left").and_then(|text| text.parse().ok()),
            stamps_above: from.get("stamps").map_or(Ok(Duration::ZERO), |_| from.micros("stamps"))?,
        })
    }
}

/// A store by its key, for errors.
struct Under<'a>(&'a KeyValue);

impl std::fmt::Display for Under<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the store under {}", String::from_utf8_lossy(self.0.key()))
    }
}

/// Whether a store was set up before it said who may use it.
pub(super) fn lacks_stamp(kv: &KeyValue) -> Result<bool, StoreError> {
    Ok(Reader::of(kv)?.get("usable_by").is_none())
}

impl State {
    pub(super) fn write(&self) -> String {
        let mut to = Writer::default();
        self.last.write(&mut to);
        to.at("at", self.at);
        to.asker(self.asker);
        if let Some(held) = &self.held {
            to.owner("owner", held.owner);
            to.put("epoch", held.epoch);
            to.at("granted", held.granted);
            if held.retained {
                to.put("retained", 1);
            }
            to.text("label", held.label.as_deref());
            to.text("identity", held.identity.as_deref());
        }
        to.vacated(self.vacated.as_ref());
        to.0
    }

    /// Whether the last hold, in a record of this revision, is this lease.
    pub(super) fn is_of(&self, lease: &LeaseRef, revision: i64) -> bool {
        let owner = self.held.as_ref().filter(|held| !held.retained).map(|held| held.owner);
        owner == Some(lease.owner) && self.last.token(revision) == Some(lease.token)
    }

    pub(super) fn read(kv: &KeyValue) -> Result<Self, StoreError> {
        let from = Reader::of(kv)?;
        let held = match from.get("owner") {
            None => None,
            Some(_) => Some(Held {
                owner: from.owner("owner")?,
                epoch: from.epoch("epoch")?,
                granted: from.at("granted")?,
                retained: from.get("retained").is_some(),
                label: from.text("label"),
                identity: from.text("identity"),
            }),
        };
        let (asker, vacated) = (from.asker()?, from.vacated()?);
        Ok(Self { last: from.last()?, held, asker, vacated, at: from.at("at")? })
    }
}

impl Renewals {
    pub(super) fn write(&self) -> String {
        let mut to = Writer::default();
        to.at("at", self.at);
        to.put("renewals", self.count);
        to.put("ttl", self.ttl.as_secs());
        to.0
    }

    pub(super) fn read(kv: &KeyValue) -> Result<Self, StoreError> {
        let from = Reader::of(kv)?;
        Ok(Self {
            at: from.at("at")?,
            count: from.number("renewals")?,
            ttl: Duration::from_secs(from.number("ttl")?),
        })
    }
}

pub(super) fn write_end(end: &End) -> String {
    let mut to = Writer::default();
    to.put("token", end.token.value());
    to.owner("owner", end.owner);
    to.at("at", end.at);
    to.text("label", end.label.as_deref());
    to.text("once", end.once.as_deref());
    to.0
}

pub(super) fn read_end(kv: &KeyValue) -> Result<End, StoreError> {
    let from = Reader::of(kv)?;
    let mut end = End::new(from.token("token")?, from.owner("owner")?, from.at("at")?);
    end.label = from.text("label");
    end.once = from.text("once");
    Ok(end)
}

/// As it is compared: by the same lease it is written in the same way every time.
pub(super) fn write_mark(token: FencingToken, owner: OwnerId) -> String {
    let mut to = Writer::default();
    to.put("token", token.value());
    to.owner("owner", owner);
    to.0
}

pub(super) fn read_mark(kv: &KeyValue) -> Result<(FencingToken, OwnerId), StoreError> {
    let from = Reader::of(kv)?;
    Ok((from.token("token")?, from.owner("owner")?))
}

/// A hold that has ended. The token of one that was burnt is issued by the transaction that writes this.
pub(super) fn write_hold(entry: &HistoryEntry, last: Last) -> String {
    let mut to = Writer::default();
    last.write(&mut to);
    to.owner("owner", entry.owner);
    to.text("label", entry.label.as_deref());
    to.text("identity", entry.identity.as_deref());
    to.at("granted", entry.granted_at);
    to.at("renewed", entry.renewed_at);
    to.put("renewals", entry.renewals);
    to.at("ends", entry.ends_at);
    to.put("outcome", named(&OUTCOMES, entry.outcome));
    to.put("result", named(&RESULTS, entry.result));
    to.text("reason", entry.reason.as_deref());
    to.0
}

pub(super) fn read_hold(kv: &KeyValue) -> Result<HistoryEntry, StoreError> {
    let from = Reader::of(kv)?;
    let token = from.last()?.token(0).ok_or_else(|| damaged(kv))?;
    Ok(HistoryEntry {
        token,
        owner: from.owner("owner")?,
        label: from.text("label"),
        identity: from.text("identity"),
        granted_at: from.at("granted")?,
        renewed_at: from.at("renewed")?,
        renewals: from.number("renewals")?,
        ends_at: from.at("ends")?,
        outcome: from.need("outcome", |text| value(&OUTCOMES, text))?,
        result: from.need("result", |text| value(&RESULTS, text))?,
        reason: from.text("reason"),
    })
}

const HOWS: [(VacatedHow, &str); 3] = [
    (VacatedHow::Released, "released"),
    (VacatedHow::Revoked, "revoked"),
    (VacatedHow::Withdrawn, "withdrawn"),
];

const OUTCOMES: [(HoldOutcome, &str); 7] = [
    (HoldOutcome::Held, "held"),
    (HoldOutcome::Released, "released"),
    (HoldOutcome::Expired, "expired"),
    (HoldOutcome::Revoked, "revoked"),
    (HoldOutcome::Withdrawn, "withdrawn"),
    (HoldOutcome::Rotated, "rotated"),
    (HoldOutcome::EpochLost, "epoch-lost"),
];

const RESULTS: [(WorkResult, &str); 3] =
    [(WorkResult::Good, "good"), (WorkResult::Failed, "failed"), (WorkResult::Unknown, "unknown")];

fn named<T: PartialEq>(names: &[(T, &'static str)], wanted: T) -> &'static str {
    names.iter().find(|(value, _)| *value == wanted).map_or("", |(_, name)| name)
}

fn value<T: Copy>(names: &[(T, &str)], wanted: &str) -> Option<T> {
    names.iter().find(|(_, name)| *name == wanted).map(|(value, _)| *value)
}
