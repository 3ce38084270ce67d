//! Which store is chosen, and what is said about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Answer, World, repository};

/// Where `local` lies under a home folder.
const LOCAL: &str = "home/.local/state/lease-machines/local.db";

#[test]
fn without_a_choice_it_is_local_and_says_so_each_time() {
    let world = World::new();
    for words in ["acquire r --ttl 1m", "ls"] {
        let mut command = world.bare(words.split(' '));
        let answer = Answer::of(command.env("HOME", world.path("home")));
        assert_eq!(answer.code, Some(0));
        assert!(answer.err.contains("only this user's jobs on this machine"), "{answer:?}");
        assert!(answer.err.lines().count() == 1 && answer.err.len() <= 100, "a short line: {answer:?}");
    }
    let folder = world.path(LOCAL).parent().unwrap().to_owned();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder), mode(world.path(LOCAL))), (0o700, 0o600));
}

#[test]
fn local_by_name_says_nothing() {
    let world = World::new();
    let mut command = world.bare(["acquire", "r", "--ttl", "1m", "--store", "local"]);
    Answer::of(command.env("HOME", world.path("home"))).ok();
    let mut command = world.bare(["ls"]);
    Answer::of(command.env("HOME", world.path("home")).env("LEASE_STORE", "local")).ok();
    assert!(world.path(LOCAL).exists());
}

#[test]
fn migrate_makes_the_folder_too() {
    let world = World::new();
    let mut command = world.bare(["migrate", "--store", "local"]);
    Answer::of(command.env("HOME", world.path("home"))).ok();
    assert!(world.path(LOCAL).exists());
}

#[test]
fn lease_run_chooses_by_the_same_rules() {
    let world = World::new();
    let lease = env!("CARGO_BIN_EXE_lease");
    let run = ["run", "--ttl", "1m", "r", "--", lease];
    let mut command = world.bare(run.into_iter().chain(["show", "--mine"]));
    let answer = Answer::of(command.env("HOME", world.path("home")));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    // Once by the one, once by the other inside it.
    assert_eq!(answer.err.matches("only this user's jobs on this machine").count(), 2, "{answer:?}");
    assert!(world.path(LOCAL).exists());

    let mut command = world.bare(run.into_iter().chain(["show", "--mine", "--json"]));
    let json = Answer::of(command.env("LEASE_STORE", world.url())).ok().json();
    assert_eq!((json["resource"].as_str(), json["state"].as_str()), (Some("r"), Some("held")));
    // Where the store is named on the command line, the command inside finds it in its environment.
    let mut command =
        world.bare(["run", "--store", &world.url(), "s", "--", lease, "show", "--mine", "--json"]);
    assert_eq!(Answer::of(&mut command).ok().json()["resource"], "s");
    Answer::of(&mut world.bare(run.into_iter().chain(["ls"]))).fails(78, &["$HOME"]);
}

#[test]
fn the_state_folder_wins_over_the_home() {
    let world = World::new();
    let mut command = world.bare(["migrate", "--store", "local"]);
    Answer::of(command.env("HOME", world.path("home")).env("XDG_STATE_HOME", world.path("st%41te?"))).ok();
    assert!(world.path("st%41te?/lease-machines/local.db").exists());
    assert!(!world.path("home").exists());
}

#[test]
fn no_home_no_guess() {
    let world = World::new();
    Answer::of(&mut world.bare(["ls"])).fails(78, &["$XDG_STATE_HOME", "$HOME", "--store"]);
    Answer::of(world.bare(["ls"]).env("HOME", "relative")).fails(78, &["$HOME"]);
    assert!(!world.path("relative").exists());
}

#[test]
fn option_variable_and_file_in_this_order() {
    let world = World::new();
    let file = world.path("store");
    let url = |name: &str| format!("sqlite:{}", world.path(name).display());
    fs::write(&file, format!("{}\nanything\n", url("by-file.db"))).unwrap();
    let mut command = world.bare(["migrate"]);
    Answer::of(command.env("LEASE_STORE_FILE", &file)).ok();
    assert!(world.path("by-file.db").exists());
    Answer::of(command.env("LEASE_STORE", url("by-variable.db"))).ok();
    assert!(world.path("by-variable.db").exists());
    Answer::of(command.args(["--store", &url("by-option.db")])).ok();
    assert!(world.path("by-option.db").exists());
}

