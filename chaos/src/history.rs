//! What clients asked and heard, as it is recorded, written to a file and checked.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nanoseconds by the one clock of all processes of this machine, which nobody steps.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// What is asked of a store, or of a fence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Acquire {
        owner: u64,
        attempt: u64,
        again: bool,
        ttl: u64,
    },
    Renew {
        owner: u64,
        token: u64,
        ttl: u64,
        many: bool,
    },
    Release {
        owner: u64,
        token: u64,
    },
    Withdraw {
        owner: u64,
    },
    Revoke {
        expect: Option<u64>,
    },
    /// Raises the mark of the resource.
    Advance {
        owner: u64,
        token: u64,
    },
    /// A guarded write in a transaction of the client's own. `id` is what it writes.
    Write {
        owner: u64,
        token: u64,
        strict: bool,
        how: String,
        id: u64,
    },
}

/// Who holds a resource, as a refusal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) owner: u64,
    pub(crate) token: u64,
    /// Nanoseconds since its grant.
    pub(crate) held: u64,
    /// Nanoseconds until its end.
    pub(crate) left: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum How {
    Released,
    Withdrawn,
    Revoked,
}

/// Who vacated a resource, as a refusal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Vacated {
    pub(crate) token: u64,
    pub(crate) owner: u64,
    pub(crate) how: How,
}

/// What is answered: the first group is decided, then come *not done*, *unknown* and *refused*.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Granted {
        token: u64,
        ttl: u64,
    },
    Renewed {
        ttl: u64,
    },
    Released,
    AlreadyReleased,
    Burnt {
        token: u64,
    },
    /// The core's reason, by its name.
    Rejected {
        reason: String,
        holder: Option<Holder>,
        vacated: Option<Vacated>,
    },
    /// The write was committed, or the mark raised.
    Passed,
    /// The fence has seen this token.
    Stale {
        highest: u64,
    },
    /// The fence knows that the lease was given back, or broken.
    Lost,
    /// An old attempt of its owner, or one that has withdrawn. Nothing was changed.
    Superseded,
    NotDone(String),
    Unknown(String),
    Refused(String),
}

impl Answer {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Superseded | Self::NotDone(_) => "not done",
            Self::Unknown(_) => "unknown",
            Self::Refused(_) => "refused",
            _ => "decided",
        }
    }
}

impl Ask {
    /// As it is counted.
    pub(crate) fn kind(&self) -> String {
        let kind = match self {
            Self::Acquire { again: false, .. } => "acquire",
            Self::Acquire { .. } => "reacquire",
            Self::Renew { many: false, .. } => "renew",
            Self::Renew { .. } => "renew_many",
            Self::Release { .. } => "release",
            Self::Withdraw { .. } => "withdraw",
            Self::Revoke { .. } => "revoke",
            Self::Advance { .. } => "advance",
            Self::Write { strict, how, .. } => {
                return format!("write, {}, {how}", if *strict { "strict" } else { "plain" });
            }
        };
        kind.to_owned()
    }
}

/// One question and its answer. Times are by [`now`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) client: u32,
    pub(crate) resource: String,
    pub(crate) ask: Ask,
    pub(crate) began: u64,
    /// When the guard of a write had let it pass, or had refused it.
    pub(crate) guarded: Option<u64>,
    /// When the answer was there, or the client had given up.
    pub(crate) ended: u64,
    pub(crate) answer: Answer,
}

/// What is asked of the [second store](crate::second).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Deed {
    /// With the resource's own name as the once-key, where there is one.
    Acquire {
        owner: u64,
        ttl: u64,
        once: bool,
    },
    Renew {
        owner: u64,
        token: u64,
        ttl: u64,
    },
    /// Of work that is done for good, or of other work.
    Release {
        owner: u64,
        token: u64,
        is_good: bool,
        at_least: u64,
    },
    Prune {
        older: u64,
    },
    Open {
        instead_of: u64,
        /// Nobody acts under the old epoch's leases any more.
        dead: bool,
    },
}

