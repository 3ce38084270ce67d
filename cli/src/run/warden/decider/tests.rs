//! The scenarios of a lease and the command under it, on a clock that a test moves.

use lease_machines::{Cadence, NotHeld, Rejection};

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const TTL: Duration = ms(10_000);

fn token() -> FencingToken {
    FencingToken::new(7).unwrap()
}

/// ttl 10 s, renewed and at risk by thirds; 2 s from TERM to KILL, the margin is 500 ms.
fn decider() -> Decider {
    let cadence = Cadence::new(TTL, TTL / 3, TTL / 3).unwrap();
    Decider::new(KeeperOptions::new(cadence), Times::new(TTL, ms(2_000)), Leftover::Wait, 1, ms(0))
}

fn running() -> Decider {
    let mut decider = decider();
    let Action::Request(Command::Acquire { attempt, .. }) = decider.next(Left::Nothing, ms(0)) else {
        unreachable!()
    };
    decider.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
    assert_eq!(decider.next(Left::Nothing, ms(1)), Action::Start(token()));
    decider.started();
    decider
}

/// Everything it wants to do at `now` before it waits.
fn all(decider: &mut Decider, left: Left, now: Duration) -> Vec<Action> {
    let mut actions = Vec::new();
    loop {
        let action = decider.next(left, now);
        actions.push(action);
        if matches!(action, Action::WaitUntil(_) | Action::AwaitVacancy(_) | Action::Done(_)) {
            return actions;
        }
    }
}

/// The machine slept for an hour. Nothing may be sent before KILL, and no TERM at all: the command must not run on
/// to hear it.
#[test]
fn scenario_25_woken_past_the_deadline_kill_comes_before_any_request_and_no_term() {
    let mut decider = running();
    assert!(matches!(all(&mut decider, Left::Here, ms(10))[..], [Action::WaitUntil(_)]));
    let woken = all(&mut decider, Left::Here, ms(3_600_000));
    assert_eq!(woken[0], Action::Kill(Scope::All), "{woken:?}");
    assert!(woken.iter().all(|action| matches!(action, Action::Kill(_) | Action::WaitUntil(_))), "{woken:?}");
    decider.course().unwrap().command_ended(Ended::Signal(9));
    assert!(matches!(decider.next(Left::Nothing, ms(3_600_005)), Action::Done(Outcome::Lost(_))));
}

/// The same with a renewal on its way when the machine fell asleep, and its good answer waiting at waking.
#[test]
fn scenario_25_an_answer_that_waited_revives_nothing() {
    let mut decider = running();
    let Action::Request(Command::Renew { attempt, .. }) = decider.next(Left::Here, ms(3_400)) else {
        unreachable!()
    };
    let woken = ms(3_600_000);
    decider.heard(Event::Renewed { attempt, token: token(), ttl: TTL, sent: ms(3_400) }, woken);
    assert_eq!(decider.next(Left::Here, woken), Action::Kill(Scope::All));
}

#[test]
fn a_store_that_never_answers_brings_term_well_before_kill_and_both_before_the_deadline() {
    let mut decider = running();
    let mut now = ms(10);
    let (mut term, mut kill) = (None, None);
    while kill.is_none() {
        for action in all(&mut decider, Left::Here, now) {
            match action {
                Action::Term(Scope::All) => term = Some(now),
                Action::Kill(Scope::All) => kill = Some(now),
                Action::WaitUntil(until) => now = until,
                Action::Request(Command::Renew { .. }) | Action::Warn => assert_eq!(kill, None),
                other => unreachable!("{other:?}"),
            }
            if kill.is_some() {
                break;
            }
        }
    }
    // The deadline is 10 s less a drift allowance of 10 ms.
    assert_eq!((term, kill), (Some(ms(7_490)), Some(ms(9_490))));
    assert_eq!(decider.loss(), Some(Loss::Unreachable));
}

