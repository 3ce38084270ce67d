//! Stands between a client and a PostgreSQL server, counts what is asked, and does harm when told to.

use std::io::{Read, Write};
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
}

#[derive(Clone)]
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// Messages after which a client waits for an answer: each is a round trip.
    asked: AtomicU64,
    named: AtomicU64,
    harm: AtomicU8,
}

impl Proxy {
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { asked: 0.into(), named: 0.into(), harm: 0.into() });
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

fn requests(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut started = false;
    while let Some(message) = read(&mut from, started) {
        if started && matches!(message[0], b'S' | b'Q') {
            shared.asked.fetch_add(1, Ordering::SeqCst);
        }
        if started && message[0] == b'P' && message[5] != 0 {
            shared.named.fetch_add(1, Ordering::SeqCst);
        }
        let harmed = started && shared.harm.load(Ordering::SeqCst) == Harm::CutRequest as u8;
        if harmed || to.write_all(&message).is_err() {
            break;
        }
        started = true;
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
            _ => {}
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// The first message of a connection has no kind in front of its length.
fn read(from: &mut TcpStream, started: bool) -> Option<Vec<u8>> {
    let mut message = vec![0; if started { 5 } else { 4 }];
    from.read_exact(&mut message).ok()?;
    let length = &message[message.len() - 4..];
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
    let begun = message.len();
    message.resize(begun + length - 4, 0);
    from.read_exact(&mut message[begun..]).ok()?;
    Some(message)
}
