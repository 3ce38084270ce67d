//! A file that is removed or replaced under an open store: nothing is decided any more on what nobody else can see.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Folder, TTL, block_on, claim, granted, lease, name};
use lease_machines_store::{ErrorKind, SqliteOptions, SqliteStore, Store, StoreError, Undecided};

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, file: &str) {
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::NotSetUp, Undecided::Refused), "{error}");
    let said = error.to_string();
    assert!(said.contains("was removed or replaced while it was open") && said.contains(file), "{said}");
}

/// Two holders of one lease, one in the file that is gone, one in the new one: the first has to hear of it.
#[test]
fn the_holder_in_a_file_that_was_removed_is_refused() {
    let folder = Folder::new();
    let old = open(&folder.file());
    let held = granted(&old, claim("job", 1));
    for end in ["", "-wal", "-shm"] {
        fs::remove_file(beside(&folder.file(), end)).unwrap();
    }
    refused(block_on(old.renew(lease("job", 1, held), TTL)), "leases.db");
    refused(block_on(old.acquire(claim("other", 1))), "leases.db");
    refused(block_on(old.inspect(name("job"))), "leases.db");
    refused(block_on(old.doctor()), "leases.db");
    let new = open(&folder.file());
    let _ = granted(&new, claim("job", 2));
    refused(block_on(old.renew(lease("job", 1, held), TTL)), "leases.db");
    drop(old);
    // Closing the old one did the new one no harm.
    let _ = granted(&new, claim("more", 2));
    let looking = open(&folder.file());
    assert!(block_on(looking.inspect(name("job"))).unwrap().occupant.is_some());
}

#[test]
fn a_file_that_was_put_in_its_place_is_not_written_to() {
    let folder = Folder::new();
    let store = open(&folder.file());
    let held = granted(&store, claim("job", 1));
    let other = folder.path().join("other.db");
    drop(open(&other));
    let before = fs::read(&other).unwrap();
    fs::rename(&other, folder.file()).unwrap();
    refused(block_on(store.renew(lease("job", 1, held), TTL)), "leases.db");
    drop(store);
    assert_eq!(fs::read(folder.file()).unwrap(), before);
}

/// Without its log or its shared memory the next process would make new ones, and see neither our commits nor locks.
#[test]
fn so_is_the_one_whose_log_or_shared_memory_was_removed() {
    for end in ["-wal", "-shm"] {
        let folder = Folder::new();
        let store = open(&folder.file());
        let held = granted(&store, claim("job", 1));
        fs::remove_file(beside(&folder.file(), end)).unwrap();
        refused(block_on(store.renew(lease("job", 1, held), TTL)), end);
    }
}

#[test]
fn a_file_that_comes_back_is_the_same() {
    let folder = Folder::new();
    let store = open(&folder.file());
    let held = granted(&store, claim("job", 1));
    let aside = folder.path().join("aside");
    fs::rename(folder.file(), &aside).unwrap();
    refused(block_on(store.renew(lease("job", 1, held), TTL)), "leases.db");
    fs::rename(&aside, folder.file()).unwrap();
    let _ = block_on(store.renew(lease("job", 1, held), TTL)).unwrap();
}

/// A relative path is one from the folder in which it was opened, and a database in memory has no file to lose.
#[test]
fn leaving_the_folder_is_no_loss() {
    let folder = Folder::new();
    std::env::set_current_dir(folder.path()).unwrap();
    let store = open(Path::new("leases.db"));
    std::env::set_current_dir("/").unwrap();
    let _ = granted(&store, claim("job", 1));
    assert!(block_on(store.inspect(name("job"))).unwrap().occupant.is_some());
    let memory = SqliteStore::open_in_memory(SqliteOptions::default()).unwrap();
    let _ = granted(&memory, claim("job", 1));
}
