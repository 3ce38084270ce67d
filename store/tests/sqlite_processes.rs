//! Many processes on one file: races, kills, freezes, waits.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use common::other::{Other, heard, role};
use common::{Folder, acquire, block_on, claim, granted, lease, name};
use lease_machines::OwnerId;
use lease_machines_store::{
    Acquired, Claim, Ending, ErrorKind, Severity, SqliteOptions, SqliteStore, Store, Undecided, fresh_owner,
};
use rustix::process::Signal;

fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file, SqliteOptions::default()).unwrap()
}

fn fresh(resource: &str, ttl: Duration) -> Claim {
    Claim::new(name(resource), fresh_owner().unwrap(), ttl)
}

const PROCESSES: usize = 50;
const ROUNDS: usize = 20;

/// jentic-one#529, and fifty at once: the file is missing at first, and all of them set it up.
#[test]
fn fifty_processes_share_one_file() {
    if let Some(file) = role() {
        return one_of_fifty(&file);
    }
    let folder = Folder::new();
    let mut others: Vec<Other> =
        (0..PROCESSES).map(|_| Other::start("fifty_processes_share_one_file", &folder.file())).collect();
    for other in &mut others {
        other.next("ready").expect("a process did not start");
    }
    let start = Instant::now();
    for other in &mut others {
        other.tell();
    }
    let mut tokens = HashSet::new();
    let mut epochs = HashSet::new();
    let mut slowest = Duration::ZERO;
    let mut decisions = 0_u64;
    for other in &mut others {
        epochs.insert(other.next("epoch ").expect("a process failed"));
        let line = other.next("tokens ").expect("a process failed");
        for token in line.split_whitespace() {
            assert!(tokens.insert(token.to_owned()), "token {token} was granted twice");
        }
        decisions += other.next("decisions ").unwrap().parse::<u64>().unwrap();
        let micros = other.next("slowest ").unwrap().parse().unwrap();
        slowest = slowest.max(Duration::from_micros(micros));
        assert!(other.child.wait().unwrap().success());
    }
    println!(
        "{decisions} decisions of {PROCESSES} processes in {:?}, the slowest took {slowest:?}",
        start.elapsed()
    );
    assert_eq!(epochs.len(), 1, "the file was set up more than once: {epochs:?}");
    assert!(tokens.len() >= PROCESSES, "{} grants", tokens.len());
    // How fast it is, is for the bench to say: here the build is not optimized and the machine busy with other tests.
    // Nobody starves, though.
    assert!(slowest < Duration::from_secs(30), "the slowest decision took {slowest:?}");
}

fn one_of_fifty(file: &Path) {
    println!("ready");
    heard();
    let options = SqliteOptions::default().timeout(Duration::from_secs(60));
    let store = SqliteStore::open(file, options).unwrap();
    println!("epoch {}", block_on(store.epoch()).unwrap());
    let (mut tokens, mut slowest, mut decisions) = (Vec::new(), Duration::ZERO, 0);
    // All on one resource, so that every grant's token must be another.
    for _ in 0..ROUNDS {
        let mut timed = |start: Instant| {
            slowest = slowest.max(start.elapsed());
            decisions += 1;
        };
        let start = Instant::now();
        let claim = fresh("shared", Duration::from_secs(60));
        let owner = claim.owner;
        let answer = acquire(&store, claim);
        timed(start);
        if let Acquired::Granted(grant) = answer {
            tokens.push(grant.token.to_string());
            let start = Instant::now();
            let _ =
                block_on(store.release(lease("shared", owner.value(), grant), Ending::default())).unwrap();
            timed(start);
        }
        let start = Instant::now();
        let _ = acquire(&store, fresh(&format!("own-{}", std::process::id()), Duration::from_millis(1)));
        timed(start);
    }
    // Each holds it once at least, however long that takes.
    while tokens.is_empty() {
        block_on(store.wait(name("shared"), Duration::from_secs(5))).unwrap();
        let claim = fresh("shared", Duration::from_secs(60));
        let owner = claim.owner;
        if let Acquired::Granted(grant) = acquire(&store, claim) {
            tokens.push(grant.token.to_string());
            let _ =
                block_on(store.release(lease("shared", owner.value(), grant), Ending::default())).unwrap();
        }
    }
    println!("tokens {}", tokens.join(" "));
    println!("decisions {decisions}");
    println!("slowest {}", slowest.as_micros());
}

