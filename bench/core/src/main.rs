//! How long one decision takes, in nanoseconds.
//!
//! Each round prepares a few hundred authorities, lets every one of them decide once, and divides the time by their
//! number: so the clock is read twice for hundreds of decisions, and a release has a lease to release. The four kinds
//! take turns, thousands of rounds long, so that whatever else the machine does meets all of them alike; the figure is
//! the median of the rounds.
//!
//! Prints rows of a Markdown table, `| what | figure | bound | met |`. With `--check` it fails where a bound is not met.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lease_machines::{Decision, Fence, FencingToken, LeaseAuthority, OwnerId};

/// What one decision may take.
const BOUND_NS: f64 = 5.0;
/// Authorities in a round: 64 bytes each, so that all of them stay in the first-level cache.
const BATCH: usize = 256;
const ROUNDS: usize = 20_000;
/// Rounds at the start that only warm up.
const WARM_UP: usize = 1_000;

const OWNER: OwnerId = OwnerId::new(7);
const NOW: Duration = Duration::from_secs(1_000);
const TTL: Duration = Duration::from_secs(30);

/// How one round is timed.
type Round = fn() -> Duration;

/// What is measured.
const KINDS: [(&str, Round); 5] = [
    ("core: acquire", acquire),
    ("core: acquire, rejected", acquire_rejected),
    ("core: renew", renew),
    ("core: release", release),
    ("core: fence accept", fence_accept),
];

fn main() -> ExitCode {
    let mut rounds: [Vec<Duration>; KINDS.len()] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        for ((_, time), taken) in KINDS.iter().zip(&mut rounds) {
            let duration = time();
            if round >= WARM_UP {
                taken.push(duration);
            }
        }
    }

    let mut all_met = true;
    for ((what, _), taken) in KINDS.iter().zip(&mut rounds) {
        taken.sort_unstable();
        let figure = taken.get(ROUNDS / 2).map_or(f64::NAN, |median| median.as_nanos() as f64 / BATCH as f64);
        let met = figure <= BOUND_NS;
        all_met &= met;
        println!(
            "| {what} | {figure:.1} ns | at most {BOUND_NS:.0} ns | {} |",
            if met { "yes" } else { "no" }
        );
    }
    let check = std::env::args().any(|argument| argument == "--check");
    if check && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn acquire() -> Duration {
    time(vacant, |authority| authority.acquire(black_box(OWNER), black_box(NOW), black_box(TTL)))
}

fn acquire_rejected() -> Duration {
    time(held, |authority| authority.acquire(black_box(OWNER), black_box(NOW), black_box(TTL)))
}

fn renew() -> Duration {
    let later = NOW + Duration::from_secs(10);
    time(held, |authority| {
        authority.renew(black_box(OWNER), black_box(FencingToken::FIRST), black_box(later), black_box(TTL))
    })
}

fn release() -> Duration {
    time(held, |authority| {
        authority.release(black_box(OWNER), black_box(FencingToken::FIRST), black_box(NOW))
    })
}

fn fence_accept() -> Duration {
    time(Fence::default, |fence| fence.accept(black_box(FencingToken::FIRST)))
}

/// The time that `decide` takes for a batch of what `prepare` makes.
fn time<T, R>(prepare: impl Fn() -> T, decide: impl Fn(&mut T) -> R) -> Duration {
    let mut batch: [T; BATCH] = std::array::from_fn(|_| prepare());
    black_box(&mut batch);
    let start = Instant::now();
    for subject in &mut batch {
        black_box(decide(subject));
    }
    let taken = start.elapsed();
    black_box(&batch);
    taken
}

fn vacant() -> LeaseAuthority {
    LeaseAuthority::new()
}

fn held() -> LeaseAuthority {
    let mut authority = LeaseAuthority::new();
    let decision = authority.acquire(OWNER, NOW, TTL);
    assert!(matches!(decision, Decision::Granted(_)));
    authority
}
