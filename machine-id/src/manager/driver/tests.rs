//! The manager's thread, where it dies.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Fixed, Id64, IdError, Manager, Options, Reason};

const LONG: Duration = Duration::from_secs(60);

/// A manager whose thread is dead must not keep the factories on.
#[test]
fn ids_stop_in_time_also_where_the_thread_dies_over_whatever_it_does() {
    let (lease, interval) = (Duration::from_secs(30), Duration::from_secs(20));
    let options = Options::new().lease_duration(lease).renew_interval(interval);
    let manager = Manager::start(Fixed(1), options).expect("it starts");
    let (ids, begun) = (manager.counter::<Id64>(), lease_machines_os::boot_time());
    manager.shared.lock().machine.spoil();
    let error = loop {
        let asked_at = lease_machines_os::boot_time();
        match ids.next() {
            Ok(_) => assert!(asked_at < begun + interval, "made when the lease had less than 10 s left"),
            Err(error) => break error,
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(error, IdError::Disabled(Reason::Expired));
}

#[test]
fn a_stop_returns_also_where_the_thread_dies_over_whatever_it_does() {
    let manager = Manager::start(Fixed(1), Options::new()).expect("it starts");
    let ids = manager.counter::<Id64>();
    assert!(ids.next().is_ok());
    manager.shared.lock().machine.spoil();
    let (shared, begun) = (Arc::downgrade(&manager.shared), Instant::now());
    manager.stop();
    assert!(begun.elapsed() < LONG, "some five seconds, and not a thread that will never answer");
    assert_eq!(ids.next(), Err(IdError::Disabled(Reason::Stopped)));
    // It does not die for ever, either.
    drop(manager);
    while shared.strong_count() > 0 {
        assert!(begun.elapsed() < LONG, "its thread goes on");
        thread::sleep(Duration::from_millis(10));
    }
}
