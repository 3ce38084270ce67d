//! The promises of `lease run`, kept by the real binary on real terminals, with real process trees and a real store.
//!
//! Its own harness, so that a scenario which this machine cannot run is counted as ignored, and says why.

// A scenario that cannot go on has failed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod codes;
mod container;
mod jobs;
mod leftovers;
mod load;
mod loss;
mod options;
mod pipes;
mod support;
mod suspend;
mod terminal;

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
    let trials = [
        codes::trials(),
        loss::trials(),
        terminal::trials(),
        jobs::trials(),
        leftovers::trials(),
        pipes::trials(),
        container::trials(),
        load::trials(),
        suspend::trials(),
        options::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

/// A scenario that runs beside others.
fn trial(name: &str, scenario: fn()) -> Trial {
    Trial::test(name, move || {
        alone::with_others(scenario);
        Ok(())
    })
}

/// A scenario that needs something of the machine: where it is missing, it is counted as ignored.
fn trial_with(name: &str, needs: &[support::needs::Need], scenario: fn()) -> Trial {
    let missing: Vec<&str> = needs.iter().filter_map(|need| need.missing()).collect();
    if !missing.is_empty() {
        eprintln!("NOT RUN: {name}: this machine lacks {}", missing.join(", "));
    }
    trial(name, scenario).with_ignored_flag(!missing.is_empty())
}

/// A scenario that loads the machine so much that others would fail beside it.
fn trial_alone(name: &str, needs: &[support::needs::Need], scenario: fn()) -> Trial {
    let missing: Vec<&str> = needs.iter().filter_map(|need| need.missing()).collect();
    if !missing.is_empty() {
        eprintln!("NOT RUN: {name}: this machine lacks {}", missing.join(", "));
    }
    let ignored = !missing.is_empty();
    Trial::test(name, move || {
        alone::without_others(scenario);
        Ok(())
    })
    .with_ignored_flag(ignored)
}
