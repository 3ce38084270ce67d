//! One resource: its calls put into its phases.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::clock::{Instant, signed};
use super::phases::{Phase, Verdict, phases};
use super::terms::{Terms, terms};
use super::{Found, Kind, Of, Run, show};
use crate::history::{Answer, Ask, Call};

/// After so many of one resource more say nothing new.
const ENOUGH: usize = 20;

struct Resource<'a> {
    run: &'a Run,
    of: &'a Of<'a>,
    first: u64,
    terms: Terms,
    phases: Vec<Phase>,
    /// The phase that a call began, by its answer.
    begins: HashMap<usize, usize>,
    /// Until when each owner's withdrawals can have come, and since when they surely had.
    withdrawn: HashMap<u64, (u64, u64)>,
}

pub(super) fn check(run: &Run, of: &Of<'_>, found: &mut Found) {
    let Some(first) = of.calls.first().map(|call| call.began) else { return };
    let terms = terms(run, of, first, found);
    let phases = phases(&terms);
    let begins = phases.iter().enumerate().filter_map(|(index, phase)| Some((phase.known?, index))).collect();
    let mut withdrawn: HashMap<u64, (u64, u64)> = HashMap::new();
    for call in &of.calls {
        let Ask::Withdraw { owner } = call.ask else { continue };
        let sure = if call.answer.kind() == "decided" { call.ended } else { u64::MAX };
        if matches!(call.answer, Answer::NotDone(_) | Answer::Refused(_)) {
            continue;
        }
        let entry = withdrawn.entry(owner).or_insert((call.began, sure));
        *entry = (entry.0.min(call.began), entry.1.min(sure));
    }
    let resource = Resource { run, of, first, terms, phases, begins, withdrawn };
    resource.place(found);
    resource.successions(found);
}

