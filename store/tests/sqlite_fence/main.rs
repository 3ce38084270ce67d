//! The fence in the user's own transaction.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../examples/paused_worker.rs"]
mod paused_worker;
mod sql;
mod strict;
mod url;

use std::path::Path;
use std::time::{Duration, Instant};

use common::other::{Other, heard, role};
use common::{Folder, TTL, TestClock, block_on, claim, granted, lease, name, open};
use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{
    Ending, GuardErrorKind, GuardKind, GuardMode, LeaseRef, MarkKey, Opening, Released, SqliteFence,
    SqliteOptions, SqliteStore, Store, open_marks,
};
use rusqlite::{Connection, TransactionBehavior};
use rustix::process::Signal;

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

/// A lease under a small token, as the pictures have it.
fn held(value: u64) -> LeaseRef {
    LeaseRef::new(name("stock"), OwnerId::new(value.wrapping_add(100)), token(value), None)
}

fn key() -> MarkKey {
    MarkKey::new(name("stock"))
}

fn data(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS stock (count INTEGER)")
        .unwrap();
    SqliteFence::set_up(&connection).unwrap();
    connection
}

/// A guarded write: what a worker does.
fn write(
    connection: &mut Connection,
    lease: &LeaseRef,
    mode: GuardMode,
) -> Result<GuardKind, GuardErrorKind> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let kind = SqliteFence::guard(&transaction, &key(), lease, mode).map_err(|error| error.kind())?.kind();
    transaction.execute("INSERT INTO stock VALUES (?1)", [lease.token.value() as i64]).unwrap();
    transaction.commit().unwrap();
    Ok(kind)
}

fn rows(connection: &Connection) -> Vec<i64> {
    let mut rows = connection.prepare("SELECT count FROM stock ORDER BY rowid").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// etcd-io/etcd#10811, apache/curator#727: a paused holder went on writing beside its successor.
#[test]
fn the_old_holder_is_refused_before_the_new_one_has_written() {
    let folder = Folder::new();
    let mut old = data(&folder.file());
    let mut new = data(&folder.file());
    assert_eq!(write(&mut old, &held(1), GuardMode::Auto), Ok(GuardKind::Plain));
    assert_eq!(
        write(&mut old, &held(1), GuardMode::Auto),
        Ok(GuardKind::Plain),
        "the same token passes again"
    );
    SqliteFence::advance(&mut new, &key(), &held(2)).unwrap();
    let stale = GuardErrorKind::StaleToken { held: token(1), highest: token(2) };
    assert_eq!(write(&mut old, &held(1), GuardMode::Auto), Err(stale));
    assert_eq!(SqliteFence::advance(&mut old, &key(), &held(1)).unwrap_err().kind(), stale);
    SqliteFence::advance(&mut new, &key(), &held(2)).unwrap();
    assert_eq!(write(&mut new, &held(2), GuardMode::Auto), Ok(GuardKind::Plain));
    assert_eq!(rows(&new), [1, 1, 2]);
}

#[test]
fn a_token_shown_by_two_owners_was_issued_twice() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    write(&mut data, &held(2), GuardMode::Auto).unwrap();
    let mut twice = held(2);
    twice.owner = OwnerId::new(7);
    let rewound = GuardErrorKind::Rewound { token: token(2), first: OwnerId::new(102) };
    assert_eq!(write(&mut data, &twice, GuardMode::Auto), Err(rewound));
    assert_eq!(rows(&data), [2]);
}

#[test]
fn a_token_that_no_store_issued_cannot_raise_the_mark() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    let year = 365 * 24 * 3600 * 1_000_000;
    for wrong in [1 << 63, u64::MAX, now + year + 60_000_000] {
        assert_eq!(
            write(&mut data, &held(wrong), GuardMode::Auto),
            Err(GuardErrorKind::OutOfRange { token: token(wrong) })
        );
    }
    // One that is within the range poisons it, until an operator sets it back; that is written down.
    let poison = now + year - 60_000_000;
    write(&mut data, &held(poison), GuardMode::Auto).unwrap();
    assert!(matches!(write(&mut data, &held(now), GuardMode::Auto), Err(GuardErrorKind::StaleToken { .. })));
    SqliteFence::reset(&mut data, &key(), Some(token(now - 1)), "a typo").unwrap();
    write(&mut data, &held(now), GuardMode::Auto).unwrap();
    assert!(matches!(
        write(&mut data, &held(now - 2), GuardMode::Auto),
        Err(GuardErrorKind::StaleToken { .. })
    ));
    let log: (i64, i64, String) = data
        .query_row("SELECT was, becomes, reason FROM lease_fence_log", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(log, (poison as i64, (now - 1) as i64, "a typo".to_owned()));
}

