//! How the lease is asked for, waited for, and given up.

use super::*;

mod an_acquire {
    use super::*;

    #[test]
    fn that_meets_another_holder_ends_it_for_who_does_not_wait() {
        let (mut rig, _) = Rig::start(plain());
        assert_eq!(rig.occupy(secs(1), Occupied, secs(9)), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Occupied)));
    }

    #[test]
    fn that_cannot_be_met_is_the_callers_error() {
        for reason in [InvalidTtl, DeadlineOverflow, TokensExhausted] {
            let (mut rig, _) = Rig::start(waiting());
            assert_eq!(rig.reject(secs(1), reason), []);
            assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Invalid(reason))));
        }
    }

    #[test]
    fn that_is_refused_or_was_done_before_ends_at_once() {
        let (mut rig, _) = Rig::start(waiting());
        assert_eq!(rig.tell(secs(1), Event::Refused { attempt: 1 }), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Refused)));
        let (mut rig, _) = Rig::start(waiting());
        assert_eq!(rig.tell(secs(1), Event::AlreadyDone { attempt: 1 }), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::AlreadyDone)));
    }

    #[test]
    fn that_was_not_done_is_sent_again_as_it_was() {
        for event in [
            Event::NotDone { attempt: 1 },
            Event::Rejected { attempt: 1, reason: ClockRegressed, remaining: Duration::ZERO },
        ] {
            let (mut rig, _) = Rig::start(plain());
            rig.tell(secs(1), event);
            let (at, command) = rig.until(is_request);
            assert!(matches!(command, Acquire { attempt: 2, .. }), "{command:?}");
            assert!(at <= secs(1) + millis(50));
        }
    }

    #[test]
    fn that_is_answered_as_only_a_renewal_can_be_is_sent_again_after_a_pause() {
        for (reason, _) in GONE {
            let (mut rig, _) = Rig::start(plain());
            assert!(matches!(*rig.reject(secs(1), reason), [WaitUntil(_)]), "{reason:?}");
            assert!(matches!(rig.until(is_request).1, Acquire { attempt: 2, .. }), "{reason:?}");
        }
    }

    #[test]
    fn that_went_unanswered_is_followed_by_a_reacquire_with_the_next_number() {
        let (mut rig, _) = Rig::start(plain());
        rig.tell(secs(1), Event::NoAnswer { attempt: 1 });
        assert!(matches!(rig.until(is_request).1, Reacquire { attempt: 2, ttl: TTL, .. }));
        // A reacquire that nothing came of, either, by a third.
        rig.tell(rig.now, Event::NotDone { attempt: 2 });
        assert!(matches!(rig.until(is_request).1, Reacquire { attempt: 3, .. }));
        assert!(rig.grant(rig.now, 7, TTL).contains(&StartWork { token: token(7) }));
    }

    #[test]
    fn counts_as_unanswered_from_its_limit_on_whatever_the_runtime_says() {
        let (mut rig, commands) = Rig::start(plain());
        let Acquire { limit, .. } = commands[0] else { panic!("{commands:?}") };
        assert_eq!(rig.at(limit - TICK), [WaitUntil(limit)]);
        rig.at(limit);
        assert!(matches!(rig.until(is_request).1, Reacquire { attempt: 2, .. }));
    }

    #[test]
    fn that_once_went_unanswered_stays_so_after_another_holder_was_met() {
        let (mut rig, _) = Rig::start(waiting());
        rig.tell(secs(1), Event::NoAnswer { attempt: 1 });
        rig.until(is_request);
        rig.occupy(secs(2), Occupied, secs(3));
        assert!(matches!(rig.until(is_request).1, Reacquire { attempt: 3, .. }));
    }

    #[test]
    fn whose_superseded_answer_arrives_after_all_changes_nothing() {
        let (mut rig, _) = Rig::start(plain());
        rig.tell(secs(1), Event::NoAnswer { attempt: 1 });
        rig.until(is_request);
        let before = rig.keeper.clone();
        rig.keeper.handle(Event::Granted { attempt: 1, token: token(1), ttl: TTL, sent: secs(0) }, rig.now);
        assert_eq!(rig.keeper, before);
        assert!(rig.grant(rig.now, 2, TTL).contains(&StartWork { token: token(2) }));
    }

    #[test]
    fn that_is_never_answered_ends_after_the_first_term_with_a_withdrawal() {
        let (mut rig, _) = Rig::start(plain());
        let (at, command) = rig.until(|command| matches!(command, Withdraw { .. }));
        assert_eq!(at, TTL);
        let Withdraw { attempt, limit } = command else { panic!("{command:?}") };
        assert_eq!(limit, TTL + secs(1));
        assert_eq!(rig.tell(rig.now, Event::Released { attempt }), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Unreachable)));
    }

    #[test]
    fn that_is_over_when_its_grant_arrives_is_given_back_and_asked_again() {
        let (mut rig, _) = Rig::start(waiting());
        let short = millis(500);
        let commands = rig.grant(secs(1), 1, short);
        assert_eq!(commands[0], ReleaseStray { token: token(1) });
        assert!(matches!(rig.until(is_request).1, Reacquire { attempt: 2, .. }));
    }
}

