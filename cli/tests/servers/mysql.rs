//! `mariadb://` and `mysql://`, as a store and as a fence.

use std::process::Command;

use crate::servers::guard::free_port;
use crate::servers::mysql::{Kind, Server};
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

#[test]
fn a_run_takes_its_lease_there_and_raises_the_mark_before_its_command_starts() {
    for kind in Kind::BOTH {
        let (world, server) = (World::new(), Server::shared(kind));
        let url = server.url(&server.empty());
        lease(&world, &url, "acquire r --ttl 1h").fails(78, &["lease migrate"]);
        lease(&world, &url, "migrate").ok();
        let look = format!("{} fence check r --json", env!("CARGO_BIN_EXE_lease"));
        let mut run = on(&world, &url, &["run", "-q", "--fence", &url, "r", "--", "sh", "-c", &look]);
        let answer = Answer::of(&mut run).ok().json();
        assert_eq!(answer["passes"], true);
        let shown = lease(&world, &url, "show r --json").ok().json();
        assert_eq!(answer["mark"]["token"], shown["last_issued"]);
        assert_eq!(shown["state"], "released");
        let held = Grant::of(&lease(&world, &url, "acquire r --ttl 1h"));
        lease(&world, &url, &format!("renew r --ttl 1h {}", held.options())).ok();
        // These servers do not wait for the disk.
        let doctor = lease(&world, &url, "doctor");
        assert!(
            doctor.code == Some(1) && doctor.out.contains("innodb_flush_log_at_trx_commit"),
            "{doctor:?}"
        );
        // The rights and the procedures, for whoever sets it up by hand.
        let printed = lease(&world, &url, "migrate --print").ok();
        assert!(printed.out.contains("CREATE PROCEDURE lease_acquire_1") && printed.out.contains("GRANT"));
    }
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    let world = World::new();
    let url = format!("mysql://lease:s3cret@127.0.0.1:{}/x", free_port());
    let answer = lease(&world, &url, "acquire r --ttl 1h");
    assert!(!answer.err.contains("s3cret"), "{answer:?}");
    answer.fails(69, &["127.0.0.1"]);
}
