//! What a durable decision of the embedded store costs, as ratios to a peer measured in the same run.
//!
//! Peers and decisions take turns, round by round, so that whatever else the machine does meets all of them alike; each
//! figure is a ratio of medians. Prints rows of a Markdown table, `| what | figure | bound | met |`. With `--check` it
//! fails where a bound is not met.
//!
//! - A *decision* goes through the queue, the commit and the answer like any caller's; its peer, the *bare upsert*,
//!   goes through the same queue and commit and writes one row of three columns without reading or deciding anything.
//! - The *bare write* appends 4 KiB to a file and calls `fdatasync`, on the same disk.

mod disk;
mod fifty;
mod holders;
mod many;
mod single;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, file] = arguments.as_slice() {
        if role == fifty::ROLE {
            fifty::one(Path::new(file));
            return ExitCode::SUCCESS;
        }
    }
    let folder = Folder::new();
    let mut rows = single::rows(&folder.0);
    rows.extend(holders::rows(&folder.0));
    rows.push(many::row(&folder.0));
    rows.push(fifty::row(&folder.0));
    table::print(&rows)
}

/// On the disk that the project is on, or in the folder that `LEASE_BENCH_DIR` names: temporary folders are often in
/// memory, where nothing has to be durable.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let base = std::env::var_os("LEASE_BENCH_DIR")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
        let path = base.join(format!("store-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the bench's files can be made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
