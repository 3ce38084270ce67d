//! What goes over the wire, counted by a proxy, and what becomes of a request when the wire breaks.

use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claimed, Ending, ErrorKind, MysqlStore, Opening, PoolClaim, Released, Renewed, SlotRef, Store,
    Undecided,
};

use crate::help::{claim, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server};
use crate::servers::proxy::{Harm, Proxy};

const LONG: Duration = Duration::from_secs(70);

/// A store whose only connection goes through a proxy.
fn through(kind: Kind, options: &str) -> (Proxy, MysqlStore) {
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let proxy = Proxy::to_mysql(server.port);
    let url = format!("mysql://lease:@127.0.0.1:{}/{database}?connections=1{options}", proxy.port);
    (proxy, MysqlStore::open(&url).unwrap())
}

on_both! {
    a_decision_is_one_round_trip
    an_answer_that_is_lost_is_unknown_and_asked_for_again
    a_server_that_says_nothing_is_given_up_in_time
    a_broken_connection_is_replaced
    a_thousand_leases_are_renewed_by_one_request
}

fn a_decision_is_one_round_trip(kind: Kind) {
    let (proxy, store) = through(kind, "");
    let call = |name: &str, round: u64| {
        let held = granted(&store, claim(name, round));
        let lease = lease(name, round, held);
        let many = vec![(lease.clone(), LONG); 3];
        let mut trips = Vec::new();
        let mut counted = |what: &'static str, ask: &dyn Fn()| {
            let before = proxy.asked();
            ask();
            trips.push((what, proxy.asked() - before));
        };
        counted("occupied", &|| drop(block_on(store.acquire(claim(name, 99))).unwrap()));
        counted("renew", &|| drop(block_on(store.renew(lease.clone(), LONG)).unwrap()));
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
        let wish = |owner: u64| PoolClaim::new(pool.clone(), 3, OwnerId::new(owner), LONG).with_identity("a");
        counted("first claim_slot", &|| drop(block_on(store.claim_slot(wish(1))).unwrap()));
        counted("claim_slot", &|| drop(block_on(store.claim_slot(wish(2))).unwrap()));
        let Claimed::Granted(held) = block_on(store.claim_slot(wish(1))).unwrap() else { panic!() };
        let slot = SlotRef::new(pool.clone(), held.slot, OwnerId::new(1), held.token, None);
        counted("reclaim_slot", &|| drop(block_on(store.reclaim_slot(wish(2).with_attempt(2))).unwrap()));
        counted("renew_slot", &|| drop(block_on(store.renew_slot(slot.clone(), LONG, true)).unwrap()));
        counted("release_slot", &|| drop(block_on(store.release_slot(slot.clone(), None)).unwrap()));
        counted("withdraw_slot", &|| {
            drop(block_on(store.withdraw_slot(pool.clone(), OwnerId::new(2))).unwrap())
        });
        counted("revoke_slot", &|| drop(block_on(store.revoke_slot(pool.clone(), 0, None, None)).unwrap()));
        counted("pools", &|| assert!(!block_on(store.pools()).unwrap().is_empty()));
        counted("slots", &|| drop(block_on(store.slots(pool.clone())).unwrap()));
        counted("resize_pool", &|| assert!(block_on(store.resize_pool(pool.clone(), 5)).is_ok()));
        counted("prune", &|| assert!(block_on(store.prune(LONG)).is_ok()));
        let opening = Opening::new(block_on(store.epoch()).unwrap()).with_dead_holders();
        counted("open_epoch", &|| assert!(block_on(store.open_epoch(opening.clone())).is_ok()));
        trips
    };
    let _ = call("warm", 1);
    let prepared = proxy.named();
    for (what, trips) in call("counted", 2) {
        assert_eq!(trips, 1, "{what}");
    }
    assert!(prepared > 0 && proxy.named() == prepared, "statements stay prepared");
    let before = proxy.asked();
    let pool = PoolClaim::new(claim("many", 1).resource, 1_025, OwnerId::new(1), LONG);
    assert!(matches!(block_on(store.claim_slot(pool)).unwrap(), Claimed::Granted(_)));
    assert_eq!(proxy.asked() - before, 2, "a large pool is made before its first lease begins");
}

