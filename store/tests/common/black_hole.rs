//! Hosts that do not answer.
#![allow(unreachable_pub)]

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, Store, Undecided};

use crate::help::claim;

/// Two ports. Of the one, the queue of connections that wait to be taken is full: whoever connects hears nothing, not even an
/// answer to the first packet, as of a host that is not there. The other takes connections and says nothing.
pub struct BlackHole {
    full: TcpListener,
    silent: TcpListener,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let full = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            socket.listen(1).unwrap().into_std().unwrap()
        });
        let address = full.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(700)) {
            queue.push(stream);
            assert!(queue.len() < 1_000, "it takes everybody");
        }
        Self { full, silent: TcpListener::bind("127.0.0.1:0").unwrap(), _queue: queue }
    }

    fn ports(&self) -> [u16; 2] {
        [&self.full, &self.silent].map(|listener| listener.local_addr().unwrap().port())
    }
}

/// A store on a port is opened with a minute for its requests and 300 ms to connect.
pub fn is_given_up_in_time<S: Store>(open: impl Fn(u16) -> S) {
    let hole = BlackHole::new();
    for port in hole.ports() {
        let (store, begun) = (open(port), Instant::now());
        let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{error}"
        );
        let error = block_on(store.doctor()).unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    }
}
