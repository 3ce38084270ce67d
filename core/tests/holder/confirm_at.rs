//! An answer to a renewal, as a runtime sees it.

use super::*;

#[test]
fn counts_from_the_request() {
    let mut holder = holder();
    assert!(holder.refresh(secs(10)));
    assert!(holder.confirm_at(token(1), secs(10), secs(30), secs(14)));
    assert_eq!((holder.state(), holder.confirmed_at()), (Confirmed, secs(10)));
    assert_eq!(holder.stop_deadline(), Some(secs(40)));
}

#[test]
fn counts_for_the_shorter_of_asked_and_granted() {
    let mut shorter = holder();
    assert!(shorter.confirm_at(token(1), secs(10), secs(6), secs(10)));
    assert_eq!(shorter.stop_deadline(), Some(secs(16)));
    assert_eq!(shorter.renewal_at(), Some(secs(12)));
    assert_eq!(shorter.warning_deadline(), Some(secs(15)));
    let mut longer = holder();
    assert!(longer.confirm_at(token(1), secs(10), secs(60), secs(10)));
    assert_eq!(longer.stop_deadline(), Some(secs(40)));
    // And the next full grant is counted in full again.
    assert!(shorter.confirm_at(token(1), secs(12), secs(30), secs(12)));
    assert_eq!(shorter.stop_deadline(), Some(secs(42)));
    assert_eq!(shorter.renewal_at(), Some(secs(22)));
}

#[test]
fn that_arrives_at_the_deadline_held_until_then_revives_nobody() {
    let mut late = holder();
    assert!(late.refresh(secs(29)));
    assert!(!late.confirm_at(token(1), secs(29), secs(30), secs(30)));
    assert_eq!((late.state(), late.token()), (Expired, token(1)));
    let mut just = holder();
    assert!(just.confirm_at(token(1), secs(29), secs(30), secs(30) - TICK));
    assert_eq!(just.state(), Confirmed);
}

#[test]
fn that_arrives_at_its_own_new_deadline_revives_nobody() {
    let mut late = holder();
    assert!(!late.confirm_at(token(1), secs(10), secs(3), secs(13)));
    assert_eq!(late.state(), Expired);
    let mut just = holder();
    assert!(just.confirm_at(token(1), secs(10), secs(3), secs(13) - TICK));
}

#[test]
fn under_an_older_token_is_ignored() {
    let mut holder = Holder::new(token(2), secs(0), cadence());
    let before = holder.clone();
    assert!(!holder.confirm_at(token(1), secs(10), secs(30), secs(11)));
    assert_eq!(holder, before);
}

#[test]
fn under_an_older_token_still_lets_the_clock_have_its_say() {
    let mut holder = Holder::new(token(2), secs(0), cadence());
    assert!(!holder.confirm_at(token(1), secs(10), secs(30), secs(30)));
    assert_eq!(holder.state(), Expired);
}

#[test]
fn overtaken_by_a_later_one_moves_nothing() {
    let mut holder = holder();
    assert!(holder.confirm_at(token(1), secs(12), secs(30), secs(13)));
    assert!(holder.confirm_at(token(1), secs(5), secs(1), secs(14)));
    assert_eq!((holder.confirmed_at(), holder.stop_deadline()), (secs(12), Some(secs(42))));
}

#[test]
fn of_the_same_request_twice_is_one_confirmation() {
    let mut holder = holder();
    assert!(holder.confirm_at(token(1), secs(12), secs(30), secs(13)));
    let once = holder.clone();
    assert!(holder.confirm_at(token(1), secs(12), secs(30), secs(20)));
    assert_eq!(holder, once);
}

#[test]
fn of_a_newer_token_sent_earlier_takes_its_term_on_and_moves_nothing_backwards() {
    let mut holder = holder();
    assert!(holder.confirm_at(token(1), secs(12), secs(30), secs(13)));
    assert!(holder.confirm_at(token(2), secs(11), secs(3), secs(13)));
    assert_eq!((holder.token(), holder.confirmed_at()), (token(2), secs(12)));
    assert_eq!(holder.stop_deadline(), Some(secs(15)));
}

#[test]
fn by_a_request_from_the_future_counts_from_now() {
    let mut holder = holder();
    assert!(holder.confirm_at(token(1), secs(500), secs(30), secs(12)));
    assert_eq!(holder.confirmed_at(), secs(12));
}

#[test]
fn once_expired_or_fenced_is_false_and_changes_nothing() {
    for over in [expired(), fenced()] {
        let mut holder = over.clone();
        assert!(!holder.confirm_at(token(9), secs(1), secs(30), secs(1)));
        assert_eq!(holder, over);
    }
}