/// Killed in the middle of anything, the file stays usable, nothing acknowledged is lost, and tokens go on.
#[test]
fn a_kill_in_the_middle_of_writes_loses_nothing() {
    if let Some(file) = role() {
        let store = open(&file);
        for round in 0_u64.. {
            let claim = fresh(&format!("job-{}", round % 7), Duration::from_secs(600));
            let owner = claim.owner;
            if let Acquired::Granted(grant) = acquire(&store, claim) {
                println!("granted {} {} {}", round % 7, owner, grant.token);
                let reference = lease(&format!("job-{}", round % 7), owner.value(), grant);
                let _ = block_on(store.renew(reference.clone(), Duration::from_secs(700))).unwrap();
                if round % 2 == 0 {
                    let _ = block_on(store.release(reference, Ending::default())).unwrap();
                    println!("released {} {}", round % 7, grant.token);
                }
            } else {
                let _ = block_on(store.revoke(name(&format!("job-{}", round % 7)), None, None)).unwrap();
            }
        }
        return;
    }
    let folder = Folder::new();
    let mut greatest = [0_u64; 7];
    for round in 0..15_u64 {
        let mut other = Other::start("a_kill_in_the_middle_of_writes_loses_nothing", &folder.file());
        let first = other.next("granted").expect("the process got no lease");
        std::thread::sleep(Duration::from_millis(round * 7));
        other.signal(Signal::KILL);
        let _ = other.child.wait().unwrap();
        let mut held = [None; 7];
        let said = std::iter::once(format!("granted {first}")).chain(other.said.by_ref().map(Result::unwrap));
        for line in said {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["granted", job, _, token] => {
                    let (job, token): (usize, u64) = (job.parse().unwrap(), token.parse().unwrap());
                    assert!(token > greatest[job], "token {token} after {}", greatest[job]);
                    greatest[job] = token;
                    held[job] = Some(token);
                }
                ["released", job, _] => held[job.parse::<usize>().unwrap()] = None,
                _ => {}
            }
        }
        let store = open(&folder.file());
        let findings = block_on(store.doctor()).unwrap();
        let integrity = findings.iter().find(|one| one.check == "integrity").unwrap();
        assert_eq!(integrity.severity, Severity::Fine, "{findings:?}");
        for (job, token) in held.iter().enumerate() {
            let seen = block_on(store.inspect(name(&format!("job-{job}")))).unwrap();
            let last = seen.last_issued.map_or(0, |last| last.value());
            assert!(
                last >= greatest[job],
                "job {job}: token {} was granted, the file knows {last}",
                greatest[job]
            );
            // What was granted still stands, unless the last, unheard request ended it or gave it to the next.
            if token.is_some_and(|token| last == token) {
                assert!(seen.occupant.is_some() || seen.vacated.is_some(), "job {job}: {seen:?}");
            }
            greatest[job] = greatest[job].max(last);
            let _ = block_on(store.revoke(name(&format!("job-{job}")), None, None)).unwrap();
        }
    }
}

