//! Where the events of `--events` go, without ever waiting for whoever reads them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::libc;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::run::events::Event;
use crate::sys::{fds, signals};

/// Lines that nobody reads are dropped beyond this many, and counted.
const MOST_UNREAD: usize = 1024;

/// What a descriptor is named by.
const DESCRIPTOR: &[u8] = b"fd:";

/// A thread that writes: a full pipe must not keep the front from its deadline, nor its end.
pub(crate) struct Events {
    resource: String,
    lines: SyncSender<String>,
    finished: Receiver<()>,
    /// Dropped since the last line that was taken.
    dropped: u64,
    /// The last word of the thread, which has room for it where the queue has none.
    last: Arc<Mutex<Option<String>>>,
}

impl Events {
    /// Opens the target. A file is appended to, so that several runs may share one.
    ///
    /// # Errors
    ///
    /// Usage for a descriptor that is none, is not open or cannot be written to; configuration for a file that cannot be
    /// opened, as for a named pipe that nobody reads.
    pub(crate) fn open(target: &OsStr, resource: &str, inherited: &mut Vec<RawFd>) -> Result<Self, Failure> {
        let target = match target.as_bytes().strip_prefix(DESCRIPTOR) {
            Some(number) => descriptor(number, inherited)?,
            None => file(target)?,
        };
        let (lines, queue) = sync_channel(MOST_UNREAD);
        let (finish, finished) = channel();
        let last = Arc::default();
        let last_of_thread = Arc::clone(&last);
        let write = move || {
            signals::block_all();
            write_all(target, &queue, &last_of_thread);
            drop(finish);
        };
        thread::Builder::new()
            .name("events".into())
            .spawn(write)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot start a thread: {error}")))?;
        Ok(Self { resource: resource.to_owned(), lines, finished, dropped: 0, last })
    }

    /// Writes one line, after one that says how many were dropped before it.
    pub(crate) fn write(&mut self, line: String) {
        let text = match self.note_dropped() {
            Some(dropped) => dropped + &line,
            None => line,
        };
        match self.lines.try_send(text) {
            Ok(()) => self.dropped = 0,
            Err(_) => self.count(1),
        }
    }

    /// So many were dropped before they came here.
    pub(crate) fn count(&mut self, dropped: u64) {
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// Waits until all is written, at most that long.
    pub(crate) fn finish(self, limit: Duration) {
        if let Ok(mut last) = self.last.lock() {
            *last = self.note_dropped();
        }
        drop(self.lines);
        // Either it has written everything, or nobody reads.
        let _ = self.finished.recv_timeout(limit);
    }

    fn note_dropped(&self) -> Option<String> {
        if self.dropped == 0 { None } else { Event::dropped(&self.resource, self.dropped).line() }
    }
}

/// A disk may be full for a while; a reader that went away does not come back.
fn write_all(mut target: File, queue: &Receiver<String>, last: &Mutex<Option<String>>) {
    let last = std::iter::once_with(|| last.lock().ok()?.take()).flatten();
    for line in queue.iter().chain(last) {
        if let Err(error) = target.write_all(line.as_bytes()) {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return;
            }
        }
    }
}

fn descriptor(number: &[u8], inherited: &mut Vec<RawFd>) -> Result<File, Failure> {
    let shown = String::from_utf8_lossy(number).into_owned();
    let wrong = |found: &str| {
        let message = format!(
            "--events is fd:{shown}, {found}; expected fd:N with the number, from 3 on, of a descriptor that is open \
             for writing"
        );
        Failure::new(Exit::Usage, message)
    };
    let fd: RawFd = shown
        .parse()
        .ok()
        .filter(|_| number.iter().all(u8::is_ascii_digit))
        .ok_or_else(|| wrong("which is no number"))?;
    // Events are not mixed into what the command itself prints.
    if fd < 3 {
        return Err(wrong("which is the command's own"));
    }
    if !inherited.contains(&fd) {
        return Err(wrong("which is not open"));
    }
    let owned = fds::adopt(fd).map_err(|_| wrong("which is not open"))?;
    inherited.retain(|&other| other != fd);
    if !fds::is_writable(&owned) {
        return Err(wrong("which is open for reading only"));
    }
    Ok(File::from(owned))
}

fn file(path: &OsStr) -> Result<File, Failure> {
    if path.is_empty() {
        return Err(Failure::new(Exit::Usage, "--events is empty; expected a file, or fd:N"));
    }
    // Not blocking: a named pipe without a reader would keep us here.
    let opened = File::options()
        .append(true)
        .create(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .and_then(|file| fds::blocking(&file).map(|()| file));
    opened.map_err(|error| {
        let message =
            format!("cannot write events to {}: {error}; expected a file, or fd:N", path.to_string_lossy());
        Failure::new(Exit::Configuration, message)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_a_full_pipe_does_not_take_is_counted() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut reader = File::from(reader);
        let (lines, queue) = sync_channel(MOST_UNREAD);
        let (finish, finished) = channel();
        let last = Arc::default();
        let last_of_thread = Arc::clone(&last);
        let mut events = Events { resource: "r".to_owned(), lines, finished, dropped: 0, last };
        let target = File::from(writer);
        // Nobody takes a line out yet, as behind a pipe that is full.
        let total = MOST_UNREAD + 7;
        for _ in 0..total {
            events.write("line\n".to_owned());
        }
        events.count(2);
        let written = thread::spawn(move || {
            write_all(target, &queue, &last_of_thread);
            drop(finish);
        });
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        events.write("after\n".to_owned());
        events.finish(Duration::from_secs(60));
        written.join().unwrap();
        let text = reading.join().unwrap();
        let count = |word: &str| text.lines().filter(|line| *line == word).count();
        let dropped: u64 = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .map(|line| line["count"].as_u64().unwrap())
            .sum();
        assert_eq!(count("line") + count("after") + dropped as usize, total + 2 + 1, "{text}");
        assert!(dropped >= 9);
    }
}
