//! Processes: who ended, who is to be signalled.

use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// What happened to a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// It is gone, and its number is free.
    Ended(Ended),
    /// It was stopped by this signal.
    Stopped(i32),
    /// It goes on.
    Continued,
}

/// The answer of [`wait`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// Something happened to this child, or to an orphan that came to us.
    Changed(Pid, Change),
    /// Children live, and nothing happened to them.
    Nothing,
    /// No child is left. For a subreaper that is exact: nothing is left that descends from it.
    NoChildren,
}

/// Looks for the next thing that happened to any child, without waiting.
pub(crate) fn wait() -> Waited {
    let mut status = 0;
    let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
    // Not nix's: it has no name for real-time signals, and would lose an end by one.
    // SAFETY: the status outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    match pid {
        0 => Waited::Nothing,
        -1 if Errno::last() == Errno::ECHILD => Waited::NoChildren,
        -1 => Waited::Nothing,
        _ => Waited::Changed(Pid::from_raw(pid), change(status)),
    }
}

fn change(status: i32) -> Change {
    if libc::WIFEXITED(status) {
        // Eight bits by definition.
        Change::Ended(Ended::Code(libc::WEXITSTATUS(status) as u8))
    } else if libc::WIFSIGNALED(status) {
        Change::Ended(Ended::Signal(libc::WTERMSIG(status)))
    } else if libc::WIFSTOPPED(status) {
        Change::Stopped(libc::WSTOPSIG(status))
    } else {
        Change::Continued
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: Pid, signo: i32) -> Result<(), Errno> {
    kill(pid.as_raw(), pid.as_raw(), signo)
}

/// Sends a signal to a process group, to all its members in one step.
pub(crate) fn signal_group(group: Pid, signo: i32) -> Result<(), Errno> {
    kill(group.as_raw(), -group.as_raw(), signo)
}

fn kill(number: i32, target: i32, signo: i32) -> Result<(), Errno> {
    // 0 is the own group, -1 is everybody, 1 is not ours: a number that was never set must not reach anyone.
    if number <= 1 {
        return Err(Errno::ESRCH);
    }
    // SAFETY: passes two numbers.
    Errno::result(unsafe { libc::kill(target, signo) }).map(drop)
}

/// Whether the group has a member, a zombie included. For systems where nothing better is known.
pub(crate) fn group_exists(group: Pid) -> bool {
    !matches!(signal_group(group, 0), Err(Errno::ESRCH))
}

/// Makes the orphans among our descendants come to us. False where the system cannot.
pub(crate) fn adopt_orphans() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return nix::sys::prctl::set_child_subreaper(true).is_ok();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return false;
}

/// The name that `killall` and `ps` go by.
pub(crate) fn set_name(name: &std::ffi::CStr) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_name(name);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = name;
}

/// No core for an end that is not ours. Where a program collects cores the size limit alone does not stop it.
pub(crate) fn forbid_core() {
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// Ends at once: no destructor, no thread to wait for.
pub(crate) fn leave(code: u8) -> ! {
    // SAFETY: ends the process. Nothing that a destructor or an exit handler does is needed.
    unsafe { libc::_exit(i32::from(code)) }
}

/// The session of a process, while it lives.
pub(crate) fn session(pid: Pid) -> io::Result<Pid> {
    Ok(nix::unistd::getsid(Some(pid))?)
}

/// The group of a process, while it lives or waits for its parent to hear of its end.
pub(crate) fn group_of(pid: Pid) -> io::Result<Pid> {
    Ok(nix::unistd::getpgid(Some(pid))?)
}
