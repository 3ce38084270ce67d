//! Servers that cannot be used, and users who may not.

use std::time::{Duration, Instant};

use lease_machines_store::{
    ErrorKind, RedisOptions, RedisStore, Severity, Store, StoreError, Undecided, open,
};

use crate::common::{block_on, claim, granted};
use crate::servers::guard::free_port;
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::store;

fn asked(url: &str) -> StoreError {
    block_on(open(url).unwrap().acquire(claim("job", 1))).unwrap_err()
}

#[test]
fn nobody_listens() {
    let url = format!("redis://user:secret@127.0.0.1:{}", free_port());
    let error = asked(&url);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    assert!(
        error.to_string().contains("redis://127.0.0.1:") && !format!("{error:?}").contains("secret"),
        "{error:?}"
    );
}

#[test]
fn passwords_databases_and_rights() {
    let server = RedisServer::start(FORGETFUL);
    store(&server, |options| options).migrate().unwrap();
    let at = |login: &str, path: &str| asked(&format!("redis://{login}127.0.0.1:{}{path}", server.port));
    let error = at("", "/99");
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Configuration, Undecided::Refused), "{error}");
    let error = at("someone:secret@", "");
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    let error = at("", "/1");
    assert_eq!(error.kind(), ErrorKind::NotSetUp, "another database: {error}");

    let allow = |rights: &str| {
        let words: Vec<&str> = rights.split(' ').collect();
        assert_eq!(server.command(&words), "+OK", "{rights}");
    };
    allow("ACL SETUSER looker on >secret resetkeys ~{lease:* -@all +info +ping");
    let error = at("looker:secret@", "");
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error}");
    allow("ACL SETUSER stranger on >secret resetkeys ~other:* +@all");
    let error = at("stranger:secret@", "");
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error}");
    allow("ACL SETUSER reader on >secret resetkeys ~{lease:* +@all -hset -lpush -hsetnx");
    let error = at("reader:secret@", "");
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error}");

    // What is printed suffices.
    let printed = store(&server, |options| options).rights();
    let line = printed.lines().find(|line| line.starts_with("ACL")).unwrap();
    allow(&line.replace("PASSWORD", "secret"));
    let allowed = RedisStore::open(&format!("redis://lease:secret@127.0.0.1:{}", server.port)).unwrap();
    allowed.migrate().unwrap();
    let held = crate::common::lease("job", 1, granted(&allowed, claim("job", 1)));
    let _ = block_on(allowed.release(held, Default::default())).unwrap();
    block_on(allowed.list(String::new())).unwrap();
    block_on(allowed.prune(Duration::ZERO)).unwrap();
    assert!(block_on(allowed.doctor()).unwrap().iter().any(|finding| finding.check == "server"));
}

#[test]
fn a_password_for_all() {
    let server = RedisServer::start(FORGETFUL);
    assert_eq!(server.command(&["CONFIG", "SET", "requirepass", "secret"]), "+OK");
    let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port);
    for wrong in ["", ":wrong@"] {
        let error = asked(&url(wrong));
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error}");
    }
    let right = RedisStore::open(&url(":secret@")).unwrap();
    right.migrate().unwrap();
    granted(&right, claim("job", 1));
}

#[test]
fn clusters_and_servers_that_throw_away_are_refused() {
    for (args, word) in [
        (&["--cluster-enabled", "yes"][..], "cluster"),
        (&["--maxmemory-policy", "allkeys-lru"][..], "noeviction"),
    ] {
        let server = RedisServer::start(args);
        let error = store(&server, |options| options).migrate().unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Configuration, Undecided::Refused),
            "{error}"
        );
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_full_memory_changes_nothing() {
    let server = RedisServer::start(FORGETFUL);
    let store = store(&server, |options| options);
    store.migrate().unwrap();
    let held = crate::common::lease("job", 1, granted(&store, claim("job", 1)));
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "+OK");
    for _ in 0..2 {
        let error = block_on(store.acquire(claim("other", 2))).unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Storage, Undecided::NotDone), "{error}");
    }
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
    let _ = block_on(store.renew(held, crate::common::TTL)).unwrap();
    granted(&store, claim("other", 2));
}

#[test]
fn a_key_that_is_something_else_is_named_so() {
    let server = RedisServer::start(FORGETFUL);
    let store = store(&server, |options| options);
    store.migrate().unwrap();
    assert_eq!(server.command(&["SET", "{lease:default:69}", "x"]), "+OK");
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error}");
    assert_eq!(server.command(&["DEL", "{lease:default:0}"]), ":1");
    assert_eq!(server.command(&["HSET", "{lease:default:0}", "e", "x", "v", "9"]), ":2");
    let error = self::store(&server, |options| options).migrate().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
}

#[test]
fn a_row_that_is_damaged_costs_itself_alone() {
    let server = RedisServer::start(FORGETFUL);
    let store = store(&server, |options| options);
    store.migrate().unwrap();
    granted(&store, claim("job", 1));
    granted(&store, claim("a", 1));
    assert_eq!(server.command(&["HSET", "{lease:default:69}", "rjob", "x"]), ":0");
    let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Damaged, Undecided::Refused), "{error}");
    assert_eq!(block_on(store.list(String::new())).unwrap().len(), 1);
}

#[test]
fn the_doctor_says_what_can_be_lost() {
    let worst = |server: &RedisServer, change: fn(RedisOptions) -> RedisOptions| {
        let store = store(server, change);
        store.migrate().unwrap();
        let findings = block_on(store.doctor()).unwrap();
        (findings[0].severity, findings[0].check)
    };
    let durable = RedisServer::start(DURABLE);
    assert_eq!(worst(&durable, |options| options).0, Severity::Fine);
    let asked = store(&durable, |options| options.replicas(1).timeout(Duration::from_millis(200)));
    let start = Instant::now();
    let _ = block_on(asked.doctor());
    assert!(start.elapsed() < Duration::from_secs(5));
    let sometimes = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    assert_eq!(worst(&sometimes, |options| options), (Severity::Error, "durability"));
    let never = RedisServer::start(FORGETFUL);
    assert_eq!(worst(&never, |options| options), (Severity::Error, "durability"));
}
