//! Files that are missing, wrong, damaged, full or not ours: clear errors, and nothing is lost.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{
    Folder, INSIDE, TTL, TestClock, acquire, block_on, claim, granted, lease, name, open, options, passed,
    run_as_anyone,
};
use lease_machines_store::{
    Acquired, Ending, ErrorKind, Migration, Released, Renewed, Severity, SqliteOptions, SqliteStore, Store,
    StoreError, Undecided, migrate, migration_sql,
};
use rusqlite::Connection;

fn fails(path: &Path) -> StoreError {
    SqliteStore::open(path, SqliteOptions::default()).unwrap_err()
}

fn says(error: &StoreError, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn a_missing_file_and_an_empty_one_are_set_up() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    drop(open(&folder, &clock));
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    let store = SqliteStore::open(&empty, options(&clock)).unwrap();
    let _ = granted(&store, claim("job", 1));
}

#[test]
fn a_file_of_something_else_is_left_alone_until_it_is_migrated() {
    let folder = Folder::new();
    let app = Connection::open(folder.file()).unwrap();
    app.execute_batch("CREATE TABLE customers (id INTEGER); INSERT INTO customers VALUES (7)").unwrap();
    says(&fails(&folder.file()), ErrorKind::NotSetUp, &["customers", "lease_store", "migrate"]);
    let url = format!("sqlite:{}", folder.file().display());
    assert!(migration_sql(&url).unwrap().contains("CREATE TABLE lease_row"));
    assert_eq!(migrate(&url).unwrap(), Migration::SetUp);
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let _ = granted(&store, claim("job", 1));
    let kept: i64 = app.query_row("SELECT id FROM customers", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 7);
}

#[test]
fn a_file_that_lost_its_tables_is_not_set_up_again() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    let wiped = Connection::open(folder.file()).unwrap();
    wiped.execute_batch("DROP TABLE lease_history").unwrap();
    says(&fails(&folder.file()), ErrorKind::Damaged, &["lease_history"]);
    for table in [
        "lease_store",
        "lease_row",
        "lease_good",
        "lease_done",
        "lease_withdrawn",
        "lease_pool",
        "lease_slot",
    ] {
        wiped.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    says(&fails(&folder.file()), ErrorKind::NotSetUp, &["no tables"]);
    // Whoever has it open is refused too; it does not start over.
    let error = block_on(store.renew(lease("job", 1, grant), TTL)).unwrap_err();
    assert!(matches!(error.undecided(), Undecided::Refused), "{error:?}");
}

#[test]
fn a_file_without_its_epoch_says_so() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    Connection::open(folder.file()).unwrap().execute_batch("DELETE FROM lease_store").unwrap();
    says(&fails(&folder.file()), ErrorKind::NotSetUp, &["wiped"]);
    says(&block_on(store.acquire(claim("job", 1))).unwrap_err(), ErrorKind::NotSetUp, &["wiped"]);
    says(&block_on(store.inspect(name("job"))).unwrap_err(), ErrorKind::NotSetUp, &["wiped"]);
}

#[test]
fn a_newer_schema_is_refused_unless_it_says_that_this_program_may() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    drop(open(&folder, &clock));
    let newer = Connection::open(folder.file()).unwrap();
    newer.execute_batch("UPDATE lease_store SET version = 3, usable_by = 2").unwrap();
    says(
        &fails(&folder.file()),
        ErrorKind::Schema,
        &["version 3", "version 2 or later", "version 1", "newer"],
    );
    for (version, usable_by) in [(1, 0), (1, 2), (0, 0), (-1, -1)] {
        let set = "UPDATE lease_store SET version = ?1, usable_by = ?2";
        newer.execute(set, [version, usable_by]).unwrap();
        let (found, expected) = (format!("version {version}, usable by {usable_by}"), "expected two numbers");
        says(&fails(&folder.file()), ErrorKind::Damaged, &[&found, expected]);
    }
    newer.execute_batch("UPDATE lease_store SET version = 2, usable_by = 1").unwrap();
    let store = SqliteStore::open(folder.file(), options(&clock)).unwrap();
    let _ = granted(&store, claim("job", 1));
    let findings = block_on(store.doctor()).unwrap();
    assert!(
        findings.iter().any(|one| one.check == "schema" && one.severity == Severity::Note),
        "{findings:?}"
    );
}

