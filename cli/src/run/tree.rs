//! A command and everything that descends from it: who is left, and how all of them are reached.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{SIGCONT, SIGKILL, SIGTERM};
use nix::unistd::{Pid, getpid};

use super::course::Scope;
use crate::sys::clock;
use crate::sys::descendants::{Seen, descendants, look, visible};
use crate::sys::process::{group_exists, group_of, session, signal, signal_group};

/// What descends from one process of ours.
pub(crate) struct Tree {
    /// Our own session: the command's, unless it went elsewhere.
    session: Option<Pid>,
    /// The command's group; its number is the command's.
    group: Option<Pid>,
    /// The command's end was not taken note of yet, so that nobody else can have its number.
    has_leader: bool,
    /// Processes that we may not signal, and their names.
    refused: BTreeMap<Pid, String>,
}

/// Who was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    /// In the command's session.
    pub(crate) here: BTreeMap<Pid, String>,
    /// In a session of their own.
    pub(crate) elsewhere: BTreeMap<Pid, String>,
}

/// Who a signal reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// Somebody, or nobody was there to be reached.
    Some,
    /// Only processes that we may not signal are there.
    OnlyRefused,
}

impl Tree {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self { session: session(getpid()).ok(), group: None, has_leader: false, refused: BTreeMap::new() }
    }

    /// The command runs, in a group of its own.
    pub(crate) fn plant(&mut self, command: Pid) {
        self.group = Some(command);
        self.has_leader = true;
    }

    /// The command's group.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// The command's end was taken note of.
    pub(crate) fn leader_ended(&mut self) {
        self.has_leader = false;
    }

    /// Passes a signal on to the command's group.
    pub(crate) fn pass_on(&self, signo: i32) {
        if let Some(group) = self.group {
            if self.has_leader || self.owns_group(&descendants(getpid(), || true)) {
                let _ = signal_group(group, signo);
            }
        }
    }

    /// Who descends from us and has not ended.
    pub(crate) fn look(&self) -> Found {
        let mut found = Found::default();
        for pid in descendants(getpid(), || true) {
            if let Some(Seen { name, session, zombie: false, .. }) = look(pid) {
                let here = Some(session) == self.session;
                if here { &mut found.here } else { &mut found.elsewhere }.insert(pid, name);
            }
        }
        found
    }

    /// Whether the group has a member. Where descendants cannot be listed this is all that is known.
    pub(crate) fn group_lives(&self) -> bool {
        self.group.is_some_and(group_exists)
    }

    /// TERM, then CONT: what is stopped must be able to clean up. Nobody gets TERM twice. The group comes first, and the
    /// others are looked for until `until` at the latest: on a machine that has no time for it, KILL must not wait.
    pub(crate) fn terminate(&mut self, scope: Scope, until: Duration) -> Reached {
        let in_time = || clock::now() < until;
        let mut together = self.has_leader;
        if together {
            self.terminate_group();
        }
        let all = self.members(getpid(), scope, in_time);
        if !together && self.owns_group(&all) {
            together = true;
            self.terminate_group();
        }
        let mut sent = Vec::new();
        for pid in all.into_iter().take_while(|_| in_time()) {
            if together && group_of(pid).ok() == self.group {
                // It is only asked whether the group's signal may have reached it.
                sent.push((pid, signal(pid, 0)));
            } else {
                sent.push((pid, signal(pid, SIGTERM)));
                let _ = signal(pid, SIGCONT);
            }
        }
        self.count(sent)
    }

    fn terminate_group(&self) {
        for signo in [SIGTERM, SIGCONT] {
            self.group.map(|group| signal_group(group, signo));
        }
    }

    /// KILL: the group in one step, which a chain of forks cannot outrun, then everybody else.
    pub(crate) fn kill(&mut self, scope: Scope) -> Reached {
        self.kill_under(getpid(), scope)
    }

    /// [`kill`](Self::kill) for what descends from another process: the warden, by the front.
    pub(crate) fn kill_under(&mut self, root: Pid, scope: Scope) -> Reached {
        // With its leader there, the group needs no look at who is in it.
        if let Some(group) = self.group.filter(|_| self.has_leader) {
            let _ = signal_group(group, SIGKILL);
        }
        let all = self.members(root, scope, || true);
        if !self.has_leader && self.owns_group(&all) {
            self.group.map(|group| signal_group(group, SIGKILL));
        }
        self.count(all.into_iter().map(|pid| (pid, signal(pid, SIGKILL))).collect())
    }

    /// Processes that we may not signal, and their names.
    pub(crate) fn refused(&self) -> &BTreeMap<Pid, String> {
        &self.refused
    }

    fn members(&self, root: Pid, scope: Scope, go_on: impl Fn() -> bool) -> Vec<Pid> {
        let mut all = descendants(root, go_on);
        if scope == Scope::Session {
            all.retain(|&pid| session(pid).ok() == self.session);
        }
        all
    }

    /// Whether the group's number is still its own: by the command, or by a member that descends from us. A number
    /// that is free could be a stranger's.
    fn owns_group(&self, all: &[Pid]) -> bool {
        let Some(group) = self.group else { return false };
        self.has_leader
            || if visible() {
                all.iter().any(|&pid| group_of(pid).is_ok_and(|its| its == group))
            } else {
                group_exists(group)
            }
    }

    fn count(&mut self, sent: Vec<(Pid, Result<(), Errno>)>) -> Reached {
        let mut reached = sent.is_empty();
        for (pid, answer) in sent {
            if answer == Err(Errno::EPERM) {
                let name = look(pid).map_or_else(String::new, |seen| seen.name);
                self.refused.insert(pid, name);
            } else {
                reached = true;
            }
        }
        if reached { Reached::Some } else { Reached::OnlyRefused }
    }
}
