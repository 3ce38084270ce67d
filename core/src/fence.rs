//! The mark at the resource.

use crate::FencingToken;

/// Refuses any token smaller than the greatest it has seen.
///
/// It stands where the write is: beside the file, in the row, in the same transaction. It says nothing of expiry or
/// ownership, and it believes the token that it is shown: it orders honest writers, it does not authenticate them.
///
/// ```
/// use lease_machines::{Fence, FencingToken};
/// let token = |n| FencingToken::new(n).unwrap();
/// let mut fence = Fence::new(None);
/// assert!(fence.accept(token(1)));
/// assert!(fence.accept(token(2)));
/// assert!(fence.accept(token(2))); // its holder may write as often as it likes
/// assert!(!fence.accept(token(1)));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Fence {
    highest: Option<FencingToken>,
}

impl Fence {
    /// Starts at a mark that was kept, or with none at a resource that no fenced write has reached yet.
    #[must_use]
    pub const fn new(highest: Option<FencingToken>) -> Self {
        Self { highest }
    }

    /// Whether `token` may write; if so, every smaller one is refused from now on.
    ///
    /// Make the raised mark durable together with the write that it lets through: a mark that is lost on restart
    /// lets the old holder in again.
    #[must_use]
    pub fn accept(&mut self, token: FencingToken) -> bool {
        let accepted = self.would_accept(token);
        if accepted {
            self.highest = Some(token);
        }
        accepted
    }

    /// What [`accept`](Self::accept) would say, without raising the mark. A hint only: the answer can be out of date
    /// before it is used.
    #[must_use]
    pub fn would_accept(&self, token: FencingToken) -> bool {
        self.highest.is_none_or(|highest| token >= highest)
    }

    /// The greatest token accepted so far.
    #[must_use]
    pub const fn highest(&self) -> Option<FencingToken> {
        self.highest
    }
}
