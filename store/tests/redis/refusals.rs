//! Servers that cannot be used, and users who may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lease_machines::OwnerId;
use lease_machines_store::{
    Clock, ErrorKind, LeaseRef, PoolClaim, RedisOptions, RedisStore, Released, Renewed, Severity, Store,
    StoreError, Undecided, open,
};

use crate::common::{block_on, claim, granted};
use crate::servers::clock::WallClock;
use crate::servers::guard::{Guarded, free_port};
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
    // Of a pool with history, too: one of its slots is revoked, and asked for by an identity that is exclusive.
    for owner in 1..=3 {
        let pool =
            PoolClaim::new(crate::common::name("ids"), 2, OwnerId::new(owner), Duration::from_secs(10));
        let pool = pool.with_identity("a").with_exclusive_identity().with_id_time();
        let _ = block_on(allowed.claim_slot(pool)).unwrap();
        let _ = block_on(allowed.revoke_slot(crate::common::name("ids"), 0, None, None)).unwrap();
    }
    let _ = block_on(allowed.resize_pool(crate::common::name("ids"), 1)).unwrap();
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
        let refused = [
            block_on(store.acquire(claim("other", 2))).unwrap_err(),
            block_on(store.renew(held.clone(), crate::common::TTL)).unwrap_err(),
            block_on(store.release(held.clone(), Default::default())).unwrap_err(),
        ];
        for error in refused {
            let told = (error.kind(), error.undecided());
            assert_eq!(told, (ErrorKind::Storage, Undecided::NotDone), "{error}");
            assert!(error.to_string().contains("give it more, or prune"), "{error}");
        }
    }
    assert!(block_on(store.inspect(crate::common::name("other"))).unwrap().occupant.is_none());
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
    let _ = block_on(store.renew(held.clone(), crate::common::TTL)).unwrap();
    granted(&store, claim("other", 2));
    let _ = block_on(store.release(held.clone(), Default::default())).unwrap();
    assert!(granted(&store, claim("job", 2)).token > held.token);
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
fn a_prune_that_fails_on_its_way_is_unknown() {
    let server = RedisServer::start(FORGETFUL);
    let store = store(&server, |options| options);
    store.migrate().unwrap();
    let held = granted(&store, claim("job", 1));
    let lease = LeaseRef::new(claim("job", 1).resource, OwnerId::new(1), held.token, Some(held.epoch));
    let _ = block_on(store.release(lease, Default::default())).unwrap();
    // The bucket before that of the job, asked at the same time.
    assert_eq!(server.command(&["SET", "{lease:default:68}", "x"]), "+OK");
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Unknown), "{error}");
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error}");
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

#[test]
fn the_doctor_sees_memory_replicas_and_another_time() {
    let folder = Guarded::folder("clock");
    let time = WallClock::new(folder.path().to_owned()).unwrap();
    let server = RedisServer::start_in("redis-server", DURABLE, &time.variables());
    let store = store(&server, |options| options);
    store.migrate().unwrap();
    let found = |check: &str| {
        let findings = block_on(store.doctor()).unwrap();
        findings.into_iter().find(|finding| finding.check == check).unwrap()
    };
    assert_eq!(found("clock").severity, Severity::Fine);
    for ahead in [3_600, -3_600] {
        time.set(ahead);
        let told = found("clock");
        assert_eq!(told.severity, Severity::Note, "{told:?}");
        assert!(told.found.contains("is 3600") || told.found.contains("is 3599"), "{told:?}");
    }
    time.set(0);

    // What is used is looked at when it connects.
    assert_eq!(found("memory").severity, Severity::Fine);
    let used = server.command(&["INFO", "memory"]);
    let used = used.lines().find_map(|line| line.trim().strip_prefix("used_memory:")).unwrap();
    let used: u64 = used.parse().unwrap();
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", &(used + used / 20).to_string()]), "+OK");
    let anew = RedisStore::open(&server.url("timeout=5s")).unwrap();
    let findings = block_on(anew.doctor()).unwrap();
    let told = findings.iter().find(|finding| finding.check == "memory").unwrap();
    assert_eq!(told.severity, Severity::Warning, "{told:?}");
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
    // One that throws keys away is refused.
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "+OK");
    let findings = block_on(RedisStore::open(&server.url("timeout=5s")).unwrap().doctor()).unwrap();
    for check in ["eviction", "epoch"] {
        let told = findings.iter().find(|finding| finding.check == check).unwrap();
        assert_eq!(told.severity, Severity::Error, "{told:?}");
        assert!(told.found.contains("allkeys-lru"), "{told:?}");
    }
}

/// What a call comes to only when it is made is told beforehand: each right by its name.
#[test]
fn the_doctor_names_the_rights_that_a_user_lacks() {
    for program in ["redis-server", "valkey-server"] {
        let server = RedisServer::start_as(program, DURABLE);
        let whole = store(&server, |options| options);
        whole.migrate().unwrap();
        let printed = whole.rights();
        let printed =
            printed.lines().find(|line| line.starts_with("ACL")).unwrap().replace("PASSWORD", "secret");
        let told = |without: &[&str]| {
            let words: Vec<&str> = printed.split(' ').filter(|word| !without.contains(word)).collect();
            assert_eq!(server.command(&words), "+OK", "{words:?}");
            let limited =
                RedisStore::open(&format!("redis://lease:secret@127.0.0.1:{}", server.port)).unwrap();
            let findings = block_on(limited.doctor()).unwrap();
            findings.into_iter().find(|finding| finding.check == "rights").unwrap()
        };
        assert_eq!(told(&[]).severity, Severity::Fine, "{:?}", told(&[]));
        for without in
            [&["+evalsha"][..], &["+script|load"], &["+eval"], &["+hset", "+zadd"], &["~{lease:default:*"]]
        {
            let told = told(without);
            let found = format!("this user lacks {}", without.join(", "));
            assert_eq!((told.severity, &told.found), (Severity::Error, &found));
            assert!(told.mend.as_ref().unwrap().contains("lease migrate --print"), "{told:?}");
        }
    }
}

/// The clock of a machine on which each answer takes a second.
#[derive(Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn identity(&self) -> String {
        String::new()
    }
}

#[test]
fn an_answer_that_comes_when_its_lease_is_over_is_unknown() {
    let server = RedisServer::start(DURABLE);
    let store = store(&server, |options| options.clock(Arc::new(Slow::default())));
    store.migrate().unwrap();
    let (long, short) = (Duration::from_secs(60), Duration::from_millis(900));
    let held = granted(&store, claim("job", 1));
    let lease = LeaseRef::new(claim("job", 1).resource, claim("job", 1).owner, held.token, Some(held.epoch));
    assert!(matches!(block_on(store.renew(lease.clone(), long)).unwrap(), Renewed::Renewed(_)));
    let mut soon = claim("soon", 2);
    soon.ttl = short;
    let late = block_on(store.acquire(soon.clone())).unwrap_err();
    assert_eq!((late.kind(), late.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{late}");
    // What was granted is there for its owner to take back.
    assert_eq!(block_on(store.withdraw(soon.resource, soon.owner)).unwrap(), Released::Released);
    let each = block_on(store.renew_many(vec![(lease, long)])).unwrap();
    assert!(matches!(each[0], Ok(Renewed::Renewed(_))), "{each:?}");
}