mod a_wait {
    use super::*;

    #[test]
    fn lasts_until_the_others_lease_may_be_over() {
        let (mut rig, _) = Rig::start(waiting());
        assert_eq!(rig.occupy(secs(1), Occupied, secs(3)), [AwaitVacancy { until: secs(4) + millis(1) }]);
        let commands = rig.at(secs(4) + millis(1));
        assert!(matches!(commands[0], Acquire { attempt: 2, .. }), "{commands:?}");
    }

    #[test]
    fn is_five_seconds_at_most_and_ten_milliseconds_at_least() {
        let (mut rig, _) = Rig::start(waiting());
        assert_eq!(rig.occupy(secs(1), Occupied, secs(3_600)), [AwaitVacancy { until: secs(6) }]);
        let (mut rig, _) = Rig::start(waiting());
        assert_eq!(rig.occupy(secs(1), Occupied, secs(0)), [AwaitVacancy { until: millis(1_010) }]);
        let (mut rig, _) = Rig::start(waiting());
        assert_eq!(rig.occupy(secs(1), Occupied, Duration::MAX), [AwaitVacancy { until: secs(6) }]);
    }

    #[test]
    fn ends_when_it_is_woken_though_never_twice_within_ten_milliseconds() {
        let (mut rig, _) = Rig::start(waiting());
        rig.occupy(millis(2), Occupied, secs(3));
        assert_eq!(rig.tell(millis(3), Event::Woken), [AwaitVacancy { until: millis(10) }]);
        let commands = rig.at(millis(10));
        assert!(matches!(commands[0], Acquire { attempt: 2, .. }), "{commands:?}");
        rig.occupy(millis(20), Occupied, secs(3));
        let commands = rig.tell(millis(500), Event::Woken);
        assert!(matches!(commands[0], Acquire { attempt: 3, .. }), "{commands:?}");
    }

    #[test]
    fn is_woken_only_while_it_waits_for_a_holder() {
        // A request is in flight; the pause after a failed one; a renewal that failed, long after a holder was met.
        let flying = Rig::start(waiting()).0;
        let mut failed = Rig::start(waiting()).0;
        failed.tell(millis(1), Event::NotDone { attempt: 1 });
        let mut working = Rig::start(waiting()).0;
        working.occupy(secs(1), Occupied, secs(1));
        working.until(is_request);
        working.grant(working.now, 2, TTL);
        working.until(is_renewal);
        working.tell(working.now, Event::NotDone { attempt: 3 });
        for rig in [flying, failed, working] {
            let mut woken = rig.keeper.clone();
            woken.handle(Event::Woken, rig.now);
            assert_eq!(woken, rig.keeper);
        }
    }

