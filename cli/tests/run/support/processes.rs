//! Processes of a scenario, found by a mark in their environment: also those that left every group and session.

use std::fs;
use std::path::Path;
use std::time::Duration;

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

/// How many children of a process have ended without being waited for.
pub(crate) fn zombies_of(parent: Pid) -> usize {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    let state = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    };
    list.split_ascii_whitespace().filter(|pid| state(pid) == Some('Z')).count()
}

/// The processor time that a process has used.
pub(crate) fn processor_time(pid: Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, tail)| tail.split_ascii_whitespace().skip(11).take(2));
    let ticks: u64 = fields.into_iter().flatten().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // The kernel shows hundredths of a second, on every architecture.
    Duration::from_millis(ticks * 10)
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
