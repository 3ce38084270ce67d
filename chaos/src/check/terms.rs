//! The grants and revokes of a resource, in the order of their tokens.

use std::collections::BTreeMap;

use super::clock::{Instant, NEVER, signed};
use super::endings::{remembered, vacates};
use super::index::Index;
use super::{Found, Kind, Of, Run, show};
use crate::history::{Answer, Ask, Call, How};

/// A token, and what it was issued for.
pub(super) struct Term {
    pub(super) token: u64,
    /// 0 for a token that was burnt.
    pub(super) owner: u64,
    pub(super) is_burn: bool,
    /// The least and the greatest attempt that can have got it.
    pub(super) attempts: (u64, u64),
    /// The call that was answered with it; where several were, the one that can have been first.
    pub(super) known: Option<usize>,
    /// Since when it can have been there, on this machine's clock.
    pub(super) began: u64,
    /// Earliest and latest instant of the decision, by the store's clock.
    pub(super) granted: (Instant, Instant),
    /// What puts its end off.
    pub(super) reaches: Vec<Reach>,
    /// How the store remembers its end.
    pub(super) outcome: Option<String>,
    /// How it was given back.
    pub(super) vacated: Option<Vacate>,
}

/// A grant or renewal: the lease lasts until an instant between `least` and `most`.
pub(super) struct Reach {
    pub(super) call: Option<usize>,
    pub(super) began: u64,
    /// The answer was there, so that it happened before; `None` for one that may not have happened.
    pub(super) ended: Option<u64>,
    pub(super) least: Instant,
    pub(super) most: Instant,
    /// What was asked for; with it a decision at `t` reaches to `t + ttl`.
    pub(super) ttl: i64,
}

/// A release, or a withdrawal.
pub(super) struct Vacate {
    pub(super) known: Option<usize>,
    pub(super) began: u64,
    /// `None` where it may have been either.
    pub(super) how: Option<How>,
    /// It need not have happened.
    pub(super) is_certain: bool,
}

impl Term {
    /// Between which instants the lease ends, as a call sees it: nothing that had been answered before it can be missing,
    /// nothing that began after it can count. A renewal does not count for itself (`but`): it needs a lease that stands.
    pub(super) fn end(&self, call: &Call, at: (Instant, Instant), but: Option<usize>) -> (Instant, Instant) {
        let (mut least, mut most) = (-NEVER, -NEVER);
        for reach in &self.reaches {
            if reach.ended.is_some_and(|ended| ended < call.began) || reach.call.is_none() {
                least = least.max(reach.least);
            }
            if reach.began <= call.ended && (but.is_none() || reach.call != but) {
                most = most.max(reach.most.min(at.1.saturating_add(reach.ttl)));
            }
        }
        (least, most.max(least))
    }

    /// Before which instant the lease has not ended, whatever of it came in the end.
    pub(super) fn least_end(&self) -> Instant {
        let known = self.reaches.iter().filter(|reach| reach.ended.is_some() || reach.call.is_none());
        known.map(|reach| reach.least).max().unwrap_or(-NEVER)
    }
}

pub(super) struct Terms {
    pub(super) all: Vec<Term>,
    /// A lease that has run out is one no more to a strict guard either.
    pub(super) ends_by_leases: bool,
}

/// What is known of a token before anything is concluded.
#[derive(Default)]
struct Seen {
    owners: Vec<u64>,
    is_burn: bool,
    answered: Vec<usize>,
    outcome: Option<String>,
}

