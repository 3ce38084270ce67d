//! The grants and revokes of a resource, in the order of their tokens.

use std::collections::{BTreeMap, HashMap};

use super::clock::{Instant, NEVER, signed};
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
}

/// What is known of a token before anything is concluded.
#[derive(Default)]
struct Seen {
    owners: Vec<u64>,
    is_burn: bool,
    answered: Vec<usize>,
    outcome: Option<String>,
}

/// Calls by what they are about, in the order in which they began.
#[derive(Default)]
struct Index {
    of_owner: HashMap<u64, Vec<usize>>,
    /// Whose answers show a token.
    of_token: HashMap<u64, Vec<usize>>,
    revokes: Vec<usize>,
}

impl Index {
    fn new(of: &Of<'_>) -> Self {
        let mut index = Self::default();
        for (at, call) in of.calls.iter().enumerate() {
            match call.ask {
                Ask::Acquire { owner, .. }
                | Ask::Renew { owner, .. }
                | Ask::Release { owner, .. }
                | Ask::Withdraw { owner } => index.of_owner.entry(owner).or_default().push(at),
                Ask::Revoke { .. } => index.revokes.push(at),
                Ask::Advance { .. } | Ask::Write { .. } => {}
            }
            let shown = match (&call.ask, &call.answer) {
                (_, Answer::Granted { token, .. } | Answer::Burnt { token }) => *token,
                (Ask::Renew { token, .. }, Answer::Renewed { .. }) => *token,
                (_, Answer::Rejected { holder: Some(holder), .. }) => holder.token,
                _ => continue,
            };
            index.of_token.entry(shown).or_default().push(at);
        }
        index
    }

    fn by(&self, owner: u64) -> &[usize] {
        self.of_owner.get(&owner).map_or(&[], Vec::as_slice)
    }

    fn showing(&self, token: u64) -> &[usize] {
        self.of_token.get(&token).map_or(&[], Vec::as_slice)
    }
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
    let mut terms = Terms { all };
    vacates(run, of, &index, &mut terms, found);
    remembered(run, of, &terms, found);
    terms
}

/// Tokens that only a revoke whose answer was lost explains: those that broke a lease, and, where tokens are numbered one
/// after the other, those that are missing.
fn add_burns(run: &Run, of: &Of<'_>, seen: &mut BTreeMap<u64, Seen>) {
    if of.holds.is_none() || !run.dense {
        return;
    }
    let tokens: Vec<u64> = seen.keys().copied().collect();
    let burn = || Seen { is_burn: true, ..Seen::default() };
    for pair in tokens.windows(2) {
        for missing in (pair[0] + 1..pair[1]).take(1000) {
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
        let is_unknown = matches!(of.calls[at].answer, Answer::Unknown(_)) || run.came_twice(of.calls[at]);
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
        narrow(run, of, index, &mut term, found);
        let ttls: Vec<i64> = calls().filter_map(&asked).map(|(_, ttl)| signed(ttl)).collect();
        let (least, most) =
            (ttls.iter().min().copied().unwrap_or(0), ttls.iter().max().copied().unwrap_or(NEVER));
        term.reaches.push(Reach {
            call: None,
            began: 0,
            ended: None,
            least: term.granted.0.saturating_add(least),
            most: term.granted.1.saturating_add(most),
            ttl: most,
        });
        renewals(run, of, index, first, &mut term);
    }
    term
}

/// A refusal says how long ago the lease was granted: by that, both were decided within their calls, or not.
fn narrow(run: &Run, of: &Of<'_>, index: &Index, term: &mut Term, found: &mut Found) {
    /// Roundings, and what two clocks of one machine can drift apart during a lease.
    const SLACK: i64 = 3_000_000;
    let Some(last) = of.calls.last() else { return };
    if !run.clock.is_steady(last.ended) {
        return;
    }
    for &at in index.showing(term.token) {
        let call = of.calls[at];
        let Answer::Rejected { holder: Some(holder), .. } = &call.answer else { continue };
        let least = signed(call.began) - signed(holder.held) - SLACK;
        let most = signed(call.ended) - signed(holder.held) + SLACK;
        if least > term.granted.1 || most < term.granted.0 {
            let text = format!(
                "held for {} us by a grant that was made between {} and {} ms before: {}",
                holder.held / 1000,
                (signed(call.began) - term.granted.1) / 1_000_000,
                (signed(call.ended) - term.granted.0) / 1_000_000,
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
                    most: until + granted,
                    ttl: granted,
                });
            }
            Answer::Unknown(_) => term.reaches.push(Reach {
                call: Some(at),
                began: call.began,
                ended: None,
                least: -NEVER,
                most: NEVER,
                ttl: signed(ttl),
            }),
            _ => {}
        }
    }
}

