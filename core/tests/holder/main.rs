//! Every rule of the holder, by name.

mod confirm;
mod confirm_at;
mod granted;
mod reacquire;
#[path = "../support/mod.rs"]
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
