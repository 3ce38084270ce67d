//! Interleavings of takers with whoever starts and stops the source, by the model checker `loom`: all of them with one
//! preemption in seconds (`script/test ids`), with two, for who counts, in a minute or two (`LOOM_MAX_PREEMPTIONS`).

use std::time::Duration;

use lease_machines_os::Generation;
use loom::sync::Arc;
use loom::thread;

use super::{Source, Term};
use crate::{Clock, Id64, Layout, Reason};

/// Stands still.
#[derive(Debug)]
struct Still;

const NOW: Duration = Duration::from_secs(1_800_000_000);

impl Clock for Still {
    fn boot(&self) -> u64 {
        1
    }

    fn wall(&self) -> u64 {
        NOW.as_nanos() as u64
    }

    fn pause(&self, _left: u64) {
        thread::yield_now();
    }
}

fn source() -> Arc<Source<Id64, Still>> {
    Arc::new(Source::new(Layout::default(), Duration::ZERO, Still, Generation::current()))
}

fn term() -> Term {
    term_until(NOW + Duration::from_secs(1))
}

/// With a window that ends then.
fn term_until(until: Duration) -> Term {
    let window = lease_machines::Window { after: Duration::ZERO, until };
    Term { deadline: Duration::from_secs(1), window: Some(window) }
}

/// Stamp and machine of whoever gets one.
fn take(source: &Source<Id64, Still>, sorted: bool) -> Option<(u64, u16)> {
    let taken = if sorted { source.take_sorted(1) } else { source.take_counting(1) };
    taken.ok().map(|taken| {
        let id = source.id(taken, 0);
        (taken.first, source.layout().decode(id).machine_id)
    })
}

/// One thread takes while another ends the term and begins the next.
fn across_terms(sorted: bool) {
    loom::model(move || {
        let source = source();
        source.start(1, term());
        let taker = {
            let source = Arc::clone(&source);
            thread::spawn(move || take(&source, sorted))
        };
        let used = source.close(Reason::Lost);
        let floor = source.lock().floor;
        source.start(2, term());
        let own = take(&source, sorted).expect("it is on");
        let other = taker.join().expect("no panic");

        assert_eq!(own.1, 2);
        if let Some((stamp, machine)) = other {
            assert_ne!(stamp, own.0, "a stamp was given twice");
            match machine {
                1 => assert!(stamp < floor && used.is_some(), "it was given, and not counted"),
                _ => assert!(stamp >= floor, "a stamp of the term before with the machine ID of this one"),
            }
        }
    });
}

#[test]
fn no_count_is_given_twice_or_with_another_machine_id() {
    across_terms(false);
}

#[test]
fn no_sorted_stamp_is_given_twice_or_with_another_machine_id() {
    across_terms(true);
}

#[test]
fn two_takers_never_get_one_stamp() {
    loom::model(|| {
        let source = source();
        source.start(1, term());
        let taker = {
            let source = Arc::clone(&source);
            thread::spawn(move || take(&source, true))
        };
        let own = take(&source, false);
        assert_ne!(own, taker.join().expect("no panic"));
    });
}

#[test]
fn once_it_is_closed_nobody_gets_anything() {
    loom::model(|| {
        let source = source();
        source.start(1, term());
        let taker = {
            let source = Arc::clone(&source);
            thread::spawn(move || take(&source, false))
        };
        let used = source.close(Reason::Lost);
        let late = take(&source, false);
        let other = taker.join().expect("no panic");
        assert_eq!(late, None);
        assert!(other.is_none() || used.is_some(), "it was given, and not counted");
    });
}

/// Two threads take so many each, one of them while the other has a renewal move the window up to where they are, takes its own,
/// and ends the lease. No stamp is given twice, and none that the end does not count.
fn across_a_renewal(others: u64, mine: u64) {
    loom::model(move || {
        let source = source();
        source.start(1, term_until(NOW - Duration::from_millis(1)));
        let taker = {
            let source = Arc::clone(&source);
            thread::spawn(move || source.take_counting(others).ok())
        };
        source.extend(term());
        let own = source.take_counting(mine).expect("it is on");
        let used = source.close(Reason::Lost);
        let floor = source.lock().floor;

        let mut given = Vec::new();
        for taken in [Some(own), taker.join().expect("no panic")].into_iter().flatten() {
            let stamps = taken.first..taken.first + taken.count;
            assert!(used.is_some() && stamps.end <= floor, "it was given, and not counted");
            given.extend(stamps);
        }
        let all = given.len();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), all, "a stamp was given twice");
    });
}

#[test]
fn no_part_is_given_twice_while_the_window_moves() {
    across_a_renewal(2, 3);
}

#[test]
fn no_single_one_is_given_twice_while_the_window_moves() {
    across_a_renewal(1, 1);
}
