//! How it is kept: renewals, their retries, and the warning.

use super::*;

mod the_drift_allowance {
    use super::*;

    #[test]
    fn of_a_thousandth_is_taken_off_every_term() {
        let mut rig = Rig::working(plain());
        assert_eq!(rig.deadline(), OVER);
        rig.at(DUE);
        rig.renew(DUE, 1, TTL);
        assert_eq!(rig.deadline(), DUE + OVER);
    }

    #[test]
    fn is_at_least_a_millisecond() {
        let short = KeeperOptions::new(Cadence::new(millis(100), millis(30), millis(20)).expect("sound"));
        assert_eq!(Rig::working(short).deadline(), millis(99));
        let second = KeeperOptions::new(Cadence::new(secs(1), millis(300), millis(200)).expect("sound"));
        assert_eq!(Rig::working(second).deadline(), millis(999));
    }

    #[test]
    fn leaves_nothing_of_a_term_of_a_millisecond() {
        let (mut rig, _) = Rig::start(plain());
        let commands = rig.grant(secs(0), 1, millis(1));
        assert!(!commands.contains(&StartWork { token: token(1) }), "{commands:?}");
    }

    #[test]
    fn is_taken_off_what_was_granted_where_that_is_less() {
        let (mut rig, _) = Rig::start(plain());
        rig.grant(secs(0), 1, secs(10));
        assert_eq!(rig.deadline(), millis(9_990));
        let (mut rig, _) = Rig::start(plain());
        rig.grant(secs(0), 1, secs(3_600));
        assert_eq!(rig.deadline(), TTL, "never longer than was asked for");
    }
}

mod the_term {
    use super::*;

    #[test]
    fn counts_from_the_request_not_from_the_answer() {
        let (mut rig, _) = Rig::start(plain());
        rig.grant(secs(7), 1, TTL);
        assert_eq!(rig.deadline(), OVER);
    }

    #[test]
    fn is_first_asked_for_thirty_seconds_at_most_and_then_at_once_for_all() {
        let long = KeeperOptions::new(Cadence::new(secs(3_600), secs(1_200), secs(600)).expect("sound"));
        let (mut rig, commands) = Rig::start(long);
        assert!(matches!(commands[0], Acquire { ttl, .. } if ttl == KeeperOptions::FIRST_TERM));
        let commands = rig.grant(secs(1), 1, TTL);
        assert!(
            matches!(*commands, [StartWork { .. }, Renew { ttl, .. }, WaitUntil(_)] if ttl == secs(3_600)),
            "{commands:?}"
        );
        assert_eq!(rig.deadline(), OVER, "until that is answered the short term counts");
        rig.renew(secs(2), 1, secs(3_600));
        assert_eq!(rig.deadline(), secs(1) + millis(3_596_400));
        assert_eq!(
            rig.next_wait(),
            Some(secs(1) + millis(1_198_800)),
            "and from then on it is renewed as planned"
        );
    }

    #[test]
    fn that_was_cut_short_is_renewed_again_until_all_of_it_is_granted() {
        let long = KeeperOptions::new(Cadence::new(secs(3_600), secs(1_200), secs(600)).expect("sound"));
        let (mut rig, _) = Rig::start(long);
        rig.grant(secs(1), 1, TTL);
        for index in 0..4 {
            rig.tell(rig.now, undecided(&rig)[index]);
            let (at, _) = rig.until(is_renewal);
            assert!(at < secs(2), "tried again at {at:?}");
        }
    }

    #[test]
    fn of_thirty_seconds_or_less_is_asked_for_as_it_is() {
        let mut rig = Rig::working(plain());
        assert_eq!(rig.at(secs(1)), [WaitUntil(DUE)]);
    }
}

mod a_renewal {
    use super::*;

    #[test]
    fn is_sent_when_it_falls_due_and_not_before() {
        let mut rig = Rig::working(plain());
        assert_eq!(rig.at(DUE - TICK), [WaitUntil(DUE)]);
        assert!(is_renewal(&rig.at(DUE)[0]));
    }

    #[test]
    fn may_take_a_quarter_of_the_time_that_is_left() {
        let mut rig = Rig::working(plain());
        let commands = rig.at(DUE);
        assert!(
            matches!(commands[0], Renew { limit, .. } if limit == DUE + (OVER - DUE) / 4),
            "{commands:?}"
        );
    }