#[test]
fn a_renewal_after_term_keeps_the_lease_but_not_the_command() {
    let mut decider = running();
    let mut renewal = None;
    let mut now = ms(10);
    'told: loop {
        for action in all(&mut decider, Left::Here, now) {
            match action {
                Action::Request(Command::Renew { attempt, .. }) => renewal = Some((attempt, now)),
                Action::WaitUntil(until) => now = until,
                Action::Term(_) => break 'told,
                _ => {}
            }
        }
    }
    if let Action::Request(Command::Renew { attempt, .. }) = decider.next(Left::Here, now) {
        renewal = Some((attempt, now));
    }
    let (attempt, sent) = renewal.unwrap();
    decider.heard(Event::Renewed { attempt, token: token(), ttl: TTL, sent }, now + ms(1));
    assert!(decider.deadline().unwrap() > ms(15_000));
    decider.course().unwrap().command_ended(Ended::Code(0));
    let Action::Request(Command::Release { attempt, .. }) = decider.next(Left::Nothing, now + ms(5)) else {
        unreachable!()
    };
    decider.heard(Event::Released { attempt }, now + ms(6));
    assert!(matches!(decider.next(Left::Nothing, now + ms(6)), Action::Done(Outcome::Lost(_))));
}

#[test]
fn a_refused_renewal_brings_term_at_once() {
    let mut decider = running();
    let Action::Request(Command::Renew { attempt, .. }) = decider.next(Left::Here, ms(3_400)) else {
        unreachable!()
    };
    let reason = Rejection::Vacant;
    decider.heard(Event::Rejected { attempt, reason, remaining: Duration::ZERO }, ms(3_401));
    assert_eq!(decider.next(Left::Here, ms(3_401)), Action::Term(Scope::All));
    assert_eq!(decider.next(Left::Here, ms(3_402)), Action::WaitUntil(ms(5_401)));
    assert_eq!(decider.next(Left::Here, ms(5_401)), Action::Kill(Scope::All));
    assert_eq!((decider.loss(), decider.why()), (Some(Loss::Vacated), Some(Why::Lost)));
}

/// Granted, and told to raise the mark at 1 ms.
fn marking() -> Decider {
    let mut decider = decider().with_fence();
    let Action::Request(Command::Acquire { attempt, .. }) = decider.next(Left::Nothing, ms(0)) else {
        unreachable!()
    };
    decider.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
    assert_eq!(decider.next(Left::Nothing, ms(1)), Action::Advance(token()));
    decider
}

#[test]
fn the_command_starts_once_the_mark_stands_and_the_lease_is_renewed_meanwhile() {
    let mut decider = marking();
    assert!(matches!(decider.next(Left::Nothing, ms(2)), Action::WaitUntil(_)), "asked for once");
    assert!(matches!(decider.next(Left::Nothing, ms(3_400)), Action::Request(Command::Renew { .. })));
    decider.marked();
    assert_eq!(decider.next(Left::Nothing, ms(3_401)), Action::Start(token()));
    decider.started();
    assert!(matches!(decider.next(Left::Here, ms(3_402)), Action::WaitUntil(_)), "started once");
}

#[test]
fn nothing_starts_under_a_lease_that_was_lost_while_the_mark_was_raised() {
    let mut decider = marking();
    let lost = all(&mut decider, Left::Nothing, ms(60_000));
    assert!(decider.is_work_over(), "{lost:?}");
    decider.marked();
    let late = all(&mut decider, Left::Nothing, ms(60_001));
    assert!(!late.iter().any(|action| matches!(action, Action::Start(_))), "{late:?}");
}

#[test]
fn a_mark_that_cannot_be_raised_gives_the_lease_back() {
    let mut decider = marking();
    decider.could_not_start(ms(5));
    let actions = all(&mut decider, Left::Nothing, ms(5));
    assert!(matches!(actions[0], Action::Request(Command::Release { .. })), "{actions:?}");
}

const OTHER: Event = Event::Rejected { attempt: 1, reason: Rejection::Occupied, remaining: ms(60_000) };

/// A wait that is shorter than the way to the store and back.
fn waiting() -> Decider {
    let wait = Wait::Until(ms(1));
    let cadence = Cadence::new(TTL, TTL / 3, TTL / 3).unwrap();
    let options = KeeperOptions::new(cadence).with_wait(Patience::of_keeper(wait, TTL, ms(0)));
    let mut decider =
        Decider::new(options, Times::new(TTL, ms(2_000)), Leftover::Wait, 1, ms(0)).with_wait(wait);
    assert!(matches!(
        decider.next(Left::Nothing, ms(0)),
        Action::Request(Command::Acquire { attempt: 1, .. })
    ));
    decider
}

