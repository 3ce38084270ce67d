//! Files that other versions wrote: every released schema is opened and carried on from, and a newer one that says so.
//!
//! `store/tests/released/` has one file for each schema that was ever released. None is ever changed. A new schema gets
//! its own, written once by
//!
//!     LEASE_WRITE_FIXTURE=1 cargo test -p lease-machines-store --features bundled --test sqlite_upgrade

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::{Folder, TTL, TestClock, acquire, block_on, claim, granted, lease, name, open, options};
use lease_machines::{FencingToken, OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Claimed, Ending, Epoch, GuardErrorKind, GuardMode, HoldOutcome, LeaseRef, MarkKey, Opening,
    PoolClaim, Rejected, Released, Renewed, SlotLease, SlotRef, SlotRenewed, SqliteFence, SqliteStore, Store,
    Undecided, VacatedHow, WorkResult, slot_name,
};
use rusqlite::Connection;

/// The tables of the leases and of the marks.
const TABLES: [&str; 11] = [
    "lease_done",
    "lease_fence",
    "lease_fence_floor",
    "lease_fence_log",
    "lease_good",
    "lease_history",
    "lease_pool",
    "lease_row",
    "lease_slot",
    "lease_store",
    "lease_withdrawn",
];

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Where the clock of the machine stands on which [`write`] has ended: since its start, and on the wall.
const ENDED: (Duration, Duration) = (Duration::from_secs(86_552), Duration::from_secs(1_780_100_952));

/// Puts something into every column of every table, as programs do.
fn write(path: &Path, store: SqliteStore, clock: &Arc<TestClock>) {
    // What was pruned has left a floor behind.
    let pruned = granted(&store, claim("pruned", 20));
    let _ = block_on(store.release(lease("pruned", 20, pruned), Ending::new(WorkResult::Good))).unwrap();
    clock.advance(2 * HOUR);
    assert_eq!(block_on(store.prune(HOUR)).unwrap().resources, 1);
    drop(store);
    // The machine was started again, so that the file's clock is ahead of the machine's.
    clock.reboot("second boot", 2 * HOUR);
    let store = SqliteStore::open(path, options(clock)).unwrap();
    // An epoch ended under a holder.
    let first = granted(&store, claim("lost", 21)).epoch;
    let _ = block_on(store.open_epoch(Opening::new(first))).unwrap();
    clock.advance(DAY + Duration::from_secs(60));

    let failed = granted(&store, claim("failed", 8));
    let _ = block_on(store.release(lease("failed", 8, failed), Ending::new(WorkResult::Failed))).unwrap();
    let _ = granted(&store, claim("expired", 5));
    clock.advance(TTL);
    let _ = granted(&store, claim("expired", 9));
    let once = || claim("free", 2).with_label("report").with_identity("worker-2").with_once("2026-05-28");
    let free = granted(&store, once());
    let done = Ending::new(WorkResult::Good).with_once(Some("2026-05-28".into()));
    assert_eq!(block_on(store.release(lease("free", 2, free), done)).unwrap(), Released::Released);
    let retained = granted(&store, claim("retained", 3));
    let later = Ending::new(WorkResult::Good).with_at_least(HOUR);
    let _ = block_on(store.release(lease("retained", 3, retained), later)).unwrap();
    let _ = granted(&store, claim("revoked", 4));
    let _ = block_on(store.revoke(name("revoked"), None, Some("hung".into()))).unwrap();
    let _ = granted(&store, claim("rotated", 6));
    let Acquired::Granted(_) = block_on(store.reacquire(claim("rotated", 6).with_attempt(2))).unwrap() else {
        panic!()
    };
    let _ = granted(&store, claim("withdrawn", 7));
    assert_eq!(block_on(store.withdraw(name("withdrawn"), OwnerId::new(7))).unwrap(), Released::Released);
    let first = slot(&store, slot_claim(11).with_identity("pod-0").with_label("zone a"));
    let second = slot(&store, slot_claim(12));
    let second = SlotRef::new(name("ids"), second.slot, OwnerId::new(12), second.token, None);
    assert_eq!(block_on(store.release_slot(second, Some(first.wall))).unwrap(), Released::Released);
    let third = slot(&store, slot_claim(13).with_identity("pod-2"));
    let _ = block_on(store.revoke_slot(name("ids"), third.slot, None, Some("hung".into()))).unwrap();
    let held = claim("held", 1).with_label("nightly").with_identity("worker-1").with_attempt(3);
    let held = granted(&store, held);
    clock.advance(Duration::from_secs(10));
    let renewed = block_on(store.renew(lease("held", 1, held), TTL)).unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)));

    let mut marks = Connection::open(path).unwrap();
    SqliteFence::set_up(&marks).unwrap();
    advance(&mut marks, &mark("pruned"), 20, pruned.token);
    advance(&mut marks, &mark("held").in_store("other").in_slot(2), 1, held.token);
    SqliteFence::prune(&mut marks, Duration::ZERO).unwrap();
    advance(&mut marks, &mark("held"), 1, held.token);
    advance(&mut marks, &mark("free"), 2, free.token);
    SqliteFence::reset(&mut marks, &mark("free"), Some(free.token), "restored").unwrap();
    drop(store);
    clock.advance(Duration::from_secs(20));
}

