//! What goes over the wire, counted by a proxy, and what becomes of a request when the wire breaks.

use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claimed, Ending, ErrorKind, Opening, PoolClaim, PostgresStore, Released, Renewed, SlotRef,
    Store, Undecided,
};

use crate::help::{claim, granted, lease};
use crate::servers::postgres::Server;
use crate::servers::proxy::{Harm, Proxy};

/// A store whose only connection goes through a proxy.
fn through(options: &str) -> (Proxy, PostgresStore) {
    let server = Server::shared();
    let (schema, _) = server.fresh();
    let proxy = Proxy::start(server.port);
    let url = format!(
        "postgres://lease@127.0.0.1:{}/postgres?schema={schema}&sslmode=disable&connections=1{options}",
        proxy.port
    );
    (proxy, PostgresStore::open(&url).unwrap())
}

#[test]
fn a_decision_is_one_round_trip_also_unprepared() {
    // Where its transactions are too strict, it says so once.
    let strict = "&pooler=1&options=-c%20default_transaction_isolation%3Dserializable";
    for (options, named) in [("", true), ("&pooler=1", false), (strict, false)] {
        let (proxy, store) = through(options);
        let call = |name: &str, round: u64| {
            let held = granted(&store, claim(name, round));
            let lease = lease(name, round, held);
            let many = vec![(lease.clone(), Duration::from_secs(70)); 3];
            let mut trips = Vec::new();
            let mut counted = |what: &'static str, ask: &dyn Fn()| {
                let before = proxy.asked();
                ask();
                trips.push((what, proxy.asked() - before));
            };
            counted("occupied", &|| drop(block_on(store.acquire(claim(name, 99))).unwrap()));
            counted("renew", &|| {
                drop(block_on(store.renew(lease.clone(), Duration::from_secs(70))).unwrap())
            });
            counted("renew_many", &|| drop(block_on(store.renew_many(many.clone())).unwrap()));
            counted("inspect", &|| drop(block_on(store.inspect(lease.resource.clone())).unwrap()));
            counted("release", &|| drop(block_on(store.release(lease.clone(), Ending::default())).unwrap()));
            counted("acquire", &|| drop(block_on(store.acquire(claim(name, round + 10))).unwrap()));
            counted("reacquire", &|| {
                drop(block_on(store.reacquire(claim(name, round + 10).with_attempt(2))).unwrap())
            });
            counted("withdraw", &|| {
                drop(block_on(store.withdraw(lease.resource.clone(), OwnerId::new(round + 10))).unwrap())
            });
            counted("revoke", &|| drop(block_on(store.revoke(lease.resource.clone(), None, None)).unwrap()));
            counted("list", &|| drop(block_on(store.list(String::new())).unwrap()));
            counted("history", &|| drop(block_on(store.history(lease.resource.clone(), 9)).unwrap()));
            counted("epoch", &|| assert!(block_on(store.epoch()).is_ok()));
            let pool = lease.resource.clone();
            let wish = |owner: u64| {
                PoolClaim::new(pool.clone(), 3, OwnerId::new(owner), Duration::from_secs(60))
                    .with_identity("a")
            };
            counted("first claim_slot", &|| drop(block_on(store.claim_slot(wish(1))).unwrap()));
            counted("claim_slot", &|| drop(block_on(store.claim_slot(wish(2))).unwrap()));
            let Claimed::Granted(held) = block_on(store.claim_slot(wish(1))).unwrap() else { panic!() };
            let slot = SlotRef::new(pool.clone(), held.slot, OwnerId::new(1), held.token, None);
            counted("reclaim_slot", &|| drop(block_on(store.reclaim_slot(wish(2).with_attempt(2))).unwrap()));
            counted("renew_slot", &|| {
                drop(block_on(store.renew_slot(slot.clone(), Duration::from_secs(70), true)).unwrap())
            });
            counted("release_slot", &|| drop(block_on(store.release_slot(slot.clone(), None)).unwrap()));
            counted("withdraw_slot", &|| {
                drop(block_on(store.withdraw_slot(pool.clone(), OwnerId::new(2))).unwrap())
            });
            counted("revoke_slot", &|| {
                drop(block_on(store.revoke_slot(pool.clone(), 0, None, None)).unwrap())
            });
            counted("pools", &|| assert!(!block_on(store.pools()).unwrap().is_empty()));
            counted("slots", &|| drop(block_on(store.slots(pool.clone())).unwrap()));
            counted("resize_pool", &|| assert!(block_on(store.resize_pool(pool.clone(), 5)).is_ok()));
            counted("prune", &|| assert!(block_on(store.prune(Duration::from_secs(70))).is_ok()));
            let opening = Opening::new(block_on(store.epoch()).unwrap()).with_dead_holders();
            counted("open_epoch", &|| assert!(block_on(store.open_epoch(opening.clone())).is_ok()));
            trips
        };
        let _ = call("warm", 1);
        for (what, trips) in call("counted", 2) {
            assert_eq!(trips, 1, "{what}, {options:?}");
        }
        assert_eq!(proxy.named() > 0, named, "{options:?}");
    }
}

