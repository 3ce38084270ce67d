//! What a decision on a server costs, as ratios to a peer measured in the same run, on the same server.
//!
//! Arguments name the engines: `postgres`, `mysql` (MariaDB and MySQL), `redis`, `etcd`; or `flat`, how a decision's cost grows
//! from a thousand resources to a million, which takes minutes. Without one it measures all of them but `flat`.
//!
//! Peers and decisions take turns, round by round, so that whatever else the machine does meets all of them alike; each
//! figure is a ratio of medians. The servers are started here, from the machine's packages, in a temporary folder: let
//! `TMPDIR` name one on a disk where the usual one is in memory. Prints rows of a Markdown table. With `--check` it fails
//! where a bound is not met.
//!
//! - A *grant* is `reacquire` on one of a hundred resources that the caller holds: it ends one lease and begins the next.
//! - A peer's connection is driven on a thread of its own, as the store's is, and as programs have it on a runtime with
//!   several threads.

mod claims;
mod client;
mod etcd;
mod flat;
mod mysql;
mod postgres;
mod redis;
mod servers;
#[path = "../../store/src/table.rs"]
mod table;

use std::process::ExitCode;

use crate::table::Row;

const ENGINES: [(&str, fn() -> Vec<Row>); 4] =
    [("postgres", postgres::rows), ("mysql", mysql::rows), ("redis", redis::rows), ("etcd", etcd::rows)];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--check").collect();
    let mut rows = Vec::new();
    for (name, measure) in ENGINES {
        if asked.is_empty() || asked.iter().any(|argument| argument == name) {
            eprintln!("bench: {name}");
            rows.extend(measure());
        }
    }
    if asked.iter().any(|argument| argument == "flat") {
        rows.extend(flat::rows());
    }
    table::print(&rows)
}
