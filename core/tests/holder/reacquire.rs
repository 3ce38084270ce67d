//! Taking a lost lease again.

use super::*;

#[test]
fn recovers_from_expired_with_a_strictly_newer_token() {
    let mut holder = expired();
    assert!(!holder.reacquire(token(1), secs(40)));
    assert_eq!(holder.state(), Expired);
    assert!(holder.reacquire(token(2), secs(40)));
    assert_eq!((holder.state(), holder.token()), (Confirmed, token(2)));
    assert_eq!(holder.stop_deadline(), Some(secs(70)));
}

#[test]
fn of_an_older_token_is_refused() {
    let mut holder = Holder::new(token(5), secs(0), cadence());
    assert!(holder.expire());
    assert!(!holder.reacquire(token(4), secs(40)));
    assert_eq!(holder.token(), token(5));
}

#[test]
fn only_follows_expired() {
    let mut alive = holder();
    assert!(!alive.reacquire(token(2), secs(1)));
    assert_eq!(alive, holder());
    assert!(alive.refresh(secs(1)));
    assert!(!alive.reacquire(token(2), secs(1)));
    let mut terminal = fenced();
    assert!(!terminal.reacquire(token(2), secs(1)));
    assert_eq!(terminal, fenced());
}

#[test]
fn counts_in_full_after_a_shorter_term() {
    let mut holder = Holder::granted(token(1), secs(0), secs(3), secs(0), cadence());
    assert!(holder.expire());
    assert!(holder.reacquire(token(2), secs(40)));
    assert_eq!((holder.stop_deadline(), holder.renewal_at()), (Some(secs(70)), Some(secs(50))));
}

#[test]
fn seen_by_a_runtime_counts_from_the_request_for_the_shorter_term() {
    let mut holder = expired();
    assert!(holder.reacquire_at(token(2), secs(40), secs(3), secs(41)));
    assert_eq!((holder.confirmed_at(), holder.stop_deadline()), (secs(40), Some(secs(43))));
    assert_eq!(holder.renewal_at(), Some(secs(41)));
}

#[test]
fn seen_by_a_runtime_follows_an_expiry_that_nobody_recorded() {
    let mut holder = holder();
    assert!(holder.reacquire_at(token(2), secs(30), secs(30), secs(30)));
    assert_eq!((holder.state(), holder.stop_deadline()), (Confirmed, Some(secs(60))));
}

#[test]
fn seen_by_a_runtime_before_the_deadline_is_refused() {
    let mut alive = holder();
    assert!(!alive.reacquire_at(token(2), secs(29), secs(30), secs(30) - TICK));
    assert_eq!(alive, holder());
}

#[test]
fn answered_too_late_stays_expired_under_the_newer_token() {
    let mut holder = expired();
    assert!(!holder.reacquire_at(token(2), secs(40), secs(3), secs(43)));
    assert_eq!((holder.state(), holder.token()), (Expired, token(2)));
    assert!(!holder.reacquire(token(2), secs(50)));
    assert!(holder.reacquire(token(3), secs(50)));
}

#[test]
fn by_a_request_from_the_future_counts_from_now() {
    let mut holder = expired();
    assert!(holder.reacquire_at(token(2), secs(400), secs(30), secs(41)));
    assert_eq!(holder.confirmed_at(), secs(41));
}

#[test]
fn never_follows_the_fence() {
    let mut holder = fenced();
    assert!(!holder.reacquire_at(token(2), secs(40), secs(30), secs(40)));
    assert_eq!(holder, fenced());
}

#[test]
fn under_the_same_token_never_brings_a_lease_back() {
    let mut holder = expired();
    assert!(!holder.reacquire_at(token(1), secs(40), secs(30), secs(40)));
    assert_eq!(holder, expired());
}
