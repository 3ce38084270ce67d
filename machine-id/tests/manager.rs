//! The manager with its threads, over strategies that answer as a test says.

#![allow(clippy::panic)] // tests may

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lease_machines_id::{
    AcquireError, Acquired, CallOptions, ClockError, EnvironmentVariable, Fixed, HostIdentifiers, Id, Id64,
    Id96, Id128, IdError, Layout, LeaseHandle, Manager, Notice, Options, OptionsError, Reason, RenewError,
    Renewed, StartError, Strategy, Window,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// What a call does.
type Answer<T, E> = Box<dyn Fn(u32) -> Result<T, E> + Send + Sync>;

/// A strategy that answers as it is told, and remembers what it was asked.
struct Told {
    acquire: Answer<Acquired, AcquireError>,
    renew: Answer<Renewed, RenewError>,
    deterministic: bool,
    acquired: AtomicU32,
    renewed: AtomicU32,
    released: Arc<Mutex<Vec<Option<Duration>>>>,
    withdrawn: Arc<AtomicU32>,
}

impl Told {
    fn new(acquire: impl Fn(u32) -> Result<Acquired, AcquireError> + Send + Sync + 'static) -> Self {
        Self {
            acquire: Box::new(acquire),
            renew: Box::new(|_| Ok(Renewed::new(LeaseHandle::none(), secs(60)))),
            deterministic: false,
            acquired: AtomicU32::new(0),
            renewed: AtomicU32::new(0),
            released: Arc::default(),
            withdrawn: Arc::default(),
        }
    }

    fn renewing(
        mut self,
        renew: impl Fn(u32) -> Result<Renewed, RenewError> + Send + Sync + 'static,
    ) -> Self {
        self.renew = Box::new(renew);
        self
    }
}

impl Strategy for Told {
    fn acquire(&self, _: Duration, _: &CallOptions) -> Result<Acquired, AcquireError> {
        (self.acquire)(self.acquired.fetch_add(1, Ordering::SeqCst))
    }

    fn renew(&self, _: &LeaseHandle, _: Duration, _: &CallOptions) -> Result<Renewed, RenewError> {
        (self.renew)(self.renewed.fetch_add(1, Ordering::SeqCst))
    }

    fn release(&self, _: &LeaseHandle, options: &CallOptions) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).push(options.last_used);
    }

    fn withdraw(&self, _: &CallOptions) {
        self.withdrawn.fetch_add(1, Ordering::SeqCst);
    }

    fn deterministic(&self) -> bool {
        self.deterministic
    }
}

fn grant(machine_id: u16, ttl: u64) -> Result<Acquired, AcquireError> {
    Ok(Acquired::new(machine_id, LeaseHandle::none(), secs(ttl)))
}

fn start(strategy: impl Strategy) -> (Manager, Receiver<Notice>) {
    let (sender, receiver) = channel();
    let manager = Manager::start_with(strategy, Options::new(), move |notice| {
        let _ = sender.send(notice);
    });
    (manager.expect("it starts"), receiver)
}

#[track_caller]
fn wait_for(notices: &Receiver<Notice>, is_it: impl Fn(&Notice) -> bool) -> Notice {
    loop {
        let notice = notices.recv_timeout(PATIENCE).expect("another notice");
        if is_it(&notice) {
            return notice;
        }
    }
}

#[test]
fn a_static_strategy_is_one_method() {
    let manager = Manager::start(Fixed(300), Options::new()).expect("it starts");
    assert_eq!(manager.machine_id(), Some(300));
    let ids = manager.counter::<Id64>();
    let id = ids.next().expect("held");
    assert_eq!(ids.layout().decode(id).machine_id, 300);
    assert_eq!(Layout::<Id96>::default().decode(manager.sortable().next().expect("held")).machine_id, 300);
    assert_eq!(Layout::<Id128>::default().decode(manager.counter().next().expect("held")).machine_id, 300);
    manager.stop();
    assert_eq!(ids.next(), Err(IdError::Disabled(Reason::Stopped)));
}

/// For callers that must not block.
#[test]
fn whoever_does_not_wait_is_told_that_the_clock_is_behind() {
    let two_a_tick = Layout::<Id64>::new(41, 10, 1).expect("sound");
    let manager = Manager::start(Fixed(1), Options::new().layout64(two_a_tick)).expect("it starts");
    let (counter, sortable) = (manager.counter::<Id64>(), manager.sortable::<Id64>());
    let is_behind = |error| matches!(error, Some(IdError::Clock(ClockError::Behind(_))));
    // Of what takes seconds.
    const MANY: usize = 20_000;
    assert!((0..MANY).any(|_| is_behind(sortable.try_next().err())));
    assert!(is_behind(sortable.try_next_batch(MANY).err()));
    assert!(sortable.next().is_ok(), "it waits");
    assert!((0..MANY).any(|_| is_behind(counter.try_next().err())));
    assert!(is_behind(counter.try_next_batch(MANY).err()));
    assert!(counter.next().is_ok(), "it waits");
    manager.stop();
}

