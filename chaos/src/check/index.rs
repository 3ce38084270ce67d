//! The calls of a resource, to be found by owner and by token.

use std::collections::HashMap;

use super::Of;
use crate::history::{Answer, Ask};

/// Calls by what they are about, in the order in which they began.
#[derive(Default)]
pub(super) struct Index {
    of_owner: HashMap<u64, Vec<usize>>,
    /// Whose answers show a token.
    of_token: HashMap<u64, Vec<usize>>,
    pub(super) revokes: Vec<usize>,
}

impl Index {
    pub(super) fn new(of: &Of<'_>) -> Self {
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

    pub(super) fn by(&self, owner: u64) -> &[usize] {
        self.of_owner.get(&owner).map_or(&[], Vec::as_slice)
    }

    pub(super) fn showing(&self, token: u64) -> &[usize] {
        self.of_token.get(&token).map_or(&[], Vec::as_slice)
    }
}
