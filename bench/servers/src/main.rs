//! What a decision on a server costs, as ratios to a peer measured in the same run, on the same server.
//!
//! Peers and decisions take turns, round by round, so that whatever else the machine does meets all of them alike; each
//! figure is a ratio of medians. The servers are started here, from the machine's packages, in a temporary folder: let
//! `TMPDIR` name one on a disk where the usual one is in memory. Prints rows of a Markdown table. With `--check` it fails
//! where a bound is not met; with `--flat` it measures how a decision's cost grows with the number of resources, which
//! takes minutes, and nothing else.
//!
//! - A *grant* is `reacquire` on one of a hundred resources that the caller holds: it ends one lease and begins the next.
//! - A peer's connection is driven on a thread of its own, as the store's is, and as programs have it on a runtime with
//!   several threads.

mod client;
mod flat;
mod postgres;
mod redis;
mod servers;
#[path = "../../store/src/table.rs"]
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let rows = if std::env::args().any(|argument| argument == "--flat") {
        flat::rows()
    } else {
        postgres::rows().into_iter().chain(redis::rows()).collect()
    };
    table::print(&rows)
}
