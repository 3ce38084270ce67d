//! What stands between a store and its server, and what it may do to what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of the server's replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replies {
    Pass,
    /// The first bytes of the next one pass, then the connection is closed.
    CutShort,
    /// They are held back.
    Hold,
    /// What no server says comes instead.
    Nonsense,
}

/// A proxy that keeps what was asked, until the process ends.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    server: Arc<AtomicU16>,
    replies: Arc<Mutex<Replies>>,
    asked: Arc<Mutex<Vec<u8>>>,
    writes: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        Self::replacing(server, Vec::new())
    }

    /// Puts texts in place of others of the same length, wherever they are in what is asked.
    pub(crate) fn replacing(server: u16, texts: Vec<(String, String)>) -> Self {
        assert!(texts.iter().all(|(found, instead)| found.len() == instead.len()));
        let texts = Arc::new(texts);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            server: Arc::new(server.into()),
            replies: Arc::new(Mutex::new(Replies::Pass)),
            asked: Arc::default(),
            writes: Arc::default(),
        };
        let server = Arc::clone(&proxy.server);
        let (replies, asked, writes) =
            (Arc::clone(&proxy.replies), Arc::clone(&proxy.asked), Arc::clone(&proxy.writes));
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(("127.0.0.1", server.load(Ordering::SeqCst))) else {
                    continue;
                };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (asked, writes, replies) =
                    (Arc::clone(&asked), Arc::clone(&writes), Arc::clone(&replies));
                let texts = Arc::clone(&texts);
                thread::spawn(move || {
                    pass(from, to, |bytes| {
                        asked.lock().unwrap().extend_from_slice(bytes);
                        writes.fetch_add(1, Ordering::SeqCst);
                        let mut bytes = bytes.to_vec();
                        for (found, instead) in &*texts {
                            let places = bytes.windows(found.len()).enumerate();
                            let places: Vec<usize> = places
                                .filter(|(_, window)| *window == found.as_bytes())
                                .map(|(place, _)| place)
                                .collect();
                            for place in places {
                                bytes[place..place + instead.len()].copy_from_slice(instead.as_bytes());
                            }
                        }
                        Some(bytes)
                    });
                });
                thread::spawn(move || {
                    pass(server, client, |bytes| match *replies.lock().unwrap() {
                        Replies::Pass => Some(bytes.to_vec()),
                        Replies::Hold => Some(Vec::new()),
                        Replies::Nonsense => Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
                        Replies::CutShort => None,
                    });
                });
            }
        });
        proxy
    }

    /// From now on, to another server; connections that there are go on as they are.
    pub(crate) fn leads_to(&self, server: u16) {
        self.server.store(server, Ordering::SeqCst);
    }

    pub(crate) fn replies(&self, replies: Replies) {
        *self.replies.lock().unwrap() = replies;
    }

    /// Forgets what was asked so far.
    pub(crate) fn clear(&self) {
        self.asked.lock().unwrap().clear();
        self.writes.store(0, Ordering::SeqCst);
    }

    /// The first word of every request since.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.words().into_iter().map(|mut words| words.swap_remove(0)).collect()
    }

    /// All words of every request since.
    pub(crate) fn words(&self) -> Vec<Vec<String>> {
        let bytes = self.asked.lock().unwrap().clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut lines = text.split("\r\n");
        let mut requests = Vec::new();
        while let Some(count) = lines.next().and_then(|line| line.strip_prefix('*')?.parse::<usize>().ok()) {
            requests.push((0..count).filter_map(|_| lines.nth(1)).map(str::to_owned).collect());
        }
        requests
    }

    /// In how many pieces they came.
    pub(crate) fn pieces(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

/// Passes on what `change` makes of each piece; where it makes nothing, half of it, and then closes.
fn pass(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let mut buffer = [0; 65_536];
    while let Ok(count) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        if count == 0 {
            break;
        }
        match change(bytes) {
            Some(bytes) => {
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            None => {
                let _ = to.write_all(&bytes[..count / 2]);
                break;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
