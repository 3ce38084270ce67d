//! The clock of a file: reboots, other machines, wall clocks that step, time namespaces.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{Folder, INSIDE, TTL, TestClock, acquire, block_on, claim, granted, lease, name, open, options};
use lease_machines::Rejection;
use lease_machines_store::{
    Acquired, Ending, ErrorKind, HoldOutcome, Opening, Renewed, SqliteOptions, SqliteStore, Store,
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn open_with(folder: &Folder, clock: &Arc<TestClock>, single_host: bool) -> SqliteStore {
    SqliteStore::open(folder.file(), options(clock).single_host(single_host)).unwrap()
}

#[test]
fn after_a_reboot_a_live_lease_has_its_full_ttl_again() {
    let (folder, clock) = (Folder::new(), TestClock::new("one"));
    let store = open(&folder, &clock);
    let over = granted(&store, claim("over", 1));
    clock.advance(secs(61));
    let live = granted(&store, claim("live", 2));
    clock.advance(secs(50));
    let _ = granted(&store, claim("witness", 3));
    drop(store);
    // Off for a week: how long is not known to the file, and its clock must not go back.
    clock.reboot("two", secs(7 * 24 * 3600));
    let store = open(&folder, &clock);
    let Acquired::Rejected(rejected) = acquire(&store, claim("live", 4)) else { panic!() };
    assert_eq!(rejected.occupant.unwrap().remaining, TTL);
    let next = granted(&store, claim("over", 5));
    assert_eq!(next.token.value(), over.token.value() + 1, "what was over before stays over");
    let history = block_on(store.history(name("live"), 1)).unwrap();
    assert_eq!(history[0].outcome, HoldOutcome::Held);
    assert!(history[0].ends_at > history[0].granted_at + secs(7 * 24 * 3600));
    clock.advance(TTL);
    assert!(granted(&store, claim("live", 6)).token > live.token);
    // The old epoch goes on: nothing was lost.
    assert_eq!(block_on(store.epoch()).unwrap(), live.epoch);
}

#[test]
fn on_a_single_host_a_reboot_ends_every_lease() {
    let (folder, clock) = (Folder::new(), TestClock::new("one"));
    let store = open_with(&folder, &clock, true);
    let before = granted(&store, claim("job", 1));
    drop(store);
    clock.reboot("two", secs(30));
    let store = open_with(&folder, &clock, true);
    let late = block_on(store.renew(lease("job", 1, before), TTL)).unwrap();
    let Renewed::Rejected(rejected) = late else { panic!() };
    assert_eq!(rejected.reason, Rejection::Expired);
    assert!(granted(&store, claim("job", 2)).token > before.token);
}

#[test]
fn many_reboots_never_turn_the_clock_back() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot 0"));
    let mut last = 0;
    for boot in 1..6 {
        let store = open(&folder, &clock);
        clock.advance(secs(100));
        let grant = granted(&store, claim("job", boot));
        assert!(grant.token.value() > last);
        last = grant.token.value();
        let released = block_on(store.release(lease("job", boot, grant), Ending::default())).unwrap();
        assert_eq!(released, lease_machines_store::Released::Released);
        drop(store);
        clock.reboot(&format!("boot {boot}"), secs(5));
    }
}

/// A lost history is waited for once. The file's clock may start anywhere after a reboot, and must not begin the wait anew.
#[test]
fn a_wait_for_lost_leases_that_is_over_stays_over() {
    let (folder, clock) = (Folder::new(), TestClock::new("one"));
    let store = open(&folder, &clock);
    clock.advance(secs(100 * 24 * 3600));
    let _ = block_on(store.open_epoch(Opening::new(block_on(store.epoch()).unwrap()))).unwrap();
    clock.advance(secs(24 * 3600));
    let grant = granted(&store, claim("job", 1));
    let _ = block_on(store.release(lease("job", 1, grant), Ending::default())).unwrap();
    let _ = block_on(store.prune(Duration::ZERO)).unwrap();
    drop(store);
    clock.reboot("two", secs(60));
    let store = open(&folder, &clock);
    let _ = granted(&store, claim("job", 2));
    drop(store);
    // One that is not over takes no longer than it would have.
    let store = open(&folder, &clock);
    clock.advance(secs(100 * 24 * 3600));
    let _ = block_on(store.open_epoch(Opening::new(block_on(store.epoch()).unwrap()))).unwrap();
    let _ = block_on(store.prune(Duration::ZERO)).unwrap();
    drop(store);
    clock.reboot("three", secs(60));
    let store = open(&folder, &clock);
    assert!(block_on(store.acquire(claim("job", 3))).is_err());
    clock.advance(secs(24 * 3600));
    let _ = granted(&store, claim("job", 3));
    drop(store);
    // Whoever says that no other machine uses the file says that the old holders are gone with the reboot.
    let store = open(&folder, &clock);
    let _ = block_on(store.open_epoch(Opening::new(block_on(store.epoch()).unwrap()))).unwrap();
    drop(store);
    clock.advance(secs(60));
    clock.reboot("four", secs(60));
    let store = open_with(&folder, &clock, true);
    let _ = granted(&store, claim("job", 4));
}

