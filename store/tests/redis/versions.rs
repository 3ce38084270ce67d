//! Stores that programs of other versions have set up, or brought further.

use lease_machines_store::{ErrorKind, Migration, Opening, RedisStore, Store, StoreError, Undecided};

use crate::common::{block_on, claim, granted};
use crate::servers::redis::{FORGETFUL, RedisServer};
use crate::support::store;

/// The hash that has the two numbers.
const FIRST: &str = "{lease:default:0}";

fn set_up() -> RedisServer {
    let server = RedisServer::start(FORGETFUL);
    open(&server).migrate().unwrap();
    server
}

fn open(server: &RedisServer) -> RedisStore {
    store(server, |options| options)
}

fn mark(server: &RedisServer, version: &str, usable_by: &str) {
    assert_eq!(server.command(&["HSET", FIRST, "v", version, "u", usable_by]), ":0");
}

fn field(server: &RedisServer, name: &str) -> String {
    server.command(&["HGET", FIRST, name])
}

fn marked(server: &RedisServer) -> (String, String) {
    (field(server, "v"), field(server, "u"))
}

fn texts(version: &str, usable_by: &str) -> (String, String) {
    (version.to_owned(), usable_by.to_owned())
}

/// What is said to a program that connects: by a call, and by a migrate.
fn refusals(server: &RedisServer) -> [StoreError; 2] {
    [block_on(open(server).acquire(claim("job", 1))).unwrap_err(), open(server).migrate().unwrap_err()]
}

#[test]
fn a_store_from_before_it_said_who_may_use_it_is_used_and_a_migrate_says_it() {
    let server = set_up();
    assert_eq!(marked(&server), texts("1", "1"));
    assert_eq!(server.command(&["HDEL", FIRST, "u"]), ":1");
    let held = granted(&open(&server), claim("job", 1));
    assert_eq!(field(&server, "u"), "$-1", "only a migrate says it, or who opens an epoch");
    assert_eq!(open(&server).migrate().unwrap(), Migration::UpToDate);
    assert_eq!(marked(&server), texts("1", "1"));
    assert_eq!(block_on(open(&server).epoch()).unwrap(), held.epoch);
    assert_eq!(server.command(&["HDEL", FIRST, "u"]), ":1");
    let opening = Opening::new(held.epoch).with_dead_holders();
    assert_ne!(block_on(open(&server).open_epoch(opening)).unwrap(), held.epoch);
    assert_eq!(marked(&server), texts("1", "1"));
}

#[test]
fn a_newer_store_that_admits_this_program_is_used_and_stays_what_it_is() {
    let server = set_up();
    mark(&server, "3", "1");
    let newer = open(&server);
    let held = granted(&newer, claim("job", 1));
    assert_eq!(newer.migrate().unwrap(), Migration::UpToDate);
    let opening = Opening::new(held.epoch).with_dead_holders();
    assert_ne!(block_on(newer.open_epoch(opening)).unwrap(), held.epoch);
    granted(&newer, claim("job", 2));
    assert_eq!(marked(&server), texts("3", "1"), "it was taken back to this program's own");
    // What a migrate mends it does not take back, either.
    assert_eq!(server.command(&["DEL", "{lease:default:7}"]), ":1");
    assert_eq!(open(&server).migrate().unwrap(), Migration::SetUp);
    assert_eq!(marked(&server), texts("3", "1"));
}

#[test]
fn a_newer_store_that_does_not_is_refused_before_anything_is_written() {
    let server = set_up();
    mark(&server, "3", "2");
    // What each connection to another run of the server writes.
    assert_eq!(server.command(&["HSET", FIRST, "s.run", "another"]), ":0");
    for error in refusals(&server) {
        let told = (error.kind(), error.undecided());
        assert_eq!(told, (ErrorKind::Schema, Undecided::Refused), "{error}");
        for word in ["redis://127.0.0.1", "of version 3", "version 2 or later", "knows version 1", "newer"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    assert_eq!((marked(&server), field(&server, "s.run")), (texts("3", "2"), "another".to_owned()));
}

#[test]
fn who_was_connected_before_writes_nothing_over_the_new_version() {
    let server = set_up();
    let before = open(&server);
    let held = granted(&before, claim("job", 1));
    mark(&server, "3", "2");
    let opening = Opening::new(held.epoch).with_dead_holders();
    let error = block_on(before.open_epoch(opening.clone())).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone), "{error}");
    let error = block_on(before.open_epoch(opening)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error}");
    assert_eq!((marked(&server), field(&server, "e")), (texts("3", "2"), held.epoch.to_string()));
}

#[test]
fn numbers_that_no_program_writes_are_told_so() {
    let server = set_up();
    for (version, usable_by) in [("1", "x"), ("1", "0"), ("1", "2"), ("2", ""), ("x", "1"), ("01", "1")] {
        mark(&server, version, usable_by);
        for error in refusals(&server) {
            let told = (error.kind(), error.undecided());
            assert_eq!(told, (ErrorKind::Damaged, Undecided::Refused), "{version:?} {usable_by:?}: {error}");
            assert!(error.to_string().contains("expected two numbers"), "{error}");
        }
    }
    assert_eq!(server.command(&["HDEL", FIRST, "v"]), ":1");
    for error in refusals(&server) {
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
}