/// Tokens of two resources say nothing of each other: the greater one would lock out the holders of the other, or let in
/// one who overslept.
#[test]
fn a_lease_on_another_resource_moves_no_mark() {
    let mut data = data(Path::new(":memory:"));
    write(&mut data, &held(5), GuardMode::Auto).unwrap();
    let mut other = held(9);
    other.resource = name("another");
    for mode in [GuardMode::Auto, GuardMode::Plain, GuardMode::Strict] {
        assert_eq!(write(&mut data, &other, mode), Err(GuardErrorKind::OtherResource));
    }
    let error = SqliteFence::advance(&mut data, &key(), &other).unwrap_err();
    assert!(error.to_string().contains("\"stock\"") && error.to_string().contains("\"another\""), "{error}");
    assert_eq!(SqliteFence::look(&data, &key()).unwrap().unwrap().token, token(5));
}

#[test]
fn outside_a_transaction_a_guard_is_an_error() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    let ended = data.transaction().unwrap();
    ended.execute_batch("COMMIT").unwrap();
    let error = SqliteFence::guard(&ended, &key(), &held(1), GuardMode::Auto).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::OutsideTransaction);
    let error = SqliteFence::unfenced(&ended, &key()).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::OutsideTransaction);
    drop(ended);
    assert_eq!(SqliteFence::look(&data, &key()).unwrap(), None, "it left a mark");
}

/// That a guard is not to be had in a savepoint is a matter of types: see the two that do not compile, in the
/// documentation of `SqliteFence`.
#[test]
fn a_mark_is_not_advanced_inside_a_transaction_or_a_savepoint() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    for (begin, end) in [("BEGIN", "ROLLBACK"), ("SAVEPOINT outer", "RELEASE outer")] {
        data.execute_batch(begin).unwrap();
        assert!(SqliteFence::advance(&mut data, &key(), &held(1)).is_err(), "{begin}");
        data.execute_batch(end).unwrap();
    }
    assert_eq!(SqliteFence::look(&data, &key()).unwrap(), None);
}

#[test]
fn a_rollback_leaves_the_mark_as_it_was() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    SqliteFence::advance(&mut data, &key(), &held(1)).unwrap();
    let transaction = data.transaction().unwrap();
    let _ = SqliteFence::guard(&transaction, &key(), &held(2), GuardMode::Auto).unwrap();
    assert_eq!(SqliteFence::look(&transaction, &key()).unwrap().unwrap().token, token(2));
    transaction.rollback().unwrap();
    assert_eq!(SqliteFence::look(&data, &key()).unwrap().unwrap().token, token(1));
    write(&mut data, &held(1), GuardMode::Auto).unwrap();
}

/// Without the guard's write, which takes the lock, both would read the same number.
#[test]
fn two_fenced_writers_of_one_holder_follow_each_other() {
    const EACH: i64 = 100;
    let folder = Folder::new();
    let counter = data(&folder.file());
    counter.execute_batch("INSERT INTO stock VALUES (0)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = Connection::open(folder.file()).unwrap();
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
                for _ in 0..EACH {
                    let deferred = connection.transaction().unwrap();
                    let _ = SqliteFence::guard(&deferred, &key(), &held(1), GuardMode::Auto).unwrap();
                    let count: i64 =
                        deferred.query_row("SELECT count FROM stock", [], |row| row.get(0)).unwrap();
                    deferred.execute("UPDATE stock SET count = ?1", [count + 1]).unwrap();
                    deferred.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(rows(&counter), [2 * EACH]);
}

#[test]
fn a_poisoned_mark_is_called_so_and_not_made() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    write(&mut data, &held(1), GuardMode::Auto).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    let ahead = now + 2 * 365 * 24 * 3600 * 1_000_000;
    let out_of_range = GuardErrorKind::OutOfRange { token: token(ahead) };
    let reset = SqliteFence::reset(&mut data, &key(), Some(token(ahead)), "a typo").unwrap_err();
    assert_eq!(reset.kind(), out_of_range);
    // A clock that stood two years ahead when the token was shown.
    data.execute("UPDATE lease_fence SET token = ?1", [ahead as i64]).unwrap();
    let poisoned = GuardErrorKind::Poisoned { held: token(1), highest: token(ahead) };
    assert_eq!(write(&mut data, &held(1), GuardMode::Auto), Err(poisoned));
    assert_eq!(write(&mut data, &held(ahead), GuardMode::Auto), Err(out_of_range));
    assert_eq!(SqliteFence::prune(&mut data, Duration::ZERO).unwrap(), 0, "it would poison the floor");
    SqliteFence::reset(&mut data, &key(), Some(token(1)), "the clock was wrong").unwrap();
    write(&mut data, &held(1), GuardMode::Auto).unwrap();
}

#[test]
fn no_statement_but_a_reset_lowers_a_mark_or_makes_a_second_one() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    write(&mut data, &held(5), GuardMode::Auto).unwrap();
    for statement in [
        "UPDATE lease_fence SET token = 4",
        "REPLACE INTO lease_fence VALUES ('', 'stock', 0, 4, 104, 0, 1, 0)",
        "REPLACE INTO lease_fence VALUES ('', 'stock', 0, 5, 9, 0, 1, 0)",
        "INSERT OR IGNORE INTO lease_fence VALUES ('', 'stock', 0, 4, 104, 0, 1, 0)",
        // What a driver sends that takes names for bytes, or tokens for floats.
        "INSERT INTO lease_fence VALUES ('', x'73746f636b', 0, 4, 104, 0, 1, 0)",
        "INSERT INTO lease_fence VALUES ('', 'other', 0, 4.5, 104, 0, 1, 0)",
    ] {
        assert!(data.execute(statement, []).is_err(), "{statement}");
    }
    let mark = SqliteFence::look(&data, &key()).unwrap().unwrap();
    assert_eq!((mark.token, mark.owner), (token(5), OwnerId::new(105)));
}

