//! A server that crashes, is promoted, or turns out to be another one.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, Ending, Epoch, ErrorKind, Opening, PostgresStore, Store, Undecided};

use crate::help::{claim, granted, lease};
use crate::servers::postgres::{Server, fresh_name};

/// Tells the other threads of a test that it ends, also where it fails.
struct EndsWithIt<'a>(&'a AtomicBool);

impl Drop for EndsWithIt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn what_was_answered_outlives_a_crash() {
    // Laxer than any server should be: the store asks for more by itself.
    let mut server = Server::start(&["synchronous_commit = off"]);
    let (_, url) = server.fresh();
    let store = PostgresStore::open(&url).unwrap();
    let epoch = block_on(store.epoch()).unwrap();
    let (answered, ended) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    thread::scope(|scope| {
        let _end = EndsWithIt(&ended);
        for client in 0..4_u64 {
            let (store, answered, ended) = (&store, &answered, &ended);
            scope.spawn(move || {
                for round in 1_u64.. {
                    if ended.load(Ordering::SeqCst) {
                        return;
                    }
                    let (name, owner) = (format!("job-{}", client % 2), client * 1_000_000 + round);
                    if let Ok(Acquired::Granted(grant)) = block_on(store.acquire(claim(&name, owner))) {
                        answered.lock().unwrap().push((name.clone(), grant.token.value()));
                        // What came of this one does not matter.
                        let _ = block_on(store.release(lease(&name, owner, grant), Ending::default()));
                    }
                    let _ = block_on(store.withdraw(claim(&name, owner).resource, claim(&name, owner).owner));
                }
            });
        }
        for _ in 0..2 {
            let so_far = answered.lock().unwrap().len();
            let begun = Instant::now();
            while answered.lock().unwrap().len() < so_far + 40 {
                assert!(
                    begun.elapsed() < Duration::from_secs(60),
                    "nothing is granted: {}",
                    server.guarded.log()
                );
                thread::sleep(Duration::from_millis(5));
            }
            server.kill();
            server.up();
        }
    });
    let answered = answered.into_inner().unwrap();
    let distinct: HashSet<_> = answered.iter().collect();
    assert_eq!(distinct.len(), answered.len(), "a token was given twice");
    for name in ["job-0", "job-1"] {
        let told = answered.iter().filter(|(of, _)| of == name).map(|(_, token)| *token).max().unwrap();
        let seen = block_on(store.inspect(claim(name, 1).resource)).unwrap();
        assert!(seen.last_issued.unwrap().value() >= told, "{name}: {told} was answered, {seen:?} is left");
    }
    assert_eq!(block_on(store.epoch()).unwrap(), epoch, "a crash alone loses nothing");
}

#[test]
fn a_promoted_server_is_in_a_new_epoch_unless_its_failovers_are_trusted() {
    let primary = Server::start(&["wal_level = replica", "max_wal_senders = 4"]);
    let (schema, trusting) = (fresh_name(), fresh_name());
    for schema in [&schema, &trusting] {
        lease_machines_store::migrate(&primary.url(schema)).unwrap();
    }
    let held =
        lease("job", 1, granted(&PostgresStore::open(&primary.url(&schema)).unwrap(), claim("job", 1)));
    let trusted =
        lease("job", 1, granted(&PostgresStore::open(&primary.url(&trusting)).unwrap(), claim("job", 1)));
    let standby = Server::standby_of(&primary);
    let on_standby = PostgresStore::open(&standby.url(&schema)).unwrap();
    let error = block_on(on_standby.renew(held.clone(), Duration::from_secs(70))).unwrap_err();
    assert_eq!(error.undecided(), Undecided::NotDone, "it may be promoted yet: {error:?}");
    assert!(error.to_string().contains("standby"), "{error}");
    drop(primary);
    standby.sql("SELECT pg_promote(true)");
    let current = block_on(on_standby.epoch()).unwrap();
    assert_ne!(Some(current), held.epoch, "the promotion went unnoticed");
    let error = block_on(on_standby.renew(held.clone(), Duration::from_secs(70))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewEpoch { current });
    let held_back = block_on(on_standby.acquire(claim("other", 2)));
    assert_eq!(held_back.unwrap_err().kind(), ErrorKind::Busy, "leases may be missing here");
    // An operator knows better.
    let opening = Opening::new(current).with_dead_holders();
    assert_ne!(block_on(on_standby.open_epoch(opening)).unwrap(), current);
    assert!(granted(&on_standby, claim("job", 2)).token.value() > held.token.value() + (1 << 32));
    let store = PostgresStore::open(&format!("{}&trust_failover=1", standby.url(&trusting))).unwrap();
    assert!(block_on(store.renew(trusted.clone(), Duration::from_secs(70))).is_ok());
    assert_eq!(Some(block_on(store.epoch()).unwrap()), trusted.epoch);
}

#[test]
fn a_promotion_under_a_warm_connection_is_seen_by_the_next_decision() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let store = PostgresStore::open(&url).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    // As it looks behind a pooler, whose clients stay connected.
    server.sql(&format!("UPDATE {schema}.lease_store SET timeline = 77"));
    let error = block_on(store.renew(held.clone(), Duration::from_secs(70))).unwrap_err();
    let ErrorKind::NewEpoch { current } = error.kind() else { panic!("{error:?}") };
    assert_ne!(Some(current), held.epoch);
    // Another server with the same tables: seen by those who connect to it.
    server.sql(&format!("UPDATE {schema}.lease_store SET system_identifier = 77"));
    let epochs: Vec<Epoch> = thread::scope(|scope| {
        let openers: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| block_on(PostgresStore::open(&url).unwrap().epoch()).unwrap()))
            .collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0] && *epoch != current), "{epochs:?}");
}

#[test]
fn no_prune_lets_a_token_come_again() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let store = PostgresStore::open(&url).unwrap();
    let begun = Instant::now();
    let mut last = 0;
    // A clock that does not move, so that only the floor keeps a first token above the last one.
    server.sql(&format!(
        "CREATE OR REPLACE FUNCTION {schema}.lease_clock_1() RETURNS bigint LANGUAGE sql VOLATILE AS
         'SELECT 1900000000000000'"
    ));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = EndsWithIt(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                if let Err(error) = block_on(store.prune(Duration::ZERO)) {
                    assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
                }
            }
        });
        for owner in 1..=300 {
            let held = granted(&store, claim("job", owner));
            assert!(held.token.value() > last, "{} after {last}", held.token);
            last = held.token.value();
            let _ = block_on(store.release(lease("job", owner, held), Ending::default())).unwrap();
            if begun.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
    });
    // The order of their steps is what counts: the prune holds the floor while a first grant has made its row.
    let pruning = crate::blocked::harmed(
        &schema,
        "LOCK TABLE {schema}.lease_floor IN EXCLUSIVE MODE; DELETE FROM {schema}.lease_row",
    );
    let next = thread::scope(|scope| {
        let acquire = scope.spawn(|| granted(&store, claim("job", 1_000)));
        let waiting = format!(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{schema}\".%'"
        );
        let begun = Instant::now();
        while server.sql(&waiting).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not wait for the floor");
            thread::sleep(Duration::from_millis(5));
        }
        pruning(&format!("UPDATE {schema}.lease_floor SET floor = {}; COMMIT", last + 1_000));
        acquire.join().unwrap()
    });
    assert!(next.token.value() > last + 1_000, "{} is below the floor {}", next.token, last + 1_000);
}
