//! `lease fence`.

use std::fs;

use crate::support::{Answer, Grant, World};
use crate::terminal::Terminal;

fn raise(grant: &Grant) -> String {
    format!("fence advance r {}", grant.options())
}

#[test]
fn a_raised_mark_refuses_the_holder_before() {
    let world = World::new();
    let first = world.acquire("r --ttl 1h");
    world.lease(&format!("release r {}", first.options())).ok();
    let second = world.acquire("r --ttl 1h");
    world.lease(&format!("fence check r --token {}", first.token)).ok();
    assert_eq!(world.lease(&raise(&second)).ok().out, "");
    world.lease(&raise(&second)).ok();
    world.lease(&raise(&first)).fails(79, &["the mark was not raised", &first.token, &second.token]);
    let mark = world.json("fence check r")["mark"].clone();
    assert_eq!(
        (mark["token"].as_str(), mark["owner"].as_str()),
        (Some(&*second.token), Some(&*second.owner))
    );
    let refused = world.lease(&format!("fence check r --token {}", first.token));
    assert_eq!((refused.code, refused.err.as_str()), (Some(1), ""));
    assert!(refused.out.starts_with("no: the mark of r is token "), "{refused:?}");
    let passes =
        world.lease(&format!("fence check r --token {} --owner {}", second.token, second.owner)).ok();
    assert!(passes.out.starts_with("ok: the mark of r is token "), "{passes:?}");
}

#[test]
fn the_same_token_of_another_owner_is_refused() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    world.lease(&raise(&grant)).ok();
    let other = Grant { owner: "1".to_owned(), ..grant.clone() };
    world.lease(&raise(&other)).fails(79, &["the mark was not raised", &grant.token]);
    world.lease(&format!("fence check r --token {} --owner 1", grant.token)).fails(1, &[]);
}

#[test]
fn marks_have_a_database_a_store_and_a_slot_of_their_own() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    let elsewhere = format!("--fence sqlite:{}", world.path("data.db").display());
    world.lease(&format!("{} {elsewhere}", raise(&grant))).fails(78, &["data.db", "no file"]);
    assert!(!world.path("data.db").exists(), "a mistyped path would fence what nobody writes");
    // To SQLite an empty file is a database.
    fs::write(world.path("data.db"), "").unwrap();
    for place in [&elsewhere, "--slot -3", "--of-store other"] {
        world.lease(&format!("{} {place}", raise(&grant))).ok();
        assert_eq!(world.json(&format!("fence check r {place}"))["mark"]["token"], grant.token);
    }
    assert!(world.json("fence check r")["mark"].is_null());
    assert_eq!(world.json("fence check r --slot -3")["slot"], "-3");
    // The database alone is needed, not the store.
    let mut command = world.bare(["fence", "check", "r", "--fence"]);
    Answer::of(command.arg(format!("sqlite:{}", world.path("data.db").display()))).ok();
}

#[test]
fn a_token_that_no_store_issued_raises_nothing() {
    let world = World::new();
    let grant = world.acquire("r --ttl 1h");
    let invented = Grant { token: "9000000000000000000".to_owned(), ..grant };
    world.lease(&raise(&invented)).fails(64, &["the mark was not raised", "9000000000000000000"]);
    assert!(world.json("fence check r")["mark"].is_null());
}

#[test]
fn an_operator_resets_a_mark_and_says_why() {
    let world = World::new();
    let first = world.acquire("r --ttl 1h");
    world.lease(&format!("release r {}", first.options())).ok();
    let second = world.acquire("r --ttl 1h");
    world.lease(&raise(&second)).ok();
    world.lease("fence reset r --yes").fails(64, &["--reason"]);
    world.lease("fence reset r --reason test").fails(64, &["--yes"]);
    let words = ["fence", "reset", "r", "--reason", "mistyped", "--to", &first.token];
    let mut terminal = Terminal::spawn(world.command(words));
    terminal.expect(&second.token);
    terminal.expect("[y/N]");
    terminal.say("n\n");
    assert_eq!(terminal.end(), Some(1));
    assert_eq!(world.json("fence check r")["mark"]["token"], second.token);
    let answer = Answer::of(world.command(words).arg("--yes")).ok();
    assert!(answer.out.contains(&first.token), "{answer:?}");
    world.lease(&format!("fence check r --token {}", first.token)).ok();
    let answer = world.lease("fence reset r --reason mistyped --yes").ok();
    assert_eq!(answer.out, "r has no mark: any token passes\n");
}

