//! Renewals that fall due at about the same time are sent at the same time, where the runtime asks for it.

use core::time::Duration;

use lease_machines::{Cadence, Command, Event, FencingToken, Keeper, KeeperOptions};

const TICK: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Takes a lease at `at` and answers nothing from then on; returns when renewals were sent.
fn renewals(options: KeeperOptions, at: Duration) -> Vec<Duration> {
    let mut keeper = Keeper::new(options, 7, at);
    let mut now = at;
    let mut sent = Vec::new();
    while keeper.outcome().is_none() {
        match keeper.poll(now) {
            Some(Command::Acquire { attempt, ttl, .. }) => {
                let token = FencingToken::new(1).expect("not zero");
                keeper.handle(Event::Granted { attempt, token, ttl, sent: now }, now);
            }
            Some(Command::Renew { .. }) => sent.push(now),
            Some(Command::StopWork { .. }) => keeper.handle(Event::WorkFinished, now),
            Some(Command::WaitUntil(until)) => now = until,
            Some(_) => {}
            None => break,
        }
    }
    sent
}

fn options(ttl: Duration) -> KeeperOptions {
    KeeperOptions::new(Cadence::new(ttl, ttl / 3, ttl / 3).expect("thirds"))
}

#[test]
fn renewals_due_within_a_tick_are_sent_together() {
    // The first term of 29 s is due for renewal after a third of it, 9.657 s less its drift allowance.
    for at in [1, 200, 330] {
        let sent = renewals(options(ms(29_000)).with_tick(TICK / 2), ms(at));
        assert_eq!(sent[0], ms(10_000), "taken at {at} ms");
    }
}

#[test]
fn without_a_tick_nothing_is_put_off() {
    let sent = renewals(options(ms(30_000)), ms(1));
    assert_eq!(sent[0], ms(9_991));
}

#[test]
fn a_first_term_that_was_cut_short_is_renewed_at_the_next_tick() {
    assert_eq!(renewals(options(ms(60_000)).with_tick(TICK), ms(300))[0], ms(1_000));
    assert_eq!(renewals(options(ms(60_000)), ms(300))[0], ms(300));
}

#[test]
fn short_leases_take_finer_ticks_that_meet_the_coarse_ones() {
    // 2,999 ms less a third: two thirds of a second until the warning would allow 62.4 ms; 62.5 is too much.
    let sent = renewals(options(ms(3_000)).with_tick(TICK), ms(0));
    assert_eq!(sent[0].as_micros() % 31_250, 0, "{sent:?}");
    assert!((ms(999)..ms(1_031)).contains(&sent[0]), "{sent:?}");
}

#[test]
fn a_renewal_due_before_the_warning_is_not_put_off_by_a_tick_that_is_long_beside_the_time_until_it() {
    // Due at 10.1, warned at 25.085, over at 30.08: a sixteenth of the time until the warning is less than a second, a
    // sixteenth of the time until the end is more.
    let cadence = Cadence::new(ms(30_000), ms(10_000), ms(5_000)).expect("sound");
    let sent = renewals(KeeperOptions::new(cadence).with_tick(TICK), ms(110));
    assert_eq!(sent[0], ms(10_500));
}

#[test]
fn a_renewal_due_at_the_warning_is_put_off_within_the_time_until_the_end() {
    // Due and warned at 24.975, over at 29.97: a sixteenth of the rest allows a quarter of a second.
    let cadence = Cadence::new(ms(30_000), ms(25_000), ms(5_000)).expect("sound");
    let sent = renewals(KeeperOptions::new(cadence).with_tick(TICK), ms(0));
    assert_eq!(sent[0], ms(25_000));
}

#[test]
fn a_tick_of_less_than_a_millisecond_puts_nothing_off_and_one_of_a_millisecond_does() {
    let tenth = Duration::from_micros(100);
    let due = |tick| renewals(options(ms(30_000)).with_tick(tick), tenth)[0];
    assert_eq!(due(Duration::from_micros(500)), ms(9_990) + tenth);
    assert_eq!(due(Duration::from_micros(999)), ms(9_990) + tenth);
    assert_eq!(due(ms(1)), ms(9_991));
}

#[test]
fn ticks_leave_room_for_as_many_attempts() {
    for ttl in [ms(10), ms(100), ms(3_000), ms(60_000), ms(3_600_000)] {
        for at in [0, 1, 333, 777] {
            let without = renewals(options(ttl), ms(at)).len();
            let with = renewals(options(ttl).with_tick(TICK), ms(at)).len();
            assert!(with >= 3.min(without), "{with} attempts with ticks, {without} without, ttl {ttl:?}");
        }
    }
}
