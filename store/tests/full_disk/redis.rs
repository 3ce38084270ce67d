//! Redis and Valkey. One that flushes before it answers ends where it cannot; one that flushes later refuses to write then.

use std::time::Instant;

use lease_machines_store::{ErrorKind, Undecided, migrate};

use crate::servers::disk::Disk;
use crate::servers::redis::{DURABLE, RedisServer};
use crate::story::{PASSWORD, PATIENCE, Story, TIMEOUT, says};

const SIZE: &str = "16m";

fn story(server: &RedisServer) -> Story {
    let url = server.url(TIMEOUT);
    migrate(&url).unwrap();
    let who = format!(">{PASSWORD}");
    assert_eq!(server.command(&["ACL", "SETUSER", "told", "on", &who, "~*", "+@all"]), "+OK");
    Story::begin(&url.replace("redis://", &format!("redis://told:{PASSWORD}@")))
}

pub fn ends_where_it_cannot_flush(program: &'static str) {
    let disk = Disk::of(SIZE);
    // The user has to be there again after the restart.
    let who = format!(">{PASSWORD}");
    let args = [DURABLE, &["--user", "told", "on", &who, "~*", "+@all"]].concat();
    let mut server = RedisServer::start_at(|| disk.folder(program), program, &args);
    let mut story = story(&server);
    disk.fill();
    says(&story.until_refused(), ErrorKind::Unreachable, Undecided::Unknown, "connection was lost");
    // While it ends it may take a connection, which is lost before anything is asked.
    let (begun, mut error) = (Instant::now(), story.until_refused());
    while error.to_string().contains("connection was lost") && begun.elapsed() < PATIENCE {
        says(&error, ErrorKind::Unreachable, Undecided::NotDone, "connection was lost");
        error = story.until_refused();
    }
    says(&error, ErrorKind::Unreachable, Undecided::NotDone, "cannot connect");
    disk.clear();
    server.restart();
    story.end();
}

pub fn refuses_where_it_flushes_later() {
    let disk = Disk::of(SIZE);
    let args = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let server = RedisServer::start_at(|| disk.folder("redis"), "redis-server", &args);
    let mut story = story(&server);
    disk.fill();
    for _ in 0..20 {
        says(&story.until_refused(), ErrorKind::Storage, Undecided::NotDone, "make room");
    }
    disk.clear();
    story.end();
}