#[test]
fn an_answer_that_is_lost_is_unknown_and_asked_for_again() {
    // Without a statement to prepare on each new connection, there is one answer to lose.
    let (proxy, store) = through("&pooler=1");
    let _ = granted(&store, claim("warm", 1));
    for (harm, granted_first) in [(Harm::CutRequest, false), (Harm::CutAnswer, true)] {
        let name = if granted_first { "answer" } else { "request" };
        proxy.harm(harm);
        let error = block_on(store.acquire(claim(name, 1))).unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::Unknown),
            "{error:?}"
        );
        proxy.harm(Harm::None);
        let again = block_on(store.reacquire(claim(name, 1).with_attempt(2))).unwrap();
        let Acquired::Granted(grant) = again else { panic!("{again:?}") };
        let held = lease(name, 1, grant);
        proxy.harm(harm);
        let error = block_on(store.renew(held.clone(), Duration::from_secs(70))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::Unknown, "{error:?}");
        proxy.harm(Harm::None);
        assert!(matches!(
            block_on(store.renew(held.clone(), Duration::from_secs(70))).unwrap(),
            Renewed::Renewed(_)
        ));
        proxy.harm(harm);
        let error = block_on(store.release(held.clone(), Ending::default())).unwrap_err();
        assert_eq!(error.undecided(), Undecided::Unknown, "{error:?}");
        proxy.harm(Harm::None);
        let expected = if granted_first { Released::AlreadyReleased } else { Released::Released };
        assert_eq!(block_on(store.release(held, Ending::default())).unwrap(), expected);
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up_in_time() {
    let (proxy, store) = through("&timeout=400ms");
    let _ = granted(&store, claim("warm", 1));
    proxy.harm(Harm::Swallow);
    let begun = Instant::now();
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::Unknown), "{error:?}");
    // Not even a connection is to be had now; nothing was sent.
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    assert_eq!(error.undecided(), Undecided::NotDone, "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    proxy.harm(Harm::None);
    let again = block_on(store.reacquire(claim("job", 1).with_attempt(2))).unwrap();
    assert!(matches!(again, Acquired::Granted(_)), "{again:?}");
}

#[test]
fn a_broken_connection_is_replaced() {
    let server = Server::shared();
    let (_, url) = server.fresh();
    let store = PostgresStore::open(&format!("{url}&application_name=victim&connections=2")).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let pid = server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'").remove(0);
    server.sql(&format!("SELECT pg_terminate_backend({pid})"));
    // A request may be sent into the broken one, also a little later: it is ended by a signal.
    let begun = Instant::now();
    loop {
        match block_on(store.renew(held.clone(), Duration::from_secs(70))) {
            Ok(Renewed::Renewed(_))
                if server.sql(&format!("SELECT 1 FROM pg_stat_activity WHERE pid = {pid}")).is_empty() =>
            {
                break;
            }
            Ok(Renewed::Renewed(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_ne!(error.undecided(), Undecided::Refused, "{error:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not replaced");
    }
}