#[test]
fn what_is_no_database_is_named() {
    let folder = Folder::new();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "buy milk, and much more of it, so that the file is longer than a header ".repeat(20))
        .unwrap();
    says(&fails(&text), ErrorKind::Damaged, &["notes.txt", "not an SQLite database"]);
    assert!(fs::read_to_string(&text).unwrap().starts_with("buy milk"), "it was changed");
    says(&fails(folder.path()), ErrorKind::Configuration, &["folder", "expected a file"]);
    let nowhere = folder.path().join("no/such/leases.db");
    says(&fails(&nowhere), ErrorKind::Configuration, &["no/such", "does not exist"]);
}

#[test]
fn flipped_bytes_are_an_error_and_never_a_wrong_grant() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut greatest = 0;
    for owner in 1..=300 {
        let grant = granted(&store, claim(&format!("job-{owner}"), owner));
        greatest = greatest.max(grant.token.value());
    }
    drop(store);
    let whole = fs::read(folder.file()).unwrap();
    let mut refused = 0;
    for page in 1..whole.len() / 4096 {
        let mut torn = whole.clone();
        // The header of a page: its kind, and where its cells are.
        for byte in &mut torn[page * 4096..page * 4096 + 12] {
            *byte ^= 0xA5;
        }
        let copy = folder.path().join(format!("torn-{page}.db"));
        fs::write(&copy, torn).unwrap();
        let Ok(store) = SqliteStore::open(&copy, options(&clock)) else {
            refused += 1;
            continue;
        };
        for owner in 1..=300_u64 {
            match block_on(store.acquire(claim(&format!("job-{owner}"), 1_000 + owner))) {
                Ok(Acquired::Rejected(_)) => {}
                Ok(other) => panic!("page {page}: a held lease was answered {other:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{error:?}");
                    refused += 1;
                }
            }
        }
        let findings = block_on(store.doctor());
        if let Ok(findings) = findings {
            assert_eq!(findings[0].severity, Severity::Error, "page {page}: {findings:?}");
        }
    }
    assert!(refused > 10, "only {refused} were noticed");
}

/// Runs a test of this file again where `prepare` has prepared a mount namespace of its own.
fn in_mounts(test: &str, folder: &Path, prepare: &str) -> Output {
    let mut unshare = Command::new("unshare");
    if fs::metadata("/proc/self").is_ok_and(|process| process.uid() != 0) {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare
        .args(["--mount", "sh", "-ec", &format!("{prepare}\nexec \"$TEST\" --exact {test} --nocapture")])
        .env("TEST", std::env::current_exe().unwrap())
        .env("WHERE", folder)
        .env(INSIDE, folder)
        .output()
        .unwrap()
}

fn inside() -> Option<PathBuf> {
    std::env::var(INSIDE).ok().map(PathBuf::from)
}

/// SQLite keeps its log and its locks beside the path that it was given. By two names of one file, two would hold one
/// lease.
#[test]
fn a_file_with_two_names_is_refused() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let _ = granted(&store, claim("job", 1));
    let other = folder.path().join("other.db");
    fs::hard_link(folder.file(), &other).unwrap();
    says(&fails(&other), ErrorKind::Configuration, &["other.db", "2 names"]);
    says(&fails(&folder.file()), ErrorKind::Configuration, &["leases.db", "2 names"]);
    // Whoever has it open has it by the only name that there was, and a link that points to it is no name of it.
    assert!(matches!(acquire(&store, claim("job", 2)), Acquired::Rejected(_)));
    fs::remove_file(&other).unwrap();
    std::os::unix::fs::symlink(folder.file(), &other).unwrap();
    let same = SqliteStore::open(&other, options(&clock)).unwrap();
    assert!(matches!(acquire(&same, claim("job", 3)), Acquired::Rejected(_)));
}