fn a_thousand_leases_are_renewed_by_one_request(kind: Kind) {
    let (proxy, store) = through(kind, "");
    let mut leases: Vec<_> = (0..200_u64)
        .map(|n| {
            (
                lease(
                    &format!("job-{n}"),
                    u64::MAX - n,
                    granted(&store, claim(&format!("job-{n}"), u64::MAX - n)),
                ),
                LONG,
            )
        })
        .collect();
    // In any order, one of them twice, and each with its epoch or without.
    leases.reverse();
    leases.push(leases[7].clone());
    leases[3].0.epoch = None;
    let _ = block_on(store.renew_many(leases.clone())).unwrap();
    let before = proxy.asked();
    let answers = block_on(store.renew_many(leases.clone())).unwrap();
    assert_eq!(proxy.asked() - before, 1);
    for (answer, (lease, ttl)) in answers.iter().zip(&leases) {
        let Ok(Renewed::Renewed(grant)) = answer else { panic!("{answer:?}") };
        assert_eq!((grant.token, grant.ttl, Some(grant.epoch)), (lease.token, *ttl, leases[0].0.epoch));
    }
}

fn an_answer_that_is_lost_is_unknown_and_asked_for_again(kind: Kind) {
    for (harm, granted_first) in [(Harm::CutRequest, false), (Harm::CutAnswer, true)] {
        let (proxy, store) = through(kind, "");
        let broken = |owner: u64, ask: &dyn Fn() -> Undecided| {
            // On a connection on which nothing is to be prepared any more, there is one answer to lose.
            let held = lease("warm", owner, granted(&store, claim("warm", owner)));
            let _ = block_on(store.renew(held.clone(), LONG)).unwrap();
            let _ = block_on(store.release(held, Ending::default())).unwrap();
            proxy.harm(harm);
            assert_eq!(ask(), Undecided::Unknown);
            proxy.harm(Harm::None);
        };
        broken(1, &|| {
            let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
            error.undecided()
        });
        let seen = block_on(store.inspect(claim("job", 1).resource)).unwrap();
        assert_eq!(seen.occupant.is_some(), granted_first);
        let again = block_on(store.reacquire(claim("job", 1).with_attempt(2))).unwrap();
        let Acquired::Granted(grant) = again else { panic!("{again:?}") };
        let held = lease("job", 1, grant);
        broken(2, &|| block_on(store.renew(held.clone(), LONG)).unwrap_err().undecided());
        assert!(matches!(block_on(store.renew(held.clone(), LONG)).unwrap(), Renewed::Renewed(_)));
        broken(3, &|| block_on(store.release(held.clone(), Ending::default())).unwrap_err().undecided());
        let expected = if granted_first { Released::AlreadyReleased } else { Released::Released };
        assert_eq!(block_on(store.release(held, Ending::default())).unwrap(), expected);
    }
}

fn a_server_that_says_nothing_is_given_up_in_time(kind: Kind) {
    let (proxy, store) = through(kind, "&timeout=400ms");
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

fn a_broken_connection_is_replaced(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&format!("{url}?connections=1")).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let look = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{database}'");
    let broken = server.sql("", &look).remove(0);
    server.sql("", &format!("KILL {broken}"));
    let begun = Instant::now();
    while server.sql("", &look).contains(&broken) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not killed");
    }
    // The request may be sent into the broken one.
    if let Err(error) = block_on(store.renew(held.clone(), LONG)) {
        assert_eq!(error.undecided(), Undecided::Unknown, "{error:?}");
    }
    assert!(matches!(block_on(store.renew(held, LONG)).unwrap(), Renewed::Renewed(_)));
}
