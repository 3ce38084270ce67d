//! A program that believes that it talks to a person.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};

/// How wide the terminal is.
pub(crate) const COLUMNS: u16 = 100;

/// A child whose three standard streams are one terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<u8>,
    seen: String,
}

impl Terminal {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let size = Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let end = |fd: &OwnedFd| fd.try_clone().unwrap();
        command.env("TERM", "xterm").stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(pty.slave);
        let child = command.spawn().unwrap();
        // It holds the slave side open too, and the terminal would never end.
        drop(command);
        let keyboard = File::from(pty.master);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, receiver) = mpsc::channel();
        // Reading fails once the last one on the slave side is gone. The child's output does not wait for the test.
        thread::spawn(move || {
            let mut byte = [0];
            while matches!(screen.read(&mut byte), Ok(1)) && sender.send(byte[0]).is_ok() {}
        });
        Self { child, keyboard, screen: receiver, seen: String::new() }
    }

    /// Waits until these words have come up since the last that were waited for.
    #[track_caller]
    pub(crate) fn expect(&mut self, words: &str) {
        let mut new = Vec::new();
        let limit = Instant::now() + Duration::from_secs(60);
        while !String::from_utf8_lossy(&new).contains(words) {
            match self.screen.recv_timeout(limit.saturating_duration_since(Instant::now())) {
                Ok(byte) => new.push(byte),
                Err(error) => panic!(
                    "{error}: no {words:?} in {:?} after {:?}",
                    String::from_utf8_lossy(&new),
                    self.seen
                ),
            }
        }
        self.seen.push_str(&String::from_utf8_lossy(&new));
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Everything that comes up until it ends, and the code that it ends with.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        let rest: Vec<u8> = self.screen.iter().collect();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        code
    }

    /// What has come up so far.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