/// For an hour of ID time, in a pool of four.
fn slot_claim(owner: u64) -> PoolClaim {
    PoolClaim::new(name("ids"), 4, OwnerId::new(owner), HOUR).with_id_time()
}

#[track_caller]
fn slot(store: &SqliteStore, claim: PoolClaim) -> SlotLease {
    match block_on(store.claim_slot(claim)).unwrap() {
        Claimed::Granted(held) => held,
        other => panic!("no slot: {other:?}"),
    }
}

/// Without an epoch: the guard is plain then, and passes also what was released.
fn advance(marks: &mut Connection, key: &MarkKey, owner: u64, token: FencingToken) {
    let lease = LeaseRef::new(key.resource.clone(), OwnerId::new(owner), token, None);
    SqliteFence::advance(marks, key, &lease).unwrap();
}

/// Everything that must be possible with a file that [`write`] has filled. `restarted`: on another machine, or after a
/// restart, where leases live on for their full ttl since nobody knows how much of it has passed.
fn carry_on(path: &Path, clock: &Arc<TestClock>, restarted: bool) {
    let greatest = greatest_token(path);
    let store = SqliteStore::open(path, options(clock)).unwrap();
    let epoch = block_on(store.epoch()).unwrap();

    // Who held holds on.
    let there = block_on(store.inspect(name("held"))).unwrap().occupant.unwrap();
    assert_eq!((there.owner, there.label.as_deref()), (OwnerId::new(1), Some("nightly")));
    assert_eq!(there.identity.as_deref(), Some("worker-1"));
    let left = if restarted { TTL } else { TTL - Duration::from_secs(25) };
    assert_eq!(there.remaining, left);
    assert_eq!(refused(acquire(&store, claim("held", 30))).occupant.map(|now| now.token), Some(there.token));
    // An attempt that was carried out is an echo, whatever program asks.
    let Acquired::Granted(echo) = acquire(&store, claim("held", 1).with_attempt(3)) else { panic!() };
    assert_eq!(echo.token, there.token);
    let held = LeaseRef::new(name("held"), OwnerId::new(1), there.token, Some(epoch));
    assert!(matches!(block_on(store.renew(held.clone(), TTL)).unwrap(), Renewed::Renewed(_)));
    assert!(matches!(refused(acquire(&store, claim("rotated", 30))).reason, Rejection::Occupied));

    // Nobody gets early what was kept back, and nobody does again what was done.
    let kept = refused(acquire(&store, claim("retained", 30))).occupant.unwrap();
    assert!(kept.retained && kept.remaining > HOUR - 2 * TTL, "{kept:?}");
    let Acquired::AlreadyDone(end) = acquire(&store, claim("free", 30).with_once("2026-05-28")) else {
        panic!()
    };
    assert_eq!((end.owner, end.label.as_deref()), (OwnerId::new(2), Some("report")));
    // Whoever withdrew is not heard again, though the request may come late.
    let late = block_on(store.acquire(claim("withdrawn", 7).with_attempt(2))).unwrap_err();
    assert_eq!(late.undecided(), Undecided::NotDone, "{late}");

    // Slots go on, with their tokens, their windows and their cool-down.
    let seen = block_on(store.slots(name("ids"))).unwrap();
    let [first, second, third] = &seen.slots[..] else { panic!("{seen:?}") };
    let who = first.occupant.as_ref().unwrap();
    assert_eq!((seen.size, who.owner, who.label.as_deref()), (4, OwnerId::new(11), Some("zone a")));
    assert_eq!(who.remaining, if restarted { HOUR } else { HOUR - Duration::from_secs(35) });
    let echo = slot(&store, slot_claim(11).with_identity("pod-0"));
    let window = echo.window.unwrap();
    assert_eq!((echo.slot, echo.token, window.until), (0, who.token, first.mark));
    let mine = SlotRef::new(name("ids"), 0, OwnerId::new(11), who.token, Some(epoch));
    let SlotRenewed::Renewed(renewed) = block_on(store.renew_slot(mine, HOUR, true)).unwrap() else {
        panic!()
    };
    assert_eq!(renewed.window.unwrap().after, window.after);
    assert!(third.occupant.is_none() && third.identity.as_deref() == Some("pod-2"));
    let next = slot(&store, slot_claim(14).with_identity("pod-2"));
    assert_eq!(next.slot, 3, "the revoked slot is closed, and the fourth was never used");
    let next = slot(&store, slot_claim(15).with_cool_down(Duration::ZERO));
    assert!(next.slot == 1 && Some(next.token) > second.last_issued, "{next:?}");
    assert_eq!(next.window.unwrap().after, second.mark);
    let past = |slot: u16| {
        let name = slot_name(&name("ids"), slot).unwrap();
        block_on(store.history(name, 10)).unwrap().iter().map(|one| one.outcome).collect::<Vec<_>>()
    };
    assert_eq!(past(0), [HoldOutcome::Held]);
    assert_eq!(past(1), [HoldOutcome::Held, HoldOutcome::Released]);
    assert_eq!(past(2), [HoldOutcome::Revoked]);

    // What was is told.
    let past = |resource: &str| block_on(store.history(name(resource), 10)).unwrap();
    let outcomes = |resource: &str| past(resource).iter().map(|one| one.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes("lost"), [HoldOutcome::EpochLost]);
    assert_eq!(outcomes("expired"), [HoldOutcome::Held, HoldOutcome::Expired]);
    assert_eq!(outcomes("revoked"), [HoldOutcome::Revoked]);
    assert_eq!(outcomes("rotated"), [HoldOutcome::Held, HoldOutcome::Rotated]);
    assert_eq!(outcomes("withdrawn"), [HoldOutcome::Withdrawn]);
    assert_eq!(past("revoked")[0].reason.as_deref(), Some("hung"));
    assert_eq!(past("failed")[0].result, WorkResult::Failed);
    assert_eq!(past("held")[0].renewals, 2);
    let free = &past("free")[0];
    assert_eq!((free.outcome, free.result), (HoldOutcome::Released, WorkResult::Good));
    assert_eq!(free.label.as_deref().zip(free.identity.as_deref()), Some(("report", "worker-2")));
    let before = block_on(store.inspect(name("revoked"))).unwrap().vacated.unwrap();
    assert_eq!((before.owner, before.how), (OwnerId::new(4), VacatedHow::Revoked));
    assert!(block_on(store.inspect(name("retained"))).unwrap().last_good.is_some());

    // Every token that is granted from now on is greater than all before it of its resource, ...
    for (owner, resource) in (40..).zip(["free", "failed", "revoked", "pruned", "withdrawn"]) {
        let last = block_on(store.inspect(name(resource))).unwrap().last_issued;
        let grant = granted(&store, claim(resource, owner));
        assert!(last.is_none_or(|last| grant.token > last), "{resource}");
        assert_eq!(grant.epoch, epoch);
    }
    // ... and that of an unseen one than what was pruned.
    let floor: i64 = number(path, "SELECT floor FROM lease_store");
    let unseen = granted(&store, claim("unseen", 50));
    assert!(unseen.token.value() > floor as u64 && floor > 0);
    assert!(greatest_token(path) > greatest);

    // The marks still refuse, and still let pass.
    refuses(path, "held", there.token.value() - 1, epoch);
    refuses(path, "pruned", 1, epoch);
    passes(path, &mark("held"), &held);
    passes(path, &mark("unseen"), &lease("unseen", 50, unseen));
    let over = block_on(store.release(held, Ending::new(WorkResult::Good))).unwrap();
    assert_eq!(over, Released::Released);
    passes(path, &mark("held"), &lease("held", 51, granted(&store, claim("held", 51))));
}

