//! Servers that have no room left: what cannot be written is not granted, and is neither lost nor waited for without end; once
//! there is room, the store goes on where it was.
//!
//! Its own harness, so that what this machine cannot do is counted as ignored, and says why.
// Helpers outside a test are tests all the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, unreachable_pub)]

#[path = "../common/short.rs"]
mod help;
#[path = "../servers/mod.rs"]
mod servers;

mod etcd;
mod mysql;
mod postgres;
mod redis;
mod story;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::servers::disk::{self, Disk};
use crate::servers::mysql::Kind;

/// Each has a server and a full disk, which is memory.
const THREADS: usize = 3;

fn main() -> ExitCode {
    disk::mount_alone();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let trials = vec![
        on_a_disk("mariadb_a_commit_waits_for_room", || mysql::a_commit_waits_for_room(Kind::MariaDb)),
        on_a_disk("mysql_a_commit_waits_for_room", || mysql::a_commit_waits_for_room(Kind::MySql)),
        on_a_disk("mariadb_a_table_cannot_grow", || mysql::a_table_cannot_grow(Kind::MariaDb)),
        on_a_disk("mysql_a_table_cannot_grow", || mysql::a_table_cannot_grow(Kind::MySql)),
        on_a_disk("postgres_a_table_cannot_grow", postgres::a_table_cannot_grow),
        on_a_disk("postgres_the_log_cannot_grow", postgres::the_log_cannot_grow),
        on_a_disk("redis_ends_where_it_cannot_flush", || redis::ends_where_it_cannot_flush("redis-server")),
        on_a_disk("valkey_ends_where_it_cannot_flush", || redis::ends_where_it_cannot_flush("valkey-server")),
        on_a_disk("redis_refuses_where_it_flushes_later", redis::refuses_where_it_flushes_later),
        on_a_disk("etcd_ends_where_its_file_cannot_grow", etcd::ends_where_its_file_cannot_grow),
        anywhere("etcd_has_used_up_its_quota", etcd::has_used_up_its_quota),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn anywhere(name: &str, scenario: fn()) -> Trial {
    Trial::test(name, move || {
        scenario();
        Ok(())
    })
}

fn on_a_disk(name: &str, scenario: fn()) -> Trial {
    let missing = Disk::missing();
    if let Some(missing) = missing {
        eprintln!("NOT RUN: {name}: this machine lacks {missing}");
    }
    anywhere(name, scenario).with_ignored_flag(missing.is_some())
}
