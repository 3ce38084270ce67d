//! A PostgreSQL server.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::guard::{Guarded, free_port};

/// How long a server may take to come up; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Server {
    pub guarded: Guarded,
    pub port: u16,
}

impl Server {
    /// The one that the tests of a program share; each has schemas of its own. The guard ends it with the program.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start_in(Guarded::folder_in_memory("postgres"), &[]))
    }

    /// A new one, with settings of its own beside those that matter here; it flushes its log as any other.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_in(Guarded::folder("postgres"), settings)
    }

    /// The same in a folder that is there, which may have an environment.
    pub fn start_in(guarded: Guarded, settings: &[&str]) -> Self {
        let data = guarded.path().join("data");
        let (data, socket) = (data.to_str().unwrap(), guarded.path().to_str().unwrap());
        guarded.run(
            &program("initdb"),
            &[
                "-D",
                data,
                "-U",
                "lease",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
            ],
        );
        let mut configuration = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{socket}'\nmax_connections = 200\n\
             shared_buffers = 32MB\nlog_line_prefix = '%m [%p] %d '\nlc_messages = 'C'\n"
        );
        for setting in settings {
            configuration.push_str(setting);
            configuration.push('\n');
        }
        guarded.write("data/postgresql.auto.conf", &configuration);
        // One role needs a password.
        guarded.write(
            "data/pg_hba.conf",
            "local all all trust\nhost all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n\
             host replication all 127.0.0.1/32 trust\nlocal replication all trust\n",
        );
        let mut server = Self { guarded, port: 0 };
        server.up();
        server
    }

    /// A server that follows another one, and can be promoted.
    pub fn standby_of(primary: &Self) -> Self {
        let guarded = Guarded::folder("standby");
        let data = guarded.path().join("data");
        let port = primary.port.to_string();
        let from = ["-h", "127.0.0.1", "-p", &port, "-U", "lease", "-c", "fast", "-R", "-D"];
        let arguments: Vec<&str> = from.into_iter().chain([data.to_str().unwrap()]).collect();
        guarded.run(&program("pg_basebackup"), &arguments);
        let here = guarded.path().to_str().unwrap().to_owned();
        let settings = guarded.path().join("data/postgresql.auto.conf");
        let settings = std::fs::read_to_string(settings).unwrap();
        let settings = settings.replace(primary.guarded.path().to_str().unwrap(), &here);
        guarded.write("data/postgresql.auto.conf", &settings);
        let mut server = Self { guarded, port: 0 };
        server.up();
        server
    }

    /// Starts it where it does not run, on its port or a new one, and waits until it answers.
    pub fn up(&mut self) {
        if self.port == 0 {
            self.port = free_port();
        }
        let (data, port) = (self.guarded.path().join("data"), self.port.to_string());
        let arguments = ["-D", data.to_str().unwrap(), "-p", &port];
        self.guarded.start(&program("postgres"), &arguments, "QUIT");
        let begun = Instant::now();
        while self.try_sql("postgres", "SELECT 1").is_err() {
            // After a crash it may find that its predecessor's memory is not free yet.
            if self.guarded.has_ended() {
                self.guarded.stop();
                self.guarded.start(&program("postgres"), &arguments, "QUIT");
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not answer: {}", self.guarded.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a crash does: nothing is written any more.
    pub fn kill(&mut self) {
        // All of it: one that lived on for a moment would keep the next server from starting.
        self.signal(Signal::KILL);
        self.guarded.stop();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "it still listens");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to it and to those that it started.
    fn signal(&self, signal: Signal) {
        let pid = self.guarded.pid().unwrap();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for process in
            [pid].into_iter().chain(children.split_whitespace().filter_map(|child| child.parse().ok()))
        {
            let _ = kill_process(Pid::from_raw(process).unwrap(), signal);
        }
    }

    /// Has it stand still until that is dropped.
    pub fn freeze(&self) -> Frozen<'_> {
        self.signal(Signal::STOP);
        Frozen(self)
    }

    /// Copies its files as a base backup does, while it runs.
    pub fn back_up(&self) {
        let (port, to) = (self.port.to_string(), self.guarded.path().join("backup"));
        let arguments = ["-h", "127.0.0.1", "-p", &port, "-U", "lease", "-c", "fast", "-D"];
        let arguments: Vec<&str> = arguments.into_iter().chain([to.to_str().unwrap()]).collect();
        self.guarded.run(&program("pg_basebackup"), &arguments);
    }

    /// Copies them as they lie there, while it does not run.
    pub fn copy_files(&self) {
        self.guarded.run("cp".as_ref(), &["-a", "data", "backup"]);
    }

    /// Puts the copy in the place of its files, while it does not run.
    pub fn put_back(&self) {
        self.guarded.run("rm".as_ref(), &["-rf", "data"]);
        self.guarded.run("cp".as_ref(), &["-a", "backup", "data"]);
    }

    /// Says more in its configuration, for its next start.
    pub fn configure(&self, settings: &str) {
        let file = "data/postgresql.auto.conf";
        let so_far = std::fs::read_to_string(self.guarded.path().join(file)).unwrap();
        self.guarded.write(file, &format!("{so_far}{settings}\n"));
    }

    /// The URL of a schema in it, over TCP.
    pub fn url(&self, schema: &str) -> String {
        format!("postgres://lease@127.0.0.1:{}/postgres?schema={schema}", self.port)
    }

    /// A schema with a store in it, and its URL.
    pub fn fresh(&self) -> (String, String) {
        let schema = fresh_name();
        let url = self.url(&schema);
        lease_machines_store::migrate(&url).unwrap();
        (schema, url)
    }

    /// Runs statements, and gives the first column of what they answer.
    #[track_caller]
    pub fn sql(&self, text: &str) -> Vec<String> {
        self.try_sql("postgres", text).unwrap()
    }

    pub fn try_sql(&self, database: &str, text: &str) -> Result<Vec<String>, tokio_postgres::Error> {
        runtime().block_on(async {
            let client = self.client(database).await?;
            let messages = client.simple_query(text).await?;
            Ok(messages
                .iter()
                .filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
                    _ => None,
                })
                .collect())
        })
    }

    /// A connection of the test's own, driven by [`runtime`].
    pub async fn client(&self, database: &str) -> Result<Client, tokio_postgres::Error> {
        let to = format!("host=127.0.0.1 port={} user=lease dbname={database}", self.port);
        let (client, connection) = tokio_postgres::connect(&to, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// A server that stands still.
pub struct Frozen<'a>(&'a Server);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

/// What the tests' own connections run on.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())
}

/// The name of a schema that nobody else uses.
pub fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("t{}", COUNT.fetch_add(1, Ordering::SeqCst))
}

/// A program of the newest PostgreSQL that is installed.
pub fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max();
    let path = newest.map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin/{name}")));
    path.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(name))
}
