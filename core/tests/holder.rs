//! Every rule of the holder, by name.

mod support;

use core::time::Duration;

use lease_machines::{
    Cadence, Holder,
    HolderState::{AtRisk, Confirmed, Expired, Fenced, Unconfirmed},
};
use support::{TICK, millis, secs, token};

/// A ttl of 30 s, renewed every 10 s, at risk 5 s before the end.
fn cadence() -> Cadence {
    Cadence::new(secs(30), secs(10), secs(5)).expect("a sound cadence")
}

/// Token 1, counted from 0: due at 10, at risk at 25, over at 30.
fn holder() -> Holder {
    Holder::new(token(1), secs(0), cadence())
}

fn expired() -> Holder {
    let mut holder = holder();
    assert!(holder.expire());
    holder
}

fn fenced() -> Holder {
    let mut holder = holder();
    holder.fence();
    holder
}

#[test]
fn the_walk_through() {
    let mut holder = holder();
    assert!(holder.renewal_due(secs(10)));
    assert!(!holder.renewal_due(secs(9)));
    assert!(holder.refresh(secs(10)));
    assert_eq!(holder.state(), Unconfirmed);
    assert!(holder.confirm(token(1), secs(11)));
    assert_eq!(holder.state(), Confirmed);
    assert!(holder.at_risk(secs(36)));
    assert!(!holder.at_risk(secs(35)));
    assert!(holder.expire());
    assert!(holder.reacquire(token(2), secs(40)));
    assert_eq!(holder.state(), Confirmed);
    holder.fence();
    assert_eq!(holder.warning_deadline(), None);
}

mod a_cadence {
    use super::*;

    #[test]
    fn keeps_its_three_times() {
        assert_eq!(cadence().ttl(), secs(30));
        assert_eq!(cadence().renew_every(), secs(10));
        assert_eq!(cadence().warn_before(), secs(5));
    }

    #[test]
    fn has_no_zero_in_it() {
        assert_eq!(Cadence::new(secs(30), Duration::ZERO, secs(5)), None);
        assert_eq!(Cadence::new(secs(30), secs(10), Duration::ZERO), None);
        assert_eq!(Cadence::new(Duration::ZERO, secs(10), secs(5)), None);
        assert_eq!(Cadence::new(Duration::ZERO, Duration::ZERO, Duration::ZERO), None);
    }

    #[test]
    fn renews_and_warns_strictly_before_the_ttl_is_over() {
        assert_eq!(Cadence::new(secs(30), secs(30), secs(5)), None);
        assert_eq!(Cadence::new(secs(30), secs(10), secs(30)), None);
        assert!(Cadence::new(secs(30), secs(30) - TICK, secs(30) - TICK).is_some());
        assert!(Cadence::new(TICK * 2, TICK, TICK).is_some());
        assert_eq!(Cadence::new(TICK, TICK, TICK), None);
        assert!(Cadence::new(Duration::MAX, Duration::MAX - TICK, TICK).is_some());
    }
}

mod a_new_holder {
    use super::*;

    #[test]
    fn is_confirmed_from_the_instant_it_was_told() {
        let holder = Holder::new(token(9), secs(3), cadence());
        assert_eq!((holder.state(), holder.token(), holder.confirmed_at()), (Confirmed, token(9), secs(3)));
        assert_eq!(holder.renewal_at(), Some(secs(13)));
        assert_eq!(holder.warning_deadline(), Some(secs(28)));
        assert_eq!(holder.stop_deadline(), Some(secs(33)));
    }

    #[test]
    fn stops_at_the_end_of_time_where_its_deadline_would_lie_beyond() {
        let holder = Holder::new(token(1), Duration::MAX - secs(1), cadence());
        assert_eq!(holder.stop_deadline(), Some(Duration::MAX));
        assert!(holder.may_act(Duration::MAX - TICK));
        assert!(!holder.may_act(Duration::MAX));
        assert_eq!(holder.warning_deadline(), Some(Duration::MAX));
        assert_eq!(holder.renewal_at(), Some(Duration::MAX));
    }
}