#[test]
fn another_machine_that_uses_the_file_now_is_refused() {
    let (folder, here) = (Folder::new(), TestClock::new("here"));
    let store = open(&folder, &here);
    let _ = granted(&store, claim("job", 1));
    // It has been up for an hour too, and so began before this one last wrote.
    let there = TestClock::new("there");
    let error = SqliteStore::open(folder.file(), options(&there)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("single_host=1"), "{error}");
    assert!(matches!(acquire(&store, claim("job", 2)), Acquired::Rejected(_)), "and it changed nothing");
    // Where an operator says that it is the same machine, it is taken at his word, and the old process is told.
    let store_there = open_with(&folder, &there, true);
    let _ = granted(&store_there, claim("job", 3));
    let error = block_on(store.acquire(claim("job", 4))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("another machine"), "{error}");
    assert!(block_on(store.inspect(name("job"))).is_err());
}

#[test]
fn a_wall_clock_that_once_was_ahead_is_forgiven_once() {
    let (folder, clock) = (Folder::new(), TestClock::new("one"));
    let store = open(&folder, &clock);
    clock.step_wall(10 * 365 * 24 * 3600);
    let _ = granted(&store, claim("job", 1));
    drop(store);
    clock.step_wall(-10 * 365 * 24 * 3600);
    clock.reboot("two", secs(60));
    assert!(SqliteStore::open(folder.file(), options(&clock)).is_err());
    drop(open_with(&folder, &clock, true));
    clock.reboot("three", secs(60));
    let _ = open(&folder, &clock);
}

/// etcd#12291, ShedLock#231: clock steps, and clocks minutes apart, gave two holders or a stuck lock.
#[test]
fn clients_whose_wall_clocks_are_ten_minutes_apart_are_one_holder() {
    let folder = Folder::new();
    let (here, there) = (TestClock::new("boot"), TestClock::new("boot"));
    there.step_wall(600);
    let (one, two) = (open(&folder, &here), open(&folder, &there));
    let grant = granted(&one, claim("job", 1));
    let Acquired::Rejected(rejected) = acquire(&two, claim("job", 2)) else { panic!("two holders") };
    assert_eq!(rejected.occupant.unwrap().remaining, TTL);
    for step in [3600, -7200, 3600] {
        there.step_wall(step);
        here.step_wall(-step);
        assert!(matches!(acquire(&two, claim("job", 2)), Acquired::Rejected(_)), "a step of {step} s");
        let renewed = block_on(one.renew(lease("job", 1, grant), TTL)).unwrap();
        assert!(matches!(renewed, Renewed::Renewed(grant) if grant.ttl == TTL), "a step of {step} s");
    }
    here.advance(TTL);
    there.advance(TTL);
    assert!(granted(&two, claim("job", 2)).token > grant.token, "stuck");
}

#[test]
fn no_file_is_set_up_by_a_clock_from_before_this_program() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    clock.set_wall(secs(86_400));
    let error = SqliteStore::open(folder.file(), options(&clock)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("1 days after 1970"), "{error}");
    clock.set_wall(secs(1_780_000_000));
    let store = open(&folder, &clock);
    // Later it may step as it likes: tokens go on from where they are.
    let first = granted(&store, claim("job", 1));
    clock.set_wall(secs(86_400));
    clock.advance(TTL);
    assert!(granted(&store, claim("job", 2)).token > first.token);
    let old = block_on(store.epoch()).unwrap();
    let opening = lease_machines_store::Opening::new(old);
    assert_eq!(block_on(store.open_epoch(opening)).unwrap_err().kind(), ErrorKind::Configuration);
}

/// A store replaced by a new one: the new one's tokens are above the old one's, so that fences go on.
#[test]
fn a_new_file_starts_above_an_old_ones_marks() {
    let (old, new, clock) = (Folder::new(), Folder::new(), TestClock::new("boot"));
    let store = open(&old, &clock);
    let mut last = 0;
    for owner in 0..100 {
        let grant = granted(&store, claim("job", owner));
        last = grant.token.value();
        let _ = block_on(store.release(lease("job", owner, grant), Ending::default())).unwrap();
    }
    clock.advance(secs(1));
    assert!(granted(&open(&new, &clock), claim("job", 1)).token.value() > last);
}

/// A container's time namespace shifts the boot clock while the boot id stays: two holders would be the result.
#[test]
#[cfg(target_os = "linux")]
fn a_time_namespace_changes_nothing() {
    const NAME: &str = "a_time_namespace_changes_nothing";
    if let Ok(folder) = std::env::var(INSIDE) {
        let file = std::path::Path::new(&folder).join("leases.db");
        let store = SqliteStore::open(file, SqliteOptions::default()).unwrap();
        let Acquired::Rejected(rejected) = acquire(&store, claim("job", 2)) else { panic!("two holders") };
        let remaining = rejected.occupant.unwrap().remaining;
        assert!(remaining <= TTL && remaining > secs(30), "{remaining:?} remain");
        let _ = granted(&store, claim("inside", std::process::id().into()));
        println!("seen from inside");
        return;
    }
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let _ = granted(&store, claim("job", 1));
    for offset in ["100000", "-2"] {
        let mut unshare = Command::new("unshare");
        // As anyone but root it takes a user namespace too.
        if !is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        let output = unshare
            .args(["--time", "--fork", &format!("--boottime={offset}")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(INSIDE, folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("seen from inside"), "{said}");
        let Acquired::Rejected(rejected) = acquire(&store, claim("inside", 9)) else { panic!("two holders") };
        let occupant = rejected.occupant.unwrap();
        assert!(occupant.remaining <= TTL && occupant.remaining > secs(30), "{occupant:?}");
        let _ = block_on(store.revoke(name("inside"), None, None)).unwrap();
    }
}

/// Whether this user may do everything: root's own files belong to user 0.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