/// A frozen process may hold the file's lock; others hear so in time, and go on when it thaws.
#[test]
fn a_frozen_process_holds_nobody_up_for_ever() {
    if let Some(file) = role() {
        let store = open(&file);
        println!("ready");
        loop {
            let _ = acquire(&store, fresh("theirs", Duration::from_millis(1)));
        }
    }
    let folder = Folder::new();
    let options = SqliteOptions::default().timeout(Duration::from_millis(250));
    let store = SqliteStore::open(folder.file(), options).unwrap();
    let mut other = Other::start("a_frozen_process_holds_nobody_up_for_ever", &folder.file());
    other.next("ready").expect("the process did not start");
    let (mut busy, mut done) = (0, 0);
    for round in 0..40_u64 {
        std::thread::sleep(Duration::from_millis(round % 5));
        other.signal(Signal::STOP);
        let start = Instant::now();
        match block_on(store.acquire(fresh("ours", Duration::from_millis(1)))) {
            Ok(_) => done += 1,
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.undecided()),
                    (ErrorKind::Busy, Undecided::NotDone),
                    "{error:?}"
                );
                busy += 1;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(3), "waited {:?}", start.elapsed());
        other.signal(Signal::CONT);
        // After the thaw it is as before.
        let mut owner = 0;
        while block_on(store.acquire(fresh("ours", Duration::from_millis(1)))).is_err() {
            owner += 1;
            assert!(owner < 100, "still busy after the thaw");
        }
    }
    println!("frozen 40 times: {done} decided at once, {busy} told that the file is busy");
    assert!(done > 0, "not one request got through");
}

/// A waiter in another process has the lease soon after its release.
#[test]
fn a_waiter_in_another_process_is_woken() {
    if let Some(file) = role() {
        let store = open(&file);
        let claim = fresh("job", Duration::from_secs(600));
        let owner = claim.owner.value();
        for _ in 0..10 {
            let mut claim = claim.clone();
            claim.owner = fresh_owner().unwrap();
            let owner = claim.owner.value();
            let grant = granted(&store, claim);
            println!("held");
            heard();
            let _ = block_on(store.release(lease("job", owner, grant), Ending::default())).unwrap();
            println!("released");
            heard();
        }
        let _ = owner;
        return;
    }
    let folder = Folder::new();
    let store = open(&folder.file());
    let mut other = Other::start("a_waiter_in_another_process_is_woken", &folder.file());
    let mut latencies = Vec::new();
    for _ in 0..10 {
        other.next("held").expect("the process did not get its lease");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                block_on(store.wait(name("job"), Duration::from_secs(60))).unwrap();
                Instant::now()
            });
            std::thread::sleep(Duration::from_millis(40));
            assert!(!waiter.is_finished(), "woken before the release");
            other.tell();
            let start = Instant::now();
            other.next("released").unwrap();
            latencies.push(waiter.join().unwrap().saturating_duration_since(start));
        });
        let claim = fresh("job", Duration::from_secs(60));
        let owner = claim.owner;
        let grant = granted(&store, claim);
        let _ = block_on(store.release(lease("job", owner.value(), grant), Ending::default())).unwrap();
        other.tell();
    }
    latencies.sort();
    println!("woken {:?} (median) to {:?} after the release in another process", latencies[5], latencies[9]);
    assert!(latencies[5] < Duration::from_millis(500), "{latencies:?}");
}

/// What a process held when it was killed runs out, and is not held for ever.
#[test]
fn a_killed_holder_is_waited_for_until_its_ttl() {
    if let Some(file) = role() {
        let store = open(&file);
        let grant = granted(&store, fresh("job", Duration::from_millis(700)));
        println!("token {}", grant.token);
        loop {
            heard();
        }
    }
    let folder = Folder::new();
    let store = open(&folder.file());
    let mut other = Other::start("a_killed_holder_is_waited_for_until_its_ttl", &folder.file());
    let token: u64 = other.next("token ").unwrap().parse().unwrap();
    let start = Instant::now();
    other.signal(Signal::KILL);
    assert!(matches!(acquire(&store, claim("job", 1)), Acquired::Rejected(_)), "before its ttl");
    block_on(store.wait(name("job"), Duration::from_secs(60))).unwrap();
    let grant = granted(&store, Claim::new(name("job"), OwnerId::new(2), Duration::from_secs(1)));
    assert!(grant.token.value() > token);
    assert!(start.elapsed() < Duration::from_secs(20));
}