    #[test]
    fn until_an_instant_ends_there() {
        let (mut rig, _) = Rig::start(plain().with_wait(Wait::Until(secs(3))));
        assert_eq!(rig.occupy(secs(1), Occupied, secs(60)), [AwaitVacancy { until: secs(3) }]);
        assert_eq!(rig.at(secs(3) - TICK), [AwaitVacancy { until: secs(3) }]);
        assert_eq!(rig.at(secs(3)), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Occupied)));
    }

    #[test]
    fn until_an_instant_waits_for_no_answer_beyond_it() {
        let (mut rig, commands) = Rig::start(plain().with_wait(Wait::Until(secs(3))));
        assert!(matches!(commands[0], Acquire { limit, .. } if limit == secs(3)));
        let commands = rig.at(secs(3));
        assert!(matches!(commands[0], Withdraw { .. }), "{commands:?}");
        rig.tell(secs(3), Event::Released { attempt: 2 });
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Unreachable)));
    }

    /// etcd-io/etcd#11456 and #9921: a waiter was granted the lock after its own end.
    #[test]
    fn that_is_over_takes_no_grant() {
        let (mut rig, _) = Rig::start(plain().with_wait(Wait::Until(secs(3))));
        let commands = rig.grant(secs(3), 1, TTL);
        assert!(!commands.contains(&StartWork { token: token(1) }), "{commands:?}");
        assert!(commands.iter().any(|c| matches!(c, Withdraw { .. } | ReleaseStray { .. })), "{commands:?}");
    }

    #[test]
    fn for_ever_never_gives_up() {
        let (mut rig, _) = Rig::start(waiting());
        for _ in 0..200 {
            let Some(wait) = rig.next_wait() else { panic!("it gave up: {:?}", rig.outcome()) };
            rig.at(wait);
        }
        assert!(rig.now > secs(1_000), "two hundred steps took {:?}", rig.now);
        let attempt = rig.until(is_request);
        assert!(matches!(attempt.1, Reacquire { .. }));
        assert!(rig.grant(rig.now, 9, TTL).contains(&StartWork { token: token(9) }));
    }

    #[test]
    fn told_to_stop_ends_at_once_where_nothing_is_unanswered() {
        let (mut rig, _) = Rig::start(waiting());
        rig.occupy(secs(1), Occupied, secs(60));
        assert_eq!(rig.tell(secs(2), Event::StopRequested), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
    }

    #[test]
    fn told_to_stop_withdraws_what_may_have_been_granted() {
        let (mut rig, _) = Rig::start(waiting());
        let commands = rig.tell(secs(1), Event::StopRequested);
        let [Withdraw { attempt: 2, limit }, WaitUntil(until)] = *commands else { panic!("{commands:?}") };
        assert_eq!((limit, until), (secs(2), secs(2)));
        assert_eq!(rig.outcome(), None);
        assert_eq!(rig.tell(secs(1), Event::Released { attempt: 2 }), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
    }
}

mod a_withdrawal {
    use super::*;

    fn withdrawing() -> Rig {
        let (mut rig, _) = Rig::start(waiting());
        rig.tell(secs(1), Event::StopRequested);
        rig
    }

    #[test]
    fn ends_with_any_answer() {
        let attempt = withdrawing().attempt();
        let mut answers = vec![
            Event::Released { attempt },
            Event::AlreadyReleased { attempt },
            Event::NoAnswer { attempt },
            Event::NotDone { attempt },
            Event::Refused { attempt },
        ];
        answers.extend(
            [Vacant, WrongOwner, StaleToken, Expired, ClockRegressed].map(|reason| Event::Rejected {
                attempt,
                reason,
                remaining: Duration::ZERO,
            }),
        );
        for answer in answers {
            let mut rig = withdrawing();
            assert_eq!(rig.tell(secs(1), answer), [], "{answer:?}");
            assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)), "{answer:?}");
        }
    }

    #[test]
    fn is_not_waited_for_beyond_a_second() {
        let mut rig = withdrawing();
        assert_eq!(rig.at(secs(2)), []);
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
    }

    #[test]
    fn is_not_put_off_by_the_late_grant_that_it_takes_back() {
        let mut rig = withdrawing();
        let commands = rig.grant_of(1, secs(1), 1, TTL);
        assert!(!commands.iter().any(|command| matches!(command, StartWork { .. })), "{commands:?}");
        rig.tell(secs(1), Event::Released { attempt: 2 });
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
    }

    #[test]
    fn follows_a_stop_between_the_grant_and_the_work() {
        let (mut rig, _) = Rig::start(plain());
        rig.keeper.handle(Event::Granted { attempt: 1, token: token(1), ttl: TTL, sent: secs(0) }, secs(1));
        let commands = rig.tell(secs(1), Event::StopRequested);
        assert!(matches!(commands[0], Withdraw { .. }), "{commands:?}");
        rig.tell(secs(1), Event::Released { attempt: 2 });
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
    }
}