impl Resource<'_> {
    fn at(&self, call: &Call) -> (Instant, Instant) {
        self.run.clock.span(self.first, call.began, decided_by(call))
    }

    /// Puts each call into the earliest phase that explains it, after those of calls that had ended before it began.
    /// An earlier phase never makes it harder for a later call, so that a call which finds none has none.
    fn place(&self, found: &mut Found) {
        let rest = self.earliest_of_the_rest();
        let mut ended: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
        let (mut floor, mut floor_by) = (0, None);
        for (index, call) in self.of.calls.iter().enumerate() {
            while let Some(&Reverse((end, phase, by))) = ended.peek() {
                if end >= call.began {
                    break;
                }
                ended.pop();
                if phase > floor {
                    (floor, floor_by) = (phase, Some(by));
                }
            }
            if found.len() > ENOUGH {
                return;
            }
            if !is_placed(call) {
                continue;
            }
            if let Some(&phase) = self.begins.get(&index) {
                if phase < floor {
                    let text = format!("{}; but before it began, {}", show(call), self.by(floor_by));
                    found.push((Kind::OutOfOrder, text));
                    continue;
                }
                self.grant_after_withdrawal(call, found);
                ended.push(Reverse((decided_by(call), phase, index)));
                continue;
            }
            match self.earliest(index, call, floor, &rest) {
                Some(phase) => {
                    self.tells_time(call, phase, found);
                    ended.push(Reverse((decided_by(call), phase, index)));
                }
                None => found.push(self.unexplained(index, call, floor, floor_by, &rest)),
            }
        }
    }

    /// For each phase, since when it or a later one can have been.
    fn earliest_of_the_rest(&self) -> Vec<u64> {
        let mut earliest = vec![u64::MAX; self.phases.len() + 1];
        for (index, phase) in self.phases.iter().enumerate().rev() {
            earliest[index] = phase.began.min(earliest[index + 1]);
        }
        earliest
    }

    fn earliest(
        &self,
        number: usize,
        call: &Call,
        floor: usize,
        earliest_of_the_rest: &[u64],
    ) -> Option<usize> {
        let ended = decided_by(call);
        (floor..self.phases.len())
            .take_while(|&phase| earliest_of_the_rest[phase] <= ended)
            .find(|&phase| self.phases[phase].began <= ended && self.explains(phase, number, call))
    }

    fn explains(&self, index: usize, number: usize, call: &Call) -> bool {
        let state = &self.phases[index].state;
        let (maybe, surely) = match call.ask {
            Ask::Acquire { owner, .. } => self
                .withdrawn
                .get(&owner)
                .map_or((false, false), |(from, sure)| (*from <= call.ended, *sure < call.began)),
            _ => (false, false),
        };
        if call.answer == Answer::Superseded && maybe {
            return true;
        }
        if surely {
            return false;
        }
        let answer = said(call);
        self.verdicts(index, number, call).iter().any(|verdict| state.is(verdict, &answer))
    }

    fn verdicts(&self, index: usize, number: usize, call: &Call) -> Vec<Verdict> {
        let state = &self.phases[index].state;
        let at = self.at(call);
        let end = state.lease.map_or((0, 0), |lease| self.terms.all[lease].end(call, at, Some(number)));
        state.verdicts(&self.terms, &call.ask, end, at)
    }

    /// An owner that has withdrawn is not granted anything any more.
    fn grant_after_withdrawal(&self, call: &Call, found: &mut Found) {
        let Ask::Acquire { owner, .. } = call.ask else { return };
        if self.withdrawn.get(&owner).is_some_and(|(_, sure)| *sure < call.began) {
            found.push((Kind::NotAsCore, format!("its owner had withdrawn: {}", show(call))));
        }
    }

    /// What an answer says of the lease's end has to be one that the grant and its renewals explain.
    fn tells_time(&self, call: &Call, phase: usize, found: &mut Found) {
        /// Roundings of the store's clock, and of ttls.
        const SLACK: i64 = 3_000_000;
        let Some(lease) = self.phases[phase].state.lease else { return };
        let at = self.at(call);
        let end = self.terms.all[lease].end(call, at, None);
        let (asked, left) = match (&call.ask, &call.answer) {
            (_, Answer::Rejected { holder: Some(holder), .. }) => (None, signed(holder.left)),
            (Ask::Renew { ttl, .. }, Answer::Renewed { ttl: left }) => (Some(signed(*ttl)), signed(*left)),
            (Ask::Acquire { .. }, Answer::Granted { ttl, .. }) => (None, signed(*ttl)),
            _ => return,
        };
        if asked.is_some_and(|asked| left < asked - SLACK) {
            found.push((Kind::FalselyLost, format!("less than was asked for: {}", show(call))));
        }
        // A renewal is itself among what puts the end off.
        let (soonest, latest) = (at.0 + left, at.1 + left);
        if latest + SLACK + self.run.rounding() < end.0 {
            let by = (end.0 - latest) / 1_000_000;
            let text = format!("the lease ends {by} ms before its time: {}", show(call));
            found.push((Kind::FalselyLost, text));
        } else if soonest - SLACK > end.1 {
            let by = (soonest - end.1) / 1_000_000;
            let text = format!("no grant or renewal explains an end {by} ms later: {}", show(call));
            found.push((Kind::Phantom, text));
        }
    }

    /// The reason why no phase fits, as precise as can be.
    fn unexplained(
        &self,
        number: usize,
        call: &Call,
        floor: usize,
        by: Option<usize>,
        earliest: &[u64],
    ) -> (Kind, String) {
        let is_guard = matches!(call.ask, Ask::Write { .. }) && said(call) == Answer::Passed;
        if !is_guard && self.earliest(number, call, 0, earliest).is_some() {
            return (Kind::OutOfOrder, format!("{}; but before it began, {}", show(call), self.by(by)));
        }
        let told_over = matches!(&call.answer, Answer::Rejected { reason, .. } if reason == "Expired");
        let kind = match () {
            () if is_guard => Kind::FenceLate,
            () if told_over => Kind::FalselyLost,
            () => Kind::NotAsCore,
        };
        let ended = decided_by(call);
        let mut expected = Vec::new();
        for (index, phase) in self.phases.iter().enumerate().skip(floor) {
            if earliest[index] > ended || expected.len() > 5 {
                break;
            }
            if phase.began <= ended {
                let token = phase.term.map_or(0, |term| self.terms.all[term].token);
                let held = if phase.state.lease.is_some() { "held under" } else { "vacant after" };
                expected.push(format!("{held} {token}: {:?}", self.verdicts(index, number, call)));
            }
        }
        (kind, format!("{}; the core would have said, {}", show(call), expected.join(", ")))
    }

    fn by(&self, index: Option<usize>) -> String {
        index.map_or_else(|| "nothing".to_owned(), |index| show(self.of.calls[index]))
    }

    /// Whether each lease had come to an end when the next one was granted, and each change was one that the core makes.
    fn successions(&self, found: &mut Found) {
        for (index, phase) in self.phases.iter().enumerate().skip(1) {
            if found.len() > ENOUGH {
                return;
            }
            let Some(term) = phase.term.map(|term| &self.terms.all[term]) else { continue };
            // Those that it may follow.
            let mut before = vec![index - 1];
            while !self.phases[before[before.len() - 1]].is_certain {
                before.push(before[before.len() - 1] - 1);
            }
            if phase.state.lease.is_none() && !term.is_burn {
                let Some(known) = phase.known else { continue };
                let call = self.of.calls[known];
                if !self.verdicts(index - 1, known, call).contains(&Verdict::Released) {
                    found.push((Kind::NotAsCore, format!("it had run out before: {}", show(call))));
                }
                continue;
            }
            let ask = match (phase.known, term.is_burn) {
                (Some(known), _) => self.of.calls[known].ask.clone(),
                (None, true) => continue,
                // Whatever was asked by whoever got no answer.
                (None, false) => Ask::Acquire { owner: term.owner, attempt: u64::MAX, again: true, ttl: 0 },
            };
            let wanted = if term.is_burn { Verdict::Burnt } else { Verdict::Granted(None) };
            let is_explained = before.iter().any(|&before| {
                let state = &self.phases[before].state;
                let least = state.lease.map_or(0, |lease| self.terms.all[lease].least_end());
                // Of a grant the latest instant: then what was before it has had its time.
                state
                    .verdicts(&self.terms, &ask, (least, least), (term.granted.1, term.granted.1))
                    .contains(&wanted)
            });
            if !is_explained {
                let text = match (phase.known, self.phases[index - 1].state.lease) {
                    (Some(known), Some(lease)) => {
                        let lease = &self.terms.all[lease];
                        format!(
                            "token {} of owner {} had at least {} ms left: {}",
                            lease.token,
                            lease.owner,
                            (lease.least_end() - term.granted.1) / 1_000_000,
                            show(self.of.calls[known])
                        )
                    }
                    _ => {
                        format!("token {} was granted before the lease in front of it had ended", term.token)
                    }
                };
                found.push((if term.is_burn { Kind::NotAsCore } else { Kind::TwoLive }, text));
            }
        }
    }
}

/// Whether a call's answer says something of the resource's state: *not done* and *unknown* do not, but for guards that
/// had let the transaction pass by then.
fn is_placed(call: &Call) -> bool {
    match (&call.ask, &call.answer) {
        (Ask::Advance { .. } | Ask::Write { strict: false, .. }, _) => false,
        (Ask::Write { .. }, _) => call.guarded.is_some(),
        (_, Answer::Superseded) => true,
        (_, answer) => answer.kind() == "decided",
    }
}

/// What the guard said of the lease, whatever became of its transaction.
fn said(call: &Call) -> Answer {
    match (&call.ask, &call.answer) {
        (Ask::Write { .. }, Answer::Stale { .. } | Answer::Lost) => call.answer.clone(),
        (Ask::Write { .. }, _) => Answer::Passed,
        _ => call.answer.clone(),
    }
}

/// Until when the decision was made.
fn decided_by(call: &Call) -> u64 {
    call.guarded.unwrap_or(call.ended)
}