#[test]
fn a_transaction_that_has_read_an_old_state_is_refused() {
    let folder = Folder::new();
    let mut late = data(&folder.file());
    let mut quick = data(&folder.file());
    let transaction = late.transaction().unwrap();
    let seen: i64 = transaction.query_row("SELECT count(*) FROM stock", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 0);
    write(&mut quick, &held(1), GuardMode::Auto).unwrap();
    let error = SqliteFence::guard(&transaction, &key(), &held(1), GuardMode::Auto).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Serialization);
    assert!(error.is_retryable());
    drop(transaction);
    write(&mut late, &held(1), GuardMode::Auto).unwrap();
}

#[test]
fn a_guard_waits_no_longer_than_its_connection() {
    let folder = Folder::new();
    let mut waiting = data(&folder.file());
    let mut writing = data(&folder.file());
    waiting.busy_timeout(Duration::from_millis(100)).unwrap();
    let transaction = writing.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let start = Instant::now();
    let deferred = waiting.transaction().unwrap();
    let error = SqliteFence::guard(&deferred, &key(), &held(1), GuardMode::Auto).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Busy);
    assert!(error.is_retryable());
    assert!(start.elapsed() < Duration::from_secs(5), "waited {:?}", start.elapsed());
    drop(transaction);
}

/// A transaction that passed earlier may still commit, but before any guard with a newer token returns.
#[test]
fn a_paused_transaction_ends_before_a_newer_guard_passes() {
    let folder = Folder::new();
    let mut old = data(&folder.file());
    let mut new = data(&folder.file());
    new.busy_timeout(Duration::from_secs(30)).unwrap();
    let paused = old.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    SqliteFence::guard(&paused, &key(), &held(1), GuardMode::Auto).unwrap();
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| write(&mut new, &held(2), GuardMode::Auto));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!newer.is_finished(), "two guarded transactions passed side by side");
        paused.execute("INSERT INTO stock VALUES (1)", []).unwrap();
        paused.commit().unwrap();
        newer.join().unwrap().unwrap();
    });
    assert_eq!(rows(&old), [1, 2]);
    assert!(write(&mut old, &held(1), GuardMode::Auto).is_err());
}

#[test]
fn what_was_fenced_once_is_not_written_without_a_token() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    let transaction = data.transaction().unwrap();
    SqliteFence::unfenced(&transaction, &key()).unwrap();
    drop(transaction);
    SqliteFence::advance(&mut data, &key(), &held(1)).unwrap();
    let transaction = data.transaction().unwrap();
    let error = SqliteFence::unfenced(&transaction, &key()).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Unfenced);
    SqliteFence::unfenced(&transaction, &key().in_slot(1)).unwrap();
    SqliteFence::unfenced(&transaction, &key().in_store("another")).unwrap();
}