pub(super) fn terms(run: &Run, of: &Of<'_>, first: u64, found: &mut Found) -> Terms {
    let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
    let owned = |token: u64, owner: u64, seen: &mut BTreeMap<u64, Seen>| {
        let entry = seen.entry(token).or_default();
        if !entry.owners.contains(&owner) {
            entry.owners.push(owner);
        }
    };
    for (index, call) in of.calls.iter().enumerate() {
        match (&call.ask, &call.answer) {
            (Ask::Acquire { owner, .. }, Answer::Granted { token, .. }) => {
                owned(*token, *owner, &mut seen);
                seen.entry(*token).or_default().answered.push(index);
            }
            (_, Answer::Burnt { token }) => {
                let entry = seen.entry(*token).or_default();
                if !entry.answered.is_empty() {
                    found.push((Kind::TokenRepeated, format!("burnt token {token} again: {}", show(call))));
                }
                entry.is_burn = true;
                entry.answered.push(index);
            }
            (_, Answer::Rejected { holder, vacated, .. }) => {
                if let Some(holder) = holder {
                    owned(holder.token, holder.owner, &mut seen);
                }
                if let Some(vacated) = vacated {
                    owned(vacated.token, vacated.owner, &mut seen);
                }
            }
            _ => {}
        }
    }
    for hold in of.holds.unwrap_or_default() {
        let entry = seen.entry(hold.token).or_default();
        entry.outcome = Some(hold.outcome.clone());
        if hold.owner == 0 {
            entry.is_burn = true;
        } else if !entry.owners.contains(&hold.owner) {
            entry.owners.push(hold.owner);
        }
    }
    for (token, entry) in &seen {
        if entry.owners.len() + usize::from(entry.is_burn) > 1 {
            let text = format!(
                "token {token} was issued to owners {:?}{}",
                entry.owners,
                if entry.is_burn { " and burnt" } else { "" }
            );
            found.push((Kind::TokenRepeated, text));
        }
    }
    add_burns(run, of, &mut seen);
    let index = Index::new(of);
    let mut all = Vec::new();
    for (token, entry) in seen {
        all.push(term(run, of, &index, first, token, entry, found));
    }
    let mut terms = Terms { all, ends_by_leases: run.ends_by_leases };
    vacates(run, of, &index, &mut terms, found);
    remembered(run, of, &terms, found);
    terms
}

/// Tokens that only a revoke whose answer was lost explains: those that broke a lease, and, where tokens are numbered one
/// after the other, those that are missing.
fn add_burns(run: &Run, of: &Of<'_>, seen: &mut BTreeMap<u64, Seen>) {
    if of.holds.is_none() {
        return;
    }
    let tokens: Vec<u64> = seen.keys().copied().collect();
    let burn = || Seen { is_burn: true, ..Seen::default() };
    for pair in tokens.windows(2) {
        let broken = seen[&pair[0]].outcome.as_deref() == Some("Revoked") && !seen[&pair[0]].is_burn;
        // Where they are not numbered, at least the one that broke a lease lies behind it.
        let most = if run.dense { 1000 } else { usize::from(broken && !seen[&pair[1]].is_burn) };
        for missing in (pair[0] + 1..pair[1]).take(most) {
            seen.insert(missing, burn());
        }
    }
    if let Some((&last, entry)) = seen.last_key_value() {
        if entry.outcome.as_deref() == Some("Revoked") && !entry.is_burn {
            seen.insert(last + 1, burn());
        }
    }
}

fn term(
    run: &Run,
    of: &Of<'_>,
    index: &Index,
    first: u64,
    token: u64,
    seen: Seen,
    found: &mut Found,
) -> Term {
    let owner = if seen.is_burn { 0 } else { seen.owners.first().copied().unwrap_or(0) };
    // Who can have got it: whoever was told so, or was told nothing. Of doubled requests each can have been the first.
    let asked = |call: &Call| match call.ask {
        Ask::Acquire { owner: asker, attempt, ttl, .. } if !seen.is_burn && asker == owner => {
            Some((attempt, ttl))
        }
        Ask::Revoke { .. } if seen.is_burn => Some((0, 0)),
        _ => None,
    };
    // An echo is answered with what a later attempt has got, so the greatest attempt is the one that got it.
    let told = seen.answered.iter().filter_map(|&index| asked(of.calls[index])).map(|(attempt, _)| attempt);
    let told = told.max();
    let mut candidates: Vec<usize> = Vec::new();
    for &at in if seen.is_burn { &index.revokes } else { index.by(owner) } {
        let Some((attempt, _)) = asked(of.calls[at]) else { continue };
        let is_told = seen.answered.contains(&at);
        // Of two that arrived, the second may find free what the first did not.
        let call = of.calls[at];
        let is_unknown = matches!(call.answer, Answer::Unknown(_)) || run.came_twice(call.began, call.ended);
        // Revokes do not come to the same, as doubled requests do.
        let fits = if seen.is_burn { told.is_none() } else { told.is_none_or(|told| told == attempt) };
        if is_told && told == Some(attempt) || is_unknown && fits {
            candidates.push(at);
        }
    }
    let known = seen.answered.iter().copied().filter(|index| candidates.contains(index)).min();
    if candidates.is_empty() {
        let what = if seen.is_burn { "burnt" } else { "granted" };
        let text =
            format!("token {token} was {what} (owner {owner}) by no request that may have been carried out");
        found.push((Kind::Phantom, text));
    }
    let calls = || candidates.iter().map(|&index| of.calls[index]);
    let began = calls().map(|call| call.began).min().unwrap_or(0);
    let mut granted = (NEVER, NEVER);
    for call in calls() {
        granted.0 = granted.0.min(run.clock.span(first, call.began, call.ended).0);
    }
    if candidates.is_empty() {
        granted.0 = -NEVER;
    }
    // It was there before any answer that shows it had arrived.
    for &at in index.showing(token) {
        let call = of.calls[at];
        granted.1 = granted.1.min(run.clock.span(first, call.began, call.ended).1);
    }
    let mut term = Term {
        token,
        owner,
        is_burn: seen.is_burn,
        attempts: (
            calls().filter_map(&asked).map(|(attempt, _)| attempt).min().unwrap_or(0),
            calls().filter_map(&asked).map(|(attempt, _)| attempt).max().unwrap_or(0),
        ),
        known,
        began,
        granted,
        reaches: Vec::new(),
        outcome: seen.outcome,
        vacated: None,
    };
    if !term.is_burn {
        narrow(run, of, index, first, &mut term, found);
        let ttls: Vec<i64> = calls().filter_map(&asked).map(|(_, ttl)| run.granted(signed(ttl))).collect();
        let (least, most) =
            (ttls.iter().min().copied().unwrap_or(0), ttls.iter().max().copied().unwrap_or(NEVER));
        term.reaches.push(Reach {
            call: None,
            began: 0,
            ended: None,
            least: term.granted.0.saturating_add(least),
            most: run.latest_end(term.began, term.granted.1, most),
            ttl: most,
        });
        renewals(run, of, index, first, &mut term);
    }
    term
}

