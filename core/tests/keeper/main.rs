//! Every rule of the keeper, by name.
//!
//! Most tests hold a lease of 30 s from second 0, renewed every 10 s, at risk 5 s before its end. With the drift
//! allowance of 30 ms taken off it is due at 9.99, at risk at 24.975, and over at 29.97.

#![allow(unused_must_use, clippy::panic, clippy::indexing_slicing)] // a story may pass over a command; tests may panic

mod ending;
mod keeping;
mod losing;
mod reported;
#[path = "../rig/mod.rs"]
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod taking;

use core::time::Duration;

use lease_machines::{
    Cadence,
    Command::{
        Acquire, AwaitVacancy, Reacquire, Release, ReleaseStray, Renew, StartWork, StopWork, WaitUntil, Warn,
        Withdraw,
    },
    Event, HolderState, KeeperOptions, Loss, NotHeld, Outcome,
    Rejection::{
        self, ClockRegressed, DeadlineOverflow, Expired, InvalidTtl, Occupied, StaleToken, TokensExhausted,
        Vacant, WrongOwner,
    },
    StopReason, Wait,
};
use rig::Rig;
use support::{TICK, millis, secs, token};

const TTL: Duration = secs(30);
const DUE: Duration = millis(9_990);
const WARNING: Duration = millis(24_975);
const OVER: Duration = millis(29_970);

fn cadence() -> Cadence {
    Cadence::new(TTL, secs(10), secs(5)).expect("a sound cadence")
}

fn plain() -> KeeperOptions {
    KeeperOptions::new(cadence())
}

fn waiting() -> KeeperOptions {
    plain().with_wait(Wait::Forever)
}

const GONE: [(Rejection, Loss); 4] =
    [(Vacant, Loss::Vacated), (WrongOwner, Loss::Taken), (StaleToken, Loss::Taken), (Expired, Loss::Expired)];

/// Answers that say that nothing was decided: as of the last request.
fn undecided(rig: &Rig) -> [Event; 4] {
    let attempt = rig.attempt();
    [
        Event::NoAnswer { attempt },
        Event::NotDone { attempt },
        Event::Refused { attempt },
        Event::Rejected { attempt, reason: ClockRegressed, remaining: Duration::ZERO },
    ]
}

fn is_renewal(command: &lease_machines::Command) -> bool {
    matches!(command, Renew { .. })
}

fn is_request(command: &lease_machines::Command) -> bool {
    matches!(
        command,
        Acquire { .. }
            | Reacquire { .. }
            | Renew { .. }
            | Release { .. }
            | Withdraw { .. }
            | ReleaseStray { .. }
    )
}

mod the_plain_course {
    use super::*;

    #[test]
    fn takes_keeps_and_gives_back() {
        let (mut rig, commands) = Rig::start(plain());
        assert_eq!(
            commands,
            [Acquire { attempt: 1, ttl: TTL, limit: millis(7_500) }, WaitUntil(millis(7_500))]
        );
        assert!(!rig.keeper.may_act(secs(0)));
        assert_eq!(rig.grant(secs(1), 1, TTL), [StartWork { token: token(1) }, WaitUntil(DUE)]);
        assert!(rig.keeper.may_act(secs(1)));

        let commands = rig.at(DUE);
        let [Renew { attempt: 2, token: renewed, ttl: TTL, limit }, WaitUntil(until)] = *commands else {
            panic!("{commands:?}")
        };
        assert_eq!((renewed, until), (token(1), limit));
        assert_eq!(rig.renew(secs(10), 1, TTL), [WaitUntil(DUE + DUE)]);

        let commands = rig.tell(secs(12), Event::WorkFinished);
        assert!(matches!(*commands, [Release { attempt: 3, token: t, .. }, WaitUntil(_)] if t == token(1)));
        assert!(!rig.keeper.may_act(secs(12)), "the work is over");
        assert_eq!(rig.outcome(), None);
        assert_eq!(rig.tell(secs(13), Event::Released { attempt: 3 }), []);
        assert_eq!(rig.outcome(), Some(Outcome::Stood));
    }