#[test]
fn factories_of_one_manager_share_a_stream_and_two_managers_do_not() {
    let manager = Manager::start(Fixed(1), Options::new()).expect("it starts");
    let other = Manager::start(Fixed(2), Options::new()).expect("two pools in one process");
    let makers: Vec<_> = [&manager, &manager, &other]
        .into_iter()
        .map(|manager| {
            let (counter, sortable) = (manager.counter::<Id64>(), manager.sortable::<Id64>());
            std::thread::spawn(move || {
                let mut ids = counter.next_batch(5_000).expect("held");
                ids.extend((0..5_000).map(|_| counter.next().expect("held")));
                ids.extend((0..5_000).map(|_| sortable.next().expect("held")));
                ids
            })
        })
        .collect();
    let ids: Vec<_> = makers.into_iter().flat_map(|maker| maker.join().expect("no panic")).collect();
    assert_eq!(ids.iter().copied().collect::<HashSet<_>>().len(), ids.len());
    let layout = Layout::<Id64>::default();
    assert_eq!(ids.iter().filter(|id| layout.decode(**id).machine_id == 2).count(), 15_000);
}

#[cfg(feature = "encrypted")]
#[test]
fn encrypted_ids_are_those_of_a_counter_once_they_are_decrypted() {
    let manager = Manager::start(Fixed(5), Options::new()).expect("it starts");
    fn check<I: lease_machines_id::Encrypt>(manager: &Manager, key: &I::Key) {
        let ids = manager.encrypted::<I>(key);
        let made = ids.next_batch(2_000).expect("held");
        assert!(!made.is_sorted(), "they tell their order");
        let plain: Vec<_> = made.iter().map(|id| ids.decrypt(*id)).collect();
        assert!(plain.is_sorted_by(|a, b| a < b));
        assert!(plain.iter().all(|id| ids.layout().decode(*id).machine_id == 5));
        let one = ids.next().expect("held");
        assert!(ids.decrypt(one) > plain[1_999]);
        assert_eq!(made.iter().collect::<HashSet<_>>().len(), 2_000);
    }
    check::<Id64>(&manager, &[1; 16]);
    check::<Id96>(&manager, &[2; 18]);
    check::<Id128>(&manager, &[3; 32]);
}

#[test]
fn nonsense_is_refused_at_the_start() {
    let options = Options::new().renew_interval(secs(9 * 3_600));
    let error = Manager::start(Fixed(1), options).expect_err("never renewed");
    assert!(matches!(error, StartError::Options(OptionsError::NeverRenewed { .. })), "{error}");
}

#[test]
fn a_start_fails_with_the_real_reason() {
    let error = Manager::start(EnvironmentVariable::new("LEASE_MACHINES_IS_NEVER_SET"), Options::new());
    let error = error.expect_err("the variable is not set").to_string();
    assert!(error.contains("LEASE_MACHINES_IS_NEVER_SET is not set"), "{error}");
    let hosts = HostIdentifiers::new(["here"], [("elsewhere", 1)]).expect("a sound list");
    let error = Manager::start(hosts, Options::new()).expect_err("not on the list").to_string();
    assert!(error.contains("here"), "{error}");
    let full = Told::new(|_| Err(AcquireError::Exhausted("512 of 512".into())));
    let error = Manager::start(full, Options::new().acquire_timeout(Some(Duration::from_millis(300))));
    assert_eq!(error.err(), Some(StartError::Acquire(AcquireError::Exhausted("512 of 512".into()))));
}

#[test]
fn a_start_that_hangs_ends_in_time_and_what_it_is_granted_later_is_given_back() {
    let (go_on, gone_on) = channel::<()>();
    let gone_on = Mutex::new(gone_on);
    let strategy = Told::new(move |_| {
        let _ = gone_on.lock().unwrap_or_else(PoisonError::into_inner).recv();
        grant(3, 60)
    });
    let released = Arc::clone(&strategy.released);
    let error = Manager::start(strategy, Options::new().acquire_timeout(Some(Duration::from_millis(200))));
    assert!(matches!(error, Err(StartError::Acquire(AcquireError::Unreachable(_)))), "{error:?}");
    go_on.send(()).expect("it hangs there");
    while released.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
        std::thread::yield_now();
    }
}