/// A refusal says how long ago the lease was granted: by that, both were decided within their calls, or not.
fn narrow(run: &Run, of: &Of<'_>, index: &Index, first: u64, term: &mut Term, found: &mut Found) {
    /// Roundings, and what two clocks of one machine can drift apart during a lease.
    const SLACK: i64 = 3_000_000;
    let Some(last) = of.calls.last() else { return };
    if run.ends_by_leases || !run.clock.is_steady(first, last.ended) {
        return;
    }
    for &at in index.showing(term.token) {
        let call = of.calls[at];
        let Answer::Rejected { holder: Some(holder), .. } = &call.answer else { continue };
        let (from, until) = run.clock.span(first, call.began, call.ended);
        let least = from - signed(holder.held) - SLACK;
        let most = until - signed(holder.held) + SLACK;
        if least > term.granted.1 || most < term.granted.0 {
            let text = format!(
                "held for {} us by a grant that was made between {} and {} ms before: {}",
                holder.held / 1000,
                (from - term.granted.1) / 1_000_000,
                (until - term.granted.0) / 1_000_000,
                show(call)
            );
            found.push((Kind::Clock, text));
            return;
        }
        term.granted = (term.granted.0.max(least), term.granted.1.min(most));
    }
}

fn renewals(run: &Run, of: &Of<'_>, index: &Index, first: u64, term: &mut Term) {
    for &at in index.by(term.owner) {
        let call = of.calls[at];
        let Ask::Renew { owner, token, ttl, .. } = call.ask else { continue };
        if (owner, token) != (term.owner, term.token) {
            continue;
        }
        let (from, until) = run.clock.span(first, call.began, call.ended);
        match call.answer {
            Answer::Renewed { ttl: granted } => {
                // Should it have arrived twice, the second time counts as well.
                let again = run.doubled.iter().filter(|(sent, _)| call.began <= *sent && *sent <= call.ended);
                let until =
                    again.map(|(_, until)| run.clock.span(first, *until, *until).1).fold(until, i64::max);
                let granted = signed(granted);
                term.reaches.push(Reach {
                    call: Some(at),
                    began: call.began,
                    ended: Some(call.ended),
                    least: from + granted,
                    most: run.latest_end(call.began, until, granted),
                    ttl: granted,
                });
            }
            Answer::Unknown(_) => term.reaches.push(Reach {
                call: Some(at),
                began: call.began,
                ended: None,
                least: -NEVER,
                most: NEVER,
                ttl: run.granted(signed(ttl)),
            }),
            _ => {}
        }
    }
}
