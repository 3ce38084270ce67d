//! `postgres://`, as a store and as a fence.

use std::process::Command;

use crate::servers::guard::free_port;
use crate::servers::postgres::{Server, fresh_name};
use crate::support::{Answer, Grant, World};

/// A command on a store there.
fn on(world: &World, url: &str, words: &[&str]) -> Command {
    let mut command = world.bare(words);
    command.env("LEASE_STORE", url);
    command
}

fn lease(world: &World, url: &str, words: &str) -> Answer {
    let words: Vec<&str> = words.split(' ').collect();
    Answer::of(&mut on(world, url, &words))
}

fn acquire(world: &World, url: &str, words: &str) -> Grant {
    Grant::of(&lease(world, url, &format!("acquire {words}")))
}

#[test]
fn a_run_raises_the_mark_in_the_database_before_its_command_starts() {
    let (world, server) = (World::new(), Server::shared());
    let url = server.url(&fresh_name());
    lease(&world, &url, "migrate").ok();
    let look = format!("{} fence check r --json", env!("CARGO_BIN_EXE_lease"));
    let mut run = on(&world, &url, &["run", "-q", "--fence", &url, "r", "--", "sh", "-c", &look]);
    let answer = Answer::of(&mut run).ok().json();
    assert_eq!(answer["passes"], true);
    assert_eq!(answer["mark"]["token"], lease(&world, &url, "show r --json").ok().json()["last_issued"]);
    // The marks of data that lies elsewhere are made by the first that is raised.
    let data = server.url(&fresh_name());
    let look = format!("{look} --fence {data}");
    let mut run = on(&world, &url, &["run", "-q", "--fence", &data, "r", "--", "sh", "-c", &look]);
    assert_eq!(Answer::of(&mut run).ok().json()["passes"], true);
}

#[test]
fn a_run_that_the_database_refuses_starts_nothing_and_gives_the_lease_back() {
    let (world, server) = (World::new(), Server::shared());
    let (_, url) = server.fresh();
    let fence = server.url(&fresh_name());
    let first = acquire(&world, &url, "r --ttl 1h");
    lease(&world, &url, &format!("release r {}", first.options())).ok();
    let ahead = Grant { token: (first.token() + 10).to_string(), ..first };
    lease(&world, &url, &format!("fence advance r {} --fence {fence}", ahead.options())).ok();
    let started = world.path("started");
    for (fence, code, said) in [
        (fence, 79, ahead.token.as_str()),
        (format!("postgres://lease:s3cret@127.0.0.1:{}/postgres", free_port()), 69, "127.0.0.1"),
    ] {
        let words = ["run", "--fence", &fence, "r", "--", "touch", started.to_str().unwrap()];
        let answer = Answer::of(&mut on(&world, &url, &words));
        assert!(!answer.err.contains("s3cret"), "{answer:?}");
        answer.fails(code, &["the command was not started", said]);
        assert!(!started.exists());
        assert_eq!(lease(&world, &url, "show r --json").ok().json()["state"], "released");
    }
}

#[test]
fn a_mark_is_shown_and_reset() {
    let (world, server) = (World::new(), Server::shared());
    let (_, url) = server.fresh();
    let grant = acquire(&world, &url, "r --ttl 1h");
    lease(&world, &url, &format!("fence advance r {}", grant.options())).ok();
    let refused = lease(&world, &url, "fence check r --token 7");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let words = ["fence", "reset", "r", "--yes", "--to", "7", "--reason", "a test"];
    Answer::of(&mut on(&world, &url, &words)).ok();
    lease(&world, &url, "fence check r --token 7").ok();
}