#[test]
fn a_short_wait_does_not_cut_the_first_answer_short() {
    let mut decider = waiting();
    assert!(matches!(decider.next(Left::Nothing, ms(40)), Action::WaitUntil(_)));
    decider.heard(Event::Granted { attempt: 1, token: token(), ttl: TTL, sent: ms(0) }, ms(50));
    assert_eq!(decider.next(Left::Nothing, ms(50)), Action::Start(token()));
    let mut decider = waiting();
    decider.heard(OTHER, ms(50));
    assert_eq!(decider.next(Left::Nothing, ms(50)), Action::Done(Outcome::NotHeld(NotHeld::Occupied)));
}

#[test]
fn what_is_granted_after_the_wait_for_another_is_given_back() {
    let wait = Wait::Until(ms(300));
    let cadence = Cadence::new(TTL, TTL / 3, TTL / 3).unwrap();
    let options = KeeperOptions::new(cadence).with_wait(Patience::of_keeper(wait, TTL, ms(0)));
    let mut decider =
        Decider::new(options, Times::new(TTL, ms(2_000)), Leftover::Wait, 1, ms(0)).with_wait(wait);
    let _ = decider.next(Left::Nothing, ms(0));
    decider.heard(OTHER, ms(1));
    assert_eq!(decider.next(Left::Nothing, ms(1)), Action::AwaitVacancy(ms(300)));
    decider.heard(Event::Woken, ms(100));
    let Action::Request(Command::Acquire { attempt, .. }) = decider.next(Left::Nothing, ms(100)) else {
        unreachable!()
    };
    assert_eq!(decider.next(Left::Nothing, ms(101)), Action::WaitUntil(ms(300)));
    decider.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(100) }, ms(300));
    let actions = all(&mut decider, Left::Nothing, ms(300));
    assert!(!actions.iter().any(|action| matches!(action, Action::Start(_))), "{actions:?}");
    assert!(
        actions.iter().any(|action| matches!(action, Action::Request(Command::Withdraw { .. }))),
        "{actions:?}"
    );
}

#[test]
fn who_does_not_wait_takes_not_done_for_an_answer_after_a_second() {
    let mut decider = decider().with_wait(Wait::No);
    let mut now = ms(0);
    let outcome = loop {
        match decider.next(Left::Nothing, now) {
            Action::Request(Command::Acquire { attempt, .. }) => {
                decider.heard(Event::NotDone { attempt }, now)
            }
            Action::WaitUntil(until) => now = until,
            Action::Done(outcome) => break outcome,
            other => unreachable!("{other:?}"),
        }
    };
    assert_eq!(outcome, Outcome::NotHeld(NotHeld::Unreachable));
    assert!(now >= ms(1_000) && now < ms(5_000), "{now:?}");
}

#[test]
fn nothing_starts_while_the_front_is_stopped() {
    let mut decider = decider();
    decider.pause(true);
    let Action::Request(Command::Acquire { attempt, .. }) = decider.next(Left::Nothing, ms(0)) else {
        unreachable!()
    };
    decider.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
    assert!(matches!(decider.next(Left::Nothing, ms(1)), Action::WaitUntil(_)));
    assert!(matches!(decider.next(Left::Nothing, ms(3_400)), Action::Request(Command::Renew { .. })));
    decider.pause(false);
    assert_eq!(decider.next(Left::Nothing, ms(3_401)), Action::Start(token()));
}

#[test]
fn giving_up_while_the_front_is_stopped_gives_the_lease_back() {
    let mut decider = decider();
    decider.pause(true);
    let Action::Request(Command::Acquire { attempt, .. }) = decider.next(Left::Nothing, ms(0)) else {
        unreachable!()
    };
    decider.heard(Event::Granted { attempt, token: token(), ttl: TTL, sent: ms(0) }, ms(1));
    let _ = decider.next(Left::Nothing, ms(1));
    decider.give_up(ms(2));
    assert!(matches!(decider.next(Left::Nothing, ms(2)), Action::Request(Command::Release { .. })));
}

#[test]
fn giving_up_a_wait_withdraws_what_is_on_its_way() {
    let mut decider = decider();
    let _ = decider.next(Left::Nothing, ms(0));
    decider.give_up(ms(5));
    let Action::Request(Command::Withdraw { attempt, .. }) = decider.next(Left::Nothing, ms(5)) else {
        unreachable!()
    };
    decider.heard(Event::Released { attempt }, ms(6));
    assert_eq!(decider.next(Left::Nothing, ms(6)), Action::Done(Outcome::NotHeld(NotHeld::Stopped)));
}
