//! PostgreSQL. A table that cannot grow is an error of the statement; a log that cannot grow ends the server.

use lease_machines_store::{ErrorKind, Undecided};

use crate::servers::disk::Disk;
use crate::servers::postgres::Server;
use crate::story::{PASSWORD, Story, TIMEOUT, says};

const SIZE: &str = "160m";

fn story(server: &Server) -> Story {
    let (_, url) = server.fresh();
    Story::begin(&format!("{}&{TIMEOUT}", url.replace("lease@", &format!("lease:{PASSWORD}@"))))
}

pub fn a_table_cannot_grow() {
    let disk = Disk::of(SIZE);
    let server = Server::start_in(disk.folder("postgres"), &[]);
    let mut story = story(&server);
    disk.fill();
    for _ in 0..20 {
        says(&story.until_refused(), ErrorKind::Storage, Undecided::NotDone, "disk is full, make room");
        // What has its place goes on.
        story.renew().unwrap();
    }
    disk.clear();
    story.end();
}

pub fn the_log_cannot_grow() {
    let disk = Disk::of(SIZE);
    let mut server = Server::start_in(disk.folder("postgres"), &[]);
    let mut story = story(&server);
    disk.fill();
    // Each time a file of the log is ended, and what is written next goes into another one.
    let error = (0..64).find_map(|_| {
        let _ = server.try_sql("postgres", "SELECT pg_switch_wal()");
        story.renew().err()
    });
    says(&error.unwrap(), ErrorKind::Storage, Undecided::Unknown, "disk is full, make room");
    // The server tries to start again, and cannot.
    for _ in 0..10 {
        let _ = story.ask();
    }
    disk.clear();
    server.guarded.stop();
    server.up();
    story.end();
}
