//! PgBouncer in transaction mode, in front of a server.

use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::guard::{Guarded, free_port};

pub struct Pooler {
    guarded: Guarded,
    pub port: u16,
}

impl Pooler {
    /// Few connections to the server for many of its clients: consecutive requests of one client meet different ones.
    pub fn start(server: u16, settings: &str) -> Self {
        let guarded = Guarded::folder("pgbouncer");
        let port = free_port();
        guarded.write(
            "pgbouncer.ini",
            &format!(
                "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\n\
                 {settings}\n[users]\n"
            )
            .replace("[databases]\n* =", "[databases]\npostgres = user=lease dbname=postgres"),
        );
        let mut pooler = Self { guarded, port };
        let ini = pooler.guarded.path().join("pgbouncer.ini");
        let program = PathBuf::from("/usr/sbin/pgbouncer");
        pooler.guarded.start(&program, &["-q", ini.to_str().unwrap()], "INT");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no pooler: {}", pooler.guarded.log());
            thread::sleep(Duration::from_millis(10));
        }
        pooler
    }
}
