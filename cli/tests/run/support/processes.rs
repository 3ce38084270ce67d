//! Processes of a scenario, found by a mark in their environment: also those that left every group and session.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The environment variable that all processes of a scenario inherit.
pub(crate) const MARK: &str = "LEASE_TEST_MARK";

/// What is known of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: Pid,
    pub(crate) group: Pid,
    pub(crate) name: String,
    /// As `ps` has it: `R`, `S`, `T` and so on.
    pub(crate) state: char,
    pub(crate) command_line: String,
}

/// The living processes with this mark.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let carries = |pid: Pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|&pid| carries(pid))
        .filter_map(look)
        .collect()
}

/// One process, unless it is gone or a zombie.
pub(crate) fn look(pid: Pid) -> Option<Process> {
    let stat = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
    let (head, tail) = stat.rsplit_once(')')?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let mut number = || fields.next()?.parse().ok().map(Pid::from_raw);
    let (parent, group) = (number()?, number()?);
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ").trim().to_owned();
    let name = head.split_once('(')?.1.to_owned();
    (!matches!(state, 'Z' | 'X')).then_some(Process { pid, parent, group, name, state, command_line })
}

/// The warden of a front.
pub(crate) fn warden_of(front: Pid) -> Option<Process> {
    children(front).into_iter().find(|child| child.command_line.starts_with("warden --of"))
}

/// The living children of a process.
pub(crate) fn children(parent: Pid) -> Vec<Process> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| look(Pid::from_raw(pid.parse().ok()?))).collect()
}

/// Ends all processes with this mark, whatever they are.
pub(crate) fn end_all(mark: &str) {
    // A tree that forks while we look needs several looks; a hundred are enough for what the scenarios start here.
    for _ in 0..100 {
        let alive = marked(mark);
        if alive.is_empty() {
            return;
        }
        for process in alive {
            let _ = kill(process.pid, Signal::SIGKILL);
        }
    }
}

/// Whether this is a machine on which any of this works.
pub(crate) fn visible() -> bool {
    Path::new("/proc/self/environ").exists()
}
