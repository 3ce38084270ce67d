//! How leases came to their ends: by what was answered, and by what the store remembers.

use std::collections::BTreeMap;

use super::index::Index;
use super::terms::{Terms, Vacate};
use super::{Found, Kind, Of, Run, show};
use crate::history::{Answer, Ask, How};

/// How each lease was given back, if it was.
pub(super) fn vacates(run: &Run, of: &Of<'_>, index: &Index, terms: &mut Terms, found: &mut Found) {
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
                (Some(how), _)
                    if matches!(call.ask, Ask::Withdraw { .. }) && run.came_twice(call.began, call.ended) =>
                {
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
pub(super) fn remembered(run: &Run, of: &Of<'_>, terms: &Terms, found: &mut Found) {
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
