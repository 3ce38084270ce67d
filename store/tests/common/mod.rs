//! What the tests of a store's files share.
// Each test file uses its own part; helpers outside a #[test] function are tests all the same.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub mod other;

use std::fs;
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};

use lease_machines::OwnerId;
use lease_machines_store::{
    Acquired, Claim, Clock, Grant, LeaseRef, ResourceName, SqliteOptions, SqliteStore, Store,
};

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls a future once, and drops it.
pub fn poll_once<F: Future>(future: F) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// Polls a future once, and keeps it without ever polling it again.
pub fn poll_and_keep<F: Future + Unpin>(mut future: F) -> F {
    let _ = std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    future
}

/// A folder that is removed with its guard.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lease-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("leases.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A clock that the test moves.
pub struct TestClock(Mutex<(Duration, Duration, String)>);

impl TestClock {
    /// An hour after boot, in the middle of 2026.
    pub fn new(identity: &str) -> Arc<Self> {
        let wall = Duration::from_secs(1_780_000_000);
        Arc::new(Self(Mutex::new((Duration::from_secs(3600), wall, identity.to_owned()))))
    }

    /// Time passes, on both clocks.
    pub fn advance(&self, by: Duration) {
        let mut state = self.0.lock().unwrap();
        state.0 += by;
        state.1 += by;
    }

    /// The wall clock is set; time does not pass.
    pub fn set_wall(&self, wall: Duration) {
        self.0.lock().unwrap().1 = wall;
    }

    pub fn step_wall(&self, seconds: i64) {
        let mut state = self.0.lock().unwrap();
        state.1 = Duration::from_secs(state.1.as_secs().checked_add_signed(seconds).unwrap());
    }

    /// The machine is off for a while, and starts again.
    pub fn reboot(&self, identity: &str, off: Duration) {
        let mut state = self.0.lock().unwrap();
        state.0 = Duration::from_secs(2);
        state.1 += off + Duration::from_secs(2);
        state.2 = identity.to_owned();
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.0.lock().unwrap().1
    }

    fn identity(&self) -> String {
        self.0.lock().unwrap().2.clone()
    }
}

pub const TTL: Duration = Duration::from_secs(60);

pub fn name(name: &str) -> ResourceName {
    ResourceName::new(name).unwrap()
}

pub fn claim(resource: &str, owner: u64) -> Claim {
    Claim::new(name(resource), OwnerId::new(owner), TTL)
}

pub fn acquire(store: &dyn Store, claim: Claim) -> Acquired {
    block_on(store.acquire(claim)).unwrap()
}

/// Acquires, or fails the test.
pub fn granted(store: &dyn Store, claim: Claim) -> Grant {
    match acquire(store, claim) {
        Acquired::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub fn lease(resource: &str, owner: u64, grant: Grant) -> LeaseRef {
    LeaseRef::new(name(resource), OwnerId::new(owner), grant.token, Some(grant.epoch))
}

pub fn open(folder: &Folder, clock: &Arc<TestClock>) -> SqliteStore {
    SqliteStore::open(folder.file(), options(clock)).unwrap()
}

pub fn options(clock: &Arc<TestClock>) -> SqliteOptions {
    SqliteOptions::default().clock(Arc::clone(clock) as Arc<dyn Clock>)
}

/// Set where a test runs a second time in a process of its own: the folder that it works in.
pub const INSIDE: &str = "LEASE_TEST_INSIDE";

/// Runs a test of this program again, inside `folder`, as a user whom permissions bind: root is bound by none.
pub fn run_as_anyone(test: &str, folder: &Path) -> Output {
    // The program itself has to be reachable for that user.
    let program = std::env::temp_dir().join(format!("lease-test-{test}-{}", std::process::id()));
    // Not by this process: what a fork of another test keeps open for writing cannot be executed.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = if fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command
    } else {
        Command::new(&program)
    };
    let output = command.args(["--exact", test, "--nocapture"]).env(INSIDE, folder).output();
    fs::remove_file(&program).unwrap();
    output.unwrap()
}

/// The second run succeeded, and got as far as to say this.
#[track_caller]
pub fn passed(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(word), "{said}{complained}");
}
