//! What one ID costs, in nanoseconds, beside the read of the clock that each call makes, and beside the generators of others.
//!
//! All contestants take turns, in rounds of a thousand IDs with a pause before each: so none is held up by the numbers that its
//! layout has in a millisecond, unless that is what is measured, and whatever else the machine does meets all of them alike. The
//! figure is the median of the rounds.
//!
//! Prints rows of a Markdown table, `| what | figure | bound | met |`.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime};

use ferroid::{AtomicSnowflakeGenerator, IdGenStatus, MonotonicClock, SnowflakeTwitterId, TWITTER_EPOCH};
use lease_machines_id::{Fixed, Id64, Id128, Layout, Manager, Options};

const IDS: usize = 1_000;
/// More than the layout has in five milliseconds.
const BURST: usize = 20_000;
const BURSTS: usize = 150;
const ROUNDS: usize = 1_500;
/// Rounds at the start that only warm up.
const WARM_UP: usize = 100;
/// More than a round takes, so that each finds the numbers of a fresh millisecond.
const PAUSE: Duration = Duration::from_millis(1);

/// Makes a round's IDs.
type Round<'a> = Box<dyn FnMut() + 'a>;

fn main() {
    let ours = Manager::start(Fixed(7), Options::new()).expect("a fixed machine ID");
    let twitter = Options::new().layout64(Layout::twitter());
    let twitter = Manager::start(Fixed(7), twitter).expect("a fixed machine ID");
    let (counter64, counter128) = (ours.counter::<Id64>(), ours.counter::<Id128>());
    let (batch64, as_twitter) = (ours.counter::<Id64>(), twitter.counter::<Id64>());
    let encrypted = ours.encrypted::<Id128>(&[7; 32]);
    let epoch = SystemTime::UNIX_EPOCH + TWITTER_EPOCH;
    let snowflaked: snowflaked::sync::Generator = snowflaked::Builder::new().instance(7).epoch(epoch).build();
    let ferroid =
        AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(7, MonotonicClock::with_epoch(TWITTER_EPOCH));

    let mut kinds: [Round<'_>; 8] = [
        each(lease_machines_os::boot_nanos),
        each(|| counter64.next().expect("held")),
        each(|| counter128.next().expect("held")),
        Box::new(|| drop(black_box(batch64.next_batch(IDS).expect("held")))),
        each(|| encrypted.next().expect("held")),
        each(|| as_twitter.next().expect("held")),
        each(|| snowflaked.generate::<u64>()),
        each(|| {
            loop {
                match ferroid.next_id() {
                    IdGenStatus::Ready { id } => break id,
                    IdGenStatus::Pending { .. } => std::hint::spin_loop(),
                }
            }
        }),
    ];
    let medians = medians(&mut kinds);
    drop(kinds);
    let [clock, id64, id128, batch, secret, same_layout, theirs, tickers] = medians;

    row("id: the clock that counts sleep, one read", clock, "what the others are measured by", None);
    let beside_clock = |what: &str, figure: f64| {
        let ratio = figure / clock;
        row(what, figure, &format!("at most 1.5 × the read; is {ratio:.2} ×"), Some(ratio <= 1.5));
    };
    beside_clock("id: `next()`, 64 bits", id64);
    beside_clock("id: `next()`, 128 bits", id128);
    let ratio = id64 / batch;
    row(
        "id: `next_batch(1000)`, 64 bits, each",
        batch,
        &format!("at least 5 × faster than `next()`; is {ratio:.1} ×"),
        Some(ratio >= 5.0),
    );
    let millions = 1_000.0 / secret;
    row(
        "id: encrypted, 128 bits",
        secret,
        &format!("at least 10 M/s; is {millions:.1} M/s"),
        Some(millions >= 10.0),
    );
    let ratio = theirs / same_layout;
    row(
        "id: `next()`, Twitter's layout",
        same_layout,
        &format!("at least 1.5 × faster than snowflaked; is {ratio:.1} ×"),
        Some(ratio >= 1.5),
    );
    row("snowflaked, the same layout", theirs, "", None);
    row(
        "ferroid, the same layout (its clock is a thread that ticks, and that a fork loses)",
        tickers,
        "",
        None,
    );

    // A thousand are no more than either has in a millisecond. Of a burst, one has to wait for its milliseconds.
    let (burst, waited) = bursts(|| as_twitter.next().expect("held"), || snowflaked.generate::<u64>());
    let ratio = waited / burst;
    let bound = format!("at least 1.5 × faster than snowflaked ({waited:.0} ns); is {ratio:.1} ×");
    row("id: `next()`, Twitter's layout, 20,000 in a burst", burst, &bound, Some(ratio >= 1.5));

    for (what, one, two) in [
        (
            "64",
            throughput(1, || each_of(ours.counter::<Id64>())),
            throughput(2, || each_of(ours.counter::<Id64>())),
        ),
        (
            "128",
            throughput(1, || each_of(ours.counter::<Id128>())),
            throughput(2, || each_of(ours.counter::<Id128>())),
        ),
    ] {
        let bound = format!("not slower than one thread; is {:.2} × as fast", two / one);
        println!(
            "| id: `next()`, {what} bits, two threads together | {:.1} M/s | {bound} | {} |",
            two / 1e6,
            yes(two >= one)
        );
    }

    let sortable = ours.sortable::<Id64>();
    let (begun, mut made) = (Instant::now(), 0_u32);
    while begun.elapsed() < Duration::from_millis(500) {
        for _ in 0..1_000 {
            black_box(sortable.next().expect("held"));
        }
        made += 1_000;
    }
    let rate = f64::from(made) / begun.elapsed().as_secs_f64();
    let share = rate / 8_192_000.0;
    println!(
        "| id: sortable, 64 bits | {:.2} M/s | the layout's cap, 8.19 M/s; is {:.0} % | {} |",
        rate / 1e6,
        share * 100.0,
        yes(share >= 0.99)
    );
}

