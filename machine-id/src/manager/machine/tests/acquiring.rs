//! Getting a machine ID, or none.

use super::*;
use crate::{Id128, Layout};

#[test]
fn a_grant_that_comes_when_its_time_is_over_is_given_back() {
    let mut stage = Stage::new(Options::new().acquire_timeout(None), false);
    stage.commands();
    let sent = stage.now;
    stage.now += secs(20);
    let grant = Acquired::new(7, LeaseHandle::none(), secs(30));
    stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
    assert_eq!(stage.machine.held(), None);
    assert_eq!(stage.names(), ["not acquired", "release"]);
}

#[test]
fn a_grant_under_thirty_seconds_is_given_back_and_the_next_try_backs_off() {
    let mut stage = Stage::coordinated();
    stage.commands();
    stage.grant(secs(30) - Duration::from_nanos(1));
    assert_eq!(stage.names(), ["not acquired", "release"]);
    let attempt = stage.attempt();
    stage.handle(Event::Released { attempt });
    let until = stage.waits_until().expect("it backs off");
    assert!(until > stage.now);
    stage.now = until;
    assert_eq!(stage.names(), ["acquire"]);
    stage.grant(secs(29));
    stage.now += secs(60);
    stage.commands();
    assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::IllegalTtl(secs(29)))), "the real reason");
}

#[test]
fn a_start_that_fails_has_ended_once_what_nobody_heard_of_is_taken_back_or_after_five_seconds() {
    for is_answered in [true, false] {
        let mut stage = Stage::coordinated();
        stage.commands();
        stage.handle(Event::NotAcquired { attempt: 1, error: AcquireError::Refused("rights".into()) });
        assert_eq!(stage.names(), ["not acquired", "withdraw"]);
        assert!(stage.machine.end().is_some() && !stage.machine.has_ended());
        if is_answered {
            stage.handle(Event::Withdrawn);
        } else {
            stage.now += secs(5);
        }
        assert_eq!(stage.waits_until(), None);
        assert!(stage.machine.has_ended());
    }
}

#[test]
fn a_start_fails_with_the_real_reason() {
    let passing = [AcquireError::Exhausted("512 of 512".into()), AcquireError::Unreachable("refused".into())];
    for error in passing {
        let mut stage = Stage::coordinated();
        let begun = stage.now;
        loop {
            let names = stage.names();
            if stage.machine.end().is_some() {
                break;
            }
            if names.contains(&"acquire".to_owned()) {
                let attempt = stage.attempt();
                stage.handle(Event::NotAcquired { attempt, error: error.clone() });
            } else if let Some(until) = stage.waits_until() {
                stage.now = until;
            }
        }
        assert_eq!(stage.now, begun + secs(60));
        assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::Acquire(error))));
    }
    for error in [AcquireError::Refused("rights".into()), AcquireError::Misconfigured("a name".into())] {
        let mut stage = Stage::coordinated();
        stage.commands();
        stage.handle(Event::NotAcquired { attempt: 1, error: error.clone() });
        assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::Acquire(error))), "at once");
    }
}

#[test]
fn a_start_that_hears_nothing_says_so_and_gives_back_what_comes_late() {
    let mut stage = Stage::coordinated();
    stage.commands();
    let sent = stage.now;
    stage.now += secs(60);
    stage.commands();
    let end = stage.machine.end().cloned();
    assert!(matches!(end, Some(End::Failed(StartError::Acquire(AcquireError::Unreachable(_))))), "{end:?}");
    stage.now += secs(20);
    let grant = Acquired::new(7, LeaseHandle::none(), TTL);
    stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
    assert_eq!(stage.names(), ["release"]);
}

#[test]
fn a_machine_whose_clock_is_too_far_from_the_stores_does_not_start() {
    for (skew, starts) in [(secs(10), true), (secs(10) + Duration::from_nanos(1), false)] {
        let mut stage = Stage::coordinated();
        stage.commands();
        let grant = Acquired::new(7, LeaseHandle::none(), TTL);
        let sent = stage.now;
        stage.handle(Event::Acquired { attempt: 1, grant, sent, skew });
        assert_eq!(stage.machine.held().is_some(), starts);
        let failed = End::Failed(StartError::ClockSkew { found: skew, most: secs(10) });
        assert_eq!(stage.machine.end(), (!starts).then_some(&failed));
        assert_eq!(stage.names().contains(&"release".to_owned()), !starts);
    }
}

#[test]
fn a_machine_id_that_no_layout_has_room_for_is_given_back() {
    let wide = Layout::<Id128>::new(42, 10, 64).expect("sound");
    for (options, most) in [(Options::new(), 511), (Options::new().layout128(wide), 1023)] {
        for (machine_id, starts) in [(most, true), (most + 1, false)] {
            let mut stage = Stage::new(options, false);
            stage.commands();
            let grant = Acquired::new(machine_id, LeaseHandle::none(), TTL);
            let sent = stage.now;
            stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
            assert_eq!(stage.machine.held().is_some(), starts);
            let why = stage.machine.end().map(|end| format!("{end:?}")).unwrap_or_default();
            assert_eq!(why.contains(&format!("machine ID {machine_id} has no room")), !starts, "{why}");
            assert_eq!(stage.names().contains(&"release".to_owned()), !starts);
        }
    }
}

#[test]
fn once_it_has_started_it_goes_on_asking_whatever_the_reason() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::Signalled);
    stage.commands();
    stage.handle(Event::Released { attempt: 2 });
    let mut longest = Duration::ZERO;
    for _ in 0..30 {
        assert!(stage.names().contains(&"acquire".to_owned()));
        let attempt = stage.attempt();
        stage.handle(Event::NotAcquired { attempt, error: AcquireError::Refused("rights".into()) });
        stage.commands();
        let until = stage.waits_until().expect("it goes on");
        longest = longest.max(until - stage.now);
        stage.now = until;
    }
    assert!((secs(15)..=secs(30)).contains(&longest), "{longest:?}");
}
