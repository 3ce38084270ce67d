//! Every rule of the fence, by name.

mod support;

use std::collections::HashSet;

use lease_machines::{Decision, Fence, FencingToken, LeaseAuthority};
use support::{ALICE, BOB, secs, take, token};

#[test]
fn accepts_anything_where_nothing_was_written_yet() {
    for first in [1, 2, u64::MAX] {
        let mut fence = Fence::new(None);
        assert!(fence.would_accept(token(first)));
        assert!(fence.accept(token(first)));
        assert_eq!(fence.highest(), Some(token(first)));
    }
}

#[test]
fn refuses_a_smaller_token_and_keeps_its_mark() {
    let mut fence = Fence::new(None);
    assert!(fence.accept(token(1)));
    assert!(fence.accept(token(2)));
    assert!(!fence.accept(token(1)));
    assert_eq!(fence.highest(), Some(token(2)));
}

#[test]
fn accepts_the_token_at_the_mark_again_and_again() {
    let mut fence = Fence::new(None);
    for _ in 0..3 {
        assert!(fence.accept(token(7)));
    }
    assert_eq!(fence.highest(), Some(token(7)));
}

#[test]
fn started_at_a_mark_accepts_it_and_refuses_what_lies_below() {
    let mut fence = Fence::new(Some(token(2)));
    assert_eq!(fence.highest(), Some(token(2)));
    assert!(!fence.accept(token(1)));
    assert!(fence.accept(token(2)));
}

#[test]
fn tells_neighbouring_tokens_apart_over_the_whole_range() {
    for mark in [2, u64::from(u32::MAX), 1 << 53, 1 << 63, u64::MAX] {
        let mut fence = Fence::new(Some(token(mark)));
        assert!(!fence.accept(token(mark - 1)), "{mark}");
        assert!(fence.accept(token(mark)), "{mark}");
        if let Some(next) = token(mark).next() {
            assert!(fence.accept(next), "{mark}");
            assert!(!fence.accept(token(mark)), "{mark}");
        }
    }
}

#[test]
fn asked_what_it_would_accept_does_not_raise_its_mark() {
    let fence = Fence::new(Some(token(3)));
    assert!(fence.would_accept(token(9)));
    assert!(fence.would_accept(token(3)));
    assert!(!fence.would_accept(token(2)));
    assert_eq!(fence.highest(), Some(token(3)));
}

#[test]
fn accepts_what_it_said_it_would_and_nothing_else() {
    for mark in 1..=5 {
        for asked in 1..=6 {
            let mut fence = Fence::new(Some(token(mark)));
            let said = fence.would_accept(token(asked));
            assert_eq!(fence.accept(token(asked)), said);
            assert_eq!(fence.highest(), Some(token(mark.max(asked))));
        }
    }
}

#[test]
fn carried_elsewhere_by_its_mark_goes_on_refusing() {
    let mut fence = Fence::new(None);
    assert!(fence.accept(token(5)));
    let mut moved = Fence::new(fence.highest());
    assert_eq!(moved, fence);
    assert!(!moved.accept(token(4)));
}

#[test]
fn told_of_a_revoked_lease_refuses_its_holder_before_anyone_else_has_written() {
    let mut authority = LeaseAuthority::new();
    let mut fence = Fence::new(None);
    let old = take(&mut authority, ALICE, secs(0), secs(60));
    assert!(fence.accept(old.token()));
    let burnt = authority.revoke(Some(old.token()), secs(1)).expect("a token to burn");
    assert!(fence.accept(burnt));
    assert!(!fence.accept(old.token()));
    let Decision::Granted(next) = authority.acquire(BOB, secs(1), secs(60)) else { panic!("no grant") };
    assert!(fence.accept(next.token()));
}

/// etcd-io/etcd#10811 and apache/curator#727: a paused holder went on writing beside its successor. The successor
/// advances the mark before it does anything else, so the first one is refused even before the second has written.
#[test]
fn a_holder_that_overslept_is_refused_as_soon_as_its_successor_has_advanced_the_mark() {
    let mut authority = LeaseAuthority::new();
    let mut fence = Fence::new(None);
    let first = take(&mut authority, ALICE, secs(0), secs(2));
    assert!(fence.accept(first.token()));
    let second = take(&mut authority, BOB, secs(2), secs(2));
    assert!(fence.accept(second.token()));
    assert!(!fence.accept(first.token()));
}

#[test]
fn a_token_is_never_zero() {
    assert_eq!(FencingToken::new(0), None);
    assert_eq!(FencingToken::new(1), Some(FencingToken::FIRST));
    assert_eq!(token(u64::MAX).value(), u64::MAX);
}

#[test]
fn a_token_has_a_next_one_until_the_last() {
    assert_eq!(FencingToken::FIRST.next(), Some(token(2)));
    assert_eq!(token(u64::MAX - 1).next(), Some(token(u64::MAX)));
    assert_eq!(token(u64::MAX).next(), None);
}

#[test]
fn tokens_are_ordered_by_their_number() {
    assert!(token(1) < token(2));
    assert!(token(u64::MAX) > token(u64::MAX - 1));
    assert_eq!(token(3).max(token(2)), token(3));
}

#[test]
fn a_token_costs_no_more_than_its_number_even_where_it_may_be_missing() {
    assert_eq!(size_of::<Option<FencingToken>>(), 8);
    assert_eq!(size_of::<Fence>(), 8);
}

#[test]
fn a_fence_is_a_value() {
    let mut marks = HashSet::from([Fence::new(None), Fence::default(), Fence::new(Some(token(1)))]);
    assert_eq!(marks.len(), 2);
    assert!(marks.remove(&Fence::new(Some(token(1))).clone()));
    assert!(format!("{:?}", Fence::new(Some(token(12)))).contains("12"));
}
