//! A MySQL or a MariaDB server.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, Value};
use tokio::runtime::{Builder, Runtime};

use super::guard::{Guarded, free_port};

/// How long a server may take to come up; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where `script/setup` unpacks MySQL, which cannot be installed beside MariaDB.
const UNPACKED: &str = "/usr/local/lib/lease-machines/mysql";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    MariaDb,
    MySql,
}

impl Kind {
    pub const BOTH: [Self; 2] = [Self::MariaDb, Self::MySql];
}

pub struct Server {
    pub guarded: Guarded,
    pub kind: Kind,
    pub port: u16,
    settings: Vec<String>,
    /// What runs it, before the arguments.
    program: Vec<String>,
}

impl Server {
    /// What makes a server quick that is not going to crash.
    pub const LAX: [&str; 2] = ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"];

    /// The one that the tests of a program share; each has databases of its own. The guard ends it with the program.
    pub fn shared(kind: Kind) -> &'static Self {
        static MARIADB: OnceLock<Server> = OnceLock::new();
        static MYSQL: OnceLock<Server> = OnceLock::new();
        let shared = if kind == Kind::MariaDb { &MARIADB } else { &MYSQL };
        shared.get_or_init(|| Self::start_in_memory("", kind, &[]))
    }

    /// A new one that is never killed, and so does not wait for the disk, on a machine in some time zone.
    pub fn start_in_memory(zone: &str, kind: Kind, settings: &[&str]) -> Self {
        Self::start_at(Guarded::folder_in_memory("mysql"), zone, kind, &[settings, &Self::LAX].concat())
    }

    /// A new one, with settings of its own beside those that matter here; it flushes its log as any other.
    pub fn start(kind: Kind, settings: &[&str]) -> Self {
        Self::start_in("", kind, settings)
    }

    /// The same, on a machine in some time zone.
    pub fn start_in(zone: &str, kind: Kind, settings: &[&str]) -> Self {
        Self::start_with(&[], zone, kind, settings)
    }

    /// The same, with variables in its environment.
    pub fn start_with(environment: &[String], zone: &str, kind: Kind, settings: &[&str]) -> Self {
        Self::start_at(Guarded::folder("mysql").with(environment), zone, kind, settings)
    }

    /// The same in a folder that is there, which may have an environment.
    pub fn start_at(guarded: Guarded, zone: &str, kind: Kind, settings: &[&str]) -> Self {
        let data = guarded.path().join("data").to_str().unwrap().to_owned();
        let program = program(kind, zone);
        guarded.run(Path::new("mkdir"), &[&data]);
        if kind == Kind::MariaDb {
            guarded.run(
                Path::new("mariadb-install-db"),
                &[
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    &format!("--datadir={data}"),
                ],
            );
        } else {
            let arguments: Vec<&str> = program[1..].iter().map(String::as_str).collect();
            let data = format!("--datadir={data}");
            let share = format!("--lc-messages-dir={UNPACKED}/usr/share/mysql");
            let first = ["--no-defaults", "--initialize-insecure", "--secure-file-priv=NULL", &data, &share];
            guarded.run(Path::new(&program[0]), &[&arguments[..], &first].concat());
        }
        // The account of the tests, with a password where one is asked for.
        guarded.write(
            "first.sql",
            "CREATE USER IF NOT EXISTS lease@'%' IDENTIFIED BY '';\nGRANT ALL ON *.* TO lease@'%' WITH GRANT OPTION;\n\
             CREATE USER IF NOT EXISTS guarded@'%' IDENTIFIED BY 'right';\nGRANT ALL ON *.* TO guarded@'%';\n",
        );
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { guarded, kind, port: 0, settings, program };
        server.up();
        server
    }

    /// Starts it where it does not run, on its port or a new one, and waits until it answers.
    pub fn up(&mut self) {
        self.up_with(&[]);
    }

    /// The same, with settings for this time.
    pub fn up_with(&mut self, more: &[&str]) {
        if self.port == 0 {
            self.port = free_port();
        }
        let folder = self.guarded.path().to_str().unwrap();
        let mut arguments: Vec<String> = self.program[1..].to_vec();
        arguments.extend([
            "--no-defaults".to_owned(),
            format!("--datadir={folder}/data"),
            format!("--socket={folder}/socket"),
            format!("--pid-file={folder}/server.pid"),
            format!("--init-file={folder}/first.sql"),
            format!("--port={}", self.port),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-file-priv=".to_owned(),
            "--innodb-buffer-pool-size=32M".to_owned(),
            "--max-connections=200".to_owned(),
        ]);
        if self.kind == Kind::MySql {
            arguments.extend([
                "--mysqlx=OFF".to_owned(),
                format!("--lc-messages-dir={UNPACKED}/usr/share/mysql"),
                "--performance-schema=OFF".to_owned(),
            ]);
        }
        arguments.extend(self.settings.iter().cloned());
        arguments.extend(more.iter().map(|setting| (*setting).to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.guarded.start(Path::new(&self.program[0]), &arguments, "TERM");
        let begun = Instant::now();
        while self.try_sql("", "SELECT 1").is_err() {
            assert!(!self.guarded.has_ended(), "the server has ended: {}", self.guarded.log());
            assert!(begun.elapsed() < PATIENCE, "the server does not answer: {}", self.guarded.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a crash does: nothing is written any more.
    pub fn kill(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.guarded.pid().unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        self.guarded.stop();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "it still listens");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The URL of a database in it, over TCP.
    pub fn url(&self, database: &str) -> String {
        let scheme = if self.kind == Kind::MariaDb { "mariadb" } else { "mysql" };
        format!("{scheme}://lease:@127.0.0.1:{}/{database}", self.port)
    }

    /// An empty database.
    pub fn empty(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::SeqCst));
        self.sql("", &format!("CREATE DATABASE {name}"));
        name
    }

    /// A database with a store in it, and its URL.
    pub fn fresh(&self) -> (String, String) {
        let database = self.empty();
        let url = self.url(&database);
        lease_machines_store::migrate(&url).unwrap();
        (database, url)
    }

    /// Runs statements, and gives the first column of what they answer.
    #[track_caller]
    pub fn sql(&self, database: &str, text: &str) -> Vec<String> {
        self.try_sql(database, text).unwrap()
    }

    pub fn try_sql(&self, database: &str, text: &str) -> Result<Vec<String>, mysql_async::Error> {
        runtime().block_on(async {
            let mut conn = self.client(database).await?;
            let rows = say(&mut conn, text).await;
            conn.disconnect().await?;
            rows
        })
    }

    /// Asks one thing, and gives all columns of what is answered, as texts.
    #[track_caller]
    pub fn columns(&self, database: &str, text: &str) -> Vec<Vec<String>> {
        runtime().block_on(async {
            let mut conn = self.client(database).await.unwrap();
            let rows: Vec<Row> = conn.query(text).await.unwrap();
            conn.disconnect().await.unwrap();
            rows.into_iter().map(|row| row.unwrap().iter().map(as_text).collect()).collect()
        })
    }

    /// What the engine under the tables says of itself, its transactions among it.
    #[track_caller]
    pub fn innodb(&self) -> String {
        runtime().block_on(async {
            let mut conn = self.client("").await.unwrap();
            let told: Option<(String, String, String)> =
                conn.query_first("SHOW ENGINE INNODB STATUS").await.unwrap();
            conn.disconnect().await.unwrap();
            told.unwrap().2
        })
    }

    /// A connection of the test's own.
    pub async fn client(&self, database: &str) -> Result<Conn, mysql_async::Error> {
        let to = OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.port)
            .user(Some("lease"))
            .db_name(Some(database).filter(|name| !name.is_empty()))
            .prefer_socket(false);
        Conn::new(to).await
    }
}

/// Runs statements on a connection, and gives the first column of what they answer.
pub async fn say(conn: &mut Conn, text: &str) -> Result<Vec<String>, mysql_async::Error> {
    let mut told = conn.query_iter(text).await?;
    let mut all = Vec::new();
    while !told.is_empty() {
        let rows: Vec<Row> = told.collect().await?;
        all.extend(rows.iter().map(|row| row.as_ref(0).map_or(String::new(), as_text)));
    }
    Ok(all)
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.as_sql(true),
    }
}

/// What the tests' own connections run on.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())
}

fn program(kind: Kind, zone: &str) -> Vec<String> {
    let (libraries, program) = match kind {
        Kind::MariaDb => (String::new(), PathBuf::from("/usr/sbin/mariadbd")),
        Kind::MySql => (
            format!("{UNPACKED}/usr/lib/{}-linux-gnu", std::env::consts::ARCH),
            Path::new(UNPACKED).join("usr/sbin/mysqld"),
        ),
    };
    assert!(program.exists(), "{} is missing: script/setup brings it", program.display());
    let environment = ["env".to_owned(), format!("LD_LIBRARY_PATH={libraries}"), format!("TZ={zone}")];
    environment.into_iter().chain([program.to_str().unwrap().to_owned()]).collect()
}