    #[test]
    fn says_nothing_more_once_it_is_over() {
        let mut rig = Rig::working(plain());
        rig.tell(secs(1), Event::WorkFinished);
        rig.tell(secs(2), Event::Released { attempt: 2 });
        for event in [
            Event::Tick,
            Event::WorkFinished,
            Event::StopRequested,
            Event::NewEpoch,
            Event::Fenced,
            Event::Woken,
        ] {
            assert_eq!(rig.tell(secs(3), event), []);
            assert_eq!(rig.outcome(), Some(Outcome::Stood));
        }
        assert_eq!(rig.at(Duration::MAX), []);
    }

    #[test]
    fn asked_twice_at_the_same_instant_says_the_same() {
        let mut rig = Rig::working(plain());
        assert_eq!(rig.at(secs(1)), [WaitUntil(DUE)]);
        assert_eq!(rig.at(secs(1)), [WaitUntil(DUE)]);
    }

    #[test]
    fn counts_every_request_by_a_number_of_its_own() {
        let mut rig = Rig::working(plain());
        for n in 2..6 {
            rig.until(is_renewal);
            assert_eq!(rig.attempt(), n);
            rig.renew(rig.now, 1, TTL);
        }
        rig.tell(rig.now, Event::WorkFinished);
        assert_eq!(rig.attempt(), 6);
    }

    #[test]
    fn takes_no_answer_for_that_of_another_request() {
        let answers = |attempt| {
            let mut answers = vec![
                Event::AlreadyDone { attempt },
                Event::NotDone { attempt },
                Event::NoAnswer { attempt },
                Event::Refused { attempt },
                Event::Released { attempt },
            ];
            answers.extend(
                [Occupied, InvalidTtl, DeadlineOverflow, TokensExhausted, ClockRegressed]
                    .map(|reason| Event::Rejected { attempt, reason, remaining: Duration::ZERO }),
            );
            answers
        };
        let acquiring = Rig::start(waiting()).0;
        let working = Rig::working(waiting());
        let mut renewing = Rig::working(waiting());
        renewing.at(DUE);
        let mut releasing = Rig::working(waiting());
        releasing.tell(secs(1), Event::WorkFinished);
        let mut withdrawing = Rig::start(waiting()).0;
        withdrawing.tell(secs(1), Event::StopRequested);
        let gone =
            |attempt| GONE.map(|(reason, _)| Event::Rejected { attempt, reason, remaining: Duration::ZERO });
        for rig in [&acquiring, &withdrawing] {
            for answer in [0, 99].into_iter().flat_map(gone) {
                let mut keeper = rig.keeper.clone();
                keeper.handle(answer, rig.now);
                assert_eq!(keeper, rig.keeper, "{answer:?}");
            }
        }
        for rig in [acquiring, working, renewing, releasing, withdrawing] {
            for answer in [0, 99].into_iter().flat_map(answers) {
                let mut keeper = rig.keeper.clone();
                keeper.handle(answer, rig.now);
                assert_eq!(keeper, rig.keeper, "{answer:?}");
            }
        }
    }

    #[test]
    fn takes_no_answer_that_does_not_fit_its_request() {
        let mut rig = Rig::working(plain());
        rig.at(DUE);
        for misfit in [Event::AlreadyDone { attempt: 2 }, Event::Released { attempt: 2 }] {
            rig.tell(DUE, misfit);
            assert!(rig.keeper.may_act(DUE), "{misfit:?}");
        }
        rig.tell(secs(11), Event::WorkFinished);
        rig.tell(secs(11), Event::AlreadyDone { attempt: rig.attempt() });
        assert_eq!(rig.outcome(), None);
    }

    #[test]
    fn holds_no_lease_before_the_grant() {
        let (rig, _) = Rig::start(plain());
        assert_eq!((rig.keeper.holder(), rig.keeper.stop_deadline()), (None, None));
    }
}
