//! Spans, events and figures, for those who switch them on.

use std::time::Duration;

use lease_machines::{Command, Event, FencingToken, OwnerId, Rejection};
use lease_machines_store::{Epoch, ResourceName};

use crate::{HoldError, LossReason, Verdict};

#[cfg(feature = "metrics")]
macro_rules! count {
    ($name:literal $(, $label:literal => $value:expr)?) => {
        metrics::counter!($name $(, $label => $value)?).increment(1)
    };
}
#[cfg(not(feature = "metrics"))]
macro_rules! count {
    ($name:literal $(, $label:literal => $value:expr)?) => {{
        $(let _ = $value;)?
    }};
}

#[cfg(feature = "metrics")]
macro_rules! measure {
    ($name:literal, $value:expr) => {
        metrics::histogram!($name).record($value)
    };
}
#[cfg(not(feature = "metrics"))]
macro_rules! measure {
    ($name:literal, $value:expr) => {{
        let _ = $value;
    }};
}

/// The span of one hold: from the question to the verdict, inside whatever span the question was asked in.
pub(crate) struct Trace {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

#[cfg(feature = "tracing")]
macro_rules! event {
    ($trace:expr, $level:ident, $($rest:tt)*) => {
        tracing::$level!(target: "lease", parent: &$trace.span, $($rest)*)
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($trace:expr, $level:ident, $($name:ident = $sigil:tt $value:expr,)* $message:literal) => {{
        let _ = $trace;
        $(let _ = &$value;)*
    }};
}

impl Trace {
    pub(crate) fn new(resource: &ResourceName, owner: OwnerId) -> Self {
        #[cfg(not(feature = "tracing"))]
        let _ = (resource, owner);
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(
                target: "lease",
                "lease",
                resource = %resource,
                owner = owner.value(),
                token = tracing::field::Empty,
                epoch = tracing::field::Empty,
            ),
        }
    }

    pub(crate) fn granted(&self, token: FencingToken, epoch: Epoch, waited: Duration) {
        #[cfg(feature = "tracing")]
        self.span.record("token", token.value()).record("epoch", tracing::field::display(epoch));
        #[cfg(not(feature = "tracing"))]
        let _ = (token, epoch);
        count!("lease_granted_total");
        measure!("lease_waited_seconds", waited);
        event!(self, info, waited = ?waited, "granted");
    }

    pub(crate) fn not_held(&self, error: &HoldError, waited: Duration) {
        measure!("lease_waited_seconds", waited);
        event!(self, info, waited = ?waited, error = %error, "not held");
    }

    pub(crate) fn at_risk(&self) {
        event!(self, warn, "at risk");
    }

    pub(crate) fn lost(&self, reason: &LossReason) {
        count!("lease_lost_total", "reason" => reason.name());
        event!(self, error, reason = %reason, "lost");
    }

    pub(crate) fn ended(&self, verdict: &Verdict, held: Duration) {
        measure!("lease_held_seconds", held);
        event!(self, info, held = ?held, verdict = ?verdict, "ended");
    }
}

/// A request leaves.
pub(crate) fn asked(command: &Command) {
    let request = match command {
        Command::Acquire { .. } => "acquire",
        Command::Reacquire { .. } => "reacquire",
        Command::Renew { .. } => "renew",
        Command::Release { .. } | Command::ReleaseStray { .. } => "release",
        Command::Withdraw { .. } => "withdraw",
        _ => return,
    };
    count!("lease_attempts_total", "request" => request);
}

/// A request is answered.
pub(crate) fn answered(event: &Event) {
    if matches!(event, Event::Renewed { .. }) {
        count!("lease_renewed_total");
    }
    let answer = match event {
        Event::Granted { .. } | Event::Renewed { .. } | Event::Released { .. } => "done",
        Event::Rejected { reason: Rejection::Occupied, .. } => "occupied",
        Event::Rejected { .. } | Event::AlreadyDone { .. } => "rejected",
        Event::NotDone { .. } => "not_done",
        Event::NoAnswer { .. } => "unknown",
        Event::Refused { .. } | Event::NewEpoch => "refused",
        _ => return,
    };
    count!("lease_answers_total", "answer" => answer);
}

/// Renewals leave in one call.
#[allow(clippy::cast_precision_loss, reason = "a count of leases")]
pub(crate) fn renewed_together(leases: usize) {
    measure!("lease_renewed_together", leases as f64);
}
