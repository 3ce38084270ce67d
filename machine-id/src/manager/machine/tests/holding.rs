//! Renewing in time, and until when a lease may be used.

use super::*;

#[test]
fn renewals_come_at_the_interval_less_ten_seconds_and_never_under_five() {
    for (interval, ttl, expected) in [
        (1_800, 28_800, 1_790),
        (1_800, 1_800, 1_780),
        (1_800, 60, 40),
        (20, 28_800, 10),
        (1_800, 30, 10),
        (20, 31, 10),
    ] {
        let options = Options::new().renew_interval(secs(interval));
        let mut stage = Stage::new(options, false).held(secs(ttl));
        let begun = stage.now;
        assert_eq!(stage.waits_until(), Some(begun + secs(expected)), "{interval} {ttl}");
        assert_eq!(stage.machine.held(), Some((7, begun + secs(ttl - 10))));
        stage.now = begun + secs(expected);
        assert_eq!(stage.names(), ["renew"]);
    }
}

#[test]
fn the_deadline_counts_from_before_the_request_was_sent() {
    let mut stage = Stage::coordinated();
    assert_eq!(stage.names(), ["acquire"]);
    let sent = stage.now;
    stage.now += secs(25);
    let grant = Acquired::new(7, LeaseHandle::none(), secs(60));
    stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
    assert_eq!(stage.machine.held(), Some((7, sent + secs(50))));
    stage.commands();
    // It is renewed at sent + 40; the answer takes a second.
    stage.now = sent + secs(40);
    assert_eq!(stage.names(), ["renew"]);
    let renewal = stage.now;
    stage.now += secs(1);
    let renewed = Renewed::new(LeaseHandle::none(), secs(60));
    stage.handle(Event::Renewed { attempt: 2, renewed, sent: renewal });
    assert_eq!(stage.machine.held(), Some((7, renewal + secs(50))));
}

#[test]
fn doubt_keeps_the_factories_on_until_the_deadline() {
    let mut stage = Stage::coordinated().held(secs(60));
    let begun = stage.now;
    let mut tries = 0;
    loop {
        stage.now = stage.waits_until().expect("it goes on");
        let commands = stage.names();
        if commands.contains(&"turn off".to_owned()) {
            assert_eq!(commands[..2], ["turn off", "lost"]);
            break;
        }
        if commands.contains(&"renew".to_owned()) {
            tries += 1;
            stage.not_renewed(unclear());
            assert_eq!(stage.names(), ["not renewed"]);
        }
        assert!(stage.now < begun + secs(50));
    }
    assert_eq!(stage.now, begun + secs(50), "ttl less 10 s");
    assert!((4..40).contains(&tries), "{tries} tries in 10 s");
}

/// A manager that cannot expire while a call hangs went on making IDs past its lease.
#[test]
fn a_hung_renewal_delays_neither_the_next_try_nor_the_loss() {
    let mut stage = Stage::coordinated().held(secs(60));
    let begun = stage.now;
    stage.now += secs(40);
    assert_eq!(stage.names(), ["renew"]);
    // A quarter of what is left, then it is asked again.
    assert_eq!(stage.waits_until(), Some(begun + secs(40) + Duration::from_millis(2_500)));
    stage.now = begun + secs(40) + Duration::from_millis(2_500);
    assert_eq!(stage.names(), ["not renewed"]);
    stage.now = begun + secs(44);
    assert_eq!(stage.names(), ["renew"]);
    // The first answers after all: it is the older attempt, and the newer one is not answered yet.
    let renewed = Renewed::new(LeaseHandle::none(), secs(60));
    stage.handle(Event::Renewed { attempt: 2, renewed, sent: begun + secs(40) });
    assert_eq!(stage.names(), ["extend", "renewed"]);
    assert_eq!(stage.machine.held(), Some((7, begun + secs(90))));
}

#[test]
fn an_answer_that_comes_after_the_deadline_revives_nothing() {
    let mut stage = Stage::coordinated().held(secs(60));
    stage.now += secs(40);
    assert_eq!(stage.names(), ["renew"]);
    let sent = stage.now;
    stage.now += secs(10);
    let renewed = Renewed::new(LeaseHandle::none(), secs(60));
    stage.handle(Event::Renewed { attempt: 2, renewed, sent });
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
}

/// A manager is dead while its factories are on.
#[test]
fn a_manager_that_died_goes_on_with_one_renewal_before_anything_else() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.now += secs(100);
    stage.machine.resume(stage.now);
    assert_eq!(stage.names(), ["renew"]);
    stage.renew(TTL);
    assert_eq!(stage.names(), ["extend", "renewed"], "and goes on");
    // Dead for longer than it held: nothing is to be renewed.
    stage.now += TTL;
    stage.machine.resume(stage.now);
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
}
