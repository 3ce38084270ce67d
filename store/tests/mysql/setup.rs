//! Setting up, rights, and what is said where something is wrong.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Claimed, ErrorKind, Migration, MysqlStore, Opening, PoolClaim, Severity, Store, StoreError, Undecided,
    migrate, migration_sql,
};

use crate::help::{claim, granted, lease, on_both};
use crate::servers::clock::WallClock;
use crate::servers::guard::{Guarded, free_port};
use crate::servers::mysql::{Kind, Server, runtime, say};

fn refused(url: &str) -> StoreError {
    let store = MysqlStore::open(url).unwrap();
    block_on(store.acquire(claim("job", 1))).unwrap_err()
}

/// An account that may do nothing yet, and the URL for it.
fn account(server: &Server, database: &str) -> (String, String) {
    let name = format!("user_{database}");
    server.sql("", &format!("CREATE USER {name}@'%' IDENTIFIED BY ''"));
    let url = server.url(database).replace("lease:", &format!("{name}:"));
    (format!("{name}@'%'"), url)
}

/// Gives the account what is printed, and no more.
pub fn grant(server: &Server, database: &str, account: &str) {
    let printed = migration_sql(&server.url(database)).unwrap();
    let grants: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("-- GRANT")).collect();
    assert_eq!(grants.len(), 1);
    server.sql("", &format!("GRANT{}", grants[0].replace("application", account)));
}

/// Carries out what is printed, as the command `mysql` does.
pub fn by_hand(server: &Server, database: &str, change: impl Fn(&str) -> String) {
    let printed = migration_sql(&server.url(database)).unwrap();
    let (mode, rest) = printed.split_once("DELIMITER //\n").unwrap();
    let (statements, _) = rest.split_once("DELIMITER ;\n").unwrap();
    runtime().block_on(async {
        let mut conn = server.client(database).await.unwrap();
        say(&mut conn, mode).await.unwrap();
        for statement in statements.split("\n//\n").filter(|statement| !statement.trim().is_empty()) {
            let statement = change(statement);
            say(&mut conn, &statement).await.unwrap_or_else(|error| panic!("{error}: {statement}"));
        }
    });
}

on_both! {
    fifty_migrates_at_once_open_one_epoch
    an_account_with_the_rights_that_are_printed_uses_a_store_that_was_printed
    what_is_wrong_is_said_without_the_password
    tables_of_another_shape_are_told_from_a_wiped_store
    a_newer_store_is_used_where_it_admits_this_program_and_refused_where_not
    no_epoch_is_opened_by_a_clock_that_nobody_has_set
    the_doctor_says_what_is_lax
    the_doctor_names_the_rights_that_an_account_lacks
    the_doctor_sees_a_replica
    the_doctor_sees_a_long_transaction_and_another_time
}