fn each<'a, T>(mut make: impl FnMut() -> T + 'a) -> Round<'a> {
    Box::new(move || {
        for _ in 0..IDS {
            black_box(make());
        }
    })
}

fn each_of<I: lease_machines_id::Id>(ids: lease_machines_id::Counter<I>) -> impl FnMut() + Send {
    move || {
        black_box(ids.next().expect("held"));
    }
}

/// Nanoseconds for each ID of bursts after some idle milliseconds, taking turns.
fn bursts<A, B>(mut ours: impl FnMut() -> A, mut theirs: impl FnMut() -> B) -> (f64, f64) {
    fn time<T>(make: &mut impl FnMut() -> T) -> Duration {
        std::thread::sleep(6 * PAUSE);
        let begun = Instant::now();
        for _ in 0..BURST {
            black_box(make());
        }
        begun.elapsed()
    }
    let (mut one, mut other): (Vec<_>, Vec<_>) =
        (0..BURSTS).map(|_| (time(&mut ours), time(&mut theirs))).unzip();
    (median(&mut one, BURST), median(&mut other, BURST))
}

fn median(taken: &mut [Duration], ids: usize) -> f64 {
    taken.sort_unstable();
    taken.get(taken.len() / 2).map_or(f64::NAN, |median| median.as_nanos() as f64 / ids as f64)
}

/// Nanoseconds for each ID.
fn medians<const N: usize>(kinds: &mut [Round<'_>; N]) -> [f64; N] {
    let mut rounds: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::with_capacity(ROUNDS));
    for round in 0..WARM_UP + ROUNDS {
        for (make, taken) in kinds.iter_mut().zip(&mut rounds) {
            std::thread::sleep(PAUSE);
            let begun = Instant::now();
            make();
            let time = begun.elapsed();
            if round >= WARM_UP {
                taken.push(time);
            }
        }
    }
    rounds.map(|mut taken| median(&mut taken, IDS))
}

/// IDs a second, of all threads together: the median of rounds that are short enough for what was saved up before each.
fn throughput<M: FnMut() + Send>(threads: usize, make: impl Fn() -> M) -> f64 {
    const EACH: usize = 4_000;
    let mut rates: Vec<f64> = (0..200)
        .map(|_| {
            // Time for all IDs of a round, as the layout of 64 bits counts it.
            std::thread::sleep(Duration::from_millis(3));
            let start = Arc::new(Barrier::new(threads + 1));
            std::thread::scope(|scope| {
                let makers: Vec<_> = (0..threads)
                    .map(|_| {
                        let (mut make, start) = (make(), Arc::clone(&start));
                        scope.spawn(move || {
                            start.wait();
                            let begun = Instant::now();
                            (0..EACH).for_each(|_| make());
                            (begun, Instant::now())
                        })
                    })
                    .collect();
                start.wait();
                let spans: Vec<_> = makers.into_iter().map(|maker| maker.join().expect("no panic")).collect();
                let begun = spans.iter().map(|span| span.0).min().expect("one");
                let ended = spans.iter().map(|span| span.1).max().expect("one");
                (threads * EACH) as f64 / (ended - begun).as_secs_f64()
            })
        })
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

fn row(what: &str, figure: f64, bound: &str, met: Option<bool>) {
    println!("| {what} | {figure:.1} ns | {bound} | {} |", met.map_or("", yes));
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "no" }
}
