//! How a file comes into being, whose it is then, and what is said where it cannot.

// Helpers outside a #[test] function are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use common::{Folder, INSIDE, block_on, claim, granted, passed, run_as_anyone};
use lease_machines_store::{
    ErrorKind, Migration, Severity, SqliteOptions, SqliteStore, Store, migrate, open_existing,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn all_private(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        assert_eq!(mode(&beside(file, end)), 0o600, "{end:?}");
    }
}

#[test]
fn a_new_file_is_its_owners_alone_and_so_is_what_lies_beside_it() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let _ = granted(&store, claim("job", 1));
    all_private(&folder.file());
    let migrated = folder.path().join("migrated.db");
    assert_eq!(migrate(&format!("sqlite:{}", migrated.display())).unwrap(), Migration::SetUp);
    assert_eq!(mode(&migrated), 0o600);
    // Also behind a link that points nowhere yet.
    let (link, target) = (folder.path().join("link.db"), folder.path().join("target.db"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let linked = SqliteStore::open(&link, SqliteOptions::default()).unwrap();
    let _ = granted(&linked, claim("job", 1));
    all_private(&target);
}

#[test]
fn a_file_that_is_there_keeps_the_mode_that_somebody_gave_it() {
    let folder = Folder::new();
    fs::write(folder.file(), "").unwrap();
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o660)).unwrap();
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let _ = granted(&store, claim("job", 1));
    assert_eq!(mode(&folder.file()), 0o660);
    assert_eq!(mode(&beside(&folder.file(), "-wal")), 0o660);
}

/// Closing a file drops all locks that the process has on it: whoever made it must have closed it before another opens.
#[test]
fn fifty_at_once_make_one_private_file() {
    for _ in 0..5 {
        let folder = Folder::new();
        let (file, start) = (folder.file(), Barrier::new(50));
        thread::scope(|scope| {
            for owner in 1..=50 {
                let (file, start) = (&file, &start);
                scope.spawn(move || {
                    start.wait();
                    let options = SqliteOptions::default().timeout(std::time::Duration::from_secs(60));
                    let store = SqliteStore::open(file, options).unwrap();
                    let _ = granted(&store, claim(&format!("job-{owner}"), owner));
                });
            }
        });
        assert_eq!(mode(&file), 0o600);
        let store = SqliteStore::open(&file, SqliteOptions::default()).unwrap();
        assert_eq!(block_on(store.list(String::new())).unwrap().len(), 50);
    }
}

#[test]
fn who_only_looks_creates_nothing() {
    let folder = Folder::new();
    let url = format!("sqlite:{}", folder.file().display());
    let refused = |url: &str, words: &[&str]| {
        let Err(error) = open_existing(url) else { panic!("{url} was opened") };
        assert_eq!(error.kind(), ErrorKind::NotSetUp, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error}");
        }
    };
    refused(&url, &["no such file", "leases.db", "lease migrate", "lease run", "lease acquire"]);
    assert!(lease_machines_store::open(&format!("{url}?create=0")).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "something was created");
    fs::write(folder.file(), "").unwrap();
    refused(&url, &["is empty", "migrate"]);
    assert_eq!(fs::metadata(folder.file()).unwrap().len(), 0, "it was set up");
    drop(lease_machines_store::open(&url).unwrap());
    let _ = granted(&*open_existing(&url).unwrap(), claim("job", 1));
}

#[test]
fn a_tilde_is_not_expanded_and_that_is_said() {
    for (url, meant) in [("sqlite:~/leases.db", "sqlite:$HOME/leases.db"), ("sqlite:~", "sqlite:$HOME")] {
        let Err(error) = lease_machines_store::open(url) else { panic!("{url} was opened") };
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("not expanded") && error.to_string().contains(meant), "{error}");
    }
}

#[test]
fn the_doctor_says_who_else_may_write() {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).unwrap();
    let found = || {
        let findings = block_on(store.doctor()).unwrap();
        let about = findings.into_iter().filter(|one| one.check == "file" || one.check == "folder");
        about.collect::<Vec<_>>()
    };
    let fine = found();
    assert!(fine.iter().all(|one| one.severity == Severity::Fine), "{fine:?}");
    let whole = folder.file().canonicalize().unwrap();
    assert!(fine[0].found.contains(whole.to_str().unwrap()), "{fine:?}");
    for (path, narrow, wide, check) in
        [(folder.file(), 0o600, 0o620, "file"), (folder.path().to_owned(), 0o700, 0o777, "folder")]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(wide)).unwrap();
        let said = found();
        let warned: Vec<_> = said.iter().filter(|one| one.severity == Severity::Warning).collect();
        assert_eq!(warned.len(), 1, "{said:?}");
        assert_eq!(warned[0].check, check);
        assert!(warned[0].found.contains(&format!("{wide:04o}")), "{said:?}");
        assert!(warned[0].mend.as_ref().unwrap().contains("chmod"), "{said:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(narrow)).unwrap();
    }
}

/// As another user where this one is root, since root may enter any folder.
#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_one_may_not_enter_or_write_is_named() {
    if let Ok(folder) = std::env::var(INSIDE) {
        let folder = PathBuf::from(folder);
        for (file, closed, words) in [
            ("shut/leases.db", "shut", "may not enter"),
            ("shut/deep/leases.db", "shut", "may not enter"),
            ("fixed/leases.db", "fixed", "may not write"),
        ] {
            let error = SqliteStore::open(folder.join(file), SqliteOptions::default()).unwrap_err();
            let said = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Permission, "{said}");
            assert!(said.contains(folder.join(closed).to_str().unwrap()), "{said}");
            assert!(said.contains(words) && said.contains("mode 0"), "{said}");
        }
        println!("refused inside");
        return;
    }
    let folder = Folder::new();
    fs::create_dir_all(folder.path().join("shut/deep")).unwrap();
    fs::create_dir(folder.path().join("fixed")).unwrap();
    for (path, mode) in [("shut", 0o000), ("fixed", 0o555)] {
        fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let output = run_as_anyone("a_folder_that_one_may_not_enter_or_write_is_named", folder.path());
    for path in ["shut", "fixed"] {
        fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    passed(&output, "refused inside");
}
