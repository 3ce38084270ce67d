//! How it is lost, and taken again where that was asked for.

use super::*;

mod a_loss {
    use super::*;

    /// Told a loss: the work is stopped, once; the outcome says why, after the work has ended.
    #[track_caller]
    fn assert_lost(mut rig: Rig, commands: Vec<lease_machines::Command>, loss: Loss) {
        let told = StopWork { reason: StopReason::Lost(loss) };
        assert_eq!(commands, [told, WaitUntil(Duration::MAX)], "{loss:?}");
        assert!(!rig.keeper.may_act(rig.now));
        assert_eq!(rig.outcome(), None, "the work is still ending");
        assert_eq!(rig.at(rig.now + secs(100)), [WaitUntil(Duration::MAX)], "told once, and nothing is sent");
        assert_eq!(rig.tell(rig.now, Event::WorkFinished), []);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(loss)));
    }

    #[test]
    fn is_what_the_store_says_of_a_renewal() {
        for (reason, loss) in GONE {
            let mut rig = Rig::working(plain());
            rig.at(DUE);
            let commands = rig.reject(secs(10), reason);
            assert_lost(rig, commands, loss);
        }
    }

    #[test]
    fn is_also_the_late_answer_to_a_renewal_that_was_given_up() {
        for (reason, loss) in GONE {
            let mut rig = Rig::working(plain());
            rig.at(DUE);
            rig.tell(secs(10), Event::NoAnswer { attempt: 2 });
            rig.until(is_renewal);
            let now = rig.now;
            let late = Event::Rejected { attempt: 2, reason, remaining: Duration::ZERO };
            let commands = rig.tell(now, late);
            assert_lost(rig, commands, loss);
        }
    }

    #[test]
    fn is_not_the_late_answer_to_a_request_from_before_the_grant() {
        for (reason, _) in GONE {
            let (mut rig, _) = Rig::start(plain());
            rig.tell(secs(0), Event::NoAnswer { attempt: 1 });
            rig.until(is_request);
            rig.grant(rig.now, 2, TTL);
            for attempt in [1, 2] {
                let commands = rig.tell(rig.now, Event::Rejected { attempt, reason, remaining: secs(0) });
                assert!(matches!(*commands, [WaitUntil(_)]), "{commands:?}");
            }
            assert!(rig.keeper.may_act(rig.now));
        }
    }

    #[test]
    fn is_a_new_epoch() {
        let mut rig = Rig::working(plain());
        let commands = rig.tell(secs(1), Event::NewEpoch);
        assert_lost(rig, commands, Loss::NewEpoch);
    }

    #[test]
    fn is_a_refusal_by_the_fence() {
        let mut rig = Rig::working(plain());
        let commands = rig.tell(secs(1), Event::Fenced);
        assert_eq!(rig.keeper.holder().map(|holder| holder.state()), Some(HolderState::Fenced));
        assert_lost(rig, commands, Loss::Fenced);
    }

    #[test]
    fn is_the_clock_alone_where_nobody_answers() {
        let mut rig = Rig::working(plain());
        let (at, command) = rig.until(|command| matches!(command, StopWork { .. }));
        assert_eq!((at, command), (OVER, StopWork { reason: StopReason::Lost(Loss::Unreachable) }));
    }

    #[test]
    fn by_oversleeping_is_named_so() {
        let mut rig = Rig::working(plain());
        let commands = rig.at(secs(3_600));
        assert_lost(rig, commands, Loss::Expired);
    }

    #[test]
    fn never_waits_for_the_request_in_flight() {
        let mut rig = Rig::working(plain());
        rig.at(OVER - millis(2));
        assert_eq!(rig.next_wait(), Some(OVER - millis(1)), "an attempt gets a millisecond at least");
        rig.at(OVER - millis(1));
        rig.at(OVER - TICK * 2);
        assert_eq!(rig.next_wait(), Some(OVER));
        let commands = rig.at(OVER);
        assert!(matches!(commands[0], StopWork { .. }));
    }

    #[test]
    fn is_not_undone_by_an_answer_that_comes_later() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        let commands = rig.renew_of(2, OVER, 1, TTL);
        assert!(matches!(commands[0], StopWork { reason: StopReason::Lost(_) }), "{commands:?}");
        assert!(!rig.keeper.may_act(OVER));
        rig.renew_of(2, OVER + secs(1), 1, TTL);
        assert!(!rig.keeper.may_act(OVER + secs(1)));
        assert_eq!(rig.keeper.stop_deadline(), None);
    }

    #[test]
    fn is_given_back_where_the_store_says_later_that_it_goes_on() {
        // After the work has finished, not while it still ends.
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.at(OVER);
        assert_eq!(rig.renew_of(2, OVER + secs(1), 1, TTL), [WaitUntil(Duration::MAX)]);
        assert_eq!(rig.tell(OVER + secs(2), Event::WorkFinished), [ReleaseStray { token: token(1) }]);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Unreachable)));
        // And after everything is over.
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.at(OVER);
        rig.tell(OVER, Event::WorkFinished);
        assert_eq!(rig.renew_of(2, OVER + secs(1), 1, TTL), [ReleaseStray { token: token(1) }]);
        assert_eq!(rig.at(OVER + secs(2)), [], "once");
    }

    #[test]
    fn is_given_back_before_it_is_taken_again() {
        let mut rig = Rig::working(waiting().with_retake(true));
        rig.at(DUE);
        rig.at(OVER);
        rig.tell(OVER, Event::WorkFinished);
        let commands = rig.renew_of(2, OVER, 1, TTL);
        assert_eq!(commands[0], ReleaseStray { token: token(1) });
        assert!(matches!(rig.until(is_request).1, Acquire { .. }));
    }

    #[test]
    fn before_the_work_began_is_given_back_where_the_store_says_that_it_goes_on() {
        let long = KeeperOptions::new(Cadence::new(secs(60), secs(20), secs(10)).expect("sound"));
        let (mut rig, _) = Rig::start(long);
        rig.keeper.handle(Event::Granted { attempt: 1, token: token(1), ttl: TTL, sent: secs(0) }, secs(1));
        let late = Event::Renewed { attempt: 9, token: token(1), ttl: TTL, sent: secs(2) };
        assert_eq!(rig.tell(OVER, late), [ReleaseStray { token: token(1) }]);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Expired)));
    }

    #[test]
    fn is_not_given_back_under_a_token_that_was_never_held() {
        for loss in [Event::NewEpoch, Event::Fenced] {
            let mut rig = Rig::working(plain());
            rig.at(DUE);
            rig.tell(secs(10), loss);
            rig.tell(secs(10), Event::WorkFinished);
            assert_eq!(rig.renew_of(2, secs(11), 2, TTL), [], "another token is none of its business");
        }
    }

    #[test]
    fn is_never_taken_again_behind_the_works_back() {
        let mut rig = Rig::working(waiting());
        rig.at(secs(40));
        assert!(!rig.at(secs(100)).iter().any(is_request));
        assert!(!rig.tell(secs(101), Event::WorkFinished).iter().any(is_request));
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Expired)));
    }

    #[test]
    fn keeps_its_first_reason() {
        let mut rig = Rig::working(plain());
        rig.tell(secs(1), Event::NewEpoch);
        assert_eq!(rig.tell(secs(2), Event::Fenced), [WaitUntil(Duration::MAX)]);
        rig.tell(secs(3), Event::WorkFinished);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::NewEpoch)));
    }

    #[test]
    fn before_the_work_began_ends_it_without_work() {
        let (mut rig, _) = Rig::start(plain());
        rig.keeper.handle(Event::Granted { attempt: 1, token: token(1), ttl: TTL, sent: secs(0) }, secs(1));
        assert_eq!(rig.at(OVER), []);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Expired)));
    }

    #[test]
    fn that_the_work_ended_before_anyone_noticed_is_still_one() {
        let mut rig = Rig::working(plain());
        assert_eq!(rig.tell(OVER, Event::WorkFinished), []);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Expired)));
    }
}

