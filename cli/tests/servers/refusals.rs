//! What a person meets where a server is not as it should be: the exit code, the place, what to do, and no password.

use std::time::{Duration, Instant};

use crate::engine::{Place, on_each_engine};
use crate::servers::guard::free_port;
use crate::servers::postgres::{Server, fresh_name};
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::{Answer, World};

const PASSWORD: &str = "s3cret";

/// Above every time-out that is at its default, and far above what a refusal takes.
const PATIENCE: Duration = Duration::from_secs(40);

/// Each kind of command: one that looks, that decides, that runs, that raises a mark, and the operator's.
const COMMANDS: [&str; 9] = [
    "ls",
    "acquire r --ttl 1m",
    "run -n r -- touch started",
    "renew r --ttl 1m --owner 1 --token 1",
    "fence advance r --owner 1 --token 1",
    "epoch open --yes",
    "prune --older-than 1d",
    "doctor",
    "migrate",
];

/// All commands fail so there, in time, and none shows the password or starts anything.
#[track_caller]
fn refused(url: &str, code: i32, words: &[&str]) {
    refused_to(&COMMANDS, url, code, words);
}

#[track_caller]
fn refused_to(commands: &[&str], url: &str, code: i32, words: &[&str]) {
    let world = World::new();
    for command in commands {
        let begun = Instant::now();
        let answer = Answer::of(world.bare(command.split(' ')).env("LEASE_STORE", url));
        assert!(begun.elapsed() < PATIENCE, "{command} took {:?}", begun.elapsed());
        assert!(!format!("{answer:?}").contains(PASSWORD), "{answer:?}");
        assert_eq!(answer.out, "", "{command}");
        assert!(!world.path("started").exists(), "{command}");
        answer.fails(code, words);
    }
}

/// The doctor finds this to be an error, whatever other commands come to; what it says has these words, and no password.
#[track_caller]
fn diagnosed(url: &str, check: &str, words: &[&str]) {
    let answer = Answer::of(World::new().bare(["doctor"]).env("LEASE_STORE", url));
    assert_eq!((answer.code, answer.err.as_str()), (Some(1), ""), "{answer:?}");
    assert!(!answer.out.contains(PASSWORD), "{answer:?}");
    let mut lines = answer.out.lines();
    let found = lines.find(|line| line.split_whitespace().take(2).eq(["error", check]));
    let told = format!("{}{}", found.unwrap_or_default(), lines.next().unwrap_or_default());
    assert!(words.iter().all(|word| told.contains(word)), "{answer:?}");
}

#[test]
fn a_server_that_is_not_there() {
    let port = free_port().to_string();
    let at = format!("127.0.0.1:{port}");
    // `lease run` asks a store that does not answer for half a minute; its own tests wait for that.
    let commands: Vec<&str> = COMMANDS.into_iter().filter(|words| !words.starts_with("run")).collect();
    refused_to(&commands, &format!("postgres://lease:{PASSWORD}@{at}/postgres"), 69, &[&port]);
    refused_to(&commands, &format!("redis://:{PASSWORD}@{at}/0"), 69, &[&port]);
}

#[test]
fn a_wrong_password_at_postgres() {
    let server = Server::shared();
    server.sql("CREATE ROLE guarded LOGIN PASSWORD 'another'");
    let port = server.port;
    refused(&format!("postgres://guarded:{PASSWORD}@127.0.0.1:{port}/postgres"), 77, &["guarded"]);
}

#[test]
fn a_wrong_password_at_redis() {
    let server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    server.command(&["ACL", "SETUSER", "guarded", "on", ">another", "~*", "+@all"]);
    let at = format!("127.0.0.1:{}", server.port);
    refused(&format!("redis://guarded:{PASSWORD}@{at}/0"), 77, &[&at]);
}

#[test]
fn a_database_that_does_not_exist() {
    let port = Server::shared().port;
    refused(&format!("postgres://lease:{PASSWORD}@127.0.0.1:{port}/nowhere"), 78, &["nowhere"]);
}