    #[test]
    fn that_nothing_came_of_is_repeated_until_the_deadline() {
        for index in 0..4 {
            let mut rig = Rig::working(plain());
            let mut attempts = 0;
            while rig.until(|c| is_renewal(c) || matches!(c, StopWork { .. })).1
                != (StopWork { reason: StopReason::Lost(Loss::Unreachable) })
            {
                attempts += 1;
                rig.tell(rig.now, undecided(&rig)[index]);
            }
            assert_eq!(rig.now, OVER);
            assert!(attempts >= 5, "{attempts} attempts");
            assert!(attempts <= 3_000, "{attempts} attempts are a storm");
        }
    }

    #[test]
    fn that_is_never_answered_leaves_room_for_three_more_before_the_deadline() {
        for ttl in [millis(20), millis(100), secs(1), secs(30), secs(3_600)] {
            for (renew, warn) in [(3, 6), (2, 20), (10, 3)] {
                let Some(cadence) = Cadence::new(ttl, ttl / renew, ttl / warn) else {
                    panic!("an unsound cadence")
                };
                let mut rig = Rig::working(KeeperOptions::new(cadence));
                if rig.attempt() == 2 {
                    rig.renew(secs(0), 1, ttl); // the short first term
                }
                let (first, _) = rig.until(is_renewal);
                let mut failed_at = None;
                let mut after = 0;
                loop {
                    let (at, command) = rig.until(|c| is_renewal(c) || matches!(c, StopWork { .. }));
                    failed_at.get_or_insert(at);
                    if !is_renewal(&command) {
                        break;
                    }
                    after += 1;
                }
                assert!(after >= 3, "{after} after the one at {first:?}, ttl {ttl:?}, {renew}, {warn}");
            }
        }
    }

    #[test]
    fn that_cannot_be_met_is_repeated_too_for_the_lease_still_stands() {
        for reason in [InvalidTtl, DeadlineOverflow, TokensExhausted] {
            let mut rig = Rig::working(plain());
            rig.at(DUE);
            rig.reject(secs(10), reason);
            assert!(is_renewal(&rig.until(is_request).1));
            assert!(rig.keeper.may_act(rig.now));
        }
    }

    #[test]
    fn that_succeeds_at_last_is_as_good_as_any() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.tell(secs(10), Event::NoAnswer { attempt: 2 });
        let (at, _) = rig.until(is_renewal);
        assert_eq!(rig.renew(at, 1, TTL), [WaitUntil(at + DUE)]);
        assert_eq!(rig.deadline(), at + OVER);
    }

    #[test]
    fn whose_answer_comes_after_the_next_was_sent_still_confirms() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.tell(secs(10), Event::NoAnswer { attempt: 2 });
        rig.until(is_renewal);
        rig.renew_of(2, rig.now, 1, TTL);
        assert_eq!(rig.deadline(), DUE + OVER);
        assert!(rig.keeper.may_act(DUE + OVER - TICK));
    }

    #[test]
    fn under_another_token_confirms_nothing() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        rig.renew(secs(10), 2, TTL);
        assert_eq!(rig.deadline(), OVER);
        assert_eq!(rig.keeper.holder().map(|holder| holder.token()), Some(token(1)));
    }

    #[test]
    fn is_sent_one_at_a_time() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        assert!(!rig.at(secs(12)).iter().any(is_request));
    }

    #[test]
    fn that_fell_due_long_ago_is_not_sent_once_the_lease_is_over() {
        for now in [OVER, secs(31), secs(86_400), Duration::MAX - TICK] {
            let mut rig = Rig::working(plain());
            let commands = rig.at(now);
            assert_eq!(commands[0], StopWork { reason: StopReason::Lost(Loss::Expired) });
            assert!(!commands.iter().any(is_request), "{commands:?}");
        }
    }

    #[test]
    fn that_fell_due_long_ago_is_sent_while_there_is_time() {
        let mut rig = Rig::working(plain());
        let commands = rig.at(OVER - TICK);
        assert!(commands.iter().any(is_renewal), "{commands:?}");
    }
}

mod retries {
    use super::*;

    /// The pauses between an acquire that fails at once and the next one.
    fn pauses(seed: u64, count: usize) -> Vec<Duration> {
        let (mut rig, _) = Rig::start_with(waiting(), seed);
        (0..count)
            .map(|_| {
                let failed = rig.now;
                rig.tell(failed, Event::NotDone { attempt: rig.attempt() });
                rig.until(is_request).0 - failed
            })
            .collect()
    }

