//! A process that ends with its test, however that ends, and its folder with it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user without rights, as whom a server runs where the test is root: most servers refuse to be.
const NOBODY: u32 = 65_534;

/// What has to be free in memory before a server is put there: one leaves less than half of that there.
const ROOM: u64 = 2 << 30;

/// A folder for a server, and the process in it.
pub struct Guarded {
    folder: PathBuf,
    guard: Option<Child>,
    environment: Vec<String>,
}

impl Guarded {
    /// An empty folder that belongs to whoever the server is going to be.
    pub fn folder(of: &str) -> Self {
        Self::folder_in(&std::env::temp_dir(), of)
    }

    /// The same in memory, where there is room for it: for a server of which nothing is asked that has to be on a disk, and
    /// which would else wait for one at each table that it makes.
    pub fn folder_in_memory(of: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let room = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
        if room < ROOM { Self::folder(of) } else { Self::folder_in(memory, of) }
    }

    /// The same in some place, which that user may look into.
    pub fn folder_in(place: &Path, of: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lease-{of}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let folder = place.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        if is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { folder, guard: None, environment: Vec::new() }
    }

    /// What runs there finds these variables set, each as `NAME=VALUE`.
    pub fn with(mut self, environment: &[String]) -> Self {
        self.environment = environment.to_vec();
        self
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes a file there, for the server.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap();
        if is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Runs something to its end, as the server's user.
    pub fn run(&self, program: &Path, arguments: &[&str]) {
        let output = self.command(program, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}{complained}", program.display());
    }

    /// Starts the server under a guard, which ends it with `signal` when this process closes the pipe, or dies; then the
    /// guard removes the folder. Should the guard be killed itself, the kernel ends the server.
    pub fn start(&mut self, program: &Path, arguments: &[&str], signal: &str) {
        assert!(self.guard.is_none(), "a server runs there already");
        let script = r#"log=$1 pids=$2 signal=$3; shift 3
            trap '' INT TERM HUP
            exec 2>/dev/null
            "$@" >>"$log" 2>&1 </dev/null 3<&- & pid=$!
            echo "$pid" >"$pids"
            read -r word || word=gone
            kill -s "$signal" "$pid" 2>/dev/null
            (sleep 10; kill -9 "$pid") >/dev/null 2>&1 & late=$!
            wait "$pid"
            kill "$late" 2>/dev/null
            [ "$word" = keep ] || rm -rf "${log%/*}""#;
        let server = self.command(program, arguments);
        let mut guard = Command::new("sh");
        guard
            .args(["-c", script, "sh"])
            .arg(self.folder.join("log"))
            .arg(self.folder.join("pid"))
            .arg(signal);
        guard.arg(server.get_program()).args(server.get_args());
        // A Ctrl-C at the terminal is for the test alone.
        guard.process_group(0).stdin(Stdio::piped());
        self.guard = Some(guard.spawn().unwrap());
    }

    /// The server's process, once the guard has started it.
    pub fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    /// Whether the server has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.pid().is_some_and(|pid| {
            let found = fs::read_to_string(format!("/proc/{pid}/stat"));
            found
                .map_or(true, |line| line.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z')))
        })
    }

    /// Ends the server and keeps the folder.
    pub fn stop(&mut self) {
        self.end("keep\n");
        let _ = fs::remove_file(self.folder.join("pid"));
    }

    /// What the server said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn end(&mut self, word: &str) {
        use std::io::Write;
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.stdin.take().map(|mut pipe| pipe.write_all(word.as_bytes()));
            let _ = guard.wait();
        }
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            let id = NOBODY.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        // A folder for temporary files of its own: a MariaDB that starts removes what others have in one that they share.
        command.arg("env").arg(format!("TMPDIR={}", self.folder.display())).args(&self.environment);
        command.arg(program).args(arguments).current_dir(&self.folder);
        command
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end("gone\n");
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
