//! A first grant, as a runtime sees it.

use super::*;

#[test]
fn counts_from_the_request_not_from_the_answer() {
    let holder = Holder::granted(token(1), secs(1), secs(30), secs(8), cadence());
    assert_eq!((holder.state(), holder.confirmed_at()), (Confirmed, secs(1)));
    assert_eq!(holder.stop_deadline(), Some(secs(31)));
}

#[test]
fn for_longer_than_was_asked_counts_as_asked() {
    let holder = Holder::granted(token(1), secs(1), secs(99), secs(1), cadence());
    assert_eq!(holder.stop_deadline(), Some(secs(31)));
    assert_eq!(holder.renewal_at(), Some(secs(11)));
}

/// etcd-io/etcd#14857: the server granted another ttl than was asked for; the granted one counts.
#[test]
fn for_less_than_was_asked_counts_as_granted_with_everything_in_proportion() {
    let holder = Holder::granted(token(1), secs(0), secs(3), secs(0), cadence());
    assert_eq!(holder.renewal_at(), Some(secs(1)));
    assert_eq!(holder.warning_deadline(), Some(millis(2500)));
    assert_eq!(holder.stop_deadline(), Some(secs(3)));
    assert!(holder.may_act(secs(3) - TICK) && !holder.may_act(secs(3)));
}

#[test]
fn and_answered_too_late_is_expired_from_the_start() {
    let late = Holder::granted(token(1), secs(0), secs(30), secs(30), cadence());
    assert_eq!((late.state(), late.may_act(secs(0))), (Expired, false));
    let just = Holder::granted(token(1), secs(0), secs(30), secs(30) - TICK, cadence());
    assert_eq!((just.state(), just.may_act(secs(30) - TICK)), (Confirmed, true));
    let short = Holder::granted(token(1), secs(0), secs(2), secs(2), cadence());
    assert_eq!(short.state(), Expired);
}

#[test]
fn for_nothing_is_expired_from_the_start() {
    let holder = Holder::granted(token(1), secs(0), Duration::ZERO, secs(0), cadence());
    assert_eq!((holder.state(), holder.stop_deadline()), (Expired, None));
}

#[test]
fn by_a_request_from_the_future_counts_from_now() {
    let holder = Holder::granted(token(1), secs(100), secs(30), secs(1), cadence());
    assert_eq!(holder.stop_deadline(), Some(secs(31)));
}

#[test]
fn for_a_term_too_short_to_divide_is_due_at_once() {
    let holder = Holder::granted(token(1), secs(0), TICK, secs(0), cadence());
    assert!(holder.may_act(secs(0)) && holder.renewal_due(secs(0)));
    assert_eq!(holder.stop_deadline(), Some(TICK));
}

#[test]
fn keeps_the_proportions_over_the_whole_range_of_time() {
    let year = secs(31_557_600);
    for (ttl, renew, warn, term) in [
        (Duration::MAX, Duration::MAX / 3, Duration::MAX / 6, Duration::MAX / 2),
        (year * 1000, year * 900, year * 100, year * 600),
        (year * 100_000, year * 50_000, year * 10, year * 99_999),
        (Duration::MAX, TICK, Duration::MAX - TICK, Duration::MAX - TICK),
        (Duration::MAX, Duration::MAX - TICK, TICK, secs(1)),
    ] {
        let cadence = Cadence::new(ttl, renew, warn).expect("a sound cadence");
        let holder = Holder::granted(token(1), secs(0), term, secs(0), cadence);
        let due = holder.renewal_at().expect("it lives");
        let warned = holder.warning_deadline().expect("it lives");
        assert_eq!(holder.stop_deadline(), Some(term));
        assert!(due < term, "due at {due:?} of {term:?}");
        let expected = |part: Duration| part.as_secs_f64() * (term.as_secs_f64() / ttl.as_secs_f64());
        assert!((due.as_secs_f64() - expected(renew)).abs() <= expected(renew) * 1e-9 + 1e-8);
        let lead = (term - warned).as_secs_f64();
        assert!((lead - expected(warn)).abs() <= expected(warn) * 1e-9 + 1e-8, "warned {lead} s before");
    }
}
