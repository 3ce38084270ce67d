//! The guarded writes of one resource.

use std::collections::HashMap;

use super::{Found, Kind, Of, show};
use crate::history::{Answer, Ask, Call};

pub(super) fn check(of: &Of<'_>, found: &mut Found) {
    let mut written = of.written.clone();
    written.sort_by_key(|written| (written.n, written.token));
    let mut calls: HashMap<u64, &Call> = HashMap::new();
    for call in &of.calls {
        if let Ask::Write { id, .. } = call.ask {
            calls.insert(id, call);
        }
    }
    for (at, one) in written.iter().enumerate() {
        if one.n != at as u64 + 1 {
            let text =
                format!("write {} of token {} counted {}, expected {}", one.id, one.token, one.n, at + 1);
            found.push((Kind::FenceInterleaved, text));
            break;
        }
    }
    for pair in written.windows(2) {
        if pair[1].token < pair[0].token {
            let text = format!(
                "write {} under {} after write {} under {}",
                pair[1].id, pair[1].token, pair[0].id, pair[0].token
            );
            found.push((Kind::FenceOrder, text));
        }
    }
    // Whether each was to be there, and the order in which they were seen to begin and end.
    let mut latest_began: Option<&Call> = None;
    for one in &written {
        let Some(call) = calls.remove(&one.id) else {
            found.push((Kind::Phantom, format!("write {} is there more than once, or nobody's", one.id)));
            continue;
        };
        if !matches!(call.answer, Answer::Passed | Answer::Unknown(_)) {
            found.push((Kind::Phantom, format!("it is there: {}", show(call))));
        }
        if let Some(latest) =
            latest_began.filter(|latest| call.answer == Answer::Passed && call.ended < latest.began)
        {
            found.push((Kind::OutOfOrder, format!("written after {}: {}", show(latest), show(call))));
        }
        if latest_began.is_none_or(|latest| latest.began < call.began) {
            latest_began = Some(call);
        }
    }
    for call in calls.values().filter(|call| call.answer == Answer::Passed) {
        found.push((Kind::Lost, format!("it is not there: {}", show(call))));
    }
    passes(of, found);
}

/// Whoever passed under a newer token keeps out whoever begins later under an older one, also where nothing was written.
fn passes(of: &Of<'_>, found: &mut Found) {
    let token = |call: &Call| match call.ask {
        Ask::Advance { token, .. } | Ask::Write { token, .. } => Some(token),
        _ => None,
    };
    let passed: Vec<&&Call> =
        of.calls.iter().filter(|call| token(call).is_some() && call.answer == Answer::Passed).collect();
    let mut by_end = passed.clone();
    by_end.sort_by_key(|call| call.ended);
    let mut ended = by_end.into_iter().peekable();
    let mut highest: Option<&Call> = None;
    for call in passed {
        while let Some(earlier) = ended.next_if(|earlier| earlier.ended < call.began) {
            if highest.and_then(token) < token(earlier) {
                highest = Some(earlier);
            }
        }
        if let Some(highest) = highest.filter(|highest| token(highest) > token(call)) {
            found.push((Kind::FenceOrder, format!("it passed after {}: {}", show(highest), show(call))));
        }
    }
}