mod a_late_grant {
    use super::*;

    #[test]
    fn is_given_back_after_everything_is_over() {
        let (mut rig, _) = Rig::start(plain());
        rig.tell(secs(1), Event::StopRequested);
        rig.at(secs(2)); // the withdrawal went unanswered
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
        assert_eq!(rig.grant_of(1, secs(3), 1, TTL), [ReleaseStray { token: token(1) }]);
        assert_eq!(rig.at(secs(4)), [], "once");
    }

    #[test]
    fn of_an_attempt_that_was_answered_not_done_is_got_past_by_a_reacquire() {
        // The request was doubled on the way: one copy was not done, the other one is granted.
        let (mut rig, _) = Rig::start(waiting());
        rig.tell(secs(1), Event::NotDone { attempt: 1 });
        rig.grant_of(1, secs(1), 1, TTL);
        assert!(matches!(rig.until(is_request).1, Reacquire { attempt: 2, .. }));
    }

    #[test]
    fn that_was_overtaken_by_the_withdrawal_is_given_back() {
        let (mut rig, _) = Rig::start(waiting());
        rig.tell(secs(1), Event::StopRequested);
        assert_eq!(rig.grant_of(1, secs(1), 1, TTL)[0], ReleaseStray { token: token(1) });
        rig.tell(secs(1), Event::Released { attempt: 2 });
        assert_eq!(rig.outcome(), Some(Outcome::NotHeld(NotHeld::Stopped)));
    }

    #[test]
    fn of_an_older_token_than_the_one_held_is_superseded_and_left_alone() {
        let (mut rig, _) = Rig::start(plain());
        rig.tell(secs(1), Event::NoAnswer { attempt: 1 });
        rig.until(is_request);
        rig.grant(rig.now, 2, TTL);
        let commands = rig.grant_of(1, rig.now, 1, TTL);
        assert!(matches!(*commands, [WaitUntil(_)]), "{commands:?}");
        assert_eq!(rig.keeper.holder().map(|holder| holder.token()), Some(token(2)));
    }

    #[test]
    fn of_a_newer_token_than_the_one_held_says_that_the_lease_was_lost() {
        // An old request, delayed for so long that the store no longer knew of it, was granted after a revoke.
        let mut rig = Rig::working(plain());
        let told = StopWork { reason: StopReason::Lost(Loss::Taken) };
        assert_eq!(rig.grant_of(1, secs(1), 3, TTL), [told, WaitUntil(Duration::MAX)]);
        assert!(!rig.keeper.may_act(secs(1)));
        assert_eq!(rig.tell(secs(2), Event::WorkFinished), [ReleaseStray { token: token(3) }]);
        assert_eq!(rig.outcome(), Some(Outcome::Lost(Loss::Taken)));
    }

    #[test]
    fn of_a_newer_token_than_the_one_being_released_is_given_back_too() {
        let mut rig = Rig::working(plain());
        rig.tell(secs(1), Event::WorkFinished);
        assert_eq!(rig.grant_of(1, secs(1), 3, TTL)[0], ReleaseStray { token: token(3) });
        rig.tell(secs(2), Event::Released { attempt: 2 });
        assert_eq!(rig.outcome(), Some(Outcome::Stood), "the release was answered; the grant came after it");
    }

    #[test]
    fn doubled_while_its_lease_is_being_released_is_left_to_the_release() {
        let mut rig = Rig::working(plain());
        rig.tell(secs(1), Event::WorkFinished);
        assert!(matches!(*rig.grant_of(1, secs(1), 1, TTL), [WaitUntil(_)]));
    }

    #[test]
    fn of_the_newest_of_several_tokens_is_the_one_to_be_given_back() {
        for tokens in [[3, 4], [4, 3]] {
            let mut rig = Rig::working(plain());
            for n in tokens {
                rig.grant_of(1, secs(1), n, TTL);
            }
            assert_eq!(rig.tell(secs(2), Event::WorkFinished), [ReleaseStray { token: token(4) }]);
        }
    }

    #[test]
    fn doubled_changes_nothing() {
        let mut rig = Rig::working(plain());
        let before = rig.keeper.clone();
        rig.grant_of(1, secs(0), 1, TTL);
        assert_eq!(rig.keeper, before);
    }
}
