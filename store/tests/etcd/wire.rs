//! What is asked of the cluster, as its members count it themselves.

use std::thread;
use std::time::{Duration, Instant};

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claimed, Ending, EtcdStore, Opening, PoolClaim, Released, Renewed, Resized, ResourceName,
    SlotRef, SlotRenewed, Store,
};

use crate::help::{claim, claim_for, granted, lease};
use crate::servers::etcd::{EtcdServer, namespace};

/// Requests of each kind: transactions, leases granted, asked after and revoked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    txn: u64,
    grant: u64,
    left: u64,
    revoke: u64,
}

fn asked(server: &EtcdServer) -> Asked {
    let count = |method| server.count(method);
    Asked {
        txn: count("Txn"),
        grant: count("LeaseGrant"),
        left: count("LeaseTimeToLive"),
        revoke: count("LeaseRevoke"),
    }
}

/// What a call asks. Leases are given back behind it: they are waited for, and are none of it.
fn asks(server: &EtcdServer, revoked: u64, call: impl FnOnce()) -> Asked {
    let before = asked(server);
    call();
    let begun = Instant::now();
    while asked(server).revoke < before.revoke + revoked && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    let after = asked(server);
    Asked {
        txn: after.txn - before.txn,
        grant: after.grant - before.grant,
        left: after.left - before.left,
        revoke: after.revoke - before.revoke,
    }
}

#[test]
fn a_grant_is_two_requests_and_all_else_is_one() {
    let server = EtcdServer::start();
    // With a history, what is more than is kept of it is deleted behind some answers.
    let store = EtcdStore::open(&format!("{}?history=off", server.url(&namespace()))).unwrap();
    store.migrate().unwrap();
    let asks = |revoked, call: &mut dyn FnMut()| asks(&server, revoked, call);
    let ttl = Duration::from_secs(60);
    let expected = |txn, grant, revoke| Asked { txn, grant, left: 0, revoke };

    // Of a resource of which nothing is known it is read what there is, beside the request for etcd's lease.
    let mut held = None;
    let first = asks(0, &mut || held = Some(granted(&store, claim("job", 1))));
    assert_eq!(first, expected(2, 1, 0), "the first acquire");
    let mut lease_of = lease("job", 1, held.unwrap());
    let call = |what: &str, wanted: Asked, call: &mut dyn FnMut()| {
        assert_eq!(asks(wanted.revoke, call), wanted, "{what}");
    };
    call("renew", expected(1, 1, 1), &mut || {
        let renewed = block_on(store.renew(lease_of.clone(), ttl)).unwrap();
        assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    });
    call("a refusal", expected(1, 0, 0), &mut || {
        let told = block_on(store.acquire(claim("job", 2))).unwrap();
        assert!(matches!(told, Acquired::Rejected(_)), "{told:?}");
    });
    call("inspect", expected(1, 0, 0), &mut || {
        drop(block_on(store.inspect(lease_of.resource.clone())).unwrap())
    });
    call("release", expected(1, 0, 1), &mut || {
        drop(block_on(store.release(lease_of.clone(), Ending::default())).unwrap());
    });
    call("acquire", expected(1, 1, 0), &mut || lease_of = lease("job", 3, granted(&store, claim("job", 3))));
    call("reacquire", expected(1, 1, 1), &mut || {
        drop(block_on(store.reacquire(claim("job", 3).with_attempt(2))).unwrap());
    });
    // The first withdrawal of an hour asks for the lease on which its mark stands, too.
    call("withdraw", expected(1, 1, 1), &mut || {
        drop(block_on(store.withdraw(lease_of.resource.clone(), OwnerId::new(3))).unwrap());
    });
    granted(&store, claim("job", 4));
    call("another withdrawal", expected(1, 0, 1), &mut || {
        drop(block_on(store.withdraw(lease_of.resource.clone(), OwnerId::new(4))).unwrap());
    });
    granted(&store, claim("job", 5));
    call("revoke", expected(1, 0, 1), &mut || {
        drop(block_on(store.revoke(lease_of.resource.clone(), None, None)).unwrap());
    });
    call("epoch", expected(1, 0, 0), &mut || assert!(block_on(store.epoch()).is_ok()));
    call("history", expected(1, 0, 0), &mut || {
        drop(block_on(store.history(lease_of.resource.clone(), 9)).unwrap());
    });
    call("list", expected(1, 0, 0), &mut || drop(block_on(store.list(String::new())).unwrap()));
    let many: Vec<_> = (0..5)
        .map(|index| format!("job-{index}"))
        .map(|name| (lease(&name, 1, granted(&store, claim(&name, 1))), ttl))
        .collect();
    call("renew_many: each its own", expected(5, 5, 5), &mut || {
        let answers = block_on(store.renew_many(many.clone())).unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewed::Renewed(_)))), "{answers:?}");
    });
    let opening = Opening::new(block_on(store.epoch()).unwrap()).with_dead_holders();
    // It has to see what it ends.
    call("open_epoch", expected(2, 0, 0), &mut || {
        assert!(block_on(store.open_epoch(opening.clone())).is_ok());
    });
}

