//! An answer to a renewal, for who does not know what time it is.

use super::*;

#[test]
fn counts_anew_from_the_given_instant() {
    let mut holder = holder();
    assert!(holder.refresh(secs(10)) && holder.confirm(token(1), secs(10)));
    assert_eq!((holder.state(), holder.stop_deadline()), (Confirmed, Some(secs(40))));
}

#[test]
fn never_moves_backwards() {
    let mut holder = Holder::new(token(1), secs(10), cadence());
    assert!(holder.confirm(token(1), secs(5)));
    assert_eq!(holder.confirmed_at(), secs(10));
    assert!(holder.confirm(token(2), secs(5)));
    assert_eq!((holder.confirmed_at(), holder.token()), (secs(10), token(2)));
}

#[test]
fn under_an_older_token_is_a_stale_reply_and_ignored() {
    let mut holder = Holder::new(token(2), secs(0), cadence());
    assert!(holder.refresh(secs(10)));
    let before = holder.clone();
    assert!(!holder.confirm(token(1), secs(11)));
    assert_eq!(holder, before);
}

#[test]
fn under_a_newer_token_takes_it_on() {
    let mut holder = holder();
    assert!(holder.confirm(token(5), secs(3)));
    assert_eq!((holder.token(), holder.confirmed_at()), (token(5), secs(3)));
    assert!(!holder.confirm(token(4), secs(4)));
}

#[test]
fn ends_being_at_risk() {
    let mut holder = holder();
    assert!(holder.refresh(secs(26)));
    assert_eq!(holder.state(), AtRisk);
    assert!(holder.confirm(token(1), secs(26)));
    assert_eq!((holder.state(), holder.state_at(secs(27))), (Confirmed, Confirmed));
}

#[test]
fn restores_the_full_ttl_after_a_shorter_grant() {
    let mut holder = Holder::granted(token(1), secs(0), secs(3), secs(0), cadence());
    assert!(holder.confirm(token(1), secs(1)));
    assert_eq!(holder.stop_deadline(), Some(secs(31)));
}

#[test]
fn once_expired_or_fenced_is_false_even_under_a_newer_token() {
    for over in [expired(), fenced()] {
        let mut holder = over.clone();
        assert!(!holder.confirm(token(1), secs(1)));
        assert!(!holder.confirm(token(9), secs(1)));
        assert_eq!(holder, over);
    }
}
