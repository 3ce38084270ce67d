//! A server that crashes, is taken over from, or turns out to be another one.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Ending, Epoch, ErrorKind, MysqlStore, Opening, Renewed, Store, Undecided,
};

use crate::blocked::{harmed, is_waiting};
use crate::conformance::CLOCK;
use crate::help::{claim, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server};
use crate::setup::by_hand;

const LONG: Duration = Duration::from_secs(70);

/// Tells the other threads of a test that it ends, also where it fails.
struct EndsWithIt<'a>(&'a AtomicBool);

impl Drop for EndsWithIt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

on_both! {
    what_was_answered_outlives_a_crash_and_another_server_is_in_a_new_epoch
    another_server_behind_a_warm_connection_is_seen_by_the_next_decision
    no_prune_lets_a_token_come_again
    a_prune_that_fails_on_its_way_is_unknown
}

fn what_was_answered_outlives_a_crash_and_another_server_is_in_a_new_epoch(kind: Kind) {
    let mut server = Server::start(kind, &[]);
    let (_, url) = server.fresh();
    let (_, trusting) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
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

    // The same files, on a server that knows itself by another name: a replica that took over, a backup elsewhere.
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let trusted = lease("job", 1, granted(&MysqlStore::open(&trusting).unwrap(), claim("job", 1)));
    server.kill();
    if kind == Kind::MySql {
        std::fs::remove_file(server.guarded.path().join("data/auto.cnf")).unwrap();
    }
    server.up_with(&["--server-id=77"]);
    let store = MysqlStore::open(&url).unwrap();
    let error = block_on(store.renew(held.clone(), LONG)).unwrap_err();
    let ErrorKind::NewEpoch { current } = error.kind() else { panic!("{error:?}") };
    assert_ne!(current, epoch, "the other server went unnoticed");
    let held_back = block_on(store.acquire(claim("other", 2)));
    assert_eq!(held_back.unwrap_err().kind(), ErrorKind::Busy, "leases may be missing here");
    // An operator knows better.
    let opening = Opening::new(current).with_dead_holders();
    assert_ne!(block_on(store.open_epoch(opening)).unwrap(), current);
    assert!(granted(&store, claim("job", 2)).token.value() > held.token.value() + (1 << 32));
    let store = MysqlStore::open(&format!("{trusting}?trust_failover=1")).unwrap();
    assert!(matches!(block_on(store.renew(trusted.clone(), LONG)).unwrap(), Renewed::Renewed(_)));
    assert_eq!(Some(block_on(store.epoch()).unwrap()), trusted.epoch);
}

fn another_server_behind_a_warm_connection_is_seen_by_the_next_decision(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let many = vec![(held.clone(), LONG)];
    // As it looks behind a proxy, whose clients stay connected.
    server.sql(&database, "UPDATE lease_store SET server = 'another'");
    let answers = block_on(store.renew_many(many)).unwrap();
    let Err(error) = &answers[0] else { panic!("{answers:?}") };
    let ErrorKind::NewEpoch { current } = error.kind() else { panic!("{error:?}") };
    assert_ne!(Some(current), held.epoch);
    // Seen by those who connect to it: of twenty, one opens an epoch.
    server.sql(&database, "UPDATE lease_store SET server = 'another'");
    let epochs: Vec<Epoch> = thread::scope(|scope| {
        let openers: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| block_on(MysqlStore::open(&url).unwrap().epoch()).unwrap()))
            .collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0] && *epoch != current), "{epochs:?}");
}

fn no_prune_lets_a_token_come_again(kind: Kind) {
    let server = Server::shared(kind);
    let database = server.empty();
    // A clock that does not move, so that only the floor keeps a first token above the last one.
    by_hand(server, &database, |text| text.replace(CLOCK, "1900000000000000"));
    let store = MysqlStore::open(&server.url(&database)).unwrap();
    let begun = Instant::now();
    let mut last = 0;
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
    let mut pruning = harmed(server, &database, "SELECT floor FROM lease_floor FOR UPDATE");
    let next = thread::scope(|scope| {
        let acquire = scope.spawn(|| granted(&store, claim("another", 1_000)));
        let begun = Instant::now();
        while !is_waiting(server, &database) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not wait for the floor");
            thread::sleep(Duration::from_millis(5));
        }
        pruning(&format!("UPDATE lease_floor SET floor = {}; COMMIT", last + 1_000));
        acquire.join().unwrap()
    });
    assert!(next.token.value() > last + 1_000, "{} is below the floor {}", next.token, last + 1_000);
}

fn a_prune_that_fails_on_its_way_is_unknown(kind: Kind) {
    let server = Server::shared(kind);
    let resources = |count: u32| {
        let rows: Vec<String> = (1..=count).map(|n| format!("('job-{n}', {n}, 0)")).collect();
        format!("INSERT INTO lease_row (name, last_issued, observed) VALUES {}", rows.join(","))
    };
    // Its second transaction of the first kind, which raises the floor; and its first of the other, which is about history.
    let fails = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'in the way'";
    for (count, harm) in [
        (2_001, format!("BEFORE UPDATE ON lease_floor FOR EACH ROW IF OLD.floor > 0 THEN {fails}; END IF")),
        (1, format!("BEFORE DELETE ON lease_history FOR EACH ROW {fails}")),
    ] {
        let (database, url) = server.fresh();
        server.sql(&database, &resources(count));
        let hold = "'job-1', 1, 1, NULL, NULL, 0, 0, 0, 0, 1, 0, NULL";
        server.sql(&database, &format!("INSERT INTO lease_history VALUES ({hold})"));
        server.sql(&database, &format!("CREATE TRIGGER fails {harm}"));
        let store = MysqlStore::open(&url).unwrap();
        let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
        let left = block_on(store.list(String::new())).unwrap().len();
        assert_eq!(left, usize::from(count > 1), "{error:?}");
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::Unknown), "{error:?}");
        let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone), "{error:?}");
    }
}