#[test]
fn a_claim_of_a_slot_is_three_requests_of_which_two_are_sent_at_once() {
    let server = EtcdServer::start();
    let store = EtcdStore::open(&format!("{}?history=off", server.url(&namespace()))).unwrap();
    store.migrate().unwrap();
    let pool = ResourceName::new("ids").unwrap();
    let ttl = Duration::from_secs(60);
    let claim = |owner: u64| PoolClaim::new(pool.clone(), 2, OwnerId::new(owner), ttl);
    let expected = |txn, grant, revoke| Asked { txn, grant, left: 0, revoke };
    let call = |what: &str, wanted: Asked, call: &mut dyn FnMut()| {
        assert_eq!(asks(&server, wanted.revoke, call), wanted, "{what}");
    };
    let mut held = Vec::new();
    for owner in 1..=2 {
        call("claim", expected(2, 1, 0), &mut || {
            let answer = block_on(store.claim_slot(claim(owner))).unwrap();
            let Claimed::Granted(lease) = answer else { panic!("{answer:?}") };
            held.push(SlotRef::new(
                pool.clone(),
                lease.slot,
                OwnerId::new(owner),
                lease.token,
                Some(lease.epoch),
            ));
        });
    }
    call("a refusal", expected(1, 1, 1), &mut || {
        let answer = block_on(store.claim_slot(claim(3))).unwrap();
        assert!(matches!(answer, Claimed::Rejected(_)), "{answer:?}");
    });
    call("renew", expected(1, 1, 1), &mut || {
        let answer = block_on(store.renew_slot(held[0].clone(), ttl, true)).unwrap();
        assert!(matches!(answer, SlotRenewed::Renewed(_)), "{answer:?}");
    });
    call("reclaim", expected(2, 1, 1), &mut || {
        let answer = block_on(store.reclaim_slot(claim(1).with_attempt(2))).unwrap();
        assert!(matches!(answer, Claimed::Granted(_)), "{answer:?}");
    });
    call("pools", expected(1, 0, 0), &mut || {
        assert_eq!(block_on(store.pools()).unwrap(), std::slice::from_ref(&pool));
    });
    call("slots", expected(1, 0, 0), &mut || drop(block_on(store.slots(pool.clone())).unwrap()));
    call("room", expected(1, 0, 0), &mut || assert_eq!(block_on(store.room(claim(3))).unwrap().of, 2));
    call("release", expected(1, 0, 1), &mut || {
        assert_eq!(block_on(store.release_slot(held[1].clone(), None)).unwrap(), Released::Released);
    });
    // What an owner has is looked up first. The first withdrawal of an hour asks for the lease on which its mark stands, too.
    call("withdraw", expected(3, 1, 1), &mut || {
        let answer = block_on(store.withdraw_slot(pool.clone(), OwnerId::new(1))).unwrap();
        assert_eq!(answer, Released::Released);
    });
    call("revoke", expected(1, 0, 0), &mut || {
        drop(block_on(store.revoke_slot(pool.clone(), 1, None, None)).unwrap());
    });
    call("resize", expected(2, 0, 0), &mut || {
        assert_eq!(block_on(store.resize_pool(pool.clone(), 3)).unwrap(), Resized::Resized);
    });
}