/// How each lease was given back, if it was.
fn vacates(run: &Run, of: &Of<'_>, index: &Index, terms: &mut Terms, found: &mut Found) {
    let mut shown: BTreeMap<u64, How> = BTreeMap::new();
    for call in &of.calls {
        match (&call.ask, &call.answer) {
            (_, Answer::Rejected { vacated: Some(vacated), .. }) => {
                shown.insert(vacated.token, vacated.how);
            }
            (Ask::Release { token, .. }, Answer::AlreadyReleased) => {
                shown.insert(*token, How::Released);
            }
            _ => {}
        }
    }
    // The leases of an owner follow each other: what it withdrew, or was told it had vacated, is the last.
    let mut last_of: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, term) in terms.all.iter().enumerate().filter(|(_, term)| !term.is_burn) {
        last_of.insert(term.owner, index);
    }
    for number in 0..terms.all.len() {
        let term = &terms.all[number];
        if term.is_burn {
            continue;
        }
        let is_last = last_of.get(&term.owner) == Some(&number);
        let how = |ask: &Ask| match *ask {
            Ask::Acquire { owner, .. } if owner == term.owner => Some(How::Withdrawn),
            Ask::Release { owner, token } if (owner, token) == (term.owner, term.token) => {
                Some(How::Released)
            }
            Ask::Withdraw { owner } if owner == term.owner && is_last => Some(How::Withdrawn),
            _ => None,
        };
        let mut known: Vec<usize> = Vec::new();
        let mut maybe: Vec<(usize, How)> = Vec::new();
        for &at in index.by(term.owner) {
            let call = of.calls[at];
            match (how(&call.ask), &call.answer) {
                (Some(_), Answer::Released) => known.push(at),
                (Some(how), Answer::Unknown(_))
                    if run.takes_back || !matches!(call.ask, Ask::Acquire { .. }) =>
                {
                    maybe.push((at, how));
                }
                (Some(how), _) if matches!(call.ask, Ask::Withdraw { .. }) && run.came_twice(call) => {
                    maybe.push((at, how));
                }
                _ => {}
            }
        }
        if let [one, other, ..] = known[..] {
            let text = format!("released twice: {}; {}", show(of.calls[one]), show(of.calls[other]));
            found.push((Kind::NotAsCore, text));
        }
        let remembered = match term.outcome.as_deref() {
            Some("Released") => Some(How::Released),
            Some("Withdrawn") => Some(How::Withdrawn),
            _ => None,
        };
        let shown = shown.get(&term.token).copied().filter(|how| *how != How::Revoked);
        let told = remembered.or(shown);
        let vacate = if let Some(&at) = known.first() {
            let how = how(&of.calls[at].ask);
            Some(Vacate { known: Some(at), began: of.calls[at].began, how, is_certain: true })
        } else if told.is_some() {
            maybe.retain(|(_, how)| Some(*how) == told);
            let began = maybe.iter().map(|(at, _)| of.calls[*at].began).min();
            if began.is_none() {
                let text = format!(
                    "token {} (owner {}) was {told:?} by no request that may have been carried out",
                    term.token, term.owner
                );
                found.push((Kind::Phantom, text));
            }
            Some(Vacate { known: None, began: began.unwrap_or(0), how: told, is_certain: true })
        } else if term.outcome.is_none() && !maybe.is_empty() {
            let began = maybe.iter().map(|(at, _)| of.calls[*at].began).min().unwrap_or(0);
            Some(Vacate { known: None, began, how: None, is_certain: false })
        } else {
            None
        };
        terms.all[number].vacated = vacate;
    }
}

/// What was acknowledged has to be what the store remembers.
fn remembered(run: &Run, of: &Of<'_>, terms: &Terms, found: &mut Found) {
    let Some(holds) = of.holds else { return };
    if run.remembers_times {
        let mut holds: Vec<_> = holds.iter().filter(|hold| hold.owner != 0).collect();
        holds.sort_by_key(|hold| hold.token);
        for pair in holds.windows(2).filter(|pair| pair[1].from < pair[0].until) {
            let by = pair[0].until - pair[1].from;
            let text = format!(
                "by the store's own clock, token {} was granted {by} us before the end of {} ({})",
                pair[1].token, pair[0].token, pair[0].outcome
            );
            found.push((Kind::TwoLive, text));
        }
    }
    for term in &terms.all {
        let Some(known) = term.known.filter(|_| !term.is_burn) else { continue };
        let Some(outcome) = &term.outcome else {
            found.push((Kind::Lost, format!("the store does not remember it: {}", show(of.calls[known]))));
            continue;
        };
        if let Some(Vacate { known: Some(at), how: Some(how), .. }) = &term.vacated {
            if *outcome != format!("{how:?}") {
                let text = format!("the store remembers {outcome}: {}", show(of.calls[*at]));
                found.push((Kind::Lost, text));
            }
        }
        if outcome == "EpochLost" {
            let text = format!("token {} was lost to a new epoch, and nothing was wrong", term.token);
            found.push((Kind::FalselyLost, text));
        }
    }
}
