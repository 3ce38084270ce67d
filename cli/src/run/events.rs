//! What `--events` writes: the shape of a line. docs/json.md describes it.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, Loss, NotHeld};
use lease_machines_store::Occupant;
use serde::Serialize;

use super::course::Why;
use crate::output::{rfc3339, views};
use crate::sys::process::Ended;

/// One thing that happened. Fields without a value are null, and none is ever left out.
#[derive(Serialize, Debug)]
pub(crate) struct Event {
    event: &'static str,
    at: String,
    resource: String,
    token: Option<String>,
    remaining_ms: Option<u64>,
    holder: Option<views::Holder>,
    pid: Option<u32>,
    code: Option<u8>,
    signal: Option<u32>,
    reason: Option<&'static str>,
    count: Option<u64>,
}

impl Event {
    fn new(event: &'static str, resource: &str, token: Option<FencingToken>) -> Self {
        Self {
            event,
            at: rfc3339(SystemTime::now()),
            resource: resource.to_owned(),
            token: token.map(|token| token.value().to_string()),
            remaining_ms: None,
            holder: None,
            pid: None,
            code: None,
            signal: None,
            reason: None,
            count: None,
        }
    }

    /// Another holder is waited for.
    pub(crate) fn waiting(resource: &str, holder: &Occupant) -> Self {
        let remaining_ms = Some(views::ms(holder.remaining));
        let holder = Some(views::Holder::new(holder, SystemTime::now()));
        Self { remaining_ms, holder, ..Self::new("waiting", resource, None) }
    }

    /// The lease is granted, renewed or at risk; it goes on for so long by this machine's clock.
    pub(crate) fn of_lease(
        event: &'static str,
        resource: &str,
        token: FencingToken,
        remaining: Duration,
    ) -> Self {
        Self { remaining_ms: Some(views::ms(remaining)), ..Self::new(event, resource, Some(token)) }
    }

    /// The command runs.
    pub(crate) fn started(resource: &str, token: FencingToken, pid: i32) -> Self {
        Self { pid: Some(pid.unsigned_abs()), ..Self::new("started", resource, Some(token)) }
    }

    /// The command could not be started; `lease run` ends with this code.
    pub(crate) fn not_started(resource: &str, token: Option<FencingToken>, code: u8) -> Self {
        Self { code: Some(code), ..Self::new("not_started", resource, token) }
    }

    /// The command is told to end (`stopping`), or made to (`killed`).
    pub(crate) fn ending(
        event: &'static str,
        resource: &str,
        token: Option<FencingToken>,
        why: Option<Why>,
    ) -> Self {
        let reason = why.map(|why| match why {
            Why::LeftBehind => "left_behind",
            Why::FrontGone => "front_gone",
            Why::MaxHold => "max_hold",
            Why::Lost => "lost",
        });
        Self { reason, ..Self::new(event, resource, token) }
    }

    /// The command itself has ended.
    pub(crate) fn ended(resource: &str, token: Option<FencingToken>, how: Ended) -> Self {
        let (code, signal) = match how {
            Ended::Code(code) => (Some(code), None),
            Ended::Signal(signo) => (None, Some(signo.unsigned_abs())),
        };
        Self { code, signal, ..Self::new("ended", resource, token) }
    }

    /// The last word on the lease: `released`, `unconfirmed`, or `lost` and why.
    pub(crate) fn last(
        event: &'static str,
        resource: &str,
        token: Option<FencingToken>,
        reason: Option<&'static str>,
    ) -> Self {
        Self { reason, ..Self::new(event, resource, token) }
    }

    /// So many lines were left out here, since nobody read them.
    pub(crate) fn dropped(resource: &str, count: u64) -> Self {
        Self { count: Some(count), ..Self::new("dropped", resource, None) }
    }

    /// The line, with its end.
    pub(crate) fn line(&self) -> Option<String> {
        let mut line = serde_json::to_string(self).ok()?;
        line.push('\n');
        Some(line)
    }
}

/// The word for a loss.
pub(crate) const fn lost(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Unreachable => "unreachable",
        Loss::Taken => "taken",
        Loss::Vacated => "vacated",
        Loss::NewEpoch => "new_epoch",
        Loss::Fenced => "fenced",
        _ => "unknown",
    }
}

/// The word for why nothing was held.
pub(crate) const fn not_held(why: NotHeld) -> &'static str {
    match why {
        NotHeld::Occupied => "occupied",
        NotHeld::Unreachable => "unreachable",
        NotHeld::Refused => "refused",
        NotHeld::Invalid(_) => "invalid",
        NotHeld::AlreadyDone => "already_done",
        NotHeld::Stopped => "interrupted",
        _ => "unknown",
    }
}
