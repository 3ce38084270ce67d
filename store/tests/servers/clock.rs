//! A wall clock that a test sets, for a process of its own.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("clock.c");

/// What sets the clock of whatever runs with its [variables](Self::variables).
///
/// libfaketime does the same for many programs, but not for those with jemalloc inside, as Redis has it: each of the two
/// calls the other before it is set up.
pub struct WallClock {
    folder: PathBuf,
}

impl WallClock {
    /// In a folder that is there, and in which the process may read.
    pub fn new(folder: PathBuf) -> Result<Self, String> {
        let clock = Self { folder };
        let failed = |error: std::io::Error| format!("making a clock: {error}");
        fs::create_dir_all(&clock.folder).map_err(failed)?;
        fs::write(clock.file(), [0; 8]).map_err(failed)?;
        for path in [clock.folder.clone(), clock.file()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        let mut compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-x", "c", "-", "-o"])
            .arg(clock.folder.join("clock.so"))
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let written = compiler.stdin.take().map(|mut input| input.write_all(SOURCE.as_bytes()));
        written.unwrap_or(Ok(())).map_err(failed)?;
        let status = compiler.wait().map_err(failed)?;
        if status.success() { Ok(clock) } else { Err(format!("the C compiler failed: {status}")) }
    }

    pub fn variables(&self) -> Vec<String> {
        vec![
            format!("LD_PRELOAD={}", self.folder.join("clock.so").display()),
            format!("LEASE_CLOCK={}", self.file().display()),
        ]
    }

    /// Sets it so many seconds ahead of the machine's, at once for all.
    pub fn set(&self, ahead: i64) {
        // In place, since the file is mapped.
        let file = File::options().write(true).open(self.file()).unwrap();
        file.write_all_at(&ahead.to_ne_bytes(), 0).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.join("ahead")
    }
}
