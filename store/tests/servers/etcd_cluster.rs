//! An etcd cluster of three members, which can be cut off from each other.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::etcd::EtcdServer;
use super::guard::free_port;

const NAMES: [&str; 3] = ["one", "two", "three"];

/// An election is over soon, and leases for one second are granted.
const BRISK: &[&str] = &["--heartbeat-interval", "50", "--election-timeout", "500"];

/// How long an election may take; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct EtcdCluster {
    pub members: Vec<EtcdServer>,
    gates: Vec<Arc<Gate>>,
}

impl EtcdCluster {
    pub fn start() -> Self {
        loop {
            let own: [u16; 3] = [(); 3].map(|()| free_port());
            let gates: Vec<Arc<Gate>> = own.iter().map(|port| Gate::before(*port)).collect();
            let peers: Vec<String> = NAMES
                .iter()
                .zip(&gates)
                .map(|(name, gate)| format!("{name}=http://127.0.0.1:{}", gate.port))
                .collect();
            let mut members: Vec<EtcdServer> = NAMES
                .iter()
                .zip(own)
                .zip(&gates)
                .map(|((name, own), gate)| EtcdServer::member(name, own, gate.port, &peers.join(","), BRISK))
                .collect();
            members.iter_mut().for_each(EtcdServer::spawn);
            if members.iter_mut().all(EtcdServer::is_up) {
                return Self { members, gates };
            }
        }
    }

    /// The members' URL, in the order of these numbers.
    pub fn url(&self, members: &[usize], namespace: &str) -> String {
        let hosts: Vec<String> =
            members.iter().map(|member| format!("127.0.0.1:{}", self.members[*member].port)).collect();
        format!("etcd://{}/{namespace}", hosts.join(","))
    }

    /// The member that leads, of those that are asked; one is waited for.
    pub fn leader(&self, of: &[usize]) -> usize {
        let begun = Instant::now();
        loop {
            if let Some(leader) = of.iter().find(|member| self.members[**member].is_leader()) {
                return *leader;
            }
            assert!(begun.elapsed() < PATIENCE, "no leader among {of:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Nothing passes between this member and the others.
    pub fn isolate(&self, member: usize) {
        let id = self.members[member].id();
        for (at, gate) in self.gates.iter().enumerate() {
            gate.close(if at == member { Closed::Always } else { Closed::For(id.clone()) });
        }
    }

    /// All is well again.
    pub fn heal(&self) {
        self.gates.iter().for_each(|gate| gate.close(Closed::Never));
    }

    /// Kills all members, and starts them again on disks as `change` leaves them.
    pub fn restart_all(&mut self, change: impl FnOnce(&[EtcdServer])) {
        self.members.iter_mut().for_each(EtcdServer::kill);
        change(&self.members);
        self.members.iter_mut().for_each(EtcdServer::spawn);
        assert!(self.members.iter_mut().all(EtcdServer::is_up), "they did not start again");
    }
}

#[derive(Clone, PartialEq, Eq)]
enum Closed {
    Never,
    Always,
    /// For the member with this number.
    For(String),
}

/// What other members reach a member through.
struct Gate {
    port: u16,
    closed: Mutex<Closed>,
    /// Connections, and whose they are.
    open: Mutex<Vec<(String, TcpStream)>>,
}

impl Gate {
    fn before(to: u16) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(Self { port, closed: Mutex::new(Closed::Never), open: Mutex::default() });
        let shared = Arc::clone(&gate);
        thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.pass_on(from, to));
            }
        });
        gate
    }

    fn close(&self, closed: Closed) {
        *self.closed.lock().unwrap() = closed;
        self.open.lock().unwrap().retain(|(whose, stream)| {
            let passes = self.lets_in(whose);
            if !passes {
                let _ = stream.shutdown(Shutdown::Both);
            }
            passes
        });
    }

    fn lets_in(&self, whose: &str) -> bool {
        match &*self.closed.lock().unwrap() {
            Closed::Never => true,
            Closed::Always => false,
            // Some of what they ask each other does not say who asks.
            Closed::For(one) => whose != one && !whose.is_empty(),
        }
    }

    fn pass_on(&self, mut from: TcpStream, to: u16) -> Option<()> {
        // Each connection begins with a request that says whose it is.
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut byte = [0; 1];
            from.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let whose = text.lines().find_map(|line| line.strip_prefix("x-server-from:"));
        let whose = whose.unwrap_or_default().trim().to_owned();
        let mut server = TcpStream::connect(("127.0.0.1", to)).ok()?;
        {
            // Under the lock that closing takes: it is in the list, or is not let in.
            let mut open = self.open.lock().unwrap();
            if !self.lets_in(&whose) {
                return None;
            }
            open.push((whose, from.try_clone().ok()?));
        }
        server.write_all(&head).ok()?;
        let (mut back, mut forth) = (from.try_clone().ok()?, server.try_clone().ok()?);
        thread::spawn(move || {
            let _ = std::io::copy(&mut forth, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let _ = std::io::copy(&mut from, &mut server);
        let _ = server.shutdown(Shutdown::Both);
        Some(())
    }
}
