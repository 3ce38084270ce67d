//! What is said on standard error, without ever waiting for it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::output;
use crate::sys::signals;

/// Messages that nobody reads are dropped beyond this many.
const MOST_UNREAD: usize = 256;

/// A thread that writes: a full pipe must not keep the front from its deadline, nor its end.
#[derive(Default)]
pub(crate) struct Voice {
    writer: Option<(SyncSender<String>, Receiver<()>)>,
}

impl Voice {
    /// Says one line.
    pub(crate) fn say(&mut self, text: &str) {
        let line = output::line(text);
        if self.writer.is_none() {
            self.writer = start();
        }
        match &self.writer {
            Some((lines, _)) => drop(lines.try_send(line)),
            None => write_if_taken(&line),
        }
    }

    /// Waits until all is written, at most that long.
    pub(crate) fn finish(&mut self, limit: Duration) {
        if let Some((lines, finished)) = self.writer.take() {
            drop(lines);
            // Either it has written everything, or nobody reads.
            let _ = finished.recv_timeout(limit);
        }
    }
}

/// Where there can be no thread (a limit on processes), what is taken at once is still said. A pipe that takes anything
/// takes this much.
fn write_if_taken(line: &str) {
    const AT_ONCE: usize = 4096;
    let stderr = io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if matches!(poll(&mut ready, PollTimeout::ZERO), Ok(1..)) {
        let _ = stderr.lock().write(line.as_bytes().get(..AT_ONCE).unwrap_or(line.as_bytes()));
    }
}

fn start() -> Option<(SyncSender<String>, Receiver<()>)> {
    let (lines, queue) = sync_channel::<String>(MOST_UNREAD);
    let (finish, finished) = channel();
    let write = move || {
        signals::block_all();
        for line in queue {
            // Not eprintln: after a hang-up it panics. What cannot be written is not worth ending for.
            let _ = io::stderr().write_all(line.as_bytes());
        }
        drop(finish);
    };
    thread::Builder::new().name("voice".into()).spawn(write).ok().map(|_| (lines, finished))
}
