//! How the warden and the command are started.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid, getppid, setpgid, tcgetpgrp, tcsetpgrp};

use super::fds;
use super::latency::Slice;
use super::signals::{self, Inherited};
use super::terminal::Terminal;

/// Starts a process in a group of its own that ignores `ignored` and inherits the descriptors `pass`.
pub(crate) fn spawn_apart(
    command: &mut Command,
    ignored: &'static [Signal],
    pass: [RawFd; 2],
) -> io::Result<Pid> {
    let setup = move || {
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        signals::ignore(ignored);
        pass.into_iter().try_for_each(fds::keep_on_exec)
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made, and nothing is allocated.
    unsafe { command.pre_exec(setup) };
    spawn(command)
}

/// How the command differs from a plain child.
pub(crate) struct Setup<'a> {
    /// The signals it is to find.
    pub(crate) signals: Inherited,
    /// How it is to be scheduled.
    pub(crate) slice: Slice,
    /// The terminal to take before it begins, if this group is in the foreground then.
    pub(crate) terminal: Option<(&'a Terminal, Pid)>,
}

/// Starts the command in a group of its own. Where the system can, it dies with the calling **thread**, so that this
/// must be the main one.
pub(crate) fn spawn_command(command: &mut Command, setup: &Setup<'_>) -> io::Result<Pid> {
    use std::os::fd::AsRawFd;
    let parent = getpid();
    let (signals, slice) = (setup.signals, setup.slice);
    let terminal = setup.terminal.map(|(terminal, front)| (terminal.as_raw_fd(), front));
    let prepare = move || {
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        die_with(parent)?;
        if let Some((fd, front)) = terminal {
            take_terminal(fd, front);
        }
        slice.restore();
        signals.restore();
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made, and nothing is allocated.
    unsafe { command.pre_exec(prepare) };
    spawn(command)
}

/// Its end is seen by [`wait`](super::process::wait), like everybody's.
fn spawn(command: &mut Command) -> io::Result<Pid> {
    // A process number fits; the kernel's own limit is 2^22.
    command.spawn().map(|child| Pid::from_raw(child.id() as i32))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with(parent: Pid) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // It may have died before the line above: then nobody is left to tell us.
    if getppid() != parent {
        // SAFETY: ends this process without running anything.
        unsafe { libc::_exit(libc::SIGKILL) };
    }
    Ok(())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with(parent: Pid) -> io::Result<()> {
    if getppid() != parent {
        // SAFETY: ends this process without running anything.
        unsafe { libc::_exit(libc::SIGKILL) };
    }
    Ok(())
}

/// The foreground is decided here, not before the fork: only now is it known who waits for whom.
fn take_terminal(fd: RawFd, front: Pid) {
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    // What was blocked before is put back right after, with all other signals.
    let _ = ttou.thread_block();
    // SAFETY: the terminal is open in the parent, of which this is a copy.
    let terminal = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    if tcgetpgrp(terminal) == Ok(front) {
        let _ = tcsetpgrp(terminal, getpid());
    }
}
