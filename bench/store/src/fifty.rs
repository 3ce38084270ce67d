//! Fifty processes on one file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, Ending, LeaseRef, ResourceName, SqliteOptions, SqliteStore, Store, fresh_owner,
};

use crate::table::Row;

/// The argument of a process that is one of the fifty.
pub(crate) const ROLE: &str = "--one-of-fifty";

const PROCESSES: usize = 50;
const ROUNDS: usize = 20;
const RUNS: usize = 5;

/// The median of some runs, each with all fifty processes and a file that is missing at first.
pub(crate) fn row(folder: &Path) -> Row {
    let mut runs: Vec<(Duration, u64, u64)> =
        (0..RUNS).map(|run| race(&folder.join(format!("fifty-{run}.db")))).collect();
    runs.sort_unstable();
    let (slowest, _, _) = runs[RUNS / 2];
    let errors: u64 = runs.iter().map(|(_, _, errors)| errors).sum();
    let decisions: u64 = runs.iter().map(|(_, decisions, _)| decisions).sum();
    let millis = slowest.as_secs_f64() * 1e3;
    Row {
        what: "sqlite: slowest decision of 50 processes on one file".to_owned(),
        figure: format!("{millis:.0} ms ({errors} errors in {decisions} decisions, median of {RUNS} runs)"),
        bound: Some(("under 500 ms, no error", millis < 500.0 && errors == 0)),
    }
}

fn race(file: &Path) -> (Duration, u64, u64) {
    let program = std::env::current_exe().expect("the bench knows where it is");
    let mut others: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut child = Command::new(&program)
                .arg(ROLE)
                .arg(file)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a process can be started");
            let said = BufReader::new(child.stdout.take().expect("piped"));
            (child, said)
        })
        .collect();
    for (_, said) in &mut others {
        said.read_line(&mut String::new()).expect("it says that it is there");
    }
    for (child, _) in &mut others {
        child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it listens");
    }
    let (mut slowest, mut decisions, mut errors) = (Duration::ZERO, 0, 0);
    for (mut child, mut said) in others {
        let mut line = String::new();
        said.read_line(&mut line).expect("it says how it went");
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers.as_slice() {
            [micros, decided, failed] => {
                slowest = slowest.max(Duration::from_micros(*micros));
                decisions += decided;
                errors += failed;
            }
            _ => errors += 1,
        }
        let _ = child.wait();
    }
    (slowest, decisions, errors)
}

/// One of the fifty: takes and gives back one resource that all of them want, and one of its own.
pub(crate) fn one(file: &Path) {
    println!("ready");
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    let store =
        SqliteStore::open(file, SqliteOptions::default()).expect("the file can be opened by fifty at once");
    let (mut slowest, mut decisions, mut errors) = (Duration::ZERO, 0_u64, 0_u64);
    let shared = ResourceName::new("shared").expect("a plain name");
    let own = ResourceName::new(format!("own-{}", std::process::id())).expect("a plain name");
    for _ in 0..ROUNDS {
        for name in [&shared, &own] {
            let owner = fresh_owner().expect("random numbers");
            let claim = Claim::new(name.clone(), owner, Duration::from_secs(60));
            let start = Instant::now();
            let answer = block_on(store.acquire(claim));
            slowest = slowest.max(start.elapsed());
            decisions += 1;
            match answer {
                Ok(Acquired::Granted(grant)) => {
                    let lease = LeaseRef::new(name.clone(), owner, grant.token, Some(grant.epoch));
                    let start = Instant::now();
                    let released = block_on(store.release(lease, Ending::default()));
                    slowest = slowest.max(start.elapsed());
                    decisions += 1;
                    errors += u64::from(released.is_err());
                }
                Ok(_) => {}
                Err(_) => errors += 1,
            }
        }
    }
    println!("{} {decisions} {errors}", slowest.as_micros());
}
