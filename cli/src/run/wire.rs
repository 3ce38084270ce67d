//! What front and warden tell each other over their socket.
//!
//! Only what happens seldom goes here. Deadlines and the verdict are in the shared page: a socket can be full, and it
//! can lose what was written last.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::sys::process::Ended;
use crate::sys::signals::Inherited;

/// A frame is a length, then that many bytes. More than any command line: what claims to be longer is damage.
const LONGEST: usize = 1 << 26;

/// What the warden is told first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// The command line of the front, its own name included.
    pub(crate) args: Vec<OsString>,
    /// The signals that the front found at its start, for the command.
    pub(crate) signals: Inherited,
    /// The front's process group.
    pub(crate) group: i32,
    /// Standard input and output are both terminals.
    pub(crate) on_terminal: bool,
}

/// From the front to the warden.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Comes first, and once.
    Plan(Plan),
    /// Pass a signal on to the command's group; before there is one, a signal that ends means "give up".
    Signal(i32),
    /// The front is about to stop: do not start the command.
    Pause,
    /// The front goes on.
    Resume,
}

/// From the warden to the front.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// The command runs, in a group of this number.
    Started(i32),
    /// The command was stopped by this signal.
    Stopped(i32),
    /// The command goes on.
    Continued,
    /// The command has ended; what it left behind may live.
    Ended(Ended),
    /// Something for a person, on standard error.
    Say(String),
    /// A line for whoever reads the events.
    Event(String),
    /// So many of those were left out.
    Dropped(i32),
}

impl Order {
    /// Appends the frame.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        frame(into, |body| match self {
            Self::Plan(plan) => {
                body.push(1);
                body.extend(plan.signals.ignored.to_le_bytes());
                body.extend(plan.signals.blocked.to_le_bytes());
                body.extend(plan.group.to_le_bytes());
                body.push(plan.on_terminal.into());
                for arg in &plan.args {
                    body.extend((arg.len() as u32).to_le_bytes());
                    body.extend(arg.as_bytes());
                }
            }
            Self::Signal(signo) => tagged(body, 2, *signo),
            Self::Pause => body.push(3),
            Self::Resume => body.push(4),
        });
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut rest = Rest(body);
        Some(match rest.byte()? {
            1 => {
                let signals = Inherited { ignored: rest.long()?, blocked: rest.long()? };
                let (group, on_terminal) = (rest.int()?, rest.byte()? != 0);
                let mut args = Vec::new();
                while !rest.0.is_empty() {
                    let length = usize::try_from(rest.int()?).ok()?;
                    args.push(OsString::from_vec(rest.take(length)?.to_vec()));
                }
                Self::Plan(Plan { args, signals, group, on_terminal })
            }
            2 => Self::Signal(rest.int()?),
            3 => Self::Pause,
            4 => Self::Resume,
            _ => return None,
        })
    }
}

impl Note {
    /// Appends the frame.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        frame(into, |body| match self {
            Self::Started(pid) => tagged(body, 1, *pid),
            Self::Stopped(signo) => tagged(body, 2, *signo),
            Self::Continued => body.push(3),
            Self::Ended(Ended::Code(code)) => tagged(body, 4, i32::from(*code)),
            Self::Ended(Ended::Signal(signo)) => tagged(body, 5, *signo),
            Self::Say(text) => {
                body.push(6);
                body.extend(text.as_bytes());
            }
            Self::Event(line) => {
                body.push(7);
                body.extend(line.as_bytes());
            }
            Self::Dropped(count) => tagged(body, 8, *count),
        });
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut rest = Rest(body);
        Some(match rest.byte()? {
            1 => Self::Started(rest.int()?),
            2 => Self::Stopped(rest.int()?),
            3 => Self::Continued,
            4 => Self::Ended(Ended::Code(u8::try_from(rest.int()?).ok()?)),
            5 => Self::Ended(Ended::Signal(rest.int()?)),
            6 => Self::Say(String::from_utf8_lossy(rest.0).into_owned()),
            7 => Self::Event(String::from_utf8_lossy(rest.0).into_owned()),
            8 => Self::Dropped(rest.int()?),
            _ => return None,
        })
    }
}

/// Bytes that arrived, cut into frames.
#[derive(Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    /// Takes in what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole order.
    pub(crate) fn order(&mut self) -> Option<Order> {
        self.next(Order::decode)
    }

    /// The next whole note.
    pub(crate) fn note(&mut self) -> Option<Note> {
        self.next(Note::decode)
    }

    /// Both ends are the same program, so that what cannot be read was damaged; it is passed over.
    fn next<T>(&mut self, decode: fn(&[u8]) -> Option<T>) -> Option<T> {
        loop {
            let mut rest = Rest(&self.0);
            let length = usize::try_from(rest.int()?).unwrap_or(LONGEST);
            if length >= LONGEST {
                self.0.clear();
                return None;
            }
            let decoded = decode(rest.take(length)?);
            let used = self.0.len() - rest.0.len();
            self.0.drain(..used);
            if decoded.is_some() {
                return decoded;
            }
        }
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn int(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

fn frame(into: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    write(&mut body);
    into.extend((body.len() as u32).to_le_bytes());
    into.append(&mut body);
}

fn tagged(body: &mut Vec<u8>, tag: u8, number: i32) {
    body.push(tag);
    body.extend(number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_notes_survive_the_way_byte_by_byte() {
        let plan = Plan {
            args: vec!["lease".into(), OsString::new(), OsString::from_vec(vec![0xff, b'\n'])],
            signals: Inherited { ignored: u64::MAX, blocked: 1 },
            group: 77,
            on_terminal: true,
        };
        let orders = [Order::Plan(plan), Order::Signal(15), Order::Pause, Order::Resume];
        let notes = [
            Note::Started(7),
            Note::Stopped(20),
            Note::Continued,
            Note::Ended(Ended::Code(255)),
            Note::Ended(Ended::Signal(64)),
            Note::Say("wäit".to_owned()),
            Note::Event("{}\n".to_owned()),
            Note::Dropped(3),
        ];
        let mut bytes = Vec::new();
        orders.iter().for_each(|order| order.encode(&mut bytes));
        let mut inbox = Inbox::default();
        let mut arrived = Vec::new();
        for byte in bytes.drain(..) {
            inbox.push(&[byte]);
            arrived.extend(inbox.order());
        }
        assert_eq!(arrived, orders);

        notes.iter().for_each(|note| note.encode(&mut bytes));
        inbox.push(&bytes);
        assert_eq!(std::iter::from_fn(|| inbox.note()).collect::<Vec<_>>(), notes);
        assert_eq!(inbox.note(), None);
    }

    #[test]
    fn damage_is_passed_over() {
        let mut inbox = Inbox::default();
        let mut bytes = vec![1, 0, 0, 0, 99];
        Order::Pause.encode(&mut bytes);
        inbox.push(&bytes);
        assert_eq!(inbox.order(), Some(Order::Pause));
        inbox.push(&[0xff; 8]);
        assert_eq!(inbox.order(), None);
    }
}