#[test]
fn an_empty_choice_is_no_choice_for_local() {
    let world = World::new();
    let home = world.path("home");
    Answer::of(world.bare(["ls"]).env("HOME", &home).env("LEASE_STORE", ""))
        .fails(78, &["$LEASE_STORE is empty"]);
    Answer::of(world.bare(["ls", "--store", ""]).env("HOME", &home)).fails(78, &["--store is empty"]);
    let missing = world.path("missing");
    let mut command = world.bare(["ls"]);
    Answer::of(command.env("HOME", &home).env("LEASE_STORE_FILE", &missing))
        .fails(78, &[missing.to_str().unwrap(), "No such file"]);
    assert!(!home.exists());
}

#[test]
fn what_only_looks_makes_no_store_of_a_mistyped_path() {
    let world = World::new();
    let lease = "--owner 1 --token 1";
    for words in [
        "ls",
        "show r",
        "history r",
        "check r",
        "doctor",
        "revoke r --yes",
        "prune --older-than 1d",
        &format!("renew r --ttl 1m {lease}"),
        &format!("release r {lease}"),
        "epoch show",
        "epoch open --yes",
        "fence check r",
    ] {
        let answer = world.lease(words);
        assert_eq!(answer.out, "", "{words}");
        answer.fails(78, &["no", "file", "leases.db"]);
        let mut command = world.bare(words.split(' ').chain(["--store", "local"]));
        Answer::of(command.env("HOME", world.path("home"))).fails(78, &["no", "file", LOCAL]);
    }
    world.lease("ls").fails(78, &["no such file", "lease migrate", "lease run", "lease acquire"]);
    assert_eq!(fs::read_dir(world.path("")).unwrap().count(), 0, "something was created");
    let nowhere = format!("sqlite:{}", world.path("no/such/x.db").display());
    Answer::of(&mut world.bare(["ls", "--store", &nowhere])).fails(78, &["no such file", "no/such/x.db"]);
}

#[test]
fn a_slip_in_the_name_of_a_store_is_told_from_others() {
    let world = World::new();
    for (store, said) in [
        ("rel.db", "did you mean sqlite:rel.db"),
        ("./rel.db", "did you mean sqlite:./rel.db"),
        ("/tmp/x.db", "did you mean sqlite:/tmp/x.db"),
        ("Local", "did you mean local"),
        ("LOCAL", "did you mean local"),
        ("sqlite:~/x.db", "sqlite:$HOME/x.db"),
        ("leases", "local"),
        ("mongo://host/db", "local"),
    ] {
        for command in ["ls", "acquire r --ttl 1m", "migrate", "migrate --print"] {
            let mut command = world.bare(command.split(' ').chain(["--store", store]));
            // Nothing is opened to print what would be done.
            let answer = Answer::of(&mut command);
            if answer.code == Some(0) && store.starts_with("sqlite:") {
                continue;
            }
            answer.fails(78, &[said]);
        }
    }
    assert_eq!(fs::read_dir(world.path("")).unwrap().count(), 0, "something was created");
}

#[test]
fn the_doctor_names_the_file_and_who_may_write_it() {
    let world = World::set_up();
    let file = world.path("leases.db").canonicalize().unwrap();
    let file = file.to_str().unwrap();
    let answer = world.lease("doctor").ok();
    assert!(answer.out.contains(file) && !answer.out.contains("warning"), "{answer:?}");
    fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    let answer = world.lease("doctor").ok();
    assert!(answer.out.starts_with("warning") && answer.out.contains("chmod go-w"), "{answer:?}");
}

/// Who comes next makes a new file and gets the same lease there: the first must not go on for ever.
#[test]
fn a_command_whose_lease_file_was_removed_is_stopped_at_its_deadline() {
    let world = World::set_up();
    let script = "rm leases.db leases.db-wal leases.db-shm && echo removed && exec sleep 600";
    let mut command = world.command(["run", "--ttl", "2s", "r", "--", "sh", "-c", script]);
    let answer = Answer::of(&mut command);
    assert_eq!(answer.out, "removed\n", "{answer:?}");
    answer.fails(79, &["leases.db", "was removed or replaced while it was open"]);
}

/// The options in docs/stores.md are those that a URL may have.
#[test]
fn every_option_of_a_url_is_documented() {
    let page = repository("docs/stores.md");
    for (title, url) in [("SQLite", "sqlite:x"), ("Redis and Valkey", "redis://x")] {
        let (_, section) = page.split_once(&format!("\n## {title}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('='));
        let documented: Vec<&str> = rows.map(|(name, _)| name).collect();
        let answer = World::new().lease(&format!("ls --store {url}?unknown=1"));
        let (_, known) = answer.err.trim().split_once("expected one of ").unwrap();
        assert_eq!(documented, known.split(", ").collect::<Vec<_>>(), "{title}");
    }
}
