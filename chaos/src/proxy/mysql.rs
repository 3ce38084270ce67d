//! Where a request and a reply end in the protocol of MySQL and MariaDB, without TLS and compression.
//!
//! All that is sent stands in packets: three bytes of length, the least first, one that counts, and the payload. A command
//! begins to count at 0; what a connection begins with does not. Where a reply ends depends on the command, and on what client
//! and server have agreed on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The client and the server leave out what stands behind columns, and end rows by another packet.
const DEPRECATE_EOF: u32 = 1 << 24;
/// In the status behind a result: another one follows.
const MORE_RESULTS: u16 = 8;

const EXECUTE: u8 = 0x17;
const PREPARE: u8 = 0x16;

/// What both directions of one connection know of each other.
#[derive(Clone, Default)]
pub(super) struct Talk(Arc<Mutex<Agreed>>);

#[derive(Default)]
struct Agreed {
    capabilities: u32,
    /// The commands whose replies are still to come, as often as each was sent.
    due: VecDeque<u8>,
}

pub(super) struct Command {
    pub(super) length: usize,
    /// Nothing that a connection begins with is one.
    pub(super) code: Option<u8>,
}

impl Command {
    /// Statements that were prepared, and those alone: a decision of a store is one.
    pub(super) fn may_double(&self) -> bool {
        self.code == Some(EXECUTE)
    }

    /// The end of a connection, of a statement, and a piece of a parameter are not answered.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.code, None | Some(0x01 | 0x18 | 0x19))
    }
}

impl Talk {
    /// The packet that the client's buffer begins with.
    pub(super) fn command(&self, buffer: &[u8]) -> Option<Command> {
        let packet = Packet::at(buffer, 0)?;
        let code = if packet.count == 0 { packet.payload.first().copied() } else { None };
        if let Some(capabilities) = packet.payload.get(..4).filter(|_| packet.count == 1) {
            // With these its login begins, and later ones of that number are pieces of something else.
            let mut agreed = self.0.lock().unwrap();
            if agreed.capabilities == 0 {
                agreed.capabilities = u32::from_le_bytes(capabilities.try_into().ok()?);
            }
        }
        Some(Command { length: packet.end, code })
    }

    /// A command goes to the server; its reply will come.
    pub(super) fn sent(&self, code: u8) {
        self.0.lock().unwrap().due.push_back(code);
    }

    /// Where the reply ends that the server's buffer begins with. What nobody asked for is a packet.
    pub(super) fn reply(&self, buffer: &[u8]) -> Option<usize> {
        let mut agreed = self.0.lock().unwrap();
        let has_eof = agreed.capabilities & DEPRECATE_EOF == 0;
        let end = match agreed.due.front() {
            None => Packet::at(buffer, 0)?.end,
            Some(&PREPARE) => prepared(buffer, has_eof)?,
            Some(_) => results(buffer, has_eof)?,
        };
        agreed.due.pop_front();
        Some(end)
    }
}

struct Packet<'a> {
    count: u8,
    payload: &'a [u8],
    end: usize,
}

impl<'a> Packet<'a> {
    fn at(buffer: &'a [u8], at: usize) -> Option<Self> {
        let head = buffer.get(at..at + 4)?;
        let length = usize::try_from(u32::from_le_bytes([head[0], head[1], head[2], 0])).ok()?;
        let end = at + 4 + length;
        Some(Self { count: head[3], payload: buffer.get(at + 4..end)?, end })
    }

    fn kind(&self) -> u8 {
        self.payload.first().copied().unwrap_or(0)
    }

    /// The two bytes at a place in it.
    fn number(&self, at: usize) -> u16 {
        self.payload.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]))
    }

    /// The status of a packet that says how something went: behind its kind and two numbers of any length.
    fn status(&self) -> u16 {
        self.number(1 + [(); 2].iter().fold(0, |at, ()| at + width(self.payload.get(1 + at))))
    }
}

/// How many bytes a number takes that says so in its first one.
fn width(first: Option<&u8>) -> usize {
    match first {
        Some(0xFC) => 3,
        Some(0xFD) => 4,
        Some(0xFE) => 9,
        _ => 1,
    }
}

/// Behind so many packets, and the one that ends them.
fn behind(buffer: &[u8], mut at: usize, count: usize, has_eof: bool) -> Option<usize> {
    for _ in 0..count + usize::from(has_eof && count > 0) {
        at = Packet::at(buffer, at)?.end;
    }
    Some(at)
}

fn prepared(buffer: &[u8], has_eof: bool) -> Option<usize> {
    let first = Packet::at(buffer, 0)?;
    if first.kind() != 0 {
        return Some(first.end);
    }
    let (columns, parameters) = (first.number(5).into(), first.number(7).into());
    let at = behind(buffer, first.end, parameters, has_eof)?;
    behind(buffer, at, columns, has_eof)
}

