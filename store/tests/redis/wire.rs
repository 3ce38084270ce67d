//! What goes over the wire.

use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::{
    Claimed, Ending, Opening, PoolClaim, RedisStore, Renewed, Resized, SlotRef, Store,
};

use crate::common::{TTL, block_on, claim, granted, lease, name};
use crate::proxy::Proxy;
use crate::servers::redis::{FORGETFUL, RedisServer};

/// How many hashes a store is spread over.
const BUCKETS: usize = 1_024;

fn through(proxy: &Proxy) -> RedisStore {
    let store = RedisStore::open(&format!("redis://127.0.0.1:{}", proxy.port)).unwrap();
    store.migrate().unwrap();
    store
}

#[test]
fn every_decision_is_one_request() {
    let server = RedisServer::start(FORGETFUL);
    let proxy = Proxy::to(server.port);
    let store = through(&proxy);
    let one = |what: &str, ask: &mut dyn FnMut()| {
        proxy.clear();
        ask();
        assert_eq!(proxy.requests(), ["EVALSHA"], "{what}");
    };
    let mut grant = None;
    one("acquire", &mut || grant = Some(granted(&store, claim("job", 1))));
    let held = lease("job", 1, grant.unwrap());
    one("a refusal", &mut || drop(block_on(store.acquire(claim("job", 2))).unwrap()));
    one("renew", &mut || drop(block_on(store.renew(held.clone(), TTL)).unwrap()));
    one("inspect", &mut || drop(block_on(store.inspect(name("job"))).unwrap()));
    one("history", &mut || drop(block_on(store.history(name("job"), 9)).unwrap()));
    one("release", &mut || drop(block_on(store.release(held.clone(), Ending::default())).unwrap()));
    one("reacquire", &mut || drop(block_on(store.reacquire(claim("job", 3))).unwrap()));
    one("withdraw", &mut || drop(block_on(store.withdraw(name("job"), OwnerId::new(3))).unwrap()));
    one("revoke", &mut || drop(block_on(store.revoke(name("job"), None, None)).unwrap()));
    let mut claimed = None;
    let slot = |owner| PoolClaim::new(name("ids"), 4, OwnerId::new(owner), TTL).with_id_time();
    one("a claim", &mut || claimed = Some(block_on(store.claim_slot(slot(1))).unwrap()));
    let Some(Claimed::Granted(held)) = claimed else { panic!("no slot: {claimed:?}") };
    let held = SlotRef::new(name("ids"), held.slot, OwnerId::new(1), held.token, Some(held.epoch));
    one("renew a slot", &mut || drop(block_on(store.renew_slot(held.clone(), TTL, true)).unwrap()));
    one("look at a pool", &mut || drop(block_on(store.slots(name("ids"))).unwrap()));
    one("history of a slot", &mut || drop(block_on(store.history(name("ids#0"), 9)).unwrap()));
    one("release a slot", &mut || drop(block_on(store.release_slot(held.clone(), None)).unwrap()));
    one("reclaim", &mut || drop(block_on(store.reclaim_slot(slot(2))).unwrap()));
    one("withdraw a slot", &mut || {
        drop(block_on(store.withdraw_slot(name("ids"), OwnerId::new(2))).unwrap())
    });
    one("revoke a slot", &mut || drop(block_on(store.revoke_slot(name("ids"), 1, None, None)).unwrap()));
    one("resize", &mut || assert_eq!(block_on(store.resize_pool(name("ids"), 8)).unwrap(), Resized::Resized));
    let opening = Opening::new(block_on(store.epoch()).unwrap()).with_dead_holders();
    one("open an epoch", &mut || {
        assert_ne!(block_on(store.open_epoch(opening.clone())).unwrap(), held.epoch.unwrap())
    });
    // The whole store is in no single place: each bucket is asked, many of them before the first answer.
    let all = |what: &str, requests: usize, ask: &mut dyn FnMut()| {
        proxy.clear();
        ask();
        assert_eq!(proxy.requests(), vec!["EVALSHA"; requests], "{what}");
        assert!(proxy.pieces() < requests / 4, "{what}: in {} pieces", proxy.pieces());
    };
    all("list", BUCKETS, &mut || drop(block_on(store.list(String::new())).unwrap()));
    all("pools", BUCKETS, &mut || assert_eq!(block_on(store.pools()).unwrap(), [name("ids")]));
    all("prune, which raises each one's floor first", 2 * BUCKETS, &mut || {
        assert!(block_on(store.prune(TTL)).is_ok())
    });
    proxy.clear();
    assert!(block_on(store.epoch()).is_ok());
    assert_eq!(proxy.requests(), ["HGET"]);
}

#[test]
fn many_renewals_are_sent_before_the_first_answer() {
    const MANY: u64 = 200;
    let server = RedisServer::start(FORGETFUL);
    let proxy = Proxy::to(server.port);
    let store = through(&proxy);
    let leases: Vec<_> = (0..MANY)
        .map(|index| {
            let resource = format!("job-{index}");
            (lease(&resource, 1, granted(&store, claim(&resource, 1))), TTL)
        })
        .collect();
    proxy.clear();
    let answers = block_on(store.renew_many(leases)).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewed::Renewed(_)))), "{answers:?}");
    assert_eq!(proxy.requests().len(), 200);
    // The driver takes some fifty at a time from those who ask; one by one they would come in 200 pieces.
    assert!(proxy.pieces() <= 20, "they came in {} pieces", proxy.pieces());
}

#[test]
fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let server = RedisServer::start(FORGETFUL);
    let proxy = Proxy::to(server.port);
    let store = through(&proxy);
    assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "+OK");
    proxy.clear();
    let first = granted(&store, claim("job", 1));
    assert_eq!(proxy.requests(), ["EVALSHA", "EVAL"]);
    proxy.clear();
    let again = granted(&store, claim("other", 1));
    assert_eq!(proxy.requests(), ["EVALSHA"]);
    assert!(again.ttl > Duration::ZERO && first.epoch == again.epoch);
}
