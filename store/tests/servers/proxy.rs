//! Stands between a client and a server, counts what is asked, and does harm when told to.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;

/// What becomes of traffic from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Harm {
    None,
    /// The next request does not reach the server: its connection breaks.
    CutRequest,
    /// The next request is carried out, and its connection breaks instead of the answer.
    CutAnswer,
    /// Answers are swallowed, and nothing else is seen.
    Swallow,
    /// The next answer ends in its middle: its connection breaks.
    CutMidAnswer,
    /// Answers are made of other bytes.
    Garble,
}

#[derive(Clone)]
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

/// Whose protocol it understands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Postgres,
    MySql,
}

struct Shared {
    speaks: Speaks,
    /// Packets after which a client waits for an answer: each is a round trip.
    asked: AtomicU64,
    named: AtomicU64,
    harm: AtomicU8,
}

impl Proxy {
    /// In front of a PostgreSQL server.
    pub fn start(to: u16) -> Self {
        Self::between(to, Speaks::Postgres)
    }

    /// In front of a MySQL or MariaDB server.
    pub fn to_mysql(to: u16) -> Self {
        Self::between(to, Speaks::MySql)
    }

    fn between(to: u16, speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { speaks, asked: 0.into(), named: 0.into(), harm: 0.into() });
        let proxy = Self { port, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || requests(client, server, &one));
                thread::spawn(move || answers(forth, back, &other));
            }
        });
        proxy
    }

    pub fn harm(&self, harm: Harm) {
        self.shared.harm.store(harm as u8, Ordering::SeqCst);
    }

    /// Round trips so far.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Statements that were given names so far.
    pub fn named(&self) -> u64 {
        self.shared.named.load(Ordering::SeqCst)
    }
}

fn requests(from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut started = false;
    let mut packets = BufReader::new(&from);
    while let Some(message) = shared.speaks.read(&mut packets, started) {
        // What a connection begins with is no request.
        started = match shared.speaks {
            Speaks::Postgres => started,
            Speaks::MySql => started || message[3] == 0,
        };
        let (asked, named) = shared.speaks.meaning(&message);
        // What came with others goes out with them.
        if started && asked && packets.buffer().is_empty() {
            shared.asked.fetch_add(1, Ordering::SeqCst);
        }
        if started && named {
            shared.named.fetch_add(1, Ordering::SeqCst);
        }
        let harmed = started && shared.harm.load(Ordering::SeqCst) == Harm::CutRequest as u8;
        if harmed || to.write_all(&message).is_err() {
            break;
        }
        started |= shared.speaks == Speaks::Postgres;
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn answers(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        match shared.harm.load(Ordering::SeqCst) {
            harm if harm == Harm::Swallow as u8 => continue,
            harm if harm == Harm::CutAnswer as u8 => break,
            harm if harm == Harm::CutMidAnswer as u8 => {
                let _ = to.write_all(&buffer[..count / 2]);
                break;
            }
            harm if harm == Harm::Garble as u8 => buffer[..count].iter_mut().for_each(|byte| *byte = !*byte),
            _ => {}
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

impl Speaks {
    fn read(self, from: &mut impl Read, started: bool) -> Option<Vec<u8>> {
        match self {
            Self::Postgres => {
                // The first message of a connection has no kind in front of its length.
                let mut message = vec![0; if started { 5 } else { 4 }];
                from.read_exact(&mut message).ok()?;
                let length = &message[message.len() - 4..];
                let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
                rest(from, message, length - 4)
            }
            Self::MySql => {
                let mut message = vec![0; 4];
                from.read_exact(&mut message).ok()?;
                let length = u32::from_le_bytes([message[0], message[1], message[2], 0]) as usize;
                rest(from, message, length)
            }
        }
    }

    /// Whether an answer is waited for behind this message, and whether it gives a statement a name.
    fn meaning(self, message: &[u8]) -> (bool, bool) {
        match self {
            Self::Postgres => (matches!(message[0], b'S' | b'Q'), message[0] == b'P' && message[5] != 0),
            // A command is the first message after an answer. Of these, QUIT and the closing of a statement have none.
            Self::MySql => {
                let command = message.get(4).copied().filter(|_| message[3] == 0);
                (command.is_some_and(|command| !matches!(command, 0x01 | 0x19)), command == Some(0x16))
            }
        }
    }
}

fn rest(from: &mut impl Read, mut message: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    let begun = message.len();
    message.resize(begun + length, 0);
    from.read_exact(&mut message[begun..]).ok()?;
    Some(message)
}