/// A container that is given the file alone has a folder of its own around it.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_mounted_without_its_folder_is_refused() {
    if let Some(folder) = inside() {
        let path = folder.join("elsewhere/leases.db");
        says(&fails(&path), ErrorKind::Configuration, &["elsewhere/leases.db", "the folder"]);
        let url = format!("sqlite:{}?allow_network_fs=1", path.display());
        assert!(lease_machines_store::open(&url).is_ok(), "an operator's word");
        assert!(SqliteStore::open(folder.join("beside/leases.db"), SqliteOptions::default()).is_ok());
        println!("refused inside");
        return;
    }
    let folder = Folder::new();
    drop(SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap());
    let mounts = "cd \"$WHERE\"; mkdir elsewhere beside; touch elsewhere/leases.db
        mount --bind leases.db elsewhere/leases.db; mount --bind . beside";
    let test = "a_file_that_is_mounted_without_its_folder_is_refused";
    passed(&in_mounts(test, folder.path(), mounts), "refused inside");
}

/// SQLite understands some paths as URLs, with options that switch its locks off.
#[test]
fn a_path_is_a_path_whatever_it_looks_like() {
    let folder = Folder::new();
    let odd = Path::new("file:leases.db?nolock=1");
    std::env::set_current_dir(folder.path()).unwrap();
    drop(SqliteStore::open("leases.db", SqliteOptions::default()).unwrap());
    let store = SqliteStore::open(odd, SqliteOptions::default()).unwrap();
    let _ = granted(&store, claim("job", 1));
    assert!(folder.path().join(odd).metadata().unwrap().len() > 0, "it went to another file");
    let store = SqliteStore::open(":memory:", SqliteOptions::default()).unwrap();
    let _ = granted(&store, claim("job", 1));
    assert!(folder.path().join(":memory:").metadata().unwrap().len() > 0, "it went to memory");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = Folder::new();
    let socket = folder.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    says(&fails(&socket), ErrorKind::Configuration, &["socket", "expected a file"]);
    says(&fails(Path::new("/dev/null")), ErrorKind::Configuration, &["/dev/null", "expected a file"]);
    says(&fails(folder.path()), ErrorKind::Configuration, &["found a folder"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_read_only_disk_is_said() {
    if let Some(folder) = inside() {
        says(&fails(&folder.join("leases.db")), ErrorKind::Permission, &["leases.db"]);
        says(&fails(&folder.join("new.db")), ErrorKind::Permission, &["new.db"]);
        println!("refused inside");
        return;
    }
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    drop(open(&folder, &clock));
    let mounts = "mount --bind \"$WHERE\" \"$WHERE\"; mount -o remount,bind,ro \"$WHERE\"";
    passed(&in_mounts("a_read_only_disk_is_said", folder.path(), mounts), "refused inside");
}

/// As another user where this one is root, since root may write anything.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_one_may_not_write_is_said() {
    if let Some(folder) = inside() {
        let error = fails(&folder.join("leases.db"));
        says(&error, ErrorKind::Permission, &["leases.db"]);
        println!("refused inside");
        return;
    }
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    drop(open(&folder, &clock));
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let output = run_as_anyone("a_file_that_one_may_not_write_is_said", folder.path());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    passed(&output, "refused inside");
}

/// SQLite says of all of these that it is unable to open the database file. As another user where this one is root, since
/// root may open anything.
#[test]
#[cfg(target_os = "linux")]
fn the_file_that_one_may_not_open_is_named() {
    if let Some(folder) = inside() {
        for file in ["leases.db", "log.db", "index.db"] {
            let closed = ["", "-wal", "-shm"].map(|suffix| folder.join(format!("{file}{suffix}")));
            let closed = closed
                .iter()
                .find(|one| one.metadata().is_ok_and(|found| found.permissions().mode() & 0o777 == 0));
            let closed = closed.unwrap().display().to_string();
            says(&fails(&folder.join(file)), ErrorKind::Permission, &[&closed, "may not read", "mode 0000"]);
        }
        println!("refused inside");
        return;
    }
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    drop(open(&folder, &clock));
    for file in ["log.db", "index.db"] {
        fs::copy(folder.file(), folder.path().join(file)).unwrap();
        fs::set_permissions(folder.path().join(file), fs::Permissions::from_mode(0o666)).unwrap();
    }
    for file in ["log.db-wal", "index.db-shm"] {
        fs::write(folder.path().join(file), "").unwrap();
        fs::set_permissions(folder.path().join(file), fs::Permissions::from_mode(0o000)).unwrap();
    }
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = run_as_anyone("the_file_that_one_may_not_open_is_named", folder.path());
    passed(&output, "refused inside");
}

#[test]
#[cfg(target_os = "linux")]
fn the_doctor_says_that_a_file_in_memory_does_not_last() {
    if let Some(folder) = inside() {
        let store = SqliteStore::open(folder.join("leases.db"), SqliteOptions::default()).unwrap();
        let findings = block_on(store.doctor()).unwrap();
        let found = findings.iter().find(|one| one.check == "file system").unwrap();
        assert_eq!(found.severity, Severity::Warning, "{found:?}");
        assert!(found.found.contains("in memory"), "{found:?}");
        println!("said inside");
        return;
    }
    let folder = Folder::new();
    let mounts = "mount -t tmpfs tmpfs \"$WHERE\"";
    passed(
        &in_mounts("the_doctor_says_that_a_file_in_memory_does_not_last", folder.path(), mounts),
        "said inside",
    );
}

#[test]
#[cfg(target_os = "linux")]
fn on_a_full_disk_nothing_is_done_and_nothing_is_lost() {
    if let Some(folder) = inside() {
        full_disk(&folder);
        println!("held inside");
        return;
    }
    let folder = Folder::new();
    let mounts = "mount -t tmpfs -o size=2m tmpfs \"$WHERE\"";
    passed(
        &in_mounts("on_a_full_disk_nothing_is_done_and_nothing_is_lost", folder.path(), mounts),
        "held inside",
    );
}

fn full_disk(folder: &Path) {
    let file = folder.join("leases.db");
    let store = SqliteStore::open(&file, SqliteOptions::default()).unwrap();
    let held = granted(&store, claim("held", 1));
    let ballast = folder.join("ballast");
    let mut filled = Vec::new();
    while fs::write(&ballast, {
        filled.resize(filled.len() + 65_536, 1_u8);
        &filled
    })
    .is_ok()
    {}
    // What the log has room for still goes through; then nothing does.
    let mut acknowledged = Vec::new();
    let mut refusals = 0;
    for owner in 1..5_000_u64 {
        let resource = format!("job-{owner}");
        match block_on(store.acquire(claim(&resource, owner))) {
            Ok(Acquired::Granted(grant)) => acknowledged.push((resource, owner, grant)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Storage, "{error:?}");
                assert!(error.to_string().contains("disk"), "{error}");
                refusals += 1;
                // A full disk is told from a failed one: nothing was changed.
                assert_eq!(error.undecided(), Undecided::NotDone, "{error:?}");
                let seen = block_on(store.inspect(name(&resource))).unwrap();
                assert!(seen.occupant.is_none(), "it said that nothing was done: {seen:?}");
                if refusals > 20 {
                    break;
                }
            }
        }
    }
    assert!(refusals > 20, "the disk never filled");
    let doctor = block_on(store.doctor()).unwrap();
    assert!(doctor.iter().any(|one| one.check == "space" && one.severity == Severity::Warning), "{doctor:?}");
    fs::remove_file(&ballast).unwrap();
    let renewed = block_on(store.renew(lease("held", 1, held), TTL)).unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    for (resource, owner, grant) in acknowledged {
        let answer = block_on(store.release(lease(&resource, owner, grant), Ending::default())).unwrap();
        assert_eq!(answer, Released::Released, "{resource}");
    }
    let _ = granted(&store, claim("after", 1));
}

/// jentic-one#529: transactions got BUSY at once. Others in the way are waited for, up to the caller's limit.
#[test]
fn a_lock_is_waited_for_and_not_longer_than_asked() {
    let folder = Folder::new();
    let store =
        SqliteStore::open(folder.file(), SqliteOptions::default().timeout(Duration::from_millis(400)))
            .unwrap();
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    says(&error, ErrorKind::Busy, &["locked"]);
    assert_eq!(error.undecided(), Undecided::NotDone);
    assert!(start.elapsed() >= Duration::from_millis(400), "gave up after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "waited {:?}", start.elapsed());
    // Looking does not wait for the one who writes.
    let start = Instant::now();
    assert!(block_on(store.inspect(name("job"))).unwrap().occupant.is_none());
    assert!(start.elapsed() < Duration::from_millis(400), "inspect waited {:?}", start.elapsed());
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&store, claim("job", 2)));
        std::thread::sleep(Duration::from_millis(100));
        other.execute_batch("ROLLBACK").unwrap();
        waiting.join().unwrap()
    });
    assert!(
        matches!(waiting, Acquired::Granted(_)),
        "the one that had given up must hold nothing: {waiting:?}"
    );
}

