//! A source on clocks that a test moves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_machines::Window;
use lease_machines_os::Generation;

use super::{Source, Term};
use crate::{Clock, ClockError, Counter, Id, Id64, Id96, Id128, IdError, Layout, Parts, Reason, Sortable};

/// Moved by hand, or by whoever waits.
#[derive(Clone, Debug, Default)]
struct Hands(Arc<Moving>);

#[derive(Debug, Default)]
struct Moving {
    boot: AtomicU64,
    wall: AtomicU64,
    stuck: AtomicBool,
    waited: AtomicU64,
    /// Takes 1,000 IDs, once, while somebody else reads the clock.
    overtaker: Mutex<Option<Counter<Id64, Hands>>>,
}

impl Clock for Hands {
    fn boot(&self) -> u64 {
        let overtaker = self.0.overtaker.lock().expect("no panic").take();
        if let Some(counter) = overtaker {
            assert_eq!(counter.try_next_batch(1_000).map(|ids| ids.len()), Ok(1_000));
        }
        self.0.boot.load(Ordering::SeqCst)
    }

    fn wall(&self) -> u64 {
        self.0.wall.load(Ordering::SeqCst)
    }

    fn pause(&self, left: u64) {
        self.0.waited.fetch_add(left, Ordering::SeqCst);
        if !self.0.stuck.load(Ordering::SeqCst) {
            self.pass(Duration::from_nanos(left));
        }
    }
}

impl Hands {
    fn new() -> Self {
        let hands = Self::default();
        hands.0.boot.store(nanos(BOOT), Ordering::SeqCst);
        hands.0.wall.store(nanos(WALL), Ordering::SeqCst);
        hands
    }

    fn pass(&self, time: Duration) {
        self.0.boot.fetch_add(nanos(time), Ordering::SeqCst);
        self.0.wall.fetch_add(nanos(time), Ordering::SeqCst);
    }

    /// The wall clock is set, by so many seconds.
    fn step(&self, by: i64) {
        let nanos = Duration::from_secs(by.unsigned_abs()).as_nanos() as u64;
        if by < 0 {
            self.0.wall.fetch_sub(nanos, Ordering::SeqCst)
        } else {
            self.0.wall.fetch_add(nanos, Ordering::SeqCst)
        };
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.boot())
    }

    fn wall_now(&self) -> Duration {
        Duration::from_nanos(self.wall())
    }
}

const BOOT: Duration = Duration::from_secs(5_000);
/// In 2027, in the middle of a millisecond.
const WALL: Duration = Duration::from_micros(1_800_000_000_000_500);
const PATIENCE: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

struct Stage<I> {
    clock: Hands,
    source: Arc<Source<I, Hands>>,
    counter: Counter<I, Hands>,
    sortable: Sortable<I, Hands>,
}

impl<I: Id> Stage<I> {
    fn new(layout: Layout<I>) -> Self {
        let clock = Hands::new();
        let source = Arc::new(Source::new(layout, PATIENCE, clock.clone(), Generation::current()));
        let (counter, sortable) = (Counter::new(Arc::clone(&source)), Sortable::new(Arc::clone(&source)));
        Self { clock, source, counter, sortable }
    }

    /// For an hour, with a window up to then.
    fn held(layout: Layout<I>) -> Self {
        let stage = Self::new(layout);
        stage.start(7, Some(Duration::ZERO));
        stage
    }

    fn start(&self, machine_id: u16, after: Option<Duration>) {
        let window = after.map(|after| Window { after, until: self.clock.wall_now() + HOUR });
        self.source.start(machine_id, Term { deadline: self.clock.now() + HOUR, window });
    }

    fn parts(&self, id: I) -> Parts {
        self.source.layout().decode(id)
    }
}

fn disabled<T>(reason: Reason) -> Result<T, IdError> {
    Err(IdError::Disabled(reason))
}

#[test]
fn before_a_lease_there_is_no_id() {
    let stage = Stage::new(Layout::<Id64>::default());
    assert_eq!(stage.counter.next(), Err(IdError::NotStarted));
    assert_eq!(stage.sortable.next(), Err(IdError::NotStarted));
    assert_eq!(stage.counter.next_batch(3), Err(IdError::NotStarted));
    assert_eq!(stage.counter.next_batch(0), Ok(vec![]));
}

