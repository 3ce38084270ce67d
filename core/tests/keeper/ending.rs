//! How the work is ended, and the lease given back.

use super::*;

mod a_stop_lead {
    use super::*;

    fn with_lead(lead: Duration) -> KeeperOptions {
        plain().with_stop_lead(lead)
    }

    #[test]
    fn ends_the_work_that_long_before_the_deadline() {
        let mut rig = Rig::working(with_lead(secs(2)));
        let (at, command) = rig.until(|command| matches!(command, StopWork { .. }));
        assert_eq!((at, command), (OVER - secs(2), StopWork { reason: StopReason::Lost(Loss::Unreachable) }));
        assert!(rig.keeper.may_act(OVER - TICK), "the work may use what is left to end");
        assert!(!rig.keeper.may_act(OVER));
    }

    #[test]
    fn never_ends_it_before_the_warning() {
        let mut rig = Rig::working(with_lead(secs(20)));
        let (at, _) = rig.until(|command| matches!(command, StopWork { .. }));
        assert_eq!(at, WARNING);
    }

    #[test]
    fn spreads_the_renewals_over_the_time_before_it() {
        let mut rig = Rig::working(with_lead(secs(4)));
        let mut before = 0;
        loop {
            let (at, command) = rig.until(|c| is_renewal(c) || matches!(c, StopWork { .. }));
            if !is_renewal(&command) {
                assert_eq!(at, OVER - secs(4));
                break;
            }
            before += 1;
        }
        assert!(before >= 4, "{before} renewals before the work was stopped");
    }

    #[test]
    fn goes_on_renewing_so_that_the_work_can_end_under_its_lease() {
        let mut rig = Rig::working(with_lead(secs(4)));
        rig.until(|command| matches!(command, StopWork { .. }));
        let (at, _) = rig.until(is_renewal);
        rig.renew(at, 1, TTL);
        assert!(rig.keeper.may_act(OVER + secs(1)), "that renewal was answered");
        let commands = rig.tell(rig.now, Event::WorkFinished);
        assert!(matches!(commands[0], Release { .. }), "{commands:?}");
        rig.tell(rig.now, Event::Released { attempt: rig.attempt() });
        assert_eq!(
            rig.outcome(),
            Some(Outcome::Lost(Loss::Unreachable)),
            "the work was cut short all the same"
        );
    }

    #[test]
    fn of_an_overslept_lease_in_its_lead_is_told_as_expired() {
        let mut rig = Rig::working(with_lead(secs(2)));
        let commands = rig.at(OVER - secs(1));
        assert_eq!(commands[0], StopWork { reason: StopReason::Lost(Loss::Expired) });
    }
}

mod a_longest_hold {
    use super::*;

    #[test]
    fn ends_the_work_counted_from_the_request_that_was_granted() {
        let (mut rig, _) = Rig::start(plain().with_max_hold(Some(secs(5))));
        rig.grant(secs(1), 1, TTL);
        assert_eq!(rig.at(secs(5) - TICK), [WaitUntil(secs(5))]);
        assert_eq!(rig.at(secs(5))[0], StopWork { reason: StopReason::MaxHold });
    }

    #[test]
    fn goes_on_renewing_until_the_work_has_ended() {
        let mut rig = Rig::working(plain().with_max_hold(Some(secs(5))));
        rig.at(secs(5));
        assert_eq!(rig.until(is_request).0, DUE);
        rig.renew(rig.now, 1, TTL);
        rig.tell(secs(12), Event::WorkFinished);
        rig.tell(secs(12), Event::Released { attempt: 3 });
        assert_eq!(rig.outcome(), Some(Outcome::Stood));
    }

    #[test]
    fn is_told_once() {
        let mut rig = Rig::working(plain().with_max_hold(Some(secs(5))));
        rig.at(secs(5));
        assert_eq!(rig.at(secs(6)), [WaitUntil(DUE)]);
    }

    #[test]
    fn without_one_nothing_ends_the_work() {
        let mut rig = Rig::working(plain());
        for _ in 0..500 {
            rig.until(is_renewal);
            rig.renew(rig.now, 1, TTL);
        }
        assert!(rig.keeper.may_act(rig.now));
    }
}

mod a_stop {
    use super::*;

