//! Which store is chosen, and what is said about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Answer, World};

/// Where `local` lies under a home folder.
const LOCAL: &str = "home/.local/state/lease-machines/local.db";

#[test]
fn without_a_choice_it_is_local_and_says_so_each_time() {
    let world = World::new();
    for _ in 0..2 {
        let mut command = world.bare(["ls"]);
        let answer = Answer::of(command.env("HOME", world.path("home")));
        assert_eq!(answer.code, Some(0));
        assert!(answer.err.contains("keeps others on this machine only out"), "{answer:?}");
        assert!(answer.err.contains(LOCAL), "{answer:?}");
    }
    let folder = world.path(LOCAL).parent().unwrap().to_owned();
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn local_by_name_says_nothing() {
    let world = World::new();
    let mut command = world.bare(["ls", "--store", "local"]);
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
    assert_eq!(answer.err.matches("keeps others on this machine only out").count(), 2, "{answer:?}");
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
    let mut command = world.bare(["ls", "--store", "local"]);
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
    let mut command = world.bare(["ls"]);
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
