//! What `lease run` adds to a command, on an SQLite file that was used before.
//!
//! `true` alone, under flock, and under `lease run` take turns; each figure is the median of its runs. flock's lock is
//! beside it for scale: it writes nothing to the disk, and gives no token.
//!
//! Prints rows of a Markdown table, `| what | figure | bound | met |`. Wants `target/release/lease` to be built.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What `lease run` may add, in milliseconds.
const BOUND_MS: f64 = 10.0;
const ROUNDS: usize = 400;
/// Rounds at the start that only warm up.
const WARM_UP: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no workspace")?;
    let lease = root.join("target/release/lease");
    let folder = std::env::temp_dir().join(format!("lease-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let store = format!("sqlite:{}", folder.join("leases.db").display());
    let lock = folder.join("lock").display().to_string();
    let lease = lease.display().to_string();
    let commands: [&[&str]; 3] = [
        &["true"],
        &["flock", &lock, "true"],
        &[&lease, "run", "--quiet", "--store", &store, "bench", "--", "true"],
    ];
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        for (command, taken) in commands.iter().zip(&mut times) {
            let duration = time(command)?;
            if round >= WARM_UP {
                taken.push(duration);
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;

    let [alone, flock, lease] = times.map(median_ms);
    let added = lease - alone;
    println!("| command: `true` | {alone:.2} ms | | |");
    println!("| command: `flock FILE true` | {flock:.2} ms | | |");
    println!(
        "| command: `lease run NAME -- true`, more than `true` | {added:.2} ms | at most {BOUND_MS:.0} ms | {} |",
        if added <= BOUND_MS { "yes" } else { "no" }
    );
    Ok(())
}

fn time(command: &[&str]) -> Result<Duration, Box<dyn Error>> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let begun = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    let taken = begun.elapsed();
    if status.success() { Ok(taken) } else { Err(format!("{program} ended with {status}").into()) }
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |median| median.as_secs_f64() * 1e3)
}
