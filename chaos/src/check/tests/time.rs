//! How long things last, by which clock.

use super::*;

#[test]
fn real_time_counts() {
    // It is free, and then it is still held.
    two_holds().call(95, 96, acquire(3, 10), occupied(1, 11, 95, 5)).breaks(Kind::OutOfOrder);
}

#[test]
fn nothing_is_lost_before_its_time() {
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 51, renew(1, 11, 100), rejected("Expired"))
        .breaks(Kind::FalselyLost);
    // An answer that shows the end nearer than a renewal had put it.
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 51, renew(1, 11, 100), renewed(100))
        .call(60, 61, acquire(2, 100), occupied(1, 11, 60, 40))
        .breaks(Kind::FalselyLost);
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .holds(&[(11, 1, "EpochLost")])
        .breaks(Kind::FalselyLost);
}

#[test]
fn nothing_is_held_longer_than_it_was_granted() {
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(90, 91, acquire(2, 100), occupied(1, 11, 90, 110))
        .breaks(Kind::Phantom);
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(120, 121, renew(1, 11, 100), renewed(100))
        .breaks(Kind::NotAsCore);
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(120, 121, release(1, 11), Answer::Released)
        .breaks(Kind::NotAsCore);
}

#[test]
fn a_decision_is_made_within_its_call() {
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 51, acquire(2, 100), occupied(1, 11, 20, 80))
        .breaks(Kind::Clock);
    // Also by a clock that was set before: it is an hour off, and steady.
    let stepped = Told::new().line(Line::Stepped { from: 5 * MS, until: 6 * MS, ahead: -3600 });
    let held = |held| {
        stepped.clone().call(10, 11, acquire(1, 100), granted(11, 100)).call(
            60,
            61,
            acquire(2, 100),
            occupied(1, 11, held, 100 - held),
        )
    };
    held(50).is_right();
    held(20).breaks(Kind::Clock);
}

#[test]
fn a_step_of_the_clock_ends_leases_early_and_keeps_others_longer() {
    let step = |ahead| Line::Stepped { from: 20 * MS, until: 25 * MS, ahead };
    let early = Told::new().call(0, 1, acquire(1, 100), granted(11, 100)).call(
        50,
        51,
        acquire(2, 100),
        granted(12, 100),
    );
    early.breaks(Kind::TwoLive);
    early.line(step(3600)).is_right();
    let long = Told::new().call(0, 1, acquire(1, 100), granted(11, 100)).call(
        150,
        151,
        renew(1, 11, 100),
        renewed(100),
    );
    long.breaks(Kind::NotAsCore);
    long.line(step(-3600)).is_right();
}

#[test]
fn every_call_ends_in_time() {
    let slow = two_holds().call(200, 1_900, acquire(3, 10), unknown());
    slow.breaks(Kind::TooLong);
    // Unless its own process was stopped.
    slow.line(Line::Frozen { clients: vec![1], from: 300 * MS, until: 900 * MS }).is_right();
}

#[test]
fn leases_of_the_engine_end_after_whole_seconds_and_late_at_times() {
    let held = by_leases().call(0, 10, acquire(1, 400), granted(7, 1_000));
    // The whole second, and half a one that the engine takes to notice.
    held.clone().call(1_400, 1_410, acquire(2, 400), occupied(1, 7, 1_400, 0)).is_right();
    held.clone().call(1_011, 1_020, acquire(2, 400), granted(9, 1_000)).is_right();
    held.clone().call(900, 910, acquire(2, 400), granted(9, 1_000)).breaks(Kind::TwoLive);
    // What is left is told in whole seconds, rounded down, and no less than that.
    let long = by_leases().call(0, 10, acquire(1, 5_000), granted(7, 5_000));
    long.clone().call(100, 110, acquire(2, 400), occupied(1, 7, 100, 4_000)).is_right();
    long.call(100, 110, acquire(2, 400), occupied(1, 7, 100, 3_000)).breaks(Kind::FalselyLost);
    // It does not stand for ever, unless the server was away and gives it all of its time again.
    let late = acquire(2, 400);
    held.clone().call(2_000, 2_010, late.clone(), occupied(1, 7, 2_000, 0)).breaks(Kind::NotAsCore);
    let away = Line::Away { from: 500 * MS, until: 900 * MS };
    held.clone().line(away.clone()).call(2_000, 2_010, late.clone(), occupied(1, 7, 2_000, 0)).is_right();
    held.line(away).call(3_000, 3_010, late, occupied(1, 7, 3_000, 0)).breaks(Kind::NotAsCore);
}
