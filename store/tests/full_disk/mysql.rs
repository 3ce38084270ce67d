//! MySQL and MariaDB. A table that cannot grow is an error of the statement; a commit that cannot be logged for replicas waits
//! until there is room.

use lease_machines_store::{ErrorKind, Undecided};

use crate::help::claim;
use crate::servers::disk::Disk;
use crate::servers::mysql::{Kind, Server};
use crate::story::{PASSWORD, Story, TIMEOUT, says};

const SIZE: &str = "512m";

fn story(server: &Server) -> Story {
    let (_, url) = server.fresh();
    server.sql("", &format!("CREATE USER told@'%' IDENTIFIED BY '{PASSWORD}'"));
    server.sql("", "GRANT ALL ON *.* TO told@'%'");
    Story::begin(&format!("{}?{TIMEOUT}", url.replace("lease:@", &format!("told:{PASSWORD}@"))))
}

pub fn a_table_cannot_grow(kind: Kind) {
    let disk = Disk::of(SIZE);
    // MariaDB keeps no such log unless it is told to.
    let settings: &[&str] = if kind == Kind::MySql { &["--skip-log-bin"] } else { &[] };
    let server = Server::start_at(disk.folder("mysql"), "", kind, settings);
    let mut story = story(&server);
    disk.fill();
    for _ in 0..20 {
        says(&story.until_refused(), ErrorKind::Storage, Undecided::NotDone, "disk is full, make room");
    }
    disk.clear();
    story.end();
}

pub fn a_commit_waits_for_room(kind: Kind) {
    let disk = Disk::of(SIZE);
    let server = Server::start_at(disk.folder("mysql"), "", kind, &["--log-bin=binlog"]);
    let mut story = story(&server);
    disk.fill();
    for _ in 0..2 {
        says(&story.until_refused(), ErrorKind::Unreachable, Undecided::Unknown, "did not answer within 2s");
    }
    // Whoever only looks waits for nobody.
    story.in_time(story.store().inspect(claim("held", 1).resource)).unwrap();
    disk.clear();
    story.end();
}