/// What was asked for last may have been granted without an answer.
#[test]
fn whoever_ends_takes_back_what_nobody_heard_of() {
    let away = || AcquireError::Unreachable("it was killed".into());
    let strategy = Told::new(move |n| if n == 0 { grant(1, 60) } else { Err(away()) });
    let withdrawn = Arc::clone(&strategy.withdrawn);
    let (manager, notices) = start(strategy);
    manager.report_lost();
    wait_for(&notices, |notice| matches!(notice, Notice::NotAcquired { .. }));
    assert_eq!(withdrawn.load(Ordering::SeqCst), 0, "it goes on asking");
    manager.stop();
    assert_eq!(withdrawn.load(Ordering::SeqCst), 1);

    let strategy = Told::new(move |_| Err(away()));
    let withdrawn = Arc::clone(&strategy.withdrawn);
    let error = Manager::start(strategy, Options::new().acquire_timeout(Some(Duration::from_millis(200))));
    assert_eq!(error.err(), Some(StartError::Acquire(away())));
    assert_eq!(withdrawn.load(Ordering::SeqCst), 1, "before the start has failed");
}

#[test]
fn a_strategy_that_panics_at_acquire_is_asked_again() {
    let strategy = Told::new(|n| if n == 0 { panic!("on purpose") } else { grant(3, 60) });
    let (manager, _) = start(strategy);
    assert_eq!(manager.machine_id(), Some(3));
}

#[test]
fn when_a_loss_has_been_reported_the_factories_are_off_and_another_id_is_asked_for() {
    let strategy = Told::new(|n| grant(if n == 0 { 1 } else { 2 }, 60));
    let released = Arc::clone(&strategy.released);
    let (manager, notices) = start(strategy);
    let ids = manager.counter::<Id64>();
    let before = ids.next().expect("held");
    manager.report_lost();
    // It may have another one by now, but the first is over.
    if let Ok(id) = ids.next() {
        assert_eq!(ids.layout().decode(id).machine_id, 2);
    }
    let lost = wait_for(&notices, |notice| matches!(notice, Notice::Lost { .. }));
    assert!(matches!(lost, Notice::Lost { machine_id: 1, reason: Reason::Signalled, .. }), "{lost:?}");
    wait_for(&notices, |notice| matches!(notice, Notice::Acquired { machine_id: 2, .. }));
    let after = ids.next().expect("held again");
    assert_eq!(ids.layout().decode(after).machine_id, 2);
    // What was released was told what had been used of it.
    let used = released.lock().unwrap_or_else(PoisonError::into_inner)[0].expect("one was used");
    assert!(ids.layout().decode(before).time <= used);
}

#[test]
fn a_listener_that_hangs_delays_nothing() {
    let (go_on, gone_on) = channel::<()>();
    let strategy = Told::new(|n| grant(n as u16, 60));
    let manager = Manager::start_with(strategy, Options::new(), move |_| {
        let _ = gone_on.recv();
    });
    let manager = manager.expect("it starts");
    let ids = manager.counter::<Id64>();
    manager.report_lost();
    while manager.machine_id() != Some(1) {
        std::thread::yield_now();
    }
    assert!(ids.next().is_ok());
    drop(go_on);
}

#[test]
fn a_stop_gives_back_the_time_that_was_not_used() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let window = Window { after: now - secs(5), until: now + secs(60) };
    let strategy = Told::new(move |_| grant(7, 60).map(|grant| grant.with_window(Some(window))));
    let released = Arc::clone(&strategy.released);
    let (manager, _) = start(strategy);
    let ids = manager.sortable::<Id128>();
    let last = ids.next_batch(10).expect("held").pop().expect("ten");
    manager.stop();
    assert_eq!(ids.next(), Err(IdError::Disabled(Reason::Stopped)));
    let released = released.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let used = ids.layout().decode(last).time;
    assert_eq!(released, [Some(used + Duration::from_millis(1) - Duration::from_nanos(1))]);
}

#[test]
fn a_stop_without_an_id_gives_all_of_the_window_back() {
    let window = Window { after: secs(1_800_000_000), until: secs(1_800_000_060) };
    let strategy = Told::new(move |_| grant(7, 60).map(|grant| grant.with_window(Some(window))));
    let released = Arc::clone(&strategy.released);
    start(strategy).0.stop();
    assert_eq!(*released.lock().unwrap_or_else(PoisonError::into_inner), [Some(window.after)]);
}

