//! Losing a machine ID, giving it back, and stopping.

use super::*;

#[test]
fn a_renewal_under_thirty_seconds_is_a_loss() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.now += secs(1_790);
    stage.commands();
    stage.renew(secs(29));
    let commands = stage.commands();
    assert_eq!(commands.iter().map(name).collect::<Vec<_>>(), ["turn off", "lost", "release"]);
    assert!(matches!(commands[0], Command::TurnOff { reason: Reason::IllegalTtl }));
    assert!(
        matches!(&commands[2], Command::Release { lease, .. } if lease.get() == Some(&2_u64)),
        "what was granted"
    );
    let attempt = stage.attempt();
    stage.handle(Event::Released { attempt });
    assert_eq!(stage.names(), ["released"]);
    assert!(stage.waits_until().expect("it backs off") > stage.now);
}

#[test]
fn a_loss_turns_off_first_then_tells_then_releases_and_then_asks_again() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.now += secs(1_790);
    stage.commands();
    stage.not_renewed(lost("another has it"));
    let commands = stage.commands();
    assert_eq!(commands.iter().map(name).collect::<Vec<_>>(), ["turn off", "lost", "release"]);
    assert!(matches!(&commands[1], Command::Tell(Notice::Lost { why, .. }) if why == "another has it"));
    assert!(matches!(commands[2], Command::Release { used: Used::AsTurnedOff, .. }));
    let attempt = stage.attempt();
    stage.handle(Event::Released { attempt });
    assert_eq!(stage.names(), ["acquire"], "what is another's by now was not given back");
    stage.grant(TTL);
    assert_eq!(stage.names(), ["turn on", "acquired"]);
}

#[test]
fn a_release_is_told_where_it_was_carried_out_and_in_time() {
    for (event, told) in [
        (Event::Released { attempt: 2 }, &["released", "acquire"][..]),
        (Event::NotReleased { attempt: 2 }, &["acquire"]),
        (Event::Released { attempt: 1 }, &[]),
    ] {
        let mut stage = Stage::coordinated().held(TTL);
        stage.handle(Event::Signalled);
        assert_eq!(stage.names(), ["turn off", "lost", "release"]);
        stage.handle(event);
        assert_eq!(stage.names(), told);
        // Later than it was waited for, it is of no interest.
        stage.now += secs(5);
        stage.commands();
        stage.handle(Event::Released { attempt: 2 });
        assert!(!stage.names().contains(&"released".to_owned()));
    }
}

#[test]
fn what_is_another_identitys_is_told_as_a_conflict_and_ends_the_start() {
    let mut stage = Stage::new(Options::new(), true);
    stage.commands();
    let error = AcquireError::Conflict("db-1 has it".into());
    stage.handle(Event::NotAcquired { attempt: 1, error: error.clone() });
    assert_eq!(stage.names(), ["conflict", "withdraw"]);
    assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::Acquire(error))));
}

#[test]
fn a_release_that_hangs_holds_up_the_next_acquire_for_five_seconds() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::Signalled);
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
    assert_eq!(stage.waits_until(), Some(stage.now + secs(5)));
    stage.now += secs(5);
    assert_eq!(stage.names(), ["acquire"]);
}

#[test]
fn a_deterministic_strategy_is_not_asked_again() {
    let mut stage = Stage::new(Options::new(), true).held(TTL);
    stage.handle(Event::Signalled);
    assert_eq!(stage.names(), ["turn off", "lost", "withdraw", "release"]);
    assert_eq!(stage.machine.end(), Some(&End::Lost(Reason::Signalled)));
    stage.handle(Event::Withdrawn);
    stage.handle(Event::Released { attempt: 2 });
    assert_eq!(stage.names(), ["released"]);
    assert_eq!(stage.waits_until(), None);
    assert!(stage.machine.has_ended());
}

#[test]
fn a_stop_turns_off_releases_and_then_has_ended() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::StopRequested);
    assert_eq!(stage.names(), ["turn off", "withdraw", "release"], "nothing is lost");
    assert!(!stage.machine.has_ended());
    stage.handle(Event::Withdrawn);
    assert_eq!(stage.waits_until(), Some(stage.now + secs(5)), "for the release, too");
    stage.handle(Event::Released { attempt: 2 });
    assert_eq!(stage.names(), ["released"], "told also where it is the last thing");
    assert_eq!(stage.waits_until(), None);
    assert_eq!((stage.machine.has_ended(), stage.machine.end()), (true, Some(&End::Stopped)));
}

#[test]
fn a_stop_while_it_asks_takes_back_what_nobody_hears_of_and_gives_back_what_it_gets() {
    let mut stage = Stage::coordinated();
    stage.commands();
    stage.handle(Event::StopRequested);
    assert_eq!(stage.names(), ["turn off", "withdraw"]);
    stage.handle(Event::Withdrawn);
    assert!(!stage.machine.has_ended(), "the call is still in flight");
    stage.grant(TTL);
    assert_eq!(stage.names(), ["release"]);
    stage.handle(Event::Released { attempt: 2 });
    assert!(stage.names().is_empty(), "it was never had");
    assert!(stage.machine.has_ended());
}

#[test]
fn a_stop_waits_no_longer_than_five_seconds() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::StopRequested);
    stage.commands();
    stage.now += secs(5);
    stage.commands();
    assert!(stage.machine.has_ended());
}
