//! Lines of the table of figures, and the medians that stand in them.
// Each program uses its own part.
#![allow(dead_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A line of the table.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    /// What is asked of it, and whether that is met; nothing for a figure that stands beside another for scale.
    pub(crate) bound: Option<(&'static str, bool)>,
}

impl Row {
    /// The rate of `time` as a share of the peer's rate, both in microseconds.
    pub(crate) fn rate(
        what: impl Into<String>,
        time: f64,
        (peer, peer_time): (&str, f64),
        bound: Option<(f64, &'static str)>,
    ) -> Self {
        let ratio = peer_time / time;
        Self {
            what: what.into(),
            figure: format!("{ratio:.2} ({time:.0} µs, {peer} {peer_time:.0} µs)"),
            bound: bound.map(|(least, words)| (words, ratio >= least)),
        }
    }
}

/// Prints the table. With `--check` among the arguments the program fails where a bound is not met.
pub(crate) fn print(rows: &[Row]) -> ExitCode {
    let mut all_met = true;
    for Row { what, figure, bound } in rows {
        let (words, met) = match bound {
            Some((words, met)) => {
                all_met &= met;
                (*words, if *met { "yes" } else { "no" })
            }
            None => ("", ""),
        };
        println!("| {what} | {figure} | {words} | {met} |");
    }
    let check = std::env::args().any(|argument| argument == "--check");
    if check && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// In microseconds.
pub(crate) fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |median| median.as_secs_f64() * 1e6)
}

/// How peers take turns: in blocks, not single calls, since a thread that has slept for long is slow to wake. Each round
/// begins with another of them, and the first calls of a block only warm up.
pub(crate) struct Turns {
    pub(crate) rounds: usize,
    pub(crate) calls: usize,
    pub(crate) warm_up: usize,
}

impl Turns {
    /// The median of each, in microseconds. What each is given counts its calls.
    pub(crate) fn take<const N: usize>(&self, mut sides: [&mut dyn FnMut(usize); N]) -> [f64; N] {
        let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
        for round in 0..=self.rounds {
            for turn in 0..N {
                let which = (turn + round) % N;
                for call in 0..self.warm_up + self.calls {
                    let count = round * (self.warm_up + self.calls) + call;
                    let took = timed(|| sides[which](count));
                    // The whole first round warms up, too.
                    if call >= self.warm_up && round > 0 {
                        times[which].push(took);
                    }
                }
            }
        }
        times.map(|mut times| median(&mut times))
    }
}
