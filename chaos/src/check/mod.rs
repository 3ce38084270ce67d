//! Whether what clients saw of a run is what one right store could have shown them.
//!
//! The tokens of a resource order its grants and revokes. Between two of them it is either held under the one before, or
//! was given back: its *phases*, one after the other. Nearly every answer says in which phase it was decided, and the
//! core is asked whether it would have decided so there; what is left to check is that no call is put in an earlier phase
//! than one that had ended before it began. So a history is checked in the time that it takes to sort it.
//!
//! When a lease ends is known as exactly as the calls were long: each decision was made between a call's beginning and its
//! end. A call is in order if the core gives its answer at either end of what may have been.

mod clock;
mod endings;
mod index;
mod marks;
mod phases;
mod resource;
mod second;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::engine::PATIENCE;
use crate::history::{Act, Answer, Ask, Call, History, Hold, Line, Written};
use clock::{Clock, Instant, signed};

/// What kind of promise was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    /// One token for two holds, or one that went down.
    TokenRepeated,
    /// What was acknowledged is not there any more.
    Lost,
    /// An effect of a request that was answered *not done*, or that nobody made.
    Phantom,
    /// A call saw an earlier state than one that had ended before it began.
    OutOfOrder,
    /// No state in question explains the answer by the core's rules.
    NotAsCore,
    /// Granted while another lease was live.
    TwoLive,
    /// A lease was told to be over before its time, or its end came nearer.
    FalselyLost,
    /// The store decided by another instant than one within the call.
    Clock,
    /// A store that nothing is wrong with refused.
    Refused,
    /// No answer within the time-out and what comes on top of it.
    TooLong,
    /// A write under an older token after one under a newer.
    FenceOrder,
    /// Two guarded transactions did not follow each other.
    FenceInterleaved,
    /// A strict guard let a lease pass that had been given back, broken or granted anew.
    FenceLate,
    /// Granted, though the work had been done.
    DoneTwice,
    /// Granted, renewed or released under an epoch that had been replaced.
    EpochForgotten,
}

/// One broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) resource: String,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}: {}", self.kind, self.resource, self.text)
    }
}

/// Everything about one resource.
#[derive(Default)]
struct Of<'a> {
    calls: Vec<&'a Call>,
    /// `None` where the store does not remember all of them.
    holds: Option<&'a [Hold]>,
    written: Vec<&'a Written>,
}

/// What is the same for all resources.
struct Run {
    clock: Clock,
    timeout: u64,
    bound: u64,
    dense: bool,
    takes_back: bool,
    remembers_times: bool,
    ends_by_leases: bool,
    /// When the server did nothing.
    away: Vec<(u64, u64)>,
    /// When a request arrived a second time.
    doubled: Vec<(u64, u64)>,
    frozen: Vec<(Vec<u32>, u64, u64)>,
}

/// Finds what is wrong with a run.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut run = Run {
        clock: Clock::default(),
        timeout: u64::MAX / 4,
        bound: 0,
        dense: false,
        takes_back: false,
        remembers_times: false,
        ends_by_leases: false,
        away: Vec::new(),
        doubled: Vec::new(),
        frozen: Vec::new(),
    };
    let mut steps = Vec::new();
    let mut acts: Vec<&Act> = Vec::new();
    let mut resources: BTreeMap<&str, Of<'_>> = BTreeMap::new();
    for line in &history.lines {
        match line {
            Line::Limits { timeout, bound, dense, takes_back, remembers_times, ends_by_leases, .. } => {
                (run.timeout, run.bound, run.dense) = (*timeout, *bound, *dense);
                (run.takes_back, run.remembers_times) = (*takes_back, *remembers_times);
                run.ends_by_leases = *ends_by_leases;
            }
            Line::Away { from, until } => run.away.push((*from, *until)),
            Line::Begun { .. } | Line::Fault { .. } => {}
            Line::Second(act) => acts.push(act),
            Line::Call(call) => resources.entry(&call.resource).or_default().calls.push(call),
            Line::Holds { resource, holds } => resources.entry(resource).or_default().holds = Some(holds),
            Line::Written(written) => resources.entry(&written.resource).or_default().written.push(written),
            Line::Stepped { from, until, ahead } => steps.push((*from, *until, *ahead)),
            Line::Doubled { from, until } => run.doubled.push((*from, *until)),
            Line::Frozen { clients, from, until } => run.frozen.push((clients.clone(), *from, *until)),
        }
    }
    run.clock = Clock::new(steps);
    run.doubled.sort_unstable();
    run.away.sort_unstable();
    let mut violations = second::check(&run, &acts);
    for (name, mut of) in resources {
        of.calls.sort_by_key(|call| (call.began, call.ended));
        let mut found = Vec::new();
        answers(&run, &of, &mut found);
        resource::check(&run, &of, &mut found);
        marks::check(&of, &mut found);
        violations.extend(found.into_iter().map(|(kind, text)| Violation {
            kind,
            resource: name.to_owned(),
            text,
        }));
    }
    violations
}

impl Run {
    /// What is granted for a ttl.
    fn granted(&self, ttl: Instant) -> Instant {
        let grain = if self.ends_by_leases { SECOND } else { 1 };
        ttl.saturating_add(grain - 1) / grain * grain
    }

    /// How much less than what is left an answer may say.
    fn rounding(&self) -> Instant {
        if self.ends_by_leases { SECOND } else { 0 }
    }

    /// The latest end of what was granted for so long between these instants.
    fn latest_end(&self, began: u64, until: Instant, ttl: Instant) -> Instant {
        let mut end = until.saturating_add(ttl);
        if self.ends_by_leases {
            // The engine looks for what has run out at times, and whoever takes over gives all of it the whole time again.
            let late = signed(self.bound);
            end = end.saturating_add(late);
            for &(from, back) in &self.away {
                if began <= back && signed(from) <= end {
                    end = end.max(signed(back).saturating_add(ttl).saturating_add(late));
                }
            }
        }
        end
    }

    /// Whether a request of this time may have arrived a second time, whatever was answered to the first.
    fn came_twice(&self, began: u64, ended: u64) -> bool {
        // In the order of their beginnings.
        let at = self.doubled.partition_point(|(from, _)| *from < began);
        self.doubled.get(at).is_some_and(|(from, _)| *from <= ended)
    }
}

const SECOND: Instant = 1_000_000_000;

type Found = Vec<(Kind, String)>;

/// What can be said of each call alone.
fn answers(run: &Run, of: &Of<'_>, found: &mut Found) {
    for call in &of.calls {
        if let Answer::Refused(why) = &call.answer {
            found.push((Kind::Refused, format!("{why}: {}", show(call))));
        }
        let stopped: u64 = run
            .frozen
            .iter()
            .filter(|(clients, from, until)| {
                clients.contains(&call.client) && *from < call.ended && call.began < *until
            })
            .map(|(_, from, until)| until - from)
            .sum();
        let took = call.ended - call.began;
        // A write is the client's own affair; its guard's wait ends all the same.
        let is_own = matches!(call.ask, Ask::Write { .. } | Ask::Advance { .. });
        let timeout = if is_own { 3 * PATIENCE.as_nanos() as u64 } else { run.timeout };
        if took > timeout + run.bound + stopped {
            found.push((Kind::TooLong, format!("it took {} ms: {}", took / 1_000_000, show(call))));
        }
    }
}

/// A call as it is shown to people.
fn show(call: &Call) -> String {
    format!(
        "client {} from {:.6} to {:.6}: {:?} was answered {:?}",
        call.client,
        call.began as f64 / 1e9,
        call.ended as f64 / 1e9,
        call.ask,
        call.answer
    )
}
