//! The warden's end of the socket.

use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;

use tokio::net::UnixStream;

use crate::run::events::Event;
use crate::run::wire::{Inbox, Note, Order};

/// A front that was stopped reads nothing. What would be said to it beyond this is dropped, and nothing waits for it.
const MOST_UNREAD: usize = 64 * 1024;

/// Never blocks, and never loses a note that the front can act upon unless it is stopped for very long.
pub(crate) struct Link {
    stream: UnixStream,
    /// The same socket. tokio's does not write before its driver has seen that it can.
    direct: StdStream,
    inbox: Inbox,
    outbox: Vec<u8>,
    closed: bool,
    /// Somebody wants the events.
    events: bool,
    dropped: i32,
}

impl Link {
    /// Within the runtime.
    pub(crate) fn new(stream: StdStream, inbox: Inbox, events: bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let direct = stream.try_clone()?;
        let stream = UnixStream::from_std(stream)?;
        Ok(Self { stream, direct, inbox, outbox: Vec::new(), closed: false, events, dropped: 0 })
    }

    /// Says something to the front, now or as soon as it reads.
    pub(crate) fn tell(&mut self, note: &Note) {
        if !self.closed && self.outbox.len() < MOST_UNREAD {
            note.encode(&mut self.outbox);
            let direct = &self.direct;
            drain(&mut self.outbox, |bytes| (&*direct).write(bytes));
        }
    }

    /// Sends a line for whoever reads the events. A front that is stopped reads nothing: events then leave the room to
    /// what the front has to act upon, and are counted instead.
    pub(crate) fn tell_event(&mut self, event: &Event) {
        if !self.events {
            return;
        }
        let direct = &self.direct;
        drain(&mut self.outbox, |bytes| (&*direct).write(bytes));
        let Some(line) = event.line().filter(|_| self.outbox.is_empty()) else {
            self.dropped = self.dropped.saturating_add(1);
            return;
        };
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            self.tell(&Note::Dropped(dropped));
        }
        self.tell(&Note::Event(line));
    }

    /// The next order; `None` once the front is gone. Dropping this future loses none.
    pub(crate) async fn order(&mut self) -> Option<Order> {
        loop {
            if let Some(order) = self.inbox.order() {
                return Some(order);
            }
            if self.closed {
                return None;
            }
            if self.outbox.is_empty() {
                if self.stream.readable().await.is_err() {
                    self.closed = true;
                }
            } else {
                use tokio::io::Interest;
                if self.stream.ready(Interest::READABLE | Interest::WRITABLE).await.is_err() {
                    self.closed = true;
                }
                self.flush();
            }
            self.fill();
        }
    }

    fn fill(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.try_read(&mut buffer) {
                Ok(0) => return self.closed = true,
                Ok(read) => self.inbox.push(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.closed = true,
            }
        }
    }

    fn flush(&mut self) {
        let stream = &self.stream;
        drain(&mut self.outbox, |bytes| stream.try_write(bytes));
    }
}

/// Writes as much as can be. Nobody reads the rest where the front is gone, which reading will say: orders may still be
/// there.
fn drain(outbox: &mut Vec<u8>, write: impl Fn(&[u8]) -> io::Result<usize>) {
    while !outbox.is_empty() {
        match write(outbox) {
            Ok(written) => drop(outbox.drain(..written)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => outbox.clear(),
        }
    }
}
