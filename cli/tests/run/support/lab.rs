//! A store of its own, the runs on it, and an end to all of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lease_machines_store::{Inspection, ResourceName, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::processes::{self, MARK, Process};
use super::{SOON, now, secs, until};

pub(crate) const FREEZER: &str = "/sys/fs/cgroup/freezer";

/// The binary under test.
pub(crate) const LEASE: &str = env!("CARGO_BIN_EXE_lease");

/// The resource of most runs.
pub(crate) const RESOURCE: &str = "job";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder, a store in it, and a mark on everything that is started here. Its drop ends all of that.
pub(crate) struct Lab {
    folder: PathBuf,
    mark: String,
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn Store>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// One that any user can reach: a clone may lie in a home that its owner alone may enter.
    pub(crate) fn for_anyone() -> Self {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> Self {
        assert!(processes::visible(), "these scenarios look at processes through /proc");
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = parent.join(format!("lease-run-{mark}"));
        fs::create_dir_all(&folder).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = url(&folder);
        let store = lease_machines_store::open(&url).unwrap();
        Self { folder, mark, runtime, store }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn url(&self) -> String {
        url(&self.folder)
    }

    /// Whatever is started with these is found and ended with the lab.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        [(MARK, self.mark.clone()), ("LEASE_STORE", self.url())]
    }

    /// A program of this lab.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment()).stdin(Stdio::null()).current_dir(&self.folder);
        command
    }

    /// `lease run OPTIONS job -- COMMAND`, with options and command as a shell would split them.
    pub(crate) fn lease(&self, options: &str, command: &[&str]) -> Command {
        let mut lease = self.command(LEASE);
        lease.arg("run").args(options.split_ascii_whitespace()).arg(RESOURCE).arg("--").args(command);
        lease
    }

    /// The same, started, with its standard error in a file. It has no terminal and a session of its own, so that
    /// neither the terminal nor the shell of whoever runs the tests plays a part.
    pub(crate) fn run(&self, options: &str, command: &[&str]) -> Run {
        self.start(self.lease(options, command))
    }

    /// Starts what [`lease`](Self::lease) made.
    pub(crate) fn start(&self, mut command: Command) -> Run {
        let errors = self.path(&format!("stderr-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        command.stderr(File::create(&errors).unwrap());
        detach(&mut command);
        Run { child: command.spawn().unwrap(), errors, status: None }
    }

    /// How the resource stands.
    pub(crate) fn inspect(&self) -> Inspection {
        self.inspect_other(RESOURCE)
    }

    pub(crate) fn inspect_other(&self, resource: &str) -> Inspection {
        let resource = ResourceName::new(resource).unwrap();
        self.runtime.block_on(self.store.inspect(resource)).unwrap()
    }

    /// The token that the resource is held under.
    pub(crate) fn token(&self) -> Option<u64> {
        self.inspect().occupant.map(|occupant| occupant.token.value())
    }

    /// Waits until somebody holds the resource, and gives the token.
    pub(crate) fn held(&self) -> u64 {
        until("the lease to be held", SOON, || self.token())
    }

    /// The deadline of the live lease as the store counts it, on the boot clock: no later than it really is, and by some
    /// milliseconds at most.
    pub(crate) fn deadline(&self) -> Duration {
        loop {
            let before = now();
            let remaining = self.inspect().occupant.unwrap().remaining;
            if now() - before < super::ms(20) {
                return before + remaining;
            }
        }
    }

    #[track_caller]
    pub(crate) fn assert_free(&self) {
        assert_eq!(self.token(), None, "something is held");
    }

    /// The lease is held under this token.
    #[track_caller]
    pub(crate) fn assert_held(&self, token: u64) {
        let found = self.token();
        if found != Some(token) {
            let resource = ResourceName::new(RESOURCE).unwrap();
            let history = self.runtime.block_on(self.store.history(resource, 3));
            panic!("expected token {token}, found {found:?}: {history:#?}");
        }
    }

    /// An operator's break.
    pub(crate) fn revoke(&self) {
        let resource = ResourceName::new(RESOURCE).unwrap();
        let _ = self.runtime.block_on(self.store.revoke(resource, None, None)).unwrap();
    }

    /// Makes the store answer no decision until the hole is dropped.
    pub(crate) fn black_hole(&self) -> BlackHole {
        BlackHole::dig(&self.path("leases.db"))
    }

    /// The living processes of this lab.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes::marked(&self.mark)
    }

    /// Waits until no process of this lab is left.
    #[track_caller]
    pub(crate) fn until_all_gone(&self, limit: Duration) {
        let gone = || Some(()).filter(|()| self.processes().is_empty());
        let begun = now();
        while gone().is_none() {
            assert!(now() < begun + limit, "alive after {limit:?}: {:#?}", self.processes());
            std::thread::sleep(super::ms(5));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        processes::end_all(&self.mark);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("leases.db").display())
}

/// A session of its own, without a terminal, and no ignored or blocked signals whatever the tests were started with.
pub(crate) fn detach(command: &mut Command) {
    let setup = || {
        nix::unistd::setsid()?;
        super::actor::default_signals();
        Ok(())
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(setup) };
}

/// The write lock of a lease file, held by somebody who does not give it back.
pub(crate) struct BlackHole(rusqlite::Connection);

impl BlackHole {
    fn dig(file: &Path) -> Self {
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.busy_timeout(secs(10)).unwrap();
        connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
        Self(connection)
    }
}

impl Drop for BlackHole {
    fn drop(&mut self) {
        let _ = self.0.execute_batch("ROLLBACK");
    }
}

/// A started `lease run`.
pub(crate) struct Run {
    pub(crate) child: Child,
    errors: PathBuf,
    status: Option<ExitStatus>,
}

impl Run {
    pub(crate) fn front(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Waits until there is one.
    pub(crate) fn warden(&self) -> Pid {
        until("the warden", SOON, || processes::warden_of(self.front())).pid
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.front(), signal).unwrap();
    }

    /// Its status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status
    }

    /// Waits for its end; the code, or 128 + the signal that it ended by itself.
    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        let status = self.status();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn status(&mut self) -> ExitStatus {
        until("the end of lease run", secs(60), || self.ended())
    }

    /// What it said on standard error so far.
    pub(crate) fn said(&self) -> String {
        let mut text = String::new();
        File::open(&self.errors).unwrap().read_to_string(&mut text).unwrap();
        text
    }
}