#[test]
fn a_rollback_journal_that_another_program_set_is_found() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    drop(store);
    let other = Connection::open(folder.file()).unwrap();
    let mode: String = other.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
    drop(other);
    // Opened again it is as it should be.
    let store = open(&folder, &clock);
    let findings = block_on(store.doctor()).unwrap();
    let durability = findings.iter().find(|one| one.check == "durability").unwrap();
    assert_eq!(durability.severity, Severity::Fine, "{findings:?}");
}

#[test]
fn the_doctor_finds_the_log_behind_a_link() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.file(), &link).unwrap();
    let linked = SqliteStore::open(&link, options(&clock)).unwrap();
    let _ = granted(&store, claim("r", 1));
    let log = |store: &SqliteStore| {
        let findings = block_on(store.doctor()).unwrap();
        findings.into_iter().find(|one| one.check == "write-ahead log").unwrap().found
    };
    assert_eq!(log(&linked), log(&store));
    assert_ne!(log(&linked), "0 KiB");
}

#[test]
fn only_a_store_that_no_other_process_uses_wakes_waiters_by_every_release() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    assert!(!open(&folder, &clock).capabilities().wakes_waiters);
    assert!(SqliteStore::open_in_memory(options(&clock)).unwrap().capabilities().wakes_waiters);
}