fn fifty_migrates_at_once_open_one_epoch(kind: Kind) {
    let server = Server::shared(kind);
    let url = server.url(&server.empty());
    let done: Vec<Migration> = thread::scope(|scope| {
        let all: Vec<_> = (0..50).map(|_| scope.spawn(|| migrate(&url).unwrap())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(done.iter().filter(|done| **done == Migration::SetUp).count(), 1);
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    let epochs =
        (0..2).map(|_| block_on(MysqlStore::open(&url).unwrap().epoch()).unwrap()).collect::<Vec<_>>();
    assert_eq!(epochs[0], epochs[1]);
}

fn an_account_with_the_rights_that_are_printed_uses_a_store_that_was_printed(kind: Kind) {
    let server = Server::shared(kind);
    let database = server.empty();
    by_hand(server, &database, str::to_owned);
    let (name, url) = account(server, &database);
    let error = refused(&url);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error:?}");
    // Not even all of what is needed.
    server.sql("", &format!("GRANT SELECT, EXECUTE ON {database}.* TO {name}"));
    let error = refused(&url);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error:?}");
    grant(server, &database, &name);
    let store = MysqlStore::open(&url).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    assert!(block_on(store.renew(held.clone(), Duration::from_secs(70))).is_ok());
    assert!(block_on(store.renew_many(vec![(held.clone(), Duration::from_secs(70))])).unwrap()[0].is_ok());
    assert!(block_on(store.release(held, Default::default())).is_ok());
    assert!(block_on(store.prune(Duration::ZERO)).is_ok());
    let (pool, owner) = (claim("ids", 1).resource, OwnerId::new(1));
    let slot = PoolClaim::new(pool.clone(), 4, owner, Duration::from_secs(60));
    assert!(matches!(block_on(store.claim_slot(slot)).unwrap(), Claimed::Granted(_)));
    assert!(block_on(store.withdraw_slot(pool.clone(), owner)).is_ok());
    assert!(block_on(store.resize_pool(pool, 8)).is_ok());
    let epoch = block_on(store.epoch()).unwrap();
    assert_ne!(block_on(store.open_epoch(Opening::new(epoch))).unwrap(), epoch);
    assert!(block_on(store.doctor()).is_ok());
    // It is up to date, and says so also to an account that may create nothing.
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
}

fn what_is_wrong_is_said_without_the_password(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let empty = server.empty();
    let at = format!("127.0.0.1:{}", server.port);
    let cases = [
        (format!("mysql://guarded:s3cret@{at}/{database}"), ErrorKind::Permission),
        (format!("mysql://guarded:right@{at}/missing"), ErrorKind::Configuration),
        (format!("mysql://guarded:s3cret@127.0.0.1:{}/{database}", free_port()), ErrorKind::Unreachable),
        ("mysql://guarded:s3cret@host.invalid/x".to_owned(), ErrorKind::Unreachable),
        (format!("mysql://guarded:right@{at}/{empty}"), ErrorKind::NotSetUp),
    ];
    for (url, kind) in cases {
        let error = refused(&url);
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_ne!(error.undecided(), Undecided::Unknown, "nothing was sent: {error:?}");
        let told = format!("{error} {error:?} {:?}", MysqlStore::open(&url).unwrap());
        assert!(!told.contains("s3cret") && !told.contains("right@"), "{told}");
        assert!(told.contains("mysql://"), "{told}");
    }
    for wrong in
        ["bogus=1", "timeout=soon", "history=0", "ssl_mode=preferred", "connections=0", "max_ttl=400d"]
    {
        let error = MysqlStore::open(&format!("mysql://a:s3cret@h/d?{wrong}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
    server.sql(&database, "DELETE FROM lease_store");
    assert_eq!(refused(&url).kind(), ErrorKind::NotSetUp);
}

fn tables_of_another_shape_are_told_from_a_wiped_store(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    server.sql(&database, "ALTER TABLE lease_row CHANGE label tag VARBINARY(1024)");
    assert_eq!(refused(&url).kind(), ErrorKind::Schema);
}

fn a_newer_store_is_used_where_it_admits_this_program_and_refused_where_not(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let numbers = || server.sql(&database, "SELECT CONCAT(version, ' ', usable_by) FROM lease_store");
    assert_eq!(numbers(), ["1 1"]);
    let mark = |version: i32, usable_by: i32| {
        server
            .sql(&database, &format!("UPDATE lease_store SET version = {version}, usable_by = {usable_by}"));
    };
    for (version, usable_by, kind) in [
        (9, 8, ErrorKind::Schema),
        (2, 2, ErrorKind::Schema),
        (1, 0, ErrorKind::Damaged),
        (1, 2, ErrorKind::Damaged),
        (0, 0, ErrorKind::Damaged),
        (-1, -1, ErrorKind::Damaged),
    ] {
        mark(version, usable_by);
        for error in [refused(&url), migrate(&url).unwrap_err()] {
            assert_eq!((error.kind(), error.undecided()), (kind, Undecided::Refused), "{error}");
            for word in ["127.0.0.1", &format!("version {version}"), &usable_by.to_string()] {
                assert!(error.to_string().contains(word), "{error}");
            }
        }
    }
    // A later one that still admits this program.
    mark(9, 1);
    server.sql(&database, "ALTER TABLE lease_row ADD more TEXT");
    assert!(granted(&MysqlStore::open(&url).unwrap(), claim("job", 1)).token.value() > 0);
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    assert_eq!(numbers(), ["9 1"]);
    // One that does not says so, and not that something is missing.
    mark(9, 9);
    server.sql(&database, "DROP PROCEDURE lease_epoch_1");
    assert_eq!(refused(&url).kind(), ErrorKind::Schema);
}

/// The first tokens are above the clock: by one that stands at its beginning they would lie below those of the store that
/// this one replaces.
fn no_epoch_is_opened_by_a_clock_that_nobody_has_set(kind: Kind) {
    let folder = Guarded::folder("clock");
    let time = WallClock::new(folder.path().to_owned()).unwrap();
    let server = Server::start_with(&time.variables(), "", kind, &[]);
    let url = server.url(&server.empty());
    let since_2026 =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - 1_767_225_600;
    let unset = -i64::try_from(since_2026).unwrap() - 60;
    let too_early = |error: StoreError| {
        let told = (error.kind(), error.undecided());
        assert_eq!(told, (ErrorKind::Configuration, Undecided::Refused), "{error:?}");
        assert!(error.to_string().contains("stands before 2026"), "{error}");
    };
    time.set(unset);
    too_early(migrate(&url).unwrap_err());
    assert_eq!(refused(&url).kind(), ErrorKind::NotSetUp);
    time.set(0);
    assert_eq!(migrate(&url).unwrap(), Migration::SetUp);
    let store = MysqlStore::open(&url).unwrap();
    let opening = || Opening::new(block_on(store.epoch()).unwrap()).with_dead_holders();
    time.set(unset);
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    too_early(block_on(store.open_epoch(opening())).unwrap_err());
    time.set(0);
    assert!(block_on(store.open_epoch(opening())).is_ok());
}

fn the_doctor_says_what_is_lax(kind: Kind) {
    let server = Server::start(kind, &["--innodb-flush-log-at-trx-commit=2"]);
    let (_, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let findings = block_on(store.doctor()).unwrap();
    assert_eq!(
        (findings[0].severity, findings[0].check),
        (Severity::Error, "innodb_flush_log_at_trx_commit"),
        "{findings:?}"
    );
    server.sql("", "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    let findings = block_on(store.doctor()).unwrap();
    assert!(findings.iter().all(|finding| finding.severity < Severity::Warning), "{findings:?}");
    // A server that is to be looked at, and decides nothing, says so to accounts without more rights than they need.
    let (database, _) = server.fresh();
    let (name, limited) = account(&server, &database);
    grant(&server, &database, &name);
    server.sql("", "SET GLOBAL read_only = 1");
    let error = refused(&limited);
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    assert_eq!(error.undecided(), Undecided::NotDone, "it may be made the primary: {error:?}");
    assert!(error.to_string().contains("read-only"), "{error}");
    let findings = block_on(MysqlStore::open(&limited).unwrap().doctor()).unwrap();
    assert_eq!((findings[0].severity, findings[0].check), (Severity::Error, "read_only"), "{findings:?}");
}

/// What a call comes to only when it is made is told beforehand: each right by its name.
fn the_doctor_names_the_rights_that_an_account_lacks(kind: Kind) {
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let (name, url) = account(server, &database);
    let all = ["SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE"];
    for lacking in all {
        let others: Vec<&str> = all.into_iter().filter(|right| *right != lacking).collect();
        server.sql("", &format!("GRANT {} ON {database}.* TO {name}", others.join(", ")));
        let findings = block_on(MysqlStore::open(&url).unwrap().doctor()).unwrap();
        let told = findings.iter().find(|finding| finding.check == "rights").unwrap();
        let found = format!("this user lacks {lacking}");
        assert_eq!((told.severity, &told.found), (Severity::Error, &found), "{findings:?}");
        assert!(told.mend.as_ref().unwrap().contains("lease migrate --print"), "{told:?}");
        server.sql("", &format!("REVOKE ALL ON {database}.* FROM {name}"));
    }
    grant(server, &database, &name);
    let findings = block_on(MysqlStore::open(&url).unwrap().doctor()).unwrap();
    let told = findings.iter().find(|finding| finding.check == "rights").unwrap();
    assert_eq!(told.severity, Severity::Fine, "{told:?}");
}

/// It has another name than the server that the epoch was opened on, and cannot open one: the first thing that is asked fails.
fn the_doctor_sees_a_replica(kind: Kind) {
    let mut server = Server::start(kind, &[]);
    let (database, _) = server.fresh();
    let (name, limited) = account(&server, &database);
    grant(&server, &database, &name);
    server.kill();
    if kind == Kind::MySql {
        // It is given another one when it starts.
        std::fs::remove_file(server.guarded.path().join("data/auto.cnf")).unwrap();
    }
    server.up_with(&["--server-id=77", "--read-only"]);
    let error = refused(&limited);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error:?}");
    let findings = block_on(MysqlStore::open(&limited).unwrap().doctor()).unwrap();
    let found = |check: &str| findings.iter().find(|finding| finding.check == check).unwrap();
    for (check, word) in [("read_only", "ON"), ("epoch", "read-only")] {
        assert_eq!(found(check).severity, Severity::Error, "{findings:?}");
        assert!(found(check).found.contains(word), "{findings:?}");
    }
}

fn the_doctor_sees_a_long_transaction_and_another_time(kind: Kind) {
    let folder = Guarded::folder("clock");
    let time = WallClock::new(folder.path().to_owned()).unwrap();
    let server = Server::start_with(&time.variables(), "", kind, &[]);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let found = |store: &MysqlStore, check: &str| {
        let findings = block_on(store.doctor()).unwrap();
        findings.into_iter().find(|finding| finding.check == check).unwrap()
    };
    assert_eq!(found(&store, "epoch").found, block_on(store.epoch()).unwrap().to_string());

    // A transaction that is left open keeps old versions of rows from going.
    let open = runtime().block_on(async {
        let mut conn = server.client(&database).await.unwrap();
        say(&mut conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await.unwrap();
        say(&mut conn, "UPDATE lease_store SET version = version").await.unwrap();
        conn
    });
    assert_eq!(found(&store, "old snapshots").severity, Severity::Fine);
    time.set(3_600);
    // The server looks at its transactions every 100 ms at most, and tells what it saw before to whoever asks sooner.
    let begun = Instant::now();
    let told = loop {
        let told = found(&store, "old snapshots");
        if told.severity == Severity::Warning {
            break told;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{told:?}");
        thread::sleep(Duration::from_millis(150));
    };
    assert!(told.found.contains("has been open for 36"), "{told:?}");
    let told = found(&store, "clock");
    assert_eq!(told.severity, Severity::Note, "{told:?}");
    assert!(told.found.contains("is 3600") || told.found.contains("is 3599"), "{told:?}");
    drop(open);
    time.set(0);
    assert_eq!(found(&store, "clock").severity, Severity::Fine);

    // An account with no more rights than it needs may not look for them, and is told so.
    let (database, _) = server.fresh();
    let (name, limited) = account(&server, &database);
    grant(&server, &database, &name);
    let told = found(&MysqlStore::open(&limited).unwrap(), "old snapshots");
    assert_eq!(told.severity, Severity::Note, "{told:?}");
    assert!(told.mend.unwrap().starts_with("GRANT PROCESS"), "{}", told.found);
}