mod granted {
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
}

mod renewal_due {
    use super::*;

    #[test]
    fn from_confirmed_at_plus_renew_every_on() {
        let holder = Holder::new(token(1), secs(7), cadence());
        assert!(!holder.renewal_due(secs(17) - TICK));
        assert!(holder.renewal_due(secs(17)));
        assert!(holder.renewal_due(secs(37) - TICK));
        assert_eq!(holder.renewal_at(), Some(secs(17)));
    }

    #[test]
    fn at_any_time_while_one_is_outstanding() {
        let mut holder = holder();
        assert!(holder.refresh(secs(1)));
        assert!(holder.renewal_due(secs(1)));
        assert!(holder.renewal_due(secs(0)));
        assert!(holder.confirm_at(token(1), secs(1), secs(30), secs(2)));
        assert!(!holder.renewal_due(secs(2)));
    }

    #[test]
    fn while_one_sent_at_risk_is_outstanding() {
        let mut holder = holder();
        assert!(holder.refresh(secs(26)));
        assert_eq!(holder.state(), AtRisk);
        assert!(holder.renewal_due(secs(0)) && holder.renewal_due(secs(27)));
    }

    #[test]
    fn never_once_the_clock_has_passed_the_stop_deadline() {
        let mut holder = holder();
        assert!(!holder.renewal_due(secs(30)));
        assert!(holder.refresh(secs(1)));
        assert!(!holder.renewal_due(secs(30)));
    }

    #[test]
    fn never_once_expired_or_fenced() {
        for holder in [expired(), fenced()] {
            assert!(!holder.renewal_due(secs(20)));
            assert_eq!(holder.renewal_at(), None);
        }
    }
}

mod refresh {
    use super::*;

    #[test]
    fn begins_an_attempt() {
        let mut holder = holder();
        assert!(holder.refresh(secs(10)));
        assert_eq!((holder.state(), holder.state_at(secs(10))), (Unconfirmed, Unconfirmed));
    }

    #[test]
    fn from_the_warning_deadline_on_is_at_risk() {
        let mut early = holder();
        assert!(early.refresh(secs(25) - TICK));
        assert_eq!(early.state(), Unconfirmed);
        let mut late = holder();
        assert!(late.refresh(secs(25)));
        assert_eq!(late.state(), AtRisk);
        assert!(early.refresh(secs(25)), "a second attempt while the first is outstanding");
        assert_eq!(early.state(), AtRisk);
    }

    #[test]
    fn moves_no_deadline() {
        let mut refreshed = holder();
        assert!(refreshed.refresh(secs(10)));
        assert_eq!(refreshed.stop_deadline(), holder().stop_deadline());
        assert_eq!(refreshed.warning_deadline(), holder().warning_deadline());
    }

    #[test]
    fn from_the_stop_deadline_on_is_false_and_expires() {
        let mut just = holder();
        assert!(just.refresh(secs(30) - TICK));
        let mut late = holder();
        assert!(!late.refresh(secs(30)));
        assert_eq!(late.state(), Expired);
    }

    #[test]
    fn once_expired_or_fenced_is_false_and_changes_nothing() {
        for over in [expired(), fenced()] {
            let mut holder = over.clone();
            assert!(!holder.refresh(secs(1)));
            assert_eq!(holder, over);
        }
    }
}

mod confirm {
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
}

mod confirm_at {
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
}

mod state_at {
    use super::*;

    #[test]
    fn says_what_was_recorded_while_there_is_time() {
        let mut holder = holder();
        assert_eq!(holder.state_at(secs(0)), Confirmed);
        assert_eq!(holder.state_at(secs(25) - TICK), Confirmed);
        assert!(holder.refresh(secs(1)));
        assert_eq!(holder.state_at(secs(24)), Unconfirmed);
    }