#[test]
fn refused_claims_leave_no_leases_behind() {
    let server = EtcdServer::start();
    let url = server.url(&namespace());
    let holder = EtcdStore::open(&url).unwrap();
    holder.migrate().unwrap();
    let _held = granted(&holder, claim("job", 1));
    let leases = server.leases();
    assert_eq!(leases, 1);
    // Also of stores that know nothing, and ask for their lease beside the look.
    for owner in 2..12 {
        let store = EtcdStore::open(&url).unwrap();
        for attempt in 1..=5 {
            let told = block_on(store.acquire(claim("job", owner).with_attempt(attempt))).unwrap();
            assert!(matches!(told, Acquired::Rejected(_)), "{told:?}");
        }
        let begun = Instant::now();
        while server.leases() > leases {
            assert!(begun.elapsed() < Duration::from_secs(20), "{} etcd leases are left", server.leases());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until the cluster has so many leases of its own.
fn has_leases(server: &EtcdServer, count: u64) {
    let begun = Instant::now();
    while server.leases() != count {
        let (found, patience) = (server.leases(), Duration::from_secs(20));
        assert!(begun.elapsed() < patience, "there are {found} etcd leases, expected {count}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn with_leases_granted_ahead_every_decision_is_one_request() {
    let server = EtcdServer::start();
    let url = format!("{}?history=off&leases_ahead=2", server.url(&namespace()));
    let store = EtcdStore::open(&url).unwrap();
    store.migrate().unwrap();
    let one = Asked { txn: 1, grant: 0, left: 0, revoke: 0 };
    let mut held = lease("job", 1, granted(&store, claim("job", 1)));
    for owner in 2..6 {
        // One that the last grant stood on, and one that was asked for behind it.
        drop(block_on(store.release(held.clone(), Ending::default())).unwrap());
        has_leases(&server, 2);
        let again = asks(&server, 0, || held = lease("job", owner, granted(&store, claim("job", owner))));
        assert_eq!(again, one, "the grant to {owner}");
        let renewed = asks(&server, 0, || {
            let told = block_on(store.renew(held.clone(), Duration::from_secs(62))).unwrap();
            assert!(matches!(told, Renewed::Renewed(_)), "{told:?}");
        });
        assert_eq!(renewed.txn, 1, "{renewed:?}");
    }
}

#[test]
fn leases_granted_ahead_are_few_and_given_back() {
    let server = EtcdServer::start();
    let store = EtcdStore::open(&format!("{}?leases_ahead=3", server.url(&namespace()))).unwrap();
    store.migrate().unwrap();
    let held: Vec<_> = (0..20)
        .map(|index| {
            let resource = format!("job-{index}");
            lease(&resource, 1, granted(&store, claim(&resource, 1)))
        })
        .collect();
    for lease in held {
        drop(block_on(store.release(lease, Ending::default())).unwrap());
    }
    // Of all, no more are kept than were asked for, and those not longer than they would serve: 7.5 s of 67.5.
    has_leases(&server, 3);
    has_leases(&server, 0);
}

#[test]
fn what_has_run_before_its_use_is_not_promised() {
    const TTL: Duration = Duration::from_secs(4);
    let server = EtcdServer::start();
    let url = format!("{}?leases_ahead=1", server.url(&namespace()));
    let (store, other) = (EtcdStore::open(&url).unwrap(), EtcdStore::open(&url).unwrap());
    store.migrate().unwrap();
    granted(&store, claim_for("first", 1, TTL));
    // One more is ready now, for 6 s: it has run for a second when it is used.
    has_leases(&server, 2);
    thread::sleep(Duration::from_secs(1));
    let (before, sent) = (asked(&server).grant, Instant::now());
    let grant = granted(&store, claim_for("job", 1, TTL));
    assert_eq!(grant.ttl, TTL, "of less than 5 s, in whole seconds");
    assert!(asked(&server).grant <= before + 1, "it was not used");
    while sent.elapsed() < grant.ttl {
        let told = block_on(other.acquire(claim_for("job", 2, TTL)));
        let answered = sent.elapsed();
        let refused = matches!(told, Ok(Acquired::Rejected(_)));
        assert!(refused || answered >= grant.ttl, "{told:?} after {answered:?} of {:?}", grant.ttl);
        thread::sleep(Duration::from_millis(20));
    }
    // It ends.
    let begun = Instant::now();
    while matches!(block_on(other.acquire(claim_for("job", 2, TTL))), Ok(Acquired::Rejected(_))) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is held on and on");
        thread::sleep(Duration::from_millis(50));
    }
}
