//! Clients, faults and a check of what was answered, over the stores on real servers. See `docs/chaos.md`.
// A test from end to end: what fails here has failed, and says where.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod check;
mod client;
mod crew;
mod engine;
mod faults;
mod history;
mod ids;
#[cfg(test)]
mod mutants;
mod proxy;
mod question;
mod random;
mod record;
mod report;
mod run;
mod second;
mod servers;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use engine::ENGINES;
use record::Counts;
use report::Outcome;

const USAGE: &str = "\
usage: chaos [ids] [--minutes N] [--engine NAME]... [--seed S] [--at-once] [--write FILE]
       chaos check FILE

Runs clients and faults over each engine for N minutes (1), one after the other or all at once, and checks what was
answered. Prints what was asked, what went wrong on purpose, and what broke a promise; the status is 1 if something did.
The history of such a run is kept under target/chaos/, and `check` looks at one again. With `ids`, the clients are processes
that make IDs, and the IDs are what is checked.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["apart", rest @ ..] => apart(rest).map(|()| true),
        ["maker", rest @ ..] => maker(rest).map(|()| true),
        ["check", file] => again(Path::new(file)),
        ["ids", rest @ ..] => Options::parse(rest, ids::ENGINES).and_then(|options| all(&options, with_ids)),
        _ => Options::parse(&words, ENGINES).and_then(|options| all(&options, with_clients)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("chaos: {message}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    length: Duration,
    engines: Vec<String>,
    seed: u64,
    at_once: bool,
    write: Option<PathBuf>,
}

impl Options {
    fn parse(words: &[&str], engines: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            length: Duration::from_secs(60),
            engines: Vec::new(),
            // The system's, through the one that the stores draw owners with.
            seed: lease_machines_store::fresh_owner().map_err(|error| error.to_string())?.value(),
            at_once: false,
            write: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().copied().ok_or(format!("{word} needs a value\n{USAGE}"));
            match word {
                "--minutes" => {
                    let value = value()?;
                    let minutes =
                        value.parse::<f64>().ok().filter(|minutes| (0.01..=10_000.0).contains(minutes));
                    let minutes =
                        minutes.ok_or(format!("--minutes is a number from 0.01 on, found {value:?}"))?;
                    options.length = Duration::from_secs_f64(minutes * 60.0);
                }
                "--engine" => options.engines.push(value()?.to_owned()),
                "--seed" => {
                    let value = value()?;
                    options.seed =
                        value.parse().map_err(|_| format!("--seed is a number, found {value:?}"))?;
                }
                "--at-once" => options.at_once = true,
                "--write" => options.write = Some(value()?.into()),
                _ => return Err(format!("unknown argument {word:?}\n{USAGE}")),
            }
        }
        if options.engines.is_empty() {
            options.engines = engines.iter().map(|&name| name.to_owned()).collect();
        }
        if let Some(unknown) = options.engines.iter().find(|name| !ENGINES.contains(&name.as_str())) {
            return Err(format!("no engine is called {unknown:?}; there are: {}", ENGINES.join(", ")));
        }
        Ok(options)
    }
}

/// Where is kept what a violation was found in.
const FOLDER: &str = "target/chaos";

fn with_clients(engine: &str, options: &Options) -> Result<Outcome, String> {
    let is_terminal = std::io::stderr().is_terminal();
    let progress = move |engine: &str, counts: &Counts| {
        if is_terminal {
            eprintln!("{}", report::progress(engine, counts));
        }
    };
    let report = run::run(engine, options.seed, options.length, Path::new(FOLDER), &progress)?;
    Ok(report::outcome(&report))
}

fn with_ids(engine: &str, options: &Options) -> Result<Outcome, String> {
    let report = ids::run(engine, options.seed, options.length, Path::new(FOLDER))?;
    Ok(ids::outcome(&report))
}

/// Whether no promise was broken.
fn all(options: &Options, run: fn(&str, &Options) -> Result<Outcome, String>) -> Result<bool, String> {
    let commit = report::commit();
    let one = |engine: &String| {
        println!("{engine}: seed {}, {} s", options.seed, options.length.as_secs());
        run(engine, options).map_err(|message| format!("{engine}, seed {}: {message}", options.seed))
    };
    let outcomes: Vec<Result<Outcome, String>> = if options.at_once {
        std::thread::scope(|scope| {
            let runs: Vec<_> =
                options.engines.iter().map(|engine| scope.spawn(move || one(engine))).collect();
            runs.into_iter()
                .map(|run| run.join().unwrap_or_else(|_| Err("a run panicked".to_owned())))
                .collect()
        })
    } else {
        options.engines.iter().map(one).collect()
    };
    let (mut passed, mut failed) = (0, 0);
    for outcome in &outcomes {
        match outcome {
            Ok(outcome) => print!("{}", outcome.text),
            Err(message) => println!("{message}"),
        }
        if outcome.as_ref().is_ok_and(|outcome| outcome.is_good) {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    if let Some(file) = &options.write {
        let outcomes: Vec<&Outcome> = outcomes.iter().flatten().collect();
        report::write(file, &commit, options.length, &outcomes)?;
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Checks a history that was kept.
fn again(file: &Path) -> Result<bool, String> {
    let history = history::History::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let violations = check::check(&history);
    for violation in &violations {
        println!("{violation}");
    }
    println!("{} violations in {} lines", violations.len(), history.lines.len());
    Ok(violations.is_empty())
}

/// A process with clients, which a run has started.
fn apart(words: &[&str]) -> Result<(), String> {
    let [engine, url, place, numbers @ ..] = words else { return Err(USAGE.to_owned()) };
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let &[seed, began, first, count, life] = numbers.as_slice() else { return Err(USAGE.to_owned()) };
    let scene = crew::Scene {
        engine: (*engine).to_owned(),
        url: (*url).to_owned(),
        place: (*place).to_owned(),
        seed,
        began,
    };
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(scene.run_apart(first as u32, count as u32, life))
}

/// A process that makes IDs, which a run has started.
fn maker(words: &[&str]) -> Result<(), String> {
    let &[url, file, number, seed] = words else { return Err(USAGE.to_owned()) };
    let (Ok(number), Ok(seed)) = (number.parse(), seed.parse()) else { return Err(USAGE.to_owned()) };
    ids::make(url, Path::new(file), number, seed)
}