    #[test]
    fn is_at_risk_from_the_warning_deadline_on() {
        let mut holder = holder();
        assert_eq!(holder.state_at(secs(25)), AtRisk);
        assert!(holder.refresh(secs(1)));
        assert_eq!(holder.state_at(secs(30) - TICK), AtRisk);
    }

    /// rust-lang/rust#87906 and cirello-io/dynamolock#446: a machine that slept, or a store that swallowed every
    /// packet, left the holder believing. The local clock alone says at risk, then expired.
    #[test]
    fn is_expired_from_the_stop_deadline_on_whatever_was_recorded() {
        let mut outstanding = holder();
        assert!(outstanding.refresh(secs(1)));
        for holder in [holder(), outstanding] {
            assert_eq!(holder.state_at(secs(30)), Expired);
            assert_eq!(holder.state_at(Duration::MAX), Expired);
            assert_ne!(holder.state(), Expired);
        }
    }

    #[test]
    fn once_expired_or_fenced_is_that_at_any_time() {
        for now in [secs(0), secs(29), secs(30), Duration::MAX] {
            assert_eq!(expired().state_at(now), Expired);
            assert_eq!(fenced().state_at(now), Fenced);
        }
    }
}

mod deadlines {
    use super::*;

    #[test]
    fn at_risk_lies_between_warning_and_stop() {
        let holder = holder();
        assert!(!holder.at_risk(secs(25) - TICK));
        assert!(holder.at_risk(secs(25)));
        assert!(holder.at_risk(secs(30) - TICK));
        assert!(!holder.at_risk(secs(30)), "it is expired then, not at risk");
    }

    #[test]
    fn acting_ends_at_the_stop_deadline_itself() {
        let holder = holder();
        assert!(holder.may_act(secs(0)));
        assert!(holder.may_act(secs(30) - TICK));
        assert!(!holder.may_act(secs(30)));
    }

    #[test]
    fn acting_goes_on_while_unconfirmed_and_at_risk() {
        let mut holder = holder();
        assert!(holder.refresh(secs(1)));
        assert!(holder.may_act(secs(24)));
        assert!(holder.refresh(secs(26)));
        assert!(holder.may_act(secs(29)));
    }

    #[test]
    fn there_are_none_once_expired_or_fenced() {
        for holder in [expired(), fenced()] {
            assert_eq!((holder.warning_deadline(), holder.stop_deadline()), (None, None));
            assert!(!holder.at_risk(secs(26)) && !holder.may_act(secs(0)));
        }
    }
}

mod expire {
    use super::*;

    #[test]
    fn is_news_once() {
        let mut holder = holder();
        assert!(holder.expire());
        assert_eq!(holder.state(), Expired);
        assert!(!holder.expire());
    }

    #[test]
    fn does_not_undo_the_fence() {
        let mut holder = fenced();
        assert!(!holder.expire());
        assert_eq!(holder.state(), Fenced);
    }
}

mod reacquire {
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
}

mod fence {
    use super::*;

    #[test]
    fn is_terminal_and_idempotent() {
        for mut holder in [holder(), expired(), fenced()] {
            holder.fence();
            holder.fence();
            assert_eq!(holder.state(), Fenced);
            assert!(!holder.refresh(secs(1)));
            assert!(!holder.confirm(token(9), secs(1)));
            assert!(!holder.confirm_at(token(9), secs(1), secs(30), secs(1)));
            assert!(!holder.reacquire(token(9), secs(1)));
            assert!(!holder.expire());
            assert_eq!(holder.state(), Fenced);
        }
    }

    #[test]
    fn answers_every_question_accordingly() {
        let holder = fenced();
        assert!(!holder.may_act(secs(0)));
        assert!(!holder.at_risk(secs(26)));
        assert!(!holder.renewal_due(secs(10)));
        assert_eq!(holder.token(), token(1), "whose writes were refused is still known");
    }
}