/// One result or several, each of rows or of none.
fn results(buffer: &[u8], has_eof: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let first = Packet::at(buffer, at)?;
        at = first.end;
        let status = match first.kind() {
            0 => first.status(),
            // An error; or a file is asked for, which comes to no end of its own.
            0xFF | 0xFB => return Some(at),
            columns => {
                let columns = if columns == 0xFC { first.number(1) } else { columns.into() };
                at = behind(buffer, at, columns.into(), has_eof)?;
                loop {
                    let row = Packet::at(buffer, at)?;
                    at = row.end;
                    match row.kind() {
                        0xFF => return Some(at),
                        // A text that long has as many bytes.
                        0xFE if row.payload.len() < 9 && has_eof => break row.number(3),
                        0xFE if row.payload.len() < 0xFF_FFFF && !has_eof => break row.status(),
                        _ => {}
                    }
                }
            }
        };
        if status & MORE_RESULTS == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(count: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        [&length[..3], &[count], payload].concat()
    }

    /// A login with these capabilities, and commands that are still to be answered.
    fn talk(capabilities: u32, due: &[u8]) -> Talk {
        let talk = Talk::default();
        let login = packet(1, &[&capabilities.to_le_bytes()[..], &[0; 28]].concat());
        let begun = talk.command(&login).unwrap();
        assert_eq!((begun.length, begun.code, begun.is_answered()), (login.len(), None, false));
        due.iter().for_each(|code| talk.sent(*code));
        talk
    }

    #[test]
    fn commands_are_told_from_what_a_connection_begins_with() {
        let talk = talk(DEPRECATE_EOF, &[]);
        for (count, code, may_double, is_answered) in [
            (3, EXECUTE, false, false),
            (0, EXECUTE, true, true),
            (0, 0x03, false, true),
            (0, PREPARE, false, true),
            (0, 0x19, false, false),
            (0, 0x01, false, false),
        ] {
            let sent = packet(count, &[code, 1, 2, 3, 4]);
            let command = talk.command(&[&sent[..], &[7]].concat()).unwrap();
            assert_eq!(command.length, sent.len());
            assert_eq!((command.may_double(), command.is_answered()), (may_double, is_answered), "{code}");
            assert!(talk.command(&sent[..6]).is_none(), "half a packet");
        }
    }

    #[test]
    fn a_reply_ends_where_its_command_says() {
        let ok = |status: u8| packet(9, &[0, 0xFC, 1, 1, 0, status, 0, 0, 0]);
        let error = packet(1, b"\xFF\x28\x04#42000no");
        // Two columns and two rows, of which the second looks like an end of the other kind; then how it went.
        let rows = |has_eof: bool, status: u8| {
            let eof = packet(4, &[0xFE, 0, 0, status, 0]);
            let end = if has_eof { eof.clone() } else { packet(8, &[0xFE, 0, 0, status, 0, 0, 0]) };
            let behind_columns = if has_eof { eof } else { Vec::new() };
            let long = packet(7, &[&[0xFE][..], &[9; 30]].concat());
            let row = if has_eof { long } else { packet(7, &[0, 0, 5]) };
            [packet(1, &[2]), packet(2, b"a"), packet(3, b"b"), behind_columns, row, end].concat()
        };
        for has_eof in [true, false] {
            let capabilities = if has_eof { 1 } else { DEPRECATE_EOF };
            let eof = if has_eof { packet(5, &[0xFE, 0, 0, 2, 0]) } else { Vec::new() };
            let prepared = |columns: u8| {
                let column = if columns > 0 { [packet(4, b"c"), eof.clone()].concat() } else { Vec::new() };
                let head = packet(1, &[0, 7, 0, 0, 0, columns, 0, 2, 0, 0, 0, 0]);
                [head, packet(2, b"p"), packet(3, b"q"), eof.clone(), column].concat()
            };
            for (code, reply) in [
                (0x03, ok(2)),
                (0x03, error.clone()),
                (0x03, [ok(2 | 8), rows(has_eof, 2 | 8), ok(2)].concat()),
                (EXECUTE, rows(has_eof, 2)),
                (EXECUTE, [rows(has_eof, 2 | 8), ok(2)].concat()),
                (EXECUTE, [rows(has_eof, 2 | 8), error.clone()].concat()),
                (PREPARE, prepared(0)),
                (PREPARE, prepared(1)),
                (PREPARE, error.clone()),
            ] {
                let twice = [&reply[..], &reply[..]].concat();
                let talk = talk(capabilities, &[code, code]);
                assert_eq!(talk.reply(&twice), Some(reply.len()), "{code} {has_eof} {reply:?}");
                for part in 0..reply.len() {
                    assert_eq!(talk.reply(&reply[..part]), None, "{part} bytes of {reply:?}");
                }
                assert_eq!(talk.reply(&twice[reply.len()..]), Some(reply.len()));
                // Nobody waits for anything: packet by packet.
                assert_eq!(talk.reply(&ok(0)), Some(ok(0).len()));
            }
        }
    }
}
