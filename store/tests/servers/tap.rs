//! What stands between a client and a server, whatever they speak, and counts what the client sends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub struct Tap {
    pub port: u16,
    sent: Arc<AtomicU64>,
}

impl Tap {
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = Self { port: listener.local_addr().unwrap().port(), sent: Arc::default() };
        let sent = Arc::clone(&tap.sent);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let sent = Arc::clone(&sent);
                thread::spawn(move || pass(from, to, &sent));
                thread::spawn(move || pass(server, client, &AtomicU64::new(0)));
            }
        });
        tap
    }

    /// Bytes that have come from clients so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        count.fetch_add(read as u64, Ordering::SeqCst);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
