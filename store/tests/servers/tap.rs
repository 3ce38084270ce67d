//! What stands between a client and a server, whatever they speak: it counts what the client sends, and does harm when told
//! to.

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
    /// Answers are swallowed, and nothing else is seen.
    Swallow,
    /// What is asked does not reach the server: the connection breaks instead.
    Cut,
}

pub struct Tap {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    harm: AtomicU8,
}

impl Tap {
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = Self { port: listener.local_addr().unwrap().port(), shared: Arc::default() };
        let shared = Arc::clone(&tap.shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || {
                    pass(from, to, |count| {
                        one.sent.fetch_add(count, Ordering::SeqCst);
                        if one.is(Harm::Cut) { None } else { Some(true) }
                    });
                });
                thread::spawn(move || pass(server, client, |_| Some(!other.is(Harm::Swallow))));
            }
        });
        tap
    }

    pub fn harm(&self, harm: Harm) {
        self.shared.harm.store(harm as u8, Ordering::SeqCst);
    }

    /// Bytes that have come from clients so far.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn is(&self, harm: Harm) -> bool {
        self.harm.load(Ordering::SeqCst) == harm as u8
    }
}

/// Passes each piece on where `fate` says so; where it says nothing, the connection ends.
fn pass(mut from: TcpStream, mut to: TcpStream, fate: impl Fn(u64) -> Option<bool>) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        match fate(read as u64) {
            None => break,
            Some(true) if to.write_all(&buffer[..read]).is_err() => break,
            Some(_) => {}
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