    #[test]
    fn is_told_to_the_work_and_releases_only_after_it() {
        let mut rig = Rig::working(plain());
        assert_eq!(rig.tell(secs(1), Event::StopRequested)[0], StopWork { reason: StopReason::Requested });
        // The work takes its time: its lease is renewed, not released.
        for _ in 0..5 {
            let (_, command) = rig.until(is_request);
            assert!(is_renewal(&command), "{command:?}");
            rig.renew(rig.now, 1, TTL);
        }
        assert!(matches!(rig.tell(rig.now, Event::WorkFinished)[0], Release { .. }));
        rig.tell(rig.now, Event::Released { attempt: rig.attempt() });
        assert_eq!(rig.outcome(), Some(Outcome::Stood));
    }

    #[test]
    fn asked_for_twice_is_told_once() {
        let mut rig = Rig::working(plain());
        rig.tell(secs(1), Event::StopRequested);
        assert_eq!(rig.tell(secs(2), Event::StopRequested), [WaitUntil(DUE)]);
    }

    #[test]
    fn is_followed_by_the_loss_where_the_lease_is_lost_meanwhile() {
        let mut rig = Rig::working(plain());
        rig.tell(secs(1), Event::StopRequested);
        let commands = rig.tell(secs(2), Event::NewEpoch);
        assert_eq!(
            commands,
            [StopWork { reason: StopReason::Lost(Loss::NewEpoch) }, WaitUntil(Duration::MAX)]
        );
        rig.tell(secs(3), Event::WorkFinished);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::NewEpoch)));
    }

    #[test]
    fn after_the_longest_hold_is_not_told_again() {
        let mut rig = Rig::working(plain().with_max_hold(Some(secs(5))));
        rig.at(secs(5));
        assert_eq!(rig.tell(secs(6), Event::StopRequested), [WaitUntil(DUE)]);
    }
}

mod a_release {
    use super::*;

    fn releasing() -> Rig {
        let mut rig = Rig::working(plain());
        let commands = rig.tell(secs(1), Event::WorkFinished);
        assert!(
            matches!(commands[0], Release { attempt: 2, limit, .. } if limit == secs(1) + (OVER - secs(1)) / 4)
        );
        rig
    }

    #[test]
    fn that_nothing_came_of_is_repeated_by_a_release() {
        for index in 0..4 {
            let mut rig = releasing();
            rig.tell(secs(2), undecided(&rig)[index]);
            let (at, command) = rig.until(is_request);
            assert!(matches!(command, Release { attempt: 3, token: t, .. } if t == token(1)), "{command:?}");
            assert!(at <= secs(2) + millis(50));
            rig.tell(rig.now, Event::Released { attempt: 3 });
            assert_eq!(rig.outcome(), Some(Outcome::Stood));
        }
    }

    #[test]
    fn that_is_never_answered_is_unconfirmed_at_the_deadline() {
        let mut rig = releasing();
        while let Some(wait) = rig.next_wait() {
            rig.at(wait);
        }
        assert_eq!((rig.now, rig.outcome()), (OVER, Some(Outcome::Unconfirmed)));
    }