#[test]
fn a_pruned_mark_still_refuses_older_tokens() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    SqliteFence::advance(&mut data, &key(), &held(9)).unwrap();
    assert_eq!(SqliteFence::prune(&mut data, Duration::from_secs(3600)).unwrap(), 0);
    assert_eq!(SqliteFence::prune(&mut data, Duration::ZERO).unwrap(), 1);
    assert_eq!(SqliteFence::look(&data, &key()).unwrap(), None);
    let stale = GuardErrorKind::StaleToken { held: token(8), highest: token(9) };
    assert_eq!(write(&mut data, &held(8), GuardMode::Auto), Err(stale));
    write(&mut data, &held(9), GuardMode::Auto).unwrap();
    // A mark of its own is not subject to the floor.
    SqliteFence::advance(&mut data, &key().in_slot(2), &held(20)).unwrap();
    SqliteFence::prune(&mut data, Duration::ZERO).unwrap();
    SqliteFence::reset(&mut data, &key(), None, "moved").unwrap();
}

#[test]
fn the_floor_rises_with_greater_marks_and_does_not_sink_with_smaller_ones() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    SqliteFence::advance(&mut data, &key(), &held(9)).unwrap();
    SqliteFence::advance(&mut data, &key().in_slot(1), &held(3)).unwrap();
    data.execute("UPDATE lease_fence SET at = 0 WHERE slot = 0", []).unwrap();
    assert_eq!(SqliteFence::prune(&mut data, Duration::from_secs(3600)).unwrap(), 1);
    assert_eq!(SqliteFence::prune(&mut data, Duration::ZERO).unwrap(), 1);
    let stale = GuardErrorKind::StaleToken { held: token(8), highest: token(9) };
    assert_eq!(SqliteFence::advance(&mut data, &key(), &held(8)).unwrap_err().kind(), stale);
    // It rises with greater ones.
    SqliteFence::advance(&mut data, &key(), &held(20)).unwrap();
    assert_eq!(SqliteFence::prune(&mut data, Duration::ZERO).unwrap(), 1);
    let stale = GuardErrorKind::StaleToken { held: token(19), highest: token(20) };
    assert_eq!(SqliteFence::advance(&mut data, &key(), &held(19)).unwrap_err().kind(), stale);
}

#[test]
fn every_pass_writes_the_mark_also_where_it_does_not_rise() {
    let folder = Folder::new();
    let mut data = data(&folder.file());
    for _ in 0..3 {
        write(&mut data, &held(1), GuardMode::Auto).unwrap();
    }
    let writes: i64 = data.query_row("SELECT writes FROM lease_fence", [], |row| row.get(0)).unwrap();
    assert_eq!(writes, 3);
}

#[test]
fn the_example_runs() {
    paused_worker::main().unwrap();
}

/// The paused worker, between two processes: it is frozen past its ttl between its decision to write and the write.
#[test]
fn a_worker_that_was_frozen_is_refused_in_another_process() {
    if let Some(folder) = role() {
        return worker(&folder);
    }
    let folder = Folder::new();
    let mut other = Other::start("a_worker_that_was_frozen_is_refused_in_another_process", folder.path());
    assert!(other.next("about to write").is_some(), "the worker did not get its lease");
    other.signal(Signal::STOP);
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let mut claim = claim("stock", 2);
    claim.ttl = Duration::from_secs(600);
    loop {
        block_on(store.wait(name("stock"), Duration::from_secs(60))).unwrap();
        if let lease_machines_store::Acquired::Granted(grant) = common::acquire(&store, claim.clone()) {
            // A new holder advances the mark and has not yet written anything.
            let mut data = data(&folder.path().join("data.db"));
            SqliteFence::advance(&mut data, &key(), &lease("stock", 2, grant)).unwrap();
            break;
        }
    }
    other.signal(Signal::CONT);
    other.tell();
    assert_eq!(other.next("said ").as_deref(), Some("refused: StaleToken"));
    assert!(other.child.wait().unwrap().success());
    assert_eq!(rows(&data(&folder.path().join("data.db"))), [] as [i64; 0]);
}

fn worker(folder: &Path) {
    let store = SqliteStore::open(folder.join("leases.db"), SqliteOptions::default()).unwrap();
    let mut claim = claim("stock", 1);
    claim.ttl = Duration::from_millis(500);
    let grant = granted(&store, claim);
    let mut data = data(&folder.join("data.db"));
    println!("about to write");
    heard();
    match write(&mut data, &lease("stock", 1, grant), GuardMode::Auto) {
        Err(GuardErrorKind::StaleToken { .. }) => println!("said refused: StaleToken"),
        other => println!("said {other:?}"),
    }
}
