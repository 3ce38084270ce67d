//! Descriptors: which were inherited, and how not to hold on to them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::libc;

/// Standard output was closed when this process began. Rust opens /dev/null in its place before `main` begins, and what
/// was written there would pass for read.
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn note_output() {
        // SAFETY: asking for the flags of any number is harmless; a closed one is an error.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        OUTPUT_CLOSED.store(flags < 0, Ordering::Relaxed);
    }
    note_output
};

/// Whether standard output was closed when this process began.
pub(crate) fn output_was_closed() -> bool {
    OUTPUT_CLOSED.load(Ordering::Relaxed)
}

/// The first descriptor that is not standard input, output or error.
const FIRST_OTHER: RawFd = 3;

/// The descriptors beyond the standard ones that this process was started with. To be asked before it opens any.
pub(crate) fn inherited() -> Vec<RawFd> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    // Without such a folder nothing is known, and nothing is closed.
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let found: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&fd| fd >= FIRST_OTHER)
        .collect();
    // The folder itself was among them, and is closed by now.
    found.into_iter().filter(|&fd| survives_exec(fd)).collect()
}

/// Whether this descriptor is open and passed on to what this process executes.
pub(crate) fn survives_exec(fd: RawFd) -> bool {
    // SAFETY: asking for the flags of any number is harmless; a closed one is an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Closes descriptors that nothing in this process owns.
pub(crate) fn close(fds: impl IntoIterator<Item = RawFd>) {
    for fd in fds {
        if survives_exec(fd) {
            // SAFETY: whatever this process opens itself is closed on exec, so this one was inherited, and nothing
            // here owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

/// Takes over a descriptor that was passed on by its number.
///
/// # Errors
///
/// Where it is not open, or not passed on by exec and thus this process's own.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < FIRST_OTHER || !survives_exec(fd) {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("descriptor {fd} was not passed on")));
    }
    // SAFETY: it is open and was inherited, so that nothing here owns it yet; from now on it is closed on exec, so it
    // cannot be adopted twice.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    close_on_exec(&fd)?;
    Ok(fd)
}

/// Keeps a descriptor from being passed on.
pub(crate) fn close_on_exec(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(())
}

/// Passes a descriptor on to what is executed next. Async-signal-safe.
pub(crate) fn keep_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: sets flags of a number; a closed one is an error.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Makes reads and writes answer "would block".
pub(crate) fn nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Makes them wait again.
pub(crate) fn blocking(fd: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags & !OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Whether it was opened for writing.
pub(crate) fn is_writable(fd: impl AsFd) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE != OFlag::O_RDONLY)
}

/// Lets go of standard input and output: otherwise whoever writes to the command never sees that it closed its input,
/// and whoever reads from it never sees that it closed its output.
pub(crate) fn let_go_of_pipes() -> io::Result<()> {
    let null = null()?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}

/// Lets go of standard error, for a process that never writes to it.
pub(crate) fn let_go_of_errors() -> io::Result<()> {
    nix::unistd::dup2_stderr(null()?)?;
    Ok(())
}

fn null() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}