/// What it answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    Granted { token: u64, ttl: u64, epoch: u64 },
    Done { token: u64 },
    Renewed { ttl: u64 },
    Released,
    Retained { left: u64 },
    AlreadyReleased,
    Rejected { reason: String },
    Pruned,
    Opened { epoch: u64 },
    NewEpoch { current: u64 },
    NotDone(String),
    Unknown(String),
    Refused(String),
}

impl Said {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::NotDone(_) => "not done",
            Self::Unknown(_) => "unknown",
            Self::Refused(_) => "refused",
            _ => "decided",
        }
    }
}

/// One question to the second store, and its answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Act {
    /// None where it is about all of them.
    pub(crate) resource: String,
    pub(crate) deed: Deed,
    /// Which epoch the client believed in, if any.
    pub(crate) epoch: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) said: Said,
}

impl Act {
    /// As it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self.deed {
            Deed::Acquire { once: false, .. } => "second store: acquire",
            Deed::Acquire { .. } => "second store: acquire once",
            Deed::Renew { .. } => "second store: renew",
            Deed::Release { at_least: 0, .. } => "second store: release",
            Deed::Release { .. } => "second store: hold back",
            Deed::Prune { .. } => "second store: prune",
            Deed::Open { .. } => "second store: open epoch",
        }
    }
}

/// A hold as the store itself remembers it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) token: u64,
    pub(crate) owner: u64,
    /// `Released`, `Expired` and so on, by their names.
    pub(crate) outcome: String,
    /// When it was granted and when it ended, in microseconds of the store's.
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// A guarded write as it is found in the end, in the order in which the writes followed each other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) resource: String,
    /// Each write counts on from the one that it found there.
    pub(crate) n: u64,
    pub(crate) token: u64,
    pub(crate) id: u64,
}

/// One line of a history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// What a run is to be held to, in nanoseconds: calls ask for answers within `timeout`, and have `bound` more.
    /// Where tokens are `dense`, each is the next number, so that one which is missing was issued to somebody. A store that
    /// `takes_back` withdraws by itself what it granted to nobody who was left to hear of it. One that `remembers_times`
    /// does so by the clock that it decides by. Where leases `ends_by_leases` of the engine's own, that is after whole seconds,
    /// never early and at times late.
    Limits {
        engine: String,
        seed: u64,
        timeout: u64,
        bound: u64,
        dense: bool,
        takes_back: bool,
        remembers_times: bool,
        ends_by_leases: bool,
    },
    /// A client in another process is about to ask; what it hears follows as a `Call` with the same client and beginning,
    /// unless the process is killed.
    Begun {
        client: u32,
        resource: String,
        ask: Ask,
        began: u64,
    },
    Call(Call),
    Second(Act),
    /// All holds of a resource that its store remembers.
    Holds {
        resource: String,
        holds: Vec<Hold>,
    },
    Written(Written),
    /// From some instant between these two on, the store's clock was that far ahead of this machine's, in seconds.
    Stepped {
        from: u64,
        until: u64,
        ahead: i64,
    },
    /// A request of somebody arrived twice: the second time between these two instants.
    Doubled {
        from: u64,
        until: u64,
    },
    /// The server did nothing between these two.
    Away {
        from: u64,
        until: u64,
    },
    /// These clients could do nothing.
    Frozen {
        clients: Vec<u32>,
        from: u64,
        until: u64,
    },
    /// A fault of this kind.
    Fault {
        kind: String,
        at: u64,
    },
}

/// A whole run.
#[derive(Clone, Default, Debug)]
pub(crate) struct History {
    pub(crate) lines: Vec<Line>,
}

impl History {
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = io::BufWriter::new(std::fs::File::create(path)?);
        for line in &self.lines {
            serde_json::to_writer(&mut file, line)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let lines = BufReader::new(std::fs::File::open(path)?).lines();
        let lines = lines.map(|line| serde_json::from_str(&line?).map_err(io::Error::from));
        Ok(Self { lines: lines.collect::<Result<_, _>>()? })
    }
}