#[test]
fn a_store_whose_clock_is_elsewhere_is_not_started_with() {
    let strategy = Told::new(|_| grant(7, 60).map(|grant| grant.with_store_clock(Some(secs(1_800_000_000)))));
    let released = Arc::clone(&strategy.released);
    let error =
        Manager::start(strategy, Options::new()).expect_err("years away, in one direction or the other");
    assert!(matches!(error, StartError::ClockSkew { .. }), "{error}");
    while released.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
        std::thread::yield_now();
    }
}

/// A manager that cannot expire while a call hangs went on making IDs for seconds past its lease. Here the renewal hangs for
/// good: every ID was made before the deadline, which is 10 s before the lease ends, and the loss is told.
#[test]
fn ids_stop_in_time_while_a_renewal_hangs() {
    let granted_at = Arc::new(Mutex::new(None));
    let at = Arc::clone(&granted_at);
    let hangs = Arc::new(AtomicBool::new(false));
    let hung = Arc::clone(&hangs);
    let strategy = Told::new(move |n| {
        if n > 0 {
            return Err(AcquireError::Exhausted("it is another's".into()));
        }
        // The request was sent before this.
        *at.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease_machines_os::boot_time());
        grant(9, 30)
    })
    .renewing(move |_| {
        hung.store(true, Ordering::SeqCst);
        loop {
            std::thread::park();
        }
    });
    let (manager, notices) = start(strategy);
    let ids = manager.counter::<Id64>();
    let granted_at = granted_at.lock().unwrap_or_else(PoisonError::into_inner).expect("granted");
    let mut made = 0_u64;
    let error = loop {
        let before = lease_machines_os::boot_time();
        match ids.next() {
            Ok(_) => {
                made += 1;
                assert!(before < granted_at + secs(20), "made when the lease had less than 10 s left");
            }
            Err(error) => break error,
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(made > 0 && hangs.load(Ordering::SeqCst));
    assert_eq!(error, IdError::Disabled(Reason::Expired));
    wait_for(&notices, |notice| matches!(notice, Notice::Lost { reason: Reason::Expired, .. }));
    assert_eq!(manager.machine_id(), None);
}

/// One that raises in `renew` counts as *retry*; its lease is not released.
#[test]
fn a_renewal_that_panics_is_tried_again() {
    let strategy = Told::new(|_| grant(9, 30)).renewing(|n| {
        if n == 0 { panic!("on purpose") } else { Ok(Renewed::new(LeaseHandle::none(), secs(60))) }
    });
    let released = Arc::clone(&strategy.released);
    let (manager, notices) = start(strategy);
    wait_for(&notices, |notice| matches!(notice, Notice::NotRenewed { machine_id: 9, .. }));
    assert!(manager.counter::<Id64>().next().is_ok());
    wait_for(&notices, |notice| matches!(notice, Notice::Renewed { machine_id: 9, .. }));
    assert!(released.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
}

#[test]
fn an_id_that_has_no_room_is_an_error_and_not_another_id() {
    let none = Manager::start(Fixed(512), Options::new());
    assert!(matches!(none, Err(StartError::Acquire(AcquireError::Misconfigured(_)))), "{none:?}");
    let wide = Layout::<Id128>::new(42, 16, 64).expect("sound");
    let manager = Manager::start(Fixed(512), Options::new().layout128(wide)).expect("it starts");
    assert_eq!(manager.counter::<Id64>().next(), Err(IdError::Disabled(Reason::MachineIdTooLarge)));
    let id = manager.counter::<Id128>().next().expect("it has room");
    assert_eq!(wide.decode(id).machine_id, 512);
    assert!(Id::value(id) > 0);
}

/// baidu/uid-generator#100: the time bits ran out without warning.
#[test]
fn it_warns_long_before_the_time_bits_run_out() {
    // 2^31 s since 2025 end in 2093; 2^26 s in February 2027.
    let short = Layout::<Id64>::new(26, 9, 13).and_then(|layout| layout.with_tick(secs(1))).expect("sound");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let short = short.with_epoch(now - secs((1 << 26) - 3_600)).expect("sound");
    let (sender, notices) = channel();
    let manager = Manager::start_with(Fixed(1), Options::new().layout64(short), move |notice| {
        let _ = sender.send(notice);
    });
    let manager = manager.expect("it starts");
    let warning = wait_for(&notices, |notice| matches!(notice, Notice::TimeRunsOut { .. }));
    assert!(matches!(warning, Notice::TimeRunsOut { bits: 64, left } if left <= secs(3_600)), "{warning:?}");
    assert!(manager.counter::<Id64>().next_batch(1).is_ok());
}
