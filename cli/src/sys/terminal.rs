//! The controlling terminal: by `/dev/tty`, not by what standard input happens to be.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, tcgetpgrp, tcsetpgrp};

/// How many columns a terminal has; `None` for what is no terminal, or does not say.
pub(crate) fn columns(output: impl AsFd) -> Option<usize> {
    // SAFETY: all zeroes is a valid size.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the size outlives the call, which fills it in for a terminal and fails for anything else.
    let asked = unsafe { libc::ioctl(output.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    Some(usize::from(size.ws_col)).filter(|&columns| asked == 0 && columns > 0)
}

/// The controlling terminal of this process. Its owner blocks SIGTTOU: a group in the background is stopped otherwise
/// by what it does here.
pub(crate) struct Terminal(File);

impl Terminal {
    /// `None` without a controlling terminal.
    pub(crate) fn controlling() -> Option<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = (OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits();
        File::options().read(true).write(true).custom_flags(flags).open("/dev/tty").ok().map(Self)
    }

    /// The group in the foreground; `None` after a hang-up.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok()
    }

    /// Makes a group of this session the one in the foreground. A group that is gone, and a hang-up, change nothing.
    pub(crate) fn give(&self, group: Pid) {
        let _ = tcsetpgrp(&self.0, group);
    }

    /// Echo, line editing and so on; `None` after a hang-up.
    pub(crate) fn modes(&self) -> Option<Termios> {
        tcgetattr(&self.0).ok()
    }

    /// Puts modes back, once what was written has gone out.
    pub(crate) fn set_modes(&self, modes: &Termios) {
        let _ = tcsetattr(&self.0, SetArg::TCSADRAIN, modes);
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Terminal {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