    #[test]
    fn that_was_never_sent_is_a_loss() {
        // The process overslept between the end of its work and the release.
        let mut rig = Rig::working(plain());
        rig.keeper.handle(Event::WorkFinished, secs(1));
        assert_eq!(rig.at(OVER), []);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Expired)));
    }

    #[test]
    fn that_was_not_done_before_the_deadline_is_unconfirmed() {
        let mut rig = releasing();
        rig.tell(OVER - TICK, Event::NotDone { attempt: 2 });
        assert_eq!(rig.at(OVER), []);
        assert_eq!(rig.outcome(), Some(Outcome::Unconfirmed));
    }

    #[test]
    fn that_is_answered_at_the_deadline_is_unconfirmed() {
        let mut rig = releasing();
        rig.at(millis(29_900));
        rig.tell(OVER, Event::Released { attempt: rig.attempt() });
        assert_eq!(rig.outcome(), Some(Outcome::Unconfirmed));
    }

    #[test]
    fn that_finds_the_lease_gone_is_a_loss() {
        for (reason, loss) in GONE {
            let mut rig = releasing();
            assert_eq!(rig.reject(secs(2), reason), []);
            assert_eq!(rig.outcome(), Some(Outcome::Lost(loss)));
        }
    }

    #[test]
    fn that_overtook_a_renewal_is_not_a_loss_for_what_the_store_says_of_the_renewal() {
        for (reason, _) in GONE {
            let mut rig = Rig::working(plain());
            rig.at(DUE);
            rig.tell(secs(10), Event::WorkFinished);
            let overtaken = Event::Rejected { attempt: 2, reason, remaining: secs(0) };
            assert!(matches!(*rig.tell(secs(10), overtaken), [WaitUntil(_)]), "{reason:?}");
            rig.tell(secs(11), Event::Released { attempt: 3 });
            assert_eq!(rig.outcome(), Some(Outcome::Stood), "{reason:?}");
        }
    }

    #[test]
    fn whose_late_answer_says_that_the_lease_was_gone_is_a_loss() {
        for (reason, loss) in GONE {
            let mut rig = releasing();
            rig.tell(secs(2), Event::NoAnswer { attempt: 2 });
            rig.until(is_request);
            let late = Event::Rejected { attempt: 2, reason, remaining: secs(0) };
            rig.tell(rig.now, late);
            assert_eq!(rig.outcome(), Some(Outcome::Lost(loss)));
        }
    }

    #[test]
    fn that_was_unconfirmed_is_repeated_where_a_renewal_is_answered_after_all() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.tell(secs(10), Event::WorkFinished);
        rig.at(OVER);
        assert_eq!(rig.outcome(), Some(Outcome::Unconfirmed));
        assert_eq!(rig.renew_of(2, OVER, 1, TTL), [ReleaseStray { token: token(1) }]);
    }

    #[test]
    fn that_was_answered_is_not_repeated_for_a_late_renewal() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.tell(secs(10), Event::WorkFinished);
        rig.tell(secs(11), Event::Released { attempt: 3 });
        assert_eq!(rig.renew_of(2, secs(12), 1, TTL), []);
    }

    #[test]
    fn meets_a_new_epoch_or_a_fence_as_a_loss() {
        for (event, loss) in [(Event::NewEpoch, Loss::NewEpoch), (Event::Fenced, Loss::Fenced)] {
            let mut rig = releasing();
            assert_eq!(rig.tell(secs(2), event), []);
            assert_eq!(rig.outcome(), Some(Outcome::Lost(loss)));
        }
    }

    #[test]
    fn does_not_wait_for_the_renewal_in_flight() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        let commands = rig.tell(secs(10), Event::WorkFinished);
        assert!(matches!(commands[0], Release { attempt: 3, .. }), "{commands:?}");
        // Its answer is too late to matter, either way.
        assert!(!rig.renew_of(2, secs(10), 1, TTL).iter().any(is_request));
        rig.tell(secs(11), Event::Released { attempt: 3 });
        assert_eq!(rig.outcome(), Some(Outcome::Stood));
    }

    #[test]
    fn is_asked_for_once_whatever_the_work_says_again() {
        let mut rig = releasing();
        assert!(!rig.tell(secs(2), Event::WorkFinished).iter().any(is_request));
        assert!(!rig.tell(secs(2), Event::StopRequested).iter().any(is_request));
    }

    #[test]
    fn of_another_attempt_is_not_taken_for_this_one() {
        let mut rig = releasing();
        rig.tell(secs(2), Event::Released { attempt: 1 });
        rig.tell(secs(2), Event::Released { attempt: 99 });
        assert_eq!(rig.outcome(), None);
    }
}

mod a_token_that_had_been_released_before {
    use super::*;

    #[test]
    fn stood_where_an_earlier_release_went_unanswered() {
        let mut rig = Rig::working(plain());
        let commands = rig.tell(rig.now, Event::WorkFinished);
        assert!(matches!(commands[0], Release { .. }), "{commands:?}");
        rig.tell(rig.now, Event::NoAnswer { attempt: rig.attempt() });
        rig.until(|command| matches!(command, Release { .. }));
        rig.tell(rig.now, Event::AlreadyReleased { attempt: rig.attempt() });
        assert_eq!(rig.outcome(), Some(Outcome::Stood));
    }

    #[test]
    fn was_given_back_by_somebody_else_where_ours_was_the_first() {
        let mut rig = Rig::working(plain());
        rig.tell(rig.now, Event::WorkFinished);
        rig.tell(rig.now, Event::AlreadyReleased { attempt: rig.attempt() });
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Vacated)));
    }

    #[test]
    fn was_given_back_by_somebody_else_where_ours_was_surely_not_done() {
        let mut rig = Rig::working(plain());
        rig.tell(rig.now, Event::WorkFinished);
        rig.tell(rig.now, Event::NotDone { attempt: rig.attempt() });
        rig.until(|command| matches!(command, Release { .. }));
        rig.tell(rig.now, Event::AlreadyReleased { attempt: rig.attempt() });
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Vacated)));
    }
}
