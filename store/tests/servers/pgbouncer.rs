//! PgBouncer in transaction mode, in front of a server.

use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::guard::{Guarded, free_port};

pub struct Pooler {
    guarded: Guarded,
    pub port: u16,
}

impl Pooler {
    /// Few connections to the server for many of its clients: consecutive requests of one client meet different ones. Those
    /// to the database `serializable` are to the same one, and have transactions of that kind. None gets old: it would keep
    /// the plans of all schemas that it has seen, and go through them whenever another is made.
    pub fn start(server: u16, settings: &str) -> Self {
        let guarded = Guarded::folder("pgbouncer");
        let port = free_port();
        let server = format!("user=lease dbname=postgres host=127.0.0.1 port={server}");
        guarded.write(
            "pgbouncer.ini",
            &format!(
                "[databases]\npostgres = {server}\n\
                 serializable = {server} connect_query='SET default_transaction_isolation = serializable'\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\n\
                 server_lifetime = 5\n\
                 {settings}\n[users]\n"
            ),
        );
        let mut pooler = Self { guarded, port };
        pooler.up();
        pooler
    }

    /// Starts it where it does not run, and waits until it listens.
    pub fn up(&mut self) {
        let ini = self.guarded.path().join("pgbouncer.ini");
        let program = PathBuf::from("/usr/sbin/pgbouncer");
        let begun = Instant::now();
        self.guarded.start(&program, &["-q", ini.to_str().unwrap()], "INT");
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no pooler: {}", self.guarded.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it at once: all connections break.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.guarded.stop();
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.guarded.pid().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}
