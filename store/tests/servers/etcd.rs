//! A member of an etcd cluster: of one, unless it is told of more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guard::{Guarded, free_port};

/// A server is waited for at most this long; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct EtcdServer {
    process: Guarded,
    /// Its certificate and key, and the port for what is asked of it by hand.
    tls: Option<(String, String, u16)>,
    pub port: u16,
    name: &'static str,
    /// Where it listens for other members, and where they reach it.
    peer: [u16; 2],
    /// All members.
    cluster: String,
    settings: &'static [&'static str],
}

impl EtcdServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// One with settings of its own.
    pub fn start_with(settings: &'static [&'static str]) -> Self {
        Self::start_at(|| Guarded::folder("etcd"), settings)
    }

    /// The same in a folder that is made for it.
    pub fn start_at(folder: impl Fn() -> Guarded, settings: &'static [&'static str]) -> Self {
        loop {
            let peer = free_port();
            let cluster = format!("one=http://127.0.0.1:{peer}");
            let mut server = Self::member("one", peer, peer, &cluster, settings);
            server.process = folder();
            if server.launch() {
                return server;
            }
        }
    }

    /// A member that does not run yet: it listens on the first port for others, which reach it by the second.
    pub fn member(
        name: &'static str,
        own: u16,
        reached: u16,
        cluster: &str,
        settings: &'static [&'static str],
    ) -> Self {
        let (process, cluster) = (Guarded::folder("etcd"), cluster.to_owned());
        Self { process, tls: None, port: free_port(), name, peer: [own, reached], cluster, settings }
    }

    /// One that clients reach by TLS alone. What is asked of it by hand here goes by another port, without.
    pub fn start_with_tls(certificate: &str, key: &str) -> Self {
        let mut server = Self::start();
        server.kill();
        server.tls = Some((certificate.to_owned(), key.to_owned(), free_port()));
        assert!(server.launch(), "it did not start: {}", server.process.log());
        server
    }

    /// One that all tests of a process use.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<EtcdServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start_at(|| Guarded::folder_in_memory("etcd"), &[]))
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if self.process.pid().is_some() && !self.process.has_ended() {
            self.signal(Signal::KILL);
        }
        self.process.stop();
    }

    /// The same member on the same files, after it was killed.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "it did not start again: {}", self.process.log());
    }

    /// An empty one on the same port: it has lost everything.
    pub fn wipe(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.data()).unwrap();
        assert!(self.launch(), "it did not start again: {}", self.process.log());
    }

    fn by_hand(&self) -> u16 {
        self.tls.as_ref().map_or(self.port, |(_, _, port)| *port)
    }

    /// Where its data lies.
    pub fn data(&self) -> PathBuf {
        self.process.path().join("data")
    }

    fn launch(&mut self) -> bool {
        self.spawn();
        self.is_up()
    }

    pub fn spawn(&mut self) {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.port);
        let [own, reached] = self.peer.map(|port| format!("http://127.0.0.1:{port}"));
        let data = self.data();
        let data = data.to_str().unwrap();
        let mut all = vec![
            "--name",
            self.name,
            "--data-dir",
            data,
            "--log-level",
            "error",
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
            "--listen-peer-urls",
            &own,
            "--initial-advertise-peer-urls",
            &reached,
            "--initial-cluster",
            &self.cluster,
        ];
        all.extend(self.settings);
        let metrics = format!("http://127.0.0.1:{}", self.by_hand());
        if let Some((certificate, key, _)) = &self.tls {
            all.extend(["--cert-file", certificate, "--key-file", key, "--listen-metrics-urls", &metrics]);
        }
        self.process.start(Path::new("etcd"), &all, "KILL");
    }

    /// Waits until it answers; not where one of its ports is somebody else's.
    pub fn is_up(&mut self) -> bool {
        let start = Instant::now();
        loop {
            let health = get(self.by_hand(), "/health");
            if !self.process.has_ended() && health.is_some_and(|said| said.contains("\"true\"")) {
                return true;
            }
            if self.process.log().contains("address already in use") {
                return false;
            }
            assert!(!self.process.has_ended(), "etcd has ended: {}", self.process.log());
            assert!(start.elapsed() < PATIENCE, "etcd does not answer: {}", self.process.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it leads its cluster, as far as it knows.
    pub fn is_leader(&self) -> bool {
        get(self.by_hand(), "/metrics").is_some_and(|page| page.contains("\netcd_server_is_leader 1\n"))
    }

    /// Its number, as other members are told it.
    pub fn id(&self) -> String {
        let page = get(self.by_hand(), "/metrics").unwrap();
        let line = page.lines().find(|line| line.starts_with("etcd_server_id{"));
        line.and_then(|line| line.split('"').nth(1)).unwrap().to_owned()
    }

    pub fn guarded(&self) -> &Guarded {
        &self.process
    }

    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.process.pid().unwrap()).unwrap(), signal).unwrap();
    }

    /// Requests of a kind so far, as the member counts them.
    pub fn count(&self, method: &str) -> u64 {
        let named = format!("grpc_method=\"{method}\"");
        self.metric(|line| line.starts_with("grpc_server_started_total{") && line.contains(&named))
    }

    /// Leases of etcd's own that there are.
    pub fn leases(&self) -> u64 {
        let since =
            |what: &str| self.metric(|line| line.starts_with(&format!("etcd_debugging_lease_{what}_total ")));
        since("granted") - since("revoked")
    }

    /// The sum of its figures that a line is wanted of.
    fn metric(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let page = get(self.by_hand(), "/metrics").unwrap();
        let lines = page.lines().filter(|line| wanted(line));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// What an application opens.
    pub fn url(&self, namespace: &str) -> String {
        format!("etcd://127.0.0.1:{}/{namespace}", self.port)
    }
}

/// A namespace that no other store of this process has.
pub fn namespace() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", COUNT.fetch_add(1, Ordering::SeqCst))
}

/// What a page says.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}
