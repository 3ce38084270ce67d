//! A test that runs again as another process.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "LEASE_TEST_ROLE";

/// The path that the test gave, in the process that it started; nothing in the test itself.
pub fn role() -> Option<PathBuf> {
    std::env::var_os(ROLE).map(PathBuf::from)
}

/// Waits until the test tells this process to go on.
pub fn heard() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

/// A process that ends with its test, also where that fails.
pub struct Other {
    pub child: Child,
    pub said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Runs this test of this file again, where `role` gives the path.
    pub fn start(test: &str, path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(ROLE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// The rest of the next line that has this word.
    pub fn next(&mut self, word: &str) -> Option<String> {
        self.said.find_map(|line| {
            let line = line.unwrap();
            line.find(word).map(|at| line[at + word.len()..].trim().to_owned())
        })
    }

    pub fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
