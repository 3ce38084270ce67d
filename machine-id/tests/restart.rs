//! Processes of one identity that are killed and started again: Leaf#84, CosId#69, where the slots of dead ones used the pool up
//! until their leases were over.

#![cfg(target_os = "linux")]
// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lease_machines_id::{AcquireError, CallOptions, PoolLease, Strategy};
use lease_machines_store::{ResourceName, SqliteOptions, SqliteStore};

/// What the test that runs again as another process is told: the file, how large the pool is, and whether to prove.
const ROLE: &str = "LEASE_TEST_ROLE";

const LEASE: Duration = Duration::from_secs(8 * 3_600);

/// Only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that claims a slot as `web`, and says what it has: the slot, and its window in microseconds. Told so, it renews.
struct Worker {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    slot: u16,
    window: (u128, u128),
}

impl Worker {
    /// Starts one, without waiting for it.
    fn start(file: &Path, size: u32, proves: bool) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_restart_gets_its_own_slot_back_at_once_and_nobody_elses", "--nocapture"])
            .env(ROLE, format!("{size} {proves} {}", file.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, said)
    }

    fn hear((child, mut said): (Child, Lines<BufReader<ChildStdout>>)) -> Self {
        let held = next(&mut said, "held ");
        let mut numbers = held.split(' ').map(|number| number.parse::<u128>().unwrap());
        let mut number = || numbers.next().unwrap();
        let slot = u16::try_from(number()).unwrap();
        Self { child, said, slot, window: (number(), number()) }
    }

    fn new(file: &Path, size: u32) -> Self {
        Self::hear(Self::start(file, size, true))
    }

    fn renews(&mut self) -> bool {
        self.child.stdin.as_mut().unwrap().write_all(b"renew\n").unwrap();
        next(&mut self.said, "renewed ") == "true"
    }

    fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// As the kernel's OOM killer does, and waited for, as whoever starts it again does.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rest of the next line that has this word.
fn next(said: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    let line = said.find_map(|line| {
        let line = line.unwrap();
        line.find(word).map(|at| line[at + word.len()..].trim().to_owned())
    });
    line.expect("the process has ended")
}

fn another_process(role: &str) {
    let mut words = role.splitn(3, ' ');
    let mut word = || words.next().unwrap();
    let (size, proves) = (word().parse().unwrap(), word() == "true");
    let store = SqliteStore::open(Path::new(word()), SqliteOptions::default()).unwrap();
    let pool = PoolLease::new(Arc::new(store), ResourceName::new("ids").unwrap(), size)
        .with_identity("web")
        .with_label("a worker");
    let pool = if proves { pool.with_process_proof() } else { pool };
    let (options, begun) = (CallOptions::new(PATIENCE), Instant::now());
    let held = loop {
        match pool.acquire(LEASE, &options) {
            Ok(held) => break held,
            Err(AcquireError::Exhausted(_)) if begun.elapsed() < PATIENCE => {
                sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    };
    let window = held.window.unwrap();
    println!("held {} {} {}", held.machine_id, window.after.as_micros(), window.until.as_micros());
    for _ in std::io::stdin().lock().lines() {
        println!("renewed {}", pool.renew(&held.lease, LEASE, &options).is_ok());
    }
}

#[test]
fn a_restart_gets_its_own_slot_back_at_once_and_nobody_elses() {
    if let Ok(role) = std::env::var(ROLE) {
        return another_process(&role);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases.db");
    let mut killed = Worker::new(&file, 8);
    let mut sibling = Worker::new(&file, 8);
    assert_eq!([killed.slot, sibling.slot], [0, 1], "of one name, and both live");
    for _ in 0..3 {
        killed.kill();
        let again = Worker::new(&file, 8);
        assert_eq!(again.slot, killed.slot);
        assert!(killed.window.1 <= again.window.0, "no stamp is of both lives");
        killed = again;
        assert!(killed.renews() && sibling.renews());
    }
    sibling.kill();
    assert_eq!(Worker::new(&file, 8).slot, 1, "each in its turn");
}

/// Frozen, or dead and not waited for, a process still has its number.
#[test]
fn a_live_slot_is_nobody_elses_without_proof() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases.db");
    let mut frozen = Worker::new(&file, 8);
    frozen.signal("-STOP");
    assert_eq!(Worker::new(&file, 8).slot, 1, "it may go on");
    frozen.signal("-CONT");
    assert!(frozen.renews());

    let mut zombie = Worker::new(&file, 8);
    let slot = zombie.slot;
    assert_eq!(slot, 1, "the last one was killed when it was not needed any more");
    zombie.child.kill().unwrap();
    let (mut next, mut unproven) = (Worker::new(&file, 8), Worker::hear(Worker::start(&file, 8, false)));
    assert_eq!((next.slot, unproven.slot), (2, 3));
    zombie.child.wait().unwrap();

    // By name alone nothing is taken over, and nothing is left to be.
    assert_eq!(Worker::hear(Worker::start(&file, 8, false)).slot, 4);
    unproven.kill();
    assert_eq!(Worker::new(&file, 8).slot, slot, "its number is free now");
    assert!(next.renews() && frozen.renews());
}

#[test]
fn many_that_are_started_again_at_once_need_no_more_slots_than_they_are() {
    const COUNT: u16 = 6;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases.db");
    let start = || Worker::start(&file, COUNT.into(), true);
    let all = || -> Vec<Worker> {
        let started: Vec<_> = (0..COUNT).map(|_| start()).collect();
        let mut workers: Vec<_> = started.into_iter().map(Worker::hear).collect();
        workers.sort_by_key(|worker| worker.slot);
        workers
    };
    let numbers = |workers: &[Worker]| workers.iter().map(|worker| worker.slot).collect::<Vec<_>>();
    let mut before = all();
    assert_eq!(numbers(&before), Vec::from_iter(0..COUNT));
    before.iter_mut().for_each(Worker::kill);
    let mut after = all();
    assert_eq!(numbers(&after), numbers(&before));
    for (before, after) in before.iter().zip(&mut after) {
        assert!(before.window.1 <= after.window.0);
        assert!(after.renews());
    }
}