#[test]
fn every_released_schema_is_carried_on_from_on_the_machine_that_wrote_it() {
    for released in released() {
        let folder = copied(&released);
        carry_on(&folder.file(), &clock_afterwards(), false);
    }
}

#[test]
fn every_released_schema_is_carried_on_from_after_a_restart() {
    for released in released() {
        let folder = copied(&released);
        let clock = clock_afterwards();
        clock.reboot("third boot", Duration::from_secs(60));
        carry_on(&folder.file(), &clock, true);
    }
}

#[test]
fn a_released_file_has_something_in_every_column() {
    for released in released() {
        let folder = copied(&released);
        let file = Connection::open(folder.file()).unwrap();
        for table in TABLES {
            for column in columns(&file, table) {
                let found: i64 = file
                    .query_row(&format!("SELECT count({column}) FROM {table}"), [], |row| row.get(0))
                    .unwrap();
                assert!(found > 0, "nothing in {table}.{column} of {}", released.display());
            }
        }
    }
}

/// Whoever changes a table gives it a new version, a migration, and a file in `released/` that has it.
#[test]
fn the_newest_released_file_has_the_tables_of_today() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    drop(open(&folder, &clock));
    let fresh = Connection::open(folder.file()).unwrap();
    SqliteFence::set_up(&fresh).unwrap();
    let version: i64 = number(&folder.file(), "SELECT version FROM lease_store");
    let path = released_file(version);
    if std::env::var_os("LEASE_WRITE_FIXTURE").is_some() {
        assert!(!path.exists(), "{} was released, and stays as it is", path.display());
        let (folder, clock) = (Folder::new(), TestClock::new("first boot"));
        write(&folder.file(), open(&folder, &clock), &clock);
        fs::copy(folder.file(), &path).unwrap();
    }
    let newest = copied(&path);
    assert_eq!(definitions(&Connection::open(newest.file()).unwrap()), definitions(&fresh));
    assert_eq!(
        released().len(),
        usize::try_from(version).unwrap(),
        "one file for each version of the tables"
    );
}