#[test]
fn marks_that_are_forgotten_go_on_refusing() {
    let world = World::new();
    let first = world.acquire("r --ttl 1h");
    world.lease(&format!("release r {}", first.options())).ok();
    let second = world.acquire("r --ttl 1h");
    world.lease(&raise(&second)).ok();
    world.lease("fence prune").fails(64, &["--older-than"]);
    assert_eq!(world.lease("fence prune --older-than 1h").ok().out, "forgot 0 marks\n");
    world.lease("fence prune --older-than 0").fails(64, &["--yes"]);
    let mut terminal = Terminal::spawn(world.command(["fence", "prune", "--older-than", "0"]));
    terminal.expect("[y/N]");
    terminal.say("n\n");
    assert_eq!(terminal.end(), Some(1));
    assert_eq!(world.json("fence check r")["mark"]["token"], second.token);

    assert_eq!(world.lease("fence prune --older-than 0 --yes").ok().out, "forgot 1 mark\n");
    assert!(world.json("fence check r")["mark"].is_null());
    world.lease(&raise(&first)).fails(79, &["the mark was not raised", &first.token, &second.token]);
    world.lease(&raise(&second)).ok();
    // The database alone is needed, not the store; and it is not made.
    let nowhere = format!("--fence sqlite:{}", world.path("nowhere.db").display());
    world.lease(&format!("fence prune --older-than 1h {nowhere}")).fails(78, &["nowhere.db", "no file"]);
    assert!(!world.path("nowhere.db").exists());
}

#[test]
fn a_run_raises_the_mark_before_its_command_starts() {
    let world = World::new();
    fs::write(world.path("data.db"), "").unwrap();
    let fence = format!("sqlite:{}", world.path("data.db").display());
    // The command finds its own token and owner at the fence.
    let look = format!("{} fence check r --fence {fence}", env!("CARGO_BIN_EXE_lease"));
    let mut run =
        world.command(["run", "-q", "--fence", &fence, "r", "--", "sh", "-c", &format!("{look} --json")]);
    let answer = Answer::of(&mut run).ok().json();
    assert_eq!(answer["passes"], true);
    let shown = world.json("show r");
    assert_eq!(answer["mark"]["token"], shown["last_issued"]);
}

#[test]
fn a_run_that_the_fence_refuses_starts_nothing_and_gives_the_lease_back() {
    let world = World::new();
    fs::write(world.path("data.db"), "").unwrap();
    let fence = format!("sqlite:{}", world.path("data.db").display());
    let first = world.acquire("r --ttl 1h");
    world.lease(&format!("release r {}", first.options())).ok();
    let ahead = Grant { token: (first.token() + 10).to_string(), ..first };
    let newer = world.lease(&format!("fence advance r {} --fence {fence}", ahead.options()));
    assert_eq!(newer.code, Some(0), "{newer:?}");

    let started = world.path("started");
    let mut run = world.command(["run", "--fence", &fence, "r", "--", "touch", started.to_str().unwrap()]);
    Answer::of(&mut run).fails(79, &["the command was not started", &ahead.token]);
    assert!(!started.exists());
    assert_eq!(world.json("show r")["state"], "released");

    let nowhere = format!("sqlite:{}", world.path("nowhere.db").display());
    let mut run = world.command(["run", "--fence", &nowhere, "r", "--", "touch", started.to_str().unwrap()]);
    Answer::of(&mut run).fails(78, &["nowhere.db", "no file"]);
    assert!(!started.exists() && !world.path("nowhere.db").exists());
}