mod retake {
    use super::*;

    #[test]
    fn asks_again_after_the_lost_work_has_ended_and_starts_it_afresh() {
        for (reason, loss) in GONE {
            let mut rig = Rig::working(waiting().with_retake(true));
            rig.at(DUE);
            assert_eq!(rig.reject(secs(10), reason)[0], StopWork { reason: StopReason::Lost(loss) });
            assert!(!rig.at(secs(20)).iter().any(is_request), "not before the work has ended");
            rig.tell(secs(21), Event::WorkFinished);
            assert!(matches!(rig.until(is_request).1, Acquire { attempt: 3, .. }));
            assert_eq!(rig.grant(rig.now, 2, TTL)[0], StartWork { token: token(2) });
            assert!(rig.keeper.may_act(rig.now));
            rig.tell(rig.now, Event::WorkFinished);
            rig.tell(rig.now, Event::Released { attempt: 4 });
            assert_eq!(rig.outcome(), Some(Outcome::Stood), "the loss before is not this hold's");
        }
    }

    #[test]
    fn does_not_follow_a_stop() {
        let mut rig = Rig::working(plain().with_retake(true));
        rig.tell(secs(1), Event::StopRequested);
        rig.tell(secs(2), Event::NewEpoch);
        assert_eq!(rig.tell(secs(3), Event::WorkFinished), []);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::NewEpoch)));
    }

    #[test]
    fn does_not_follow_a_stop_that_comes_while_the_lease_is_being_released() {
        let mut rig = Rig::working(waiting().with_retake(true));
        rig.tell(secs(1), Event::WorkFinished);
        rig.tell(secs(2), Event::StopRequested);
        assert_eq!(rig.reject(secs(3), Vacant), []);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Vacated)));
    }

    #[test]
    fn does_not_follow_work_that_ended_well() {
        let mut rig = Rig::working(plain().with_retake(true));
        rig.tell(secs(1), Event::WorkFinished);
        assert_eq!(rig.tell(secs(2), Event::Released { attempt: 2 }), []);
        assert_eq!(rig.outcome(), Some(Outcome::Stood));
    }

    #[test]
    fn warns_and_stops_anew_in_the_next_hold() {
        let mut rig = Rig::working(waiting().with_retake(true));
        rig.until(|command| *command == Warn);
        rig.until(|command| matches!(command, StopWork { .. }));
        rig.tell(rig.now, Event::WorkFinished);
        rig.until(is_request);
        rig.grant(rig.now, 2, TTL);
        rig.until(|command| *command == Warn);
        rig.until(|command| matches!(command, StopWork { reason: StopReason::Lost(_) }));
    }

    #[test]
    fn gives_the_late_grant_of_an_older_hold_no_second_life() {
        let mut rig = Rig::working(waiting().with_retake(true));
        rig.tell(secs(1), Event::NewEpoch);
        rig.tell(secs(2), Event::WorkFinished);
        rig.until(is_request);
        let commands = rig.grant_of(1, rig.now, 1, TTL);
        assert!(!commands.iter().any(|command| matches!(command, StartWork { .. })), "{commands:?}");
    }
}