    #[test]
    fn pause_for_a_random_part_of_a_time_that_doubles() {
        let mut longest = [Duration::ZERO; 14];
        for seed in 0..300 {
            for (n, pause) in pauses(seed, longest.len()).into_iter().enumerate() {
                let bound = millis(50 << n).min(secs(30));
                assert!(pause <= bound, "pause {n} of seed {seed} is {pause:?}");
                longest[n] = longest[n].max(pause);
            }
        }
        for (n, longest) in longest.into_iter().enumerate() {
            let bound = millis(50 << n).min(secs(30));
            assert!(
                longest > bound * 9 / 10,
                "of 300 pauses the longest {n}th is {longest:?}: no full jitter"
            );
        }
    }

    /// SplitMix64 after its definition, with the first outputs for seed 0 that were published with it. The last of its
    /// steps moves a pause by some nanoseconds, and only a long one: so many are compared.
    #[test]
    fn pause_for_the_part_that_splitmix64_says() {
        let output = |n: u64| {
            let mut z = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(n);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        const PUBLISHED: [u64; 3] = [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F];
        assert_eq!([output(1), output(2), output(3)], PUBLISHED);

        let expected: Vec<_> = (0..40_u32)
            .map(|n| {
                let whole = millis(50 << n.min(20)).min(secs(30)).as_nanos();
                Duration::from_nanos(((u128::from(output(u64::from(n) + 1)) * whole) >> 64) as u64)
            })
            .collect();
        assert_eq!(pauses(0, 40), expected);
    }

    #[test]
    fn pause_differently_for_every_seed_and_alike_for_the_same() {
        assert_eq!(pauses(7, 10), pauses(7, 10));
        assert_ne!(pauses(7, 10), pauses(8, 10));
    }

    #[test]
    fn begin_anew_after_a_success() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        for _ in 0..6 {
            rig.tell(rig.now, Event::NotDone { attempt: rig.attempt() });
            rig.until(is_renewal);
        }
        rig.renew(rig.now, 1, TTL);
        rig.until(is_renewal);
        let failed = rig.now;
        rig.tell(failed, Event::NotDone { attempt: rig.attempt() });
        assert!(rig.until(is_renewal).0 - failed <= millis(50));
    }

    #[test]
    fn of_a_renewal_pause_for_a_quarter_of_what_is_left_at_most() {
        for seed in 0..50 {
            let (mut rig, _) = Rig::start_with(plain(), seed);
            rig.grant(secs(0), 1, TTL);
            rig.until(is_renewal);
            loop {
                let failed = rig.now;
                rig.tell(failed, Event::NotDone { attempt: rig.attempt() });
                let (at, command) = rig.until(|c| is_renewal(c) || matches!(c, StopWork { .. }));
                if !is_renewal(&command) {
                    break;
                }
                assert!(at - failed <= (OVER - failed) / 4, "{:?} at {failed:?}", at - failed);
            }
        }
    }
}

mod a_warning {
    use super::*;

    #[test]
    fn comes_at_the_warning_deadline_once() {
        let mut rig = Rig::working(plain());
        let (at, _) = rig.until(|command| *command == Warn);
        assert_eq!(at, WARNING);
        assert!(!rig.at(WARNING + secs(1)).contains(&Warn));
    }

    #[test]
    fn is_seen_coming_also_while_a_request_is_in_flight() {
        let mut rig = Rig::working(plain());
        rig.at(millis(24_000));
        assert_eq!(rig.next_wait(), Some(WARNING));
    }

    #[test]
    fn comes_again_after_a_confirmation() {
        let mut rig = Rig::working(plain());
        rig.until(|command| *command == Warn);
        rig.until(is_renewal);
        rig.renew(rig.now, 1, TTL);
        let confirmed = rig.sent(rig.attempt());
        let (at, _) = rig.until(|command| *command == Warn);
        assert_eq!(at, confirmed + WARNING);
    }

    #[test]
    fn comes_before_the_end_of_an_overslept_lease_is_told_or_not_at_all() {
        let mut rig = Rig::working(plain());
        assert!(!rig.at(OVER).contains(&Warn));
    }
}
