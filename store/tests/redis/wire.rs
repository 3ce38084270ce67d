//! What goes over the wire.

use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::{Ending, RedisStore, Renewed, Store};

use crate::common::{TTL, block_on, claim, granted, lease, name};
use crate::proxy::Proxy;
use crate::servers::redis::{FORGETFUL, RedisServer};

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
