//! A terminal, and somebody at it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::{Pid, tcgetpgrp};

use super::{Lab, SOON, until};

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_Z: &str = "\x1a";

/// What a shell of [`Pty::shell`] shows when it is ready, after the code of what it ran.
pub(crate) fn prompt(code: i32) -> String {
    format!("<{code}> ")
}

/// A terminal with a program as its session leader.
pub(crate) struct Pty {
    master: Option<OwnedFd>,
    pub(crate) leader: Child,
    reader: Option<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How much of it was expected already.
    seen: usize,
}

impl Pty {
    /// Starts a program as the leader of a new session on a new terminal.
    pub(crate) fn start(mut command: Command) -> Self {
        // Closed on exec from the start: a copy in any process would keep the terminal from hanging up.
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ptsname_r(&master).unwrap();
        let slave = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(slave).unwrap();
        let master: OwnedFd = master.into();
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let setup = || {
            nix::unistd::setsid()?;
            // SAFETY: makes standard input the controlling terminal.
            nix::errno::Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) })?;
            super::actor::default_signals();
            Ok(())
        };
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe { command.pre_exec(setup) };
        let leader = command.spawn().unwrap();
        // The command keeps copies of the other end, which would hide its end.
        drop(command);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicBool::new(false));
        let reader = {
            let (mut master, shown) = (File::from(master.try_clone().unwrap()), Arc::clone(&shown));
            let closed = Arc::clone(&closed);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while !closed.load(Ordering::Relaxed) {
                    // It looks up now and then: the terminal hangs up only when nobody has its other end open.
                    let ready = PollFd::new(master.as_fd(), PollFlags::POLLIN);
                    if poll(&mut [ready], PollTimeout::from(20_u8)) == Ok(0) {
                        continue;
                    }
                    // The end of the terminal is an error.
                    let Ok(read @ 1..) = master.read(&mut buffer) else { return };
                    shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
                }
            })
        };
        Self { master: Some(master), leader, reader: Some(reader), closed, shown, seen: 0 }
    }

    /// An interactive shell, ready.
    pub(crate) fn shell(lab: &Lab, program: &str) -> Self {
        let mut command = lab.command(program);
        if program == "bash" {
            command.args(["--norc", "--noprofile", "--noediting"]);
        }
        command
            .arg("-i")
            .env("PS1", "<$?> ")
            .env("TERM", "xterm")
            .env("HISTFILE", "/dev/null")
            .env_remove("ENV");
        let mut pty = Self::start(command);
        pty.expect(&prompt(0));
        pty
    }

    /// Types.
    pub(crate) fn send(&self, keys: &str) {
        File::from(self.master().try_clone_to_owned().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line.
    pub(crate) fn line(&self, line: &str) {
        self.send(&format!("{line}\n"));
    }

    /// Waits until the text is shown, after what was waited for before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let begun = super::now();
        loop {
            let shown = self.shown();
            if let Some(at) = shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(super::now() < begun + SOON, "waited in vain for {text:?} in {:?}", &shown[self.seen..]);
            thread::sleep(super::ms(2));
        }
    }

    /// What is shown and was not waited for yet.
    pub(crate) fn unseen(&self) -> String {
        self.shown()[self.seen..].to_owned()
    }

    /// The group in the foreground.
    pub(crate) fn foreground(&self) -> Pid {
        tcgetpgrp(self.master()).unwrap()
    }

    /// Waits until this group is in the foreground.
    #[track_caller]
    pub(crate) fn until_foreground(&self, group: Pid) {
        until("the group to be in the foreground", SOON, || (self.foreground() == group).then_some(()));
    }

    /// The group of the shell.
    pub(crate) fn own_group(&self) -> Pid {
        Pid::from_raw(self.leader.id() as i32)
    }

    /// Lines are edited and shown as they are typed.
    pub(crate) fn is_sane(&self) -> bool {
        let modes = tcgetattr(self.master()).unwrap().local_flags;
        modes.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, columns: u16) {
        let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: reads the size.
        let done = unsafe { libc::ioctl(self.master().as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0);
    }

    /// Closes the window.
    pub(crate) fn hang_up(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
        drop(self.master.take());
    }

    fn master(&self) -> std::os::fd::BorrowedFd<'_> {
        self.master.as_ref().unwrap().as_fd()
    }

    fn shown(&self) -> String {
        // No scenario shows anything but ASCII, so that positions stay what they are.
        String::from_utf8_lossy(&self.shown.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        let _ = self.leader.kill();
        let _ = self.leader.wait();
        if thread::panicking() {
            eprintln!("the terminal showed: {}", self.shown());
        }
    }
}
