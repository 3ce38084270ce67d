//! Who descends from a process, as the kernel lists it now.
//!
//! A list is out of date when it is read: a process may fork and exit while we look. It is good for sending signals
//! again and again until nothing is left, and never a proof that nothing is; see [`wait`](super::process::wait).

use nix::unistd::Pid;

pub(crate) use listing::{descendants, look, visible};

/// What is known of a process besides its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// Its short name, as `ps` shows it.
    pub(crate) name: String,
    /// The session it is in.
    pub(crate) session: Pid,
    /// It has ended as a whole, and waits for its parent to hear of it.
    pub(crate) zombie: bool,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod listing {
    use std::collections::{HashMap, HashSet};
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use nix::unistd::{Pid, getpid};

    use super::Seen;

    /// Whether /proc is there and shows the numbers that this process knows: in a pid namespace that kept its parent's
    /// /proc it shows others, and signals to them would reach strangers.
    pub(crate) fn visible() -> bool {
        let own = fs::read_link("/proc/self").ok();
        own.and_then(|path| path.to_str()?.parse().ok()) == Some(getpid().as_raw())
    }

    /// All that descend from `root`, parents before children, without `root` itself. Looked for as long as `go_on` says
    /// so: whoever has little time takes what was found by then.
    pub(crate) fn descendants(root: Pid, go_on: impl Fn() -> bool) -> Vec<Pid> {
        let mut found = Vec::new();
        if !visible() {
            return found;
        }
        let mut seen = HashSet::from([root]);
        let mut by_parent = None;
        let mut next = Some(root);
        let mut walked = 0;
        while let Some(parent) = next.filter(|_| go_on()) {
            let children = children(parent).unwrap_or_else(|| {
                // A kernel built without lists of children: every process names its parent.
                by_parent.get_or_insert_with(all_by_parent).remove(&parent).unwrap_or_default()
            });
            // Numbers are used again: without the check a list that changes under us could lead round in a circle.
            found.extend(children.into_iter().filter(|&child| seen.insert(child)));
            next = found.get(walked).copied();
            walked += 1;
        }
        found
    }

    /// `None` once it is gone.
    pub(crate) fn look(pid: Pid) -> Option<Seen> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse(&String::from_utf8_lossy(&stat)).map(|(_, seen)| seen)
    }

    /// `None` where the kernel keeps no list, and an empty one for a process that is gone.
    fn children(parent: Pid) -> Option<Vec<Pid>> {
        let folder = format!("/proc/{parent}/task");
        let mut children = Vec::new();
        // Each thread has its own. The folder has two links besides one a thread, and most processes have one thread:
        // the time that is spent here is missing when KILL is due.
        match fs::metadata(&folder).map(|folder| folder.nlink()) {
            Err(_) => {}
            Ok(3) => add_children(&format!("{folder}/{parent}"), &mut children)?,
            Ok(_) => {
                for thread in fs::read_dir(&folder).into_iter().flatten().flatten() {
                    add_children(&thread.path().to_string_lossy(), &mut children)?;
                }
            }
        }
        Some(children)
    }

    /// `None` where the kernel keeps no list; a thread that is gone has no children.
    fn add_children(thread: &str, children: &mut Vec<Pid>) -> Option<()> {
        match fs::read_to_string(format!("{thread}/children")) {
            Ok(list) => {
                children.extend(
                    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw),
                );
            }
            Err(_) if Path::new(thread).exists() => return None,
            Err(_) => {}
        }
        Some(())
    }

    fn all_by_parent() -> HashMap<Pid, Vec<Pid>> {
        let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
        let Ok(entries) = fs::read_dir("/proc") else { return by_parent };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for pid in pids.map(Pid::from_raw) {
            let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
            if let Some((parent, _)) = parse(&String::from_utf8_lossy(&stat)) {
                by_parent.entry(parent).or_default().push(pid);
            }
        }
        by_parent
    }

    /// The parent and the rest, from `pid (name) state ppid pgrp session …`. The name may contain anything, brackets too.
    ///
    /// The state is that of the first thread. Where that one has ended before the others, it is a zombie's, and the
    /// process works on: its number of threads tells.
    fn parse(stat: &str) -> Option<(Pid, Seen)> {
        /// Of the fields after the session: `tty tpgid flags`, four of page faults, four of time, two of priority.
        const BEFORE_THREADS: usize = 13;
        let (head, tail) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = tail.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let mut number = || fields.next()?.parse().ok().map(Pid::from_raw);
        let (parent, _group, session) = (number()?, number()?, number()?);
        let threads = fields.nth(BEFORE_THREADS).and_then(|threads| threads.parse::<u32>().ok());
        let zombie = ended && threads.is_none_or(|threads| threads <= 1);
        Some((parent, Seen { name: name.to_owned(), session, zombie }))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_name_may_contain_anything() {
            let (parent, seen) = parse("7 (a) b (c)) Z 3 5 6 0 -1").unwrap();
            let name = "a) b (c)".to_owned();
            assert_eq!(parent, Pid::from_raw(3));
            assert_eq!(seen, Seen { name, session: Pid::from_raw(6), zombie: true });
            // The first thread has ended, and two others have not.
            let (_, seen) = parse("7 (a) Z 3 5 6 0 -1 4227084 0 0 0 0 0 0 0 0 20 0 3 0 812").unwrap();
            assert!(!seen.zombie);
            let (_, seen) = parse("7 (a) Z 3 5 6 0 -1 4227084 0 0 0 0 0 0 0 0 20 0 1 0 812").unwrap();
            assert!(seen.zombie);
            assert_eq!(parse("7 (a"), None);
            assert_eq!(parse("7 (a) R 1 2"), None);
        }

        #[test]
        fn finds_children_and_grandchildren_both_ways() {
            let mut child = std::process::Command::new("sh")
                .args(["-c", "sleep 60 & echo; wait"])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = [0; 1];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
            let shell = Pid::from_raw(child.id() as i32);

            let found = descendants(getpid(), || true);
            let grandchildren = children(shell).unwrap();
            let by_parent = all_by_parent();
            let sleeper = grandchildren[0];
            let _ = nix::sys::signal::kill(sleeper, nix::sys::signal::Signal::SIGKILL);
            child.kill().unwrap();
            child.wait().unwrap();

            assert_eq!(grandchildren.len(), 1);
            assert!(found.contains(&shell) && found.contains(&sleeper), "{found:?}");
            assert_eq!(by_parent[&shell], grandchildren);
            assert_eq!(look(shell), None, "it is gone");
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod listing {
    use nix::unistd::Pid;

    use super::Seen;

    /// No list without Linux's /proc: what can be reached is the process group.
    pub(crate) fn visible() -> bool {
        false
    }

    /// Empty: nothing is known.
    pub(crate) fn descendants(_root: Pid, _go_on: impl Fn() -> bool) -> Vec<Pid> {
        Vec::new()
    }

    /// Nothing is known.
    pub(crate) fn look(_pid: Pid) -> Option<Seen> {
        None
    }
}