#[test]
fn settings_out_of_range_are_refused() {
    let folder = Folder::new();
    let url = |options: &str| format!("sqlite:{}?{options}", folder.file().display());
    for (options, word) in [
        ("timeout=0", "timeout"),
        ("timeout=soon", "a number of seconds"),
        ("max_ttl=0", "max_ttl"),
        ("max_ttl=366d", "max_ttl"),
        ("history=0", "history"),
        ("history=-1", "history"),
        ("single_host=maybe", "1 or 0"),
        ("journal=off", "allow_network_fs"),
    ] {
        let Err(error) = lease_machines_store::open(&url(options)) else { panic!("{options} was accepted") };
        says(&error, ErrorKind::Configuration, &[word]);
    }
    assert!(!folder.file().exists(), "a wrong URL made a file");
    for (url, word) in [
        ("sqlite:", "without a path"),
        ("sqlite://host/x.db", "sqlite:/a/b"),
        ("sqlite:file:x.db", "plain path"),
        ("mongodb://x", "there is no store"),
    ] {
        let Err(error) = lease_machines_store::open(url) else { panic!("{url} was accepted") };
        says(&error, ErrorKind::Configuration, &[word]);
    }
    let store = lease_machines_store::open(&url("timeout=2s&max_ttl=1h&history=off&single_host=1")).unwrap();
    assert_eq!(store.capabilities().max_ttl, Duration::from_secs(3600));
    assert!(!store.capabilities().history);
    let memory = lease_machines_store::open("sqlite::memory:").unwrap();
    assert!(!memory.capabilities().durable);
    let _ = granted(&*memory, claim("job", 1));
}