/// What a later version may add without locking this one out: columns with a default, and tables.
#[test]
fn a_newer_schema_that_admits_this_program_may_have_more_columns() {
    let (folder, clock) = (Folder::new(), TestClock::new("first boot"));
    let store = open(&folder, &clock);
    let newer = Connection::open(folder.file()).unwrap();
    SqliteFence::set_up(&newer).unwrap();
    for table in TABLES {
        newer.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN added TEXT DEFAULT 'new'")).unwrap();
    }
    newer.execute_batch("CREATE TABLE lease_added (id INTEGER)").unwrap();
    newer.execute_batch("UPDATE lease_store SET version = 2, usable_by = 1").unwrap();
    write(&folder.file(), store, &clock);
    clock.advance(Duration::from_secs(5));
    carry_on(&folder.file(), &clock, false);
}

/// The story of [`write`] has the length that it is taken to have.
#[test]
fn a_file_that_was_just_written_is_carried_on_from() {
    let (folder, clock) = (Folder::new(), TestClock::new("first boot"));
    write(&folder.file(), open(&folder, &clock), &clock);
    assert_eq!((lease_machines_store::Clock::now(&*clock), wall(&clock)), ENDED);
    clock.advance(Duration::from_secs(5));
    carry_on(&folder.file(), &clock, false);
}

fn released_file(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/released/sqlite-schema-{version}.db"))
}

/// All of them, at least one.
fn released() -> Vec<PathBuf> {
    let all: Vec<_> = (1..).map(released_file).take_while(|path| path.exists()).collect();
    assert!(!all.is_empty());
    all
}

fn copied(released: &Path) -> Folder {
    let folder = Folder::new();
    fs::copy(released, folder.file()).unwrap();
    folder
}

/// Five seconds after the end of [`write`].
fn clock_afterwards() -> Arc<TestClock> {
    let clock = TestClock::new("second boot");
    clock.reboot("second boot", Duration::ZERO);
    clock.advance(ENDED.0 - Duration::from_secs(2));
    clock.set_wall(ENDED.1);
    clock.advance(Duration::from_secs(5));
    clock
}

fn wall(clock: &Arc<TestClock>) -> Duration {
    lease_machines_store::Clock::wall(&**clock).duration_since(std::time::UNIX_EPOCH).unwrap()
}

fn mark(resource: &str) -> MarkKey {
    MarkKey::new(name(resource))
}

#[track_caller]
fn refused(answer: Acquired) -> Rejected {
    match answer {
        Acquired::Rejected(rejected) => rejected,
        other => panic!("not rejected: {other:?}"),
    }
}

#[track_caller]
fn refuses(path: &Path, resource: &str, token: u64, epoch: Epoch) {
    let mut data = Connection::open(path).unwrap();
    let late =
        LeaseRef::new(name(resource), OwnerId::new(60), FencingToken::new(token).unwrap(), Some(epoch));
    let write = data.transaction().unwrap();
    let error = SqliteFence::guard(&write, &mark(resource), &late, GuardMode::Plain).unwrap_err();
    assert!(matches!(error.kind(), GuardErrorKind::StaleToken { .. }), "{error}");
}

#[track_caller]
fn passes(path: &Path, key: &MarkKey, lease: &LeaseRef) {
    let mut data = Connection::open(path).unwrap();
    let write = data.transaction().unwrap();
    SqliteFence::guard(&write, key, lease, GuardMode::Strict).unwrap();
    write.commit().unwrap();
}

fn greatest_token(path: &Path) -> i64 {
    number(path, "SELECT max(last_issued) FROM lease_row")
}

fn number(path: &Path, query: &str) -> i64 {
    Connection::open(path).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

fn columns(file: &Connection, table: &str) -> Vec<String> {
    let mut names = file.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
    names.query_map([table], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Every table, index and trigger, as SQL.
fn definitions(file: &Connection) -> Vec<String> {
    let mut all = file.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").unwrap();
    all.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}
