//! The promises of `lease run`, kept by the real binary on real terminals, with real process trees and a real store.
//!
//! Its own harness, so that a scenario which this machine cannot run is counted as ignored, and says why.

// A scenario that cannot go on has failed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod codes;
mod loss;
mod support;

use libtest_mimic::{Arguments, Trial};

use support::alone;

/// How many scenarios may wait for their time at once. They sleep more than they work.
const THREADS: usize = 4;

fn main() -> std::process::ExitCode {
    if let Some(code) = support::actor::act() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let trials = [codes::trials(), loss::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

/// A scenario that runs beside others.
fn trial(name: &str, scenario: fn()) -> Trial {
    Trial::test(name, move || {
        alone::with_others(scenario);
        Ok(())
    })
}
