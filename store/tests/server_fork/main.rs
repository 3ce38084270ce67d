//! A store on a server and a fork: Artemis PR#2632, filelock#634, redis-rb#1157. In the child its calls are refused and send
//! nothing, for the connections are the parent's, too; the parent goes on.
//!
//! A program of its own, without a test harness: a process with the harness's threads must not be forked like this.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../servers/mod.rs"]
mod servers;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claim, Ending, ErrorKind, EtcdStore, LeaseRef, Opening, PostgresStore, RedisStore, Released,
    Renewed, ResourceName, StoreError, Undecided, open,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::servers::etcd::EtcdServer;
use crate::servers::mysql;
use crate::servers::postgres::Server;
use crate::servers::redis::{FORGETFUL, RedisServer};
use crate::servers::tap::Tap;

/// The child is waited for at most this long; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(20);

const TTL: Duration = Duration::from_secs(60);

fn main() {
    let redis = RedisServer::start(FORGETFUL);
    let tap = Tap::to(redis.port);
    let url = format!("redis://127.0.0.1:{}", tap.port);
    RedisStore::open(&url).unwrap().migrate().unwrap();
    a_child_is_refused_and_sends_nothing(&url, &tap);

    let postgres = Server::shared();
    let (schema, _) = postgres.fresh();
    let tap = Tap::to(postgres.port);
    let url = format!("postgres://lease@127.0.0.1:{}/postgres?schema={schema}&sslmode=disable", tap.port);
    PostgresStore::migrate(&url).unwrap();
    a_child_is_refused_and_sends_nothing(&url, &tap);

    let mariadb = mysql::Server::shared(mysql::Kind::MariaDb);
    let (database, _) = mariadb.fresh();
    let tap = Tap::to(mariadb.port);
    a_child_is_refused_and_sends_nothing(
        &format!("mariadb://lease:@127.0.0.1:{}/{database}", tap.port),
        &tap,
    );

    let etcd = EtcdServer::start();
    let tap = Tap::to(etcd.port);
    let url = format!("etcd://127.0.0.1:{}", tap.port);
    EtcdStore::open(&url).unwrap().migrate().unwrap();
    a_child_is_refused_and_sends_nothing(&url, &tap);
    println!("4 passed, 0 failed");
}

fn a_child_is_refused_and_sends_nothing(url: &str, tap: &Tap) {
    let store = open(url).unwrap();
    let held = match block_on(store.acquire(claim(1))).unwrap() {
        Acquired::Granted(grant) => LeaseRef::new(name(), OwnerId::new(1), grant.token, Some(grant.epoch)),
        other => panic!("not granted: {other:?}"),
    };
    let sent = tap.sent();
    assert!(sent > 0, "the tap counts what is sent");
    in_a_child(|| {
        refused(block_on(store.acquire(claim(2))));
        refused(block_on(store.reacquire(claim(1).with_attempt(2))));
        refused(block_on(store.renew(held.clone(), TTL)));
        refused(block_on(store.renew_many(vec![(held.clone(), TTL)])));
        refused(block_on(store.release(held.clone(), Ending::default())));
        refused(block_on(store.withdraw(name(), held.owner)));
        refused(block_on(store.revoke(name(), None, None)));
        refused(block_on(store.inspect(name())));
        refused(block_on(store.list(String::new())));
        refused(block_on(store.history(name(), 9)));
        refused(block_on(store.prune(Duration::ZERO)));
        refused(block_on(store.wait(name(), TTL)));
        refused(block_on(store.epoch()));
        refused(block_on(store.open_epoch(Opening::new(held.epoch.unwrap()))));
        refused(block_on(store.doctor()));
        // To give it up there ends nothing that is the parent's.
        drop(Arc::clone(&store));
    });
    assert_eq!(tap.sent(), sent, "bytes went over the parent's connections");
    in_a_child(|| {
        let own = open(url).unwrap();
        let told = block_on(own.acquire(claim(3))).unwrap();
        assert!(matches!(told, Acquired::Rejected(_)), "{told:?}");
    });
    assert!(tap.sent() > sent, "what the child opens itself asks the server");
    let renewed = block_on(store.renew(held.clone(), TTL)).unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    let released = block_on(store.release(held, Ending::default())).unwrap();
    assert_eq!(released, Released::Released);
}

fn name() -> ResourceName {
    ResourceName::new("job").unwrap()
}

fn claim(owner: u64) -> Claim {
    Claim::new(name(), OwnerId::new(owner), TTL)
}

fn refused<T: Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Configuration, Undecided::Refused), "{error}");
    assert!(error.to_string().contains("does not survive a fork"), "{error}");
}

/// Does something in a child, to its end.
fn in_a_child(work: impl FnOnce()) {
    let child = match fork::fork().expect("a process more") {
        fork::Fork::Child => {
            let done = catch_unwind(AssertUnwindSafe(work));
            // Without taking apart what is the parent's.
            std::process::exit(i32::from(done.is_err()));
        }
        fork::Fork::Parent(child) => Pid::from_raw(child).unwrap(),
    };
    let begun = Instant::now();
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
            Some((_, status)) => {
                assert_eq!(status.exit_status(), Some(0), "the child failed: {status:?}");
                return;
            }
            None if begun.elapsed() > PATIENCE => {
                kill_process(child, Signal::KILL).unwrap();
                panic!("the child hangs");
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}
