//! What goes wrong: the code, and what is said. Whatever it is, nothing is lost by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{Resource, setrlimit};
use rusqlite::Connection;

use crate::support::{Answer, World};

#[test]
fn a_wrong_command_line_is_64_and_touches_nothing() {
    let world = World::new();
    let long = "x".repeat(256);
    for (words, said) in [
        (vec![], "Usage: lease <COMMAND>"),
        (vec!["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (vec!["status"], "tip: some similar subcommands exist: 'show', 'ls'"),
        (vec!["list"], "tip: a similar subcommand exists: 'ls'"),
        (vec!["run", "-E", "-1", "r", "--", "true"], "-1 is not in 0..=255"),
        (vec!["acquire", "r"], "--ttl <DURATION>"),
        (vec!["acquire", "", "--ttl", "1m"], "1 to 255 bytes of UTF-8 without NUL, found an empty one"),
        (vec!["acquire", &long, "--ttl", "1m"], "found 256 bytes"),
        (vec!["acquire", "r", "--ttl", "0"], "expected more than 0"),
        (vec!["acquire", "r", "--ttl", "1m30"], "30 in \"1m30\" has no unit"),
        (vec!["acquire", "r", "--ttl", "soon"], "found \"soon\", with no number"),
        (vec!["acquire", "r", "--ttl", "0.5ms"], "finer than a millisecond"),
        (vec!["acquire", "r", "--ttl=-5"], "found \"-5\""),
        (vec!["acquire", "r", "--ttl", "1m", "--wait", "never"], "found \"never\""),
        (vec!["renew", "r", "--ttl", "1m"], "--owner <NUMBER>"),
        (vec!["renew", "r", "--ttl", "1m", "--owner", "x", "--token", "1"], "from 0 to 18446744073709551615"),
        (vec!["release", "r", "--owner", "1", "--token", "0"], "from 1 to 9223372036854775807"),
        (
            vec!["release", "r", "--owner", "1", "--token", "9223372036854775808"],
            "from 1 to 9223372036854775807",
        ),
        (vec!["release", "r", "--owner", "1", "--token", "1", "--epoch", "1"], "16 hexadecimal digits"),
        (vec!["history", "r", "--limit", "0"], "--limit"),
        (vec!["prune", "--older-than", "yesterday"], "found \"yesterday\""),
        (vec!["check", "r", "--held-max", "1w"], "\"w\" is no unit"),
        (vec!["man", "frobnicate"], "there are: "),
    ] {
        let answer = Answer::of(&mut world.command(&words));
        assert_eq!(answer.out, "", "{words:?}");
        answer.fails(64, &[said]);
    }
    assert!(!world.path("leases.db").exists());
}

#[test]
fn a_ttl_beyond_the_store_s_longest_is_refused() {
    let world = World::new();
    world.lease("acquire r --ttl 25h").fails(64, &["25h", "24h"]);
    assert_eq!(world.json("show r")["state"], "unseen");
    let grant = world.acquire("r --ttl 24h");
    world.lease(&format!("renew r --ttl 25h {}", grant.options())).fails(64, &["25h", "24h"]);
    assert_eq!(world.json("show r")["holder"]["token"], grant.token);
}

#[test]
fn a_wrong_url_is_78_and_shows_no_password() {
    let world = World::new();
    for (url, said) in [
        ("leases.db", "found \"leases.db\""),
        ("mongo://user:hunter2@host/db", "\"mongo\""),
        ("user:hunter2@host", "\"user\""),
        ("sqlite:", "sqlite:PATH"),
        ("sqlite:x?timeout=soon", "found \"soon\""),
        ("sqlite:x?color=1", "\"color\""),
        ("sqlite:x?max_ttl=0", "max_ttl"),
        ("sqlite:/nonexistent/folder/x.db", "/nonexistent/folder"),
    ] {
        let answer = Answer::of(&mut world.bare(["ls", "--store", url]));
        assert!(!answer.err.contains("hunter2"), "{answer:?}");
        answer.fails(78, &[said]);
    }
}

#[test]
fn a_url_in_the_wrong_place_shows_no_password_either() {
    let world = World::new();
    for words in [
        "ls a URL",
        "URL",
        "ls --json=URL",
        "acquire r --ttl URL",
        "acquire r --ttl 5URL",
        "--store=URL ls",
        "ls --stor=URL",
    ] {
        let answer = world.lease(&words.replace("URL", "pg://user:hunter2@host/db"));
        assert!(!answer.err.contains("hunter"), "{answer:?}");
        answer.fails(64, &["error: "]);
    }
    // As a name it is valid; what is said about it is still an error.
    world.acquire("pg://user:hunter2@host/db --ttl 1h");
    let answer = world.lease("acquire pg://user:hunter2@host/db --ttl 1h");
    assert!(!answer.err.contains("hunter"), "{answer:?}");
    answer.fails(75, &["pg://user:***@host/db was not granted"]);
}

#[test]
fn a_file_that_is_no_store_is_left_as_it_is() {
    let world = World::new();
    let file = world.path("leases.db");
    fs::write(&file, "these are not the leases that you are looking for\n".repeat(100)).unwrap();
    world.lease("acquire r --ttl 1m").fails(78, &["leases.db"]);
    assert!(fs::read_to_string(&file).unwrap().starts_with("these are not"));
    fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE accounts (id INTEGER)").unwrap();
    world.lease("acquire r --ttl 1m").fails(78, &["leases.db", "migrate"]);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let answer = world.lease("ls");
    assert!(matches!(answer.code, Some(77 | 78)) && answer.err.contains("leases.db"), "{answer:?}");
}

#[test]
fn a_damaged_store_is_78() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    let file = world.path("leases.db");
    Connection::open(&file).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(&file).unwrap();
    // All pages but the first, whose header says that it is a database.
    bytes[4096..].fill(0xa5);
    fs::write(&file, bytes).unwrap();
    world.lease(&format!("renew r --ttl 1h {}", grant.options())).fails(78, &["leases.db"]);
}

#[test]
fn a_store_of_a_newer_program_is_78() {
    let world = World::new();
    world.acquire("r --ttl 1h");
    let connection = Connection::open(world.path("leases.db")).unwrap();
    connection.execute_batch("UPDATE lease_store SET version = 99, usable_by = 98").unwrap();
    world.lease("ls").fails(78, &["leases.db", "99"]);
}

#[test]
fn a_file_or_folder_that_may_not_be_written_is_77() {
    let world = World::new();
    let held = world.acquire("r --ttl 1h");
    let stranger = Stranger::new(&world);
    let file = world.path("leases.db");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    stranger.lease(&["acquire", "s", "--ttl", "1m"], &file).fails(77, &["leases.db"]);
    let locked = world.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    stranger
        .lease(&["acquire", "s", "--ttl", "1m"], &locked.join("new.db"))
        .fails(77, &["new.db", "may not write the folder", "locked", "mode 0555"]);
    let mut command = stranger.command(&["acquire", "s", "--ttl", "1m", "--store", "local"]);
    Answer::of(command.env("HOME", &locked)).fails(77, &["lease-machines", "Permission denied"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(world.json("show r")["holder"]["token"], held.token);
}

/// What the store refuses has the same code by whatever command it is asked.
#[test]
fn a_run_that_the_store_refuses_says_why_by_its_code() {
    let world = World::new();
    world.acquire("r --ttl 1h");
    let long = "x".repeat(1025);
    for words in [
        vec!["run", "--label", &long, "s", "--", "true"],
        vec!["run", "--once", &long, "s", "--", "true"],
        vec!["run", "-q", "--label", &long, "s", "--", "true"],
        vec!["acquire", "--ttl", "1m", "--label", &long, "s"],
    ] {
        Answer::of(&mut world.command(words)).fails(64, &["at most 1024 bytes"]);
    }
    assert_eq!(world.json("show s")["state"], "unseen");
}

/// Where no thread can be had to say it, it is said all the same.
#[test]
fn a_run_that_may_start_no_process_says_so() {
    /// Nobody's, so that no process of another test counts.
    const LONER: u32 = 64_977;
    let world = World::set_up();
    let stranger = Stranger::new(&world);
    let folder = world.path("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let url = format!("sqlite:{}", folder.join("leases.db").display());
    for most in 1..=4 {
        let mut command = stranger.command(&["run", "--store", &url, "s", "--", "true"]);
        if stranger.root {
            command.uid(LONER);
        }
        let limit = move || Ok(setrlimit(Resource::RLIMIT_NPROC, most, most)?);
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(limit) };
        let answer = Answer::of(&mut command);
        assert!(answer.code == Some(0) || answer.err.starts_with("lease: "), "{most}: {answer:?}");
    }
}

#[test]
fn a_file_that_somebody_keeps_locked_is_69_in_time() {
    let world = World::new();
    world.acquire("r --ttl 1h");
    let connection = Connection::open(world.path("leases.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let url = format!("{}?timeout=300ms", world.url());
    let answer = Answer::of(&mut world.bare(["acquire", "s", "--ttl", "1m", "--store", &url]));
    answer.fails(69, &["leases.db"]);
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(world.json("show s")["state"], "unseen");
}

#[test]
fn a_full_disk_is_69_and_loses_nothing() {
    let world = World::new();
    let held = world.acquire("r --ttl 1h");
    for words in ["acquire s --ttl 1h", "run s -- true"] {
        // No file may grow beyond this; the log of the store has to. The signal that the kernel sends by then ends
        // whoever has not asked for an error.
        let script = format!(r#"ulimit -f 8; exec "$0" {words}"#);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_lease")]).env_clear().env("LEASE_STORE", world.url());
        let answer = Answer::of(&mut shell);
        assert_eq!(answer.out, "");
        answer.fails(69, &["leases.db"]);
    }
    assert_eq!(world.json("show r")["holder"]["token"], held.token);
    assert!(world.acquire("s --ttl 1h").token() > 0);
}

#[test]
fn names_are_taken_to_the_byte() {
    let world = World::new();
    let longest = "é".repeat(127) + "x";
    for name in [longest.as_str(), "a", "A", "a ", " ", "-", "\n"] {
        let answer = Answer::of(&mut world.command(["acquire", "--ttl", "1h", "--", name]));
        assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""), "{name:?}");
    }
    assert_eq!(world.json("ls")["resources"].as_array().unwrap().len(), 7);
}

/// A user who is not the one that the test's files belong to. Whoever runs the tests as root may write anything, so
/// that they are run as somebody else, by a copy of the program that anybody may run.
struct Stranger {
    program: std::path::PathBuf,
    root: bool,
}

impl Stranger {
    fn new(world: &World) -> Self {
        let program = world.path("lease");
        // Not by this process: another test that forks meanwhile would keep the copy open for writing until it has
        // executed something, and what is open for writing cannot be executed.
        let copied =
            Command::new("cp").args([env!("CARGO_BIN_EXE_lease").as_ref(), program.as_os_str()]).status();
        assert!(copied.unwrap().success());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(world.path("."), fs::Permissions::from_mode(0o755)).unwrap();
        Self { program, root: nix::unistd::Uid::effective().is_root() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env_clear().stdin(Stdio::null()).current_dir("/");
        if self.root {
            command.uid(65_534).gid(65_534);
        }
        command
    }

    fn lease(&self, words: &[&str], file: &Path) -> Answer {
        let mut command = self.command(words);
        Answer::of(command.env("LEASE_STORE", format!("sqlite:{}", file.display())))
    }
}
