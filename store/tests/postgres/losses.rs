//! Servers that have lost what they answered last: what shows it, and what does not.

use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Epoch, ErrorKind, LeaseRef, Opening, PostgresStore, Rejected, Renewed, Store, StoreError,
};

use crate::help::{claim, granted, lease};
use crate::servers::postgres::{Server, program};

const TTL: Duration = Duration::from_secs(70);

fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url).unwrap()
}

fn hold(store: &PostgresStore, name: &str) -> LeaseRef {
    lease(name, 1, granted(store, claim(name, 1)))
}

fn renew(store: &PostgresStore, lease: &LeaseRef) -> Result<Renewed, StoreError> {
    block_on(store.renew(lease.clone(), TTL))
}

/// Every lease of the old life is over, nothing is granted for as long as one may be held that is missing here, and no
/// token of `lost` is given again.
#[track_caller]
fn is_seen_as_a_loss(store: &PostgresStore, kept: &LeaseRef, lost: &LeaseRef) {
    let current = block_on(store.epoch()).unwrap();
    assert_ne!(Some(current), lost.epoch, "the loss went unnoticed");
    for lease in [kept, lost] {
        let error = renew(store, lease).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewEpoch { current }, "{error}");
    }
    let error = block_on(store.acquire(claim("another", 2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("history was lost"), "{error}");
    let opened: Epoch = block_on(store.open_epoch(Opening::new(current).with_dead_holders())).unwrap();
    assert_ne!(opened, current);
    let next = granted(store, claim(lost.resource.as_str(), 2));
    assert!(next.token > lost.token, "{} was given again: {}", lost.token, next.token);
}

#[test]
fn a_server_that_was_recovered_to_an_earlier_time_is_in_a_new_epoch() {
    let mut server = Server::start(&[
        "wal_level = replica",
        "archive_mode = on",
        "archive_command = 'cp %p ../archived-%f'",
    ]);
    let (_, url) = server.fresh();
    server.back_up();
    let kept = hold(&open(&url), "kept");
    server.sql("SELECT pg_create_restore_point('here')");
    let lost = hold(&open(&url), "lost");
    let log = server.sql("SELECT pg_walfile_name(pg_switch_wal())").remove(0);
    let archived = format!("SELECT 1 FROM pg_stat_archiver WHERE last_archived_wal >= '{log}'");
    wait(&server, "the log is not archived", || !server.sql(&archived).is_empty());
    server.kill();
    server.put_back();
    server.configure(
        "restore_command = 'cp ../archived-%f %p'\nrecovery_target_name = 'here'\nrecovery_target_action = 'promote'",
    );
    server.guarded.write("data/recovery.signal", "");
    server.up();
    wait(&server, "it is not recovered", || server.sql("SELECT pg_is_in_recovery()") == ["f"]);
    let store = open(&url);
    let seen = |name: &str| block_on(store.inspect(claim(name, 1).resource)).unwrap().last_issued;
    assert_eq!((seen("kept"), seen("lost")), (Some(kept.token), None), "it was recovered to another time");
    is_seen_as_a_loss(&store, &kept, &lost);
}

#[track_caller]
fn wait(server: &Server, otherwise: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{otherwise}: {}", server.guarded.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_promoted_standby_that_lacks_a_grant_is_in_a_new_epoch() {
    let primary = Server::start(&["wal_level = replica", "max_wal_senders = 4"]);
    let (schema, url) = primary.fresh();
    let kept = hold(&open(&url), "kept");
    let mut standby = Server::standby_of(&primary);
    standby.kill();
    let lost = hold(&open(&url), "lost");
    drop(primary);
    standby.up();
    standby.sql("SELECT pg_promote(true)");
    is_seen_as_a_loss(&open(&standby.url(&schema)), &kept, &lost);
}

/// Tables that were read into another server come with the epoch, and not with the server's identity.
#[test]
fn a_dump_that_another_server_has_read_is_in_a_new_epoch() {
    let (one, other) = (Server::start(&[]), Server::start(&[]));
    let (schema, url) = one.fresh();
    let kept = hold(&open(&url), "kept");
    let at = |server: &Server, name: &str, more: &[&str]| {
        let port = server.port.to_string();
        let to = ["-h", "127.0.0.1", "-p", &port, "-U", "lease", "-d", "postgres"];
        let arguments: Vec<&str> = to.into_iter().chain(more.iter().copied()).collect();
        server.guarded.run(&program(name), &arguments);
    };
    let dump = one.guarded.path().join("dump.sql");
    at(&one, "pg_dump", &["-n", &schema, "-f", dump.to_str().unwrap()]);
    let lost = hold(&open(&url), "lost");
    at(&other, "psql", &["-q", "-v", "ON_ERROR_STOP=1", "-f", dump.to_str().unwrap()]);
    is_seen_as_a_loss(&open(&other.url(&schema)), &kept, &lost);
}

/// Files that were put back have the identity and the timeline that they had. What shows the loss is a lease that they do
/// not know; until its holder comes, nothing does.
#[test]
fn files_that_were_put_back_are_noticed_by_the_holder_of_what_they_lack() {
    for cold in [true, false] {
        let mut server = Server::start(&["wal_level = replica"]);
        let (_, url) = server.fresh();
        let kept = hold(&open(&url), "kept");
        if cold {
            server.kill();
            server.copy_files();
            server.up();
        } else {
            server.back_up();
        }
        let lost = hold(&open(&url), "lost");
        server.kill();
        server.put_back();
        server.up();
        let store = open(&url);
        assert_eq!(Some(block_on(store.epoch()).unwrap()), kept.epoch, "it shows: say so in DESIGN.md");
        assert!(matches!(renew(&store, &kept).unwrap(), Renewed::Renewed(_)));
        let answer = renew(&store, &lost).unwrap();
        assert!(matches!(answer, Renewed::Rejected(Rejected { .. })), "{answer:?}");
        is_seen_as_a_loss(&store, &kept, &lost);
    }
}