#[test]
fn an_id_says_machine_and_time() {
    fn check<I: Id>(layout: Layout<I>) {
        let stage = Stage::held(layout);
        stage.clock.pass(Duration::from_secs(2));
        let parts = stage.parts(stage.sortable.next().expect("held"));
        let tick = layout.tick().as_nanos();
        let since = (stage.clock.wall_now() - layout.epoch()).as_nanos() / tick * tick;
        assert_eq!(parts.time, layout.epoch() + Duration::from_nanos(since as u64));
        assert_eq!((parts.machine_id, parts.counter), (7, 0));
        let next = stage.parts(stage.sortable.next().expect("held"));
        assert_eq!(next, Parts { counter: 1, ..parts });
    }
    check(Layout::<Id64>::default());
    check(Layout::<Id96>::default());
    check(Layout::<Id128>::default());
    check(Layout::twitter());
    check(Layout::sonyflake());
}

#[test]
fn all_ids_rise_and_none_is_made_twice_across_factories_and_batches() {
    fn check<I: Id>(layout: Layout<I>) {
        let stage = Stage::held(layout);
        let mut ids = Vec::new();
        for _ in 0..5 {
            stage.clock.pass(Duration::from_micros(700));
            ids.push(stage.counter.next().expect("held"));
            ids.push(stage.sortable.next().expect("held"));
            ids.extend(stage.counter.next_batch(3_000).expect("held"));
            ids.extend(stage.sortable.next_batch(3_000).expect("held"));
        }
        assert_eq!(ids.len(), 5 * 6_002);
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
    check(Layout::<Id64>::default());
    check(Layout::<Id96>::default());
    check(Layout::<Id128>::default());
    check(Layout::twitter());
    // With the machine ID below the counter as well.
    check(Layout::sonyflake());
}

#[test]
fn a_counter_uses_saved_up_time_and_then_waits_for_the_clock() {
    let stage = Stage::held(Layout::<Id64>::default());
    stage.clock.pass(Duration::from_millis(10));
    let batch = stage.counter.next_batch(8_192 * 10).expect("held");
    assert_eq!(batch.len(), 81_920);
    assert_eq!(stage.clock.0.waited.load(Ordering::SeqCst), 0, "ten milliseconds had been saved up");
    stage.counter.next_batch(8_192).expect("held");
    assert_eq!(stage.clock.0.waited.load(Ordering::SeqCst), 0, "and the one that has begun");
    stage.counter.next().expect("held");
    assert_eq!(stage.clock.0.waited.load(Ordering::SeqCst), 500_000, "to the end of that one");
}

fn is_behind<T>(answer: Result<T, IdError>) -> bool {
    matches!(answer, Err(IdError::Clock(ClockError::Behind(_))))
}

/// Each failure pushed the stream of all factories further ahead of the clock, so that no try ever succeeded again.
#[test]
fn whoever_tries_in_vain_puts_nobody_off() {
    let stage = Stage::held(Layout::<Id64>::new(41, 10, 1).expect("two in a millisecond"));
    while stage.counter.try_next().is_ok() {}
    for _ in 0..10_000 {
        assert!(is_behind(stage.counter.try_next()) && is_behind(stage.counter.try_next_batch(3)));
    }
    stage.clock.pass(Duration::from_millis(1));
    assert!(stage.sortable.try_next().is_ok(), "the first of this tick");
    assert!(stage.counter.try_next().is_ok(), "and the second");
    assert!(is_behind(stage.counter.try_next()));

    // All at once, or nothing, also where that is more than one part.
    stage.clock.pass(Duration::from_secs(1));
    let before = stage.clock.now();
    assert!(is_behind(stage.counter.try_next_batch(2_001)));
    assert_eq!(stage.counter.try_next_batch(2_000).map(|ids| ids.len()), Ok(2_000));
    assert_eq!(stage.clock.now(), before, "without waiting");
}

#[test]
fn a_batch_of_a_slow_layout_waits_for_its_parts_one_by_one() {
    let slow = Layout::<Id64>::new(38, 10, 1).and_then(|layout| layout.with_tick(Duration::from_millis(10)));
    let stage = Stage::held(slow.expect("two in ten milliseconds"));
    let begun = stage.clock.now();
    let ids = stage.counter.next_batch(1_000).expect("in five seconds, of which it waits for one at a time");
    assert_eq!(ids.len(), 1_000);
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert!(stage.clock.now() - begun <= Duration::from_secs(5));
}

#[test]
fn a_batch_that_is_overtaken_after_its_look_takes_nothing_that_it_cannot_give() {
    let stage = Stage::held(Layout::<Id64>::new(41, 10, 1).expect("two in a millisecond"));
    stage.clock.pass(Duration::from_secs(1));
    *stage.clock.0.overtaker.lock().expect("no panic") = Some(stage.counter.clone());
    assert!(is_behind(stage.counter.try_next_batch(1_500)));
    assert_eq!(stage.counter.try_next_batch(900).map(|ids| ids.len()), Ok(900), "nothing is lost");
}

#[test]
fn a_call_that_fails_has_used_nothing() {
    let nothing_used = |stage: &Stage<Id64>| assert_eq!(stage.source.close(Reason::Stopped), None);
    let stage = Stage::held(Layout::<Id64>::default());
    stage.clock.pass(HOUR);
    assert_eq!(stage.counter.next_batch(5), disabled(Reason::Expired));
    nothing_used(&stage);

    let stage = Stage::new(Layout::<Id64>::default());
    stage.clock.step(-20 * 365 * 86_400);
    stage.start(7, None);
    assert_eq!(stage.counter.next(), Err(IdError::Clock(ClockError::BeforeEpoch)));
    nothing_used(&stage);

    let stage = Stage::new(Layout::<Id64>::new(41, 10, 1).expect("two in a millisecond"));
    let window = Some(Window { after: Duration::ZERO, until: stage.clock.wall_now() });
    stage.source.start(7, Term { deadline: stage.clock.now() + HOUR, window });
    assert_eq!(stage.counter.next_batch(3), Err(IdError::Clock(ClockError::WindowUsedUp)));
    assert_eq!(stage.counter.next_batch(2).map(|ids| ids.len()), Ok(2), "both are still there");

    // Also where it would be taken in more than one part.
    let stage = Stage::new(Layout::<Id64>::new(41, 10, 1).expect("two in a millisecond"));
    let window = Some(Window { after: Duration::ZERO, until: stage.clock.wall_now() + PATIENCE });
    stage.source.start(7, Term { deadline: stage.clock.now() + HOUR, window });
    stage.clock.pass(HOUR / 2);
    assert_eq!(stage.counter.try_next_batch(2_003), Err(IdError::Clock(ClockError::WindowUsedUp)));
    assert_eq!(stage.counter.try_next_batch(2_002).map(|ids| ids.len()), Ok(2_002));
}

#[test]
fn a_sortable_factory_waits_for_the_next_tick_where_this_one_has_no_numbers_left() {
    let stage = Stage::held(Layout::<Id64>::default());
    let begun = stage.clock.now();
    let ids = stage.sortable.next_batch(8_192 * 3 + 1).expect("held");
    assert_eq!(stage.clock.now() - begun, Duration::from_micros(2_500));
    assert!(ids.iter().zip(0..).all(|(id, n)| stage.parts(*id).counter == n % 8_192));
}

/// SnowflakeId.AutoRegister#2, #3; imadcn/idworker#4: the key had expired, another had the ID, and the first went on.
#[test]
fn a_factory_stops_at_its_own_deadline_with_no_help_from_anyone() {
    let stage = Stage::held(Layout::<Id64>::default());
    stage.clock.pass(HOUR - Duration::from_nanos(1));
    assert!(stage.counter.next().is_ok());
    assert!(stage.sortable.next().is_ok());
    stage.clock.pass(Duration::from_nanos(1));
    assert_eq!(stage.counter.next(), disabled(Reason::Expired));
    assert_eq!(stage.sortable.next(), disabled(Reason::Expired));
    assert_eq!(stage.counter.next_batch(5), disabled(Reason::Expired));
    assert_eq!(stage.sortable.next_batch(5), disabled(Reason::Expired));
    // The wall clock has no say in it, wherever it is set to.
    stage.clock.step(-7_200);
    assert_eq!(stage.sortable.next(), disabled(Reason::Expired));
}

#[test]
fn a_batch_ends_where_the_deadline_comes_in_the_midst_of_it() {
    let stage = Stage::new(Layout::<Id64>::default());
    stage.source.start(7, Term { deadline: stage.clock.now() + HOUR, window: None });
    stage.clock.pass(HOUR - Duration::from_millis(2));
    assert_eq!(stage.sortable.next_batch(8_192 * 4), disabled(Reason::Expired));
}

/// An ID came back to a node that had lost it: the old counters were switched on again, and each of 20,000 numbers was the
/// other holder's, too.
#[test]
fn an_id_that_comes_back_begins_above_the_mark() {
    let stage = Stage::held(Layout::<Id64>::default());
    stage.clock.pass(Duration::from_millis(3));
    let before = stage.counter.next_batch(20_000).expect("held");
    let used = stage.source.close(Reason::Lost).expect("something was used");
    assert!(stage.parts(before[19_999]).time <= used);

    // Meanwhile another had it, and used up to here.
    stage.clock.pass(Duration::from_secs(60));
    let others = stage.clock.wall_now() + Duration::from_millis(40);
    stage.start(7, Some(others));
    let after = stage.counter.next_batch(20_000).expect("held");
    assert!(after.iter().all(|id| stage.parts(*id).time > others), "no stamp that may be the other's");
    assert!(after[0] > before[19_999]);
}

#[test]
fn without_a_window_a_source_goes_on_above_what_it_used_itself() {
    let stage = Stage::new(Layout::<Id64>::default());
    stage.start(7, None);
    let begun = stage.clock.wall_now();
    let first = stage.counter.next().expect("held");
    assert!(stage.parts(first).time > begun, "the tick that has begun may be somebody else's");
    let batch = stage.counter.next_batch(20_000).expect("held");
    stage.source.close(Reason::Lost);
    stage.clock.step(-1);
    stage.start(7, None);
    let again = stage.counter.next().expect("it waits, less than it may");
    assert!(again > batch[19_999]);
}

#[test]
fn another_machine_id_starts_afresh() {
    let stage = Stage::held(Layout::<Id64>::default());
    let first = stage.counter.next().expect("held");
    stage.source.close(Reason::Lost);
    assert_eq!(stage.counter.next(), disabled(Reason::Lost));
    stage.start(8, Some(Duration::ZERO));
    let second = stage.counter.next().expect("held");
    assert_eq!((stage.parts(first).machine_id, stage.parts(second).machine_id), (7, 8));
}

#[test]
fn no_stamp_lies_outside_the_window_whatever_the_own_clock_says() {
    let stage = Stage::new(Layout::<Id64>::default());
    let until = stage.clock.wall_now() + Duration::from_millis(2);
    let window = Some(Window { after: Duration::ZERO, until });
    stage.source.start(7, Term { deadline: stage.clock.now() + HOUR, window });
    let in_time = stage.sortable.next_batch(3 * 8_192).expect("three ticks");
    assert!(in_time.iter().all(|id| stage.parts(*id).time <= until));
    for factory_says in [stage.sortable.next(), stage.counter.next()] {
        assert_eq!(factory_says, Err(IdError::Clock(ClockError::WindowUsedUp)));
    }
    // A clock an hour ahead makes it no wider.
    stage.clock.pass(Duration::from_secs(60));
    assert_eq!(stage.sortable.next(), Err(IdError::Clock(ClockError::WindowUsedUp)));
    // A renewal does.
    let until = stage.clock.wall_now() + HOUR;
    let window = Some(Window { after: Duration::ZERO, until });
    stage.source.extend(Term { deadline: stage.clock.now() + HOUR, window });
    assert!(stage.sortable.next().is_ok() && stage.counter.next().is_ok());
}

#[test]
fn a_window_that_begins_ahead_of_the_clock_serves_who_counts_and_not_who_sorts() {
    let stage = Stage::new(Layout::<Id64>::default());
    let after = stage.clock.wall_now() + HOUR / 2;
    stage.start(7, Some(after));
    stage.clock.0.stuck.store(true, Ordering::SeqCst);
    let ids = stage.counter.next_batch(100_000).expect("held");
    assert!(ids.iter().all(|id| stage.parts(*id).time > after));
    assert!(matches!(stage.sortable.next(), Err(IdError::Clock(ClockError::Behind(by))) if by > HOUR / 3));
    assert_eq!(stage.clock.0.waited.load(Ordering::SeqCst), 0, "there is no hope");
    stage.clock.pass(HOUR / 2 + Duration::from_secs(1));
    assert!(stage.sortable.next().is_ok(), "the clock has caught up");
}

/// twitter-archive/snowflake#6, sonyflake#39: duplicates on a clock step, or eight hours asleep holding the mutex.
#[test]
fn a_clock_that_stepped_back_is_waited_out_for_a_bounded_time() {
    let stage = Stage::held(Layout::<Id64>::default());
    let term = |stage: &Stage<Id64>| {
        let window = Window { after: Duration::ZERO, until: WALL + 2 * HOUR };
        stage.source.extend(Term { deadline: stage.clock.now() + HOUR, window: Some(window) });
    };
    let last = stage.sortable.next().expect("held");
    // A second back, which is as long as it waits.
    stage.clock.step(-1);
    term(&stage);
    let next = stage.sortable.next().expect("waited out");
    assert!(next > last);
    // Eight hours back.
    stage.clock.step(-8 * 3_600);
    term(&stage);
    assert!(matches!(stage.sortable.next(), Err(IdError::Clock(ClockError::Behind(_)))));
    // It can be turned off meanwhile: nothing is held. And forwards again it goes on.
    stage.clock.step(8 * 3_600);
    term(&stage);
    assert!(stage.sortable.next().expect("it is back") > next);
}

#[test]
fn a_wait_for_a_clock_that_stands_still_ends() {
    let stage = Stage::new(Layout::<Id64>::default());
    stage.start(7, None);
    stage.clock.0.stuck.store(true, Ordering::SeqCst);
    let waiter = stage.counter.clone();
    let waiter = std::thread::spawn(move || waiter.next());
    while stage.clock.0.waited.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // It waits, and holds nothing that would keep the source from being turned off.
    stage.source.close(Reason::Signalled);
    assert_eq!(waiter.join().expect("no panic"), disabled(Reason::Signalled));
}

#[test]
fn between_renewals_the_wall_clock_may_be_set_as_it_likes() {
    let stage = Stage::held(Layout::<Id64>::default());
    let first = stage.parts(stage.sortable.next().expect("held")).time;
    for step in [-86_400, 2 * 86_400] {
        stage.clock.step(step);
        stage.clock.pass(Duration::from_secs(1));
        let next = stage.parts(stage.sortable.next().expect("held")).time;
        assert!(next - first <= Duration::from_secs(2), "time goes on as the boot clock does");
    }
}

#[test]
fn a_clock_before_the_epoch_gives_no_id() {
    let stage = Stage::new(Layout::<Id64>::default());
    stage.clock.step(-20 * 365 * 86_400);
    stage.start(7, None);
    assert_eq!(stage.sortable.next(), Err(IdError::Clock(ClockError::BeforeEpoch)));
    assert_eq!(stage.counter.next(), Err(IdError::Clock(ClockError::BeforeEpoch)));
}

/// baidu/uid-generator#100: the time bits ran out without warning.
#[test]
fn once_the_time_bits_are_used_up_there_is_no_id() {
    fn check<I: Id>(layout: Layout<I>) {
        let stage = Stage::new(layout);
        let left = layout.end() - stage.clock.wall_now();
        stage.clock.0.wall.fetch_add(nanos(left - layout.tick()), Ordering::SeqCst);
        stage.start(1, Some(Duration::ZERO));
        let last = stage.sortable.next().expect("in the last tick");
        assert_eq!(stage.parts(last).time, layout.end() - layout.tick());
        stage.clock.pass(layout.tick());
        assert_eq!(stage.sortable.next(), Err(IdError::EpochExhausted));
        stage.clock.pass(HOUR / 2);
        assert_eq!(stage.sortable.next(), Err(IdError::EpochExhausted));
        // Who counts may still have numbers of the last tick, and then none.
        let counted = (0..4).map(|_| stage.counter.next_batch(1_000)).find_map(Result::err);
        let few = layout.per_tick().is_some_and(|numbers| numbers < 4_000);
        assert_eq!(counted, few.then_some(IdError::EpochExhausted));
    }
    check(Layout::<Id64>::new(40, 15, 8).expect("sound"));
    check(Layout::<Id96>::default());
    check(Layout::<Id128>::default());
    check(Layout::sonyflake());
}

#[test]
fn a_machine_id_without_room_turns_the_factory_off() {
    let stage = Stage::new(Layout::<Id64>::default());
    stage.start(511, Some(Duration::ZERO));
    assert!(stage.counter.next().is_ok());
    stage.start(512, Some(Duration::ZERO));
    assert_eq!(stage.counter.next(), disabled(Reason::MachineIdTooLarge));
}

#[test]
fn closing_says_what_was_used_last() {
    let stage = Stage::held(Layout::<Id64>::default());
    assert_eq!(stage.source.close(Reason::Stopped), None, "nothing was");
    stage.start(7, Some(Duration::ZERO));
    let id = stage.sortable.next().expect("held");
    let used = stage.source.close(Reason::Stopped).expect("one");
    let begun = stage.parts(id).time;
    assert_eq!(used, begun + Duration::from_millis(1) - Duration::from_nanos(1), "all of that tick");
    assert_eq!(stage.source.close(Reason::Lost), None, "once");
    // The next holder's first stamp is the tick after it.
    stage.start(8, Some(used));
    assert!(stage.parts(stage.sortable.next().expect("held")).time > used);
}

#[test]
fn an_extension_does_not_turn_on_what_is_off() {
    let stage = Stage::held(Layout::<Id64>::default());
    stage.source.close(Reason::Lost);
    stage.source.extend(Term { deadline: stage.clock.now() + HOUR, window: None });
    assert_eq!(stage.counter.next(), disabled(Reason::Lost));
}

#[test]
fn several_threads_make_no_id_twice_while_the_lease_comes_and_goes() {
    const EACH: usize = if cfg!(miri) { 40 } else { 20_000 };
    let stage = Stage::held(Layout::<Id64>::default());
    let makers: Vec<_> = (0..3)
        .map(|n| {
            let (counter, sortable) = (stage.counter.clone(), stage.sortable.clone());
            std::thread::spawn(move || {
                let mut ids = Vec::with_capacity(EACH);
                while ids.len() < EACH {
                    let id = if n == 2 { sortable.next() } else { counter.next() };
                    match id {
                        Ok(id) => ids.push(id),
                        Err(_) => std::thread::yield_now(),
                    }
                }
                ids
            })
        })
        .collect();
    let mut machine_id = 7;
    while !makers.iter().all(std::thread::JoinHandle::is_finished) {
        let used = stage.source.close(Reason::Lost);
        machine_id = (machine_id + 1) % 512;
        stage.start(machine_id, Some(used.unwrap_or_default()));
        std::thread::yield_now();
    }
    let mut all = Vec::new();
    for maker in makers {
        let ids = maker.join().expect("no panic");
        assert!(ids.is_sorted_by(|a, b| a != b));
        all.extend(ids);
    }
    let made = all.len();
    // Not by their machine IDs, of which none comes twice in so few terms, but by their stamps alone.
    let mut stamps: Vec<_> = all.iter().map(|id| (stage.parts(*id).time, stage.parts(*id).counter)).collect();
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), made);
}