#[test]
fn a_role_without_rights_at_postgres() {
    let server = Server::shared();
    let schema = fresh_name();
    Answer::of(World::new().bare(["migrate"]).env("LEASE_STORE", server.url(&schema))).ok();
    server.sql("CREATE ROLE stranger LOGIN");
    let url = format!("postgres://stranger:{PASSWORD}@127.0.0.1:{}/postgres?schema={schema}", server.port);
    let commands: Vec<&str> =
        COMMANDS.into_iter().filter(|words| !["migrate", "doctor"].contains(words)).collect();
    refused_to(&commands, &url, 77, &["lease migrate --print"]);
    diagnosed(&url, "rights", &["USAGE on the schema", "SELECT on lease_row", "lease migrate --print"]);
}

#[test]
fn a_user_without_rights_at_redis() {
    let server = RedisServer::start(DURABLE);
    let at = format!("127.0.0.1:{}", server.port);
    Answer::of(World::new().bare(["migrate"]).env("LEASE_STORE", format!("redis://{at}/0"))).ok();
    server.command(&["ACL", "SETUSER", "stranger", "on", &format!(">{PASSWORD}"), "+ping"]);
    refused(&format!("redis://stranger:{PASSWORD}@{at}/0"), 77, &["lease migrate --print"]);
}

#[test]
fn a_standby_of_postgres() {
    let primary = Server::start(&[]);
    let (schema, url) = primary.fresh();
    Answer::of(World::new().bare(["acquire", "r", "--ttl", "1h"]).env("LEASE_STORE", &url)).ok();
    let standby = Server::standby_of(&primary);
    let deciding = ["acquire s --ttl 1m", "epoch open --yes", "prune --older-than 1d"];
    refused_to(&deciding, &standby.url(&schema), 69, &["standby"]);
    diagnosed(&standby.url(&schema), "role", &["a standby", "name the primary"]);
}

#[test]
fn a_replica_of_redis() {
    let primary = RedisServer::start(DURABLE);
    Answer::of(World::new().bare(["migrate"]).env("LEASE_STORE", primary.url("namespace=default"))).ok();
    let port = primary.port.to_string();
    let args = [DURABLE, &["--replicaof", "127.0.0.1", &port]].concat();
    let replica = RedisServer::start(&args);
    let begun = Instant::now();
    while !replica.command(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(begun.elapsed() < PATIENCE, "the replica does not follow");
        std::thread::sleep(Duration::from_millis(10));
    }
    let deciding = ["acquire s --ttl 1m", "epoch open --yes", "prune --older-than 1d"];
    refused_to(&deciding, &replica.url("namespace=default"), 69, &["replica"]);
    diagnosed(&replica.url("namespace=default"), "role", &["a replica", "name the primary"]);
}

#[test]
fn a_redis_that_throws_keys_away() {
    let server = RedisServer::start(&[DURABLE, &["--maxmemory-policy", "allkeys-lru"]].concat());
    let (url, words) = (server.url("namespace=default"), ["allkeys-lru", "noeviction"]);
    let commands: Vec<&str> = COMMANDS.into_iter().filter(|words| *words != "doctor").collect();
    refused_to(&commands, &url, 78, &words);
    diagnosed(&url, "eviction", &words);
}

#[test]
fn the_doctor_at_a_redis_that_forgets() {
    let server = RedisServer::start(FORGETFUL);
    let lease = |words: &str| {
        Answer::of(World::new().bare(words.split(' ')).env("LEASE_STORE", server.url("namespace=default")))
    };
    lease("migrate").ok();
    let answer = lease("doctor");
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(
        answer.out.starts_with("error    durability") && answer.out.contains("appendonly yes"),
        "{answer:?}"
    );
}

#[test]
fn the_doctor_at_a_postgres_that_does_not_flush() {
    let server = Server::start(&["fsync = off"]);
    let (_, url) = server.fresh();
    let answer = Answer::of(World::new().bare(["doctor"]).env("LEASE_STORE", url));
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.out.starts_with("error    fsync") && answer.out.contains("mend: "), "{answer:?}");
}

on_each_engine! { a_url_that_says_what_it_may_not }

fn a_url_that_says_what_it_may_not(place: &Place) {
    let split = if place.url().contains('?') { '&' } else { '?' };
    for (option, said) in [("color=1", "color"), ("timeout=soon", "soon"), ("max_ttl=0", "max_ttl")] {
        let url = format!("{}{split}{option}", place.url());
        refused(&url, 78, &[said]);
    }
}
