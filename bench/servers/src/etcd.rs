//! Decisions on etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_client::{Client, LockOptions};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{EtcdStore, Store};
use tokio::runtime::Runtime;

use crate::client::{Holder, RESOURCES, TTL, name, runtime, take_and_give_back};
use crate::servers::etcd::{EtcdServer, namespace};
use crate::table::{Row, Turns};

/// etcd's own lock, as its clients take it.
struct Lock {
    runtime: Runtime,
    client: Client,
}

impl Lock {
    fn new(server: &EtcdServer) -> Self {
        let runtime = runtime();
        let member = format!("127.0.0.1:{}", server.port);
        let client = runtime.block_on(Client::connect([member], None)).expect("it was started");
        Self { runtime, client }
    }

    /// Four requests: a lease, the lock on it, and both given back.
    fn lock_and_unlock(&mut self, count: usize) {
        let (client, key) = (&mut self.client, format!("lock-{}", count % RESOURCES));
        let done = async {
            let lease = client.lease_grant(TTL.as_secs() as i64, None).await?.id();
            let locked = client.lock(key, Some(LockOptions::new().with_lease(lease))).await?;
            client.unlock(locked.key()).await?;
            client.lease_revoke(lease).await
        };
        self.runtime.block_on(done).expect("a server of one's own answers");
    }
}

fn open(server: &EtcdServer, options: &str) -> Arc<dyn Store> {
    let store = EtcdStore::open(&format!("{}?{options}", server.url(&namespace()))).expect("a URL of ours");
    store.migrate().expect("a server of one's own can be set up");
    Arc::new(store)
}

pub(crate) fn rows() -> Vec<Row> {
    let server = EtcdServer::start();
    let (plain, ahead) = (open(&server, "history=off"), open(&server, "history=off&leases_ahead=4"));
    let mut renewed = Holder::new(open(&server, "history=off"), 7, "renewed", RESOURCES);
    let mut lock = Lock::new(&server);
    let owner = AtomicU64::new(0);
    let pair = |store: &Arc<dyn Store>, count: usize| {
        let owner = owner.fetch_add(1, Ordering::Relaxed) + 1;
        block_on(take_and_give_back(store.as_ref(), name(&format!("free-{}", count % RESOURCES)), owner));
    };
    let [locked, plain, ahead, renew] = Turns { rounds: 30, calls: 20, warm_up: 5 }.take([
        &mut |count| lock.lock_and_unlock(count),
        &mut |count| pair(&plain, count),
        &mut |count| pair(&ahead, count),
        &mut |count| renewed.renew(count),
    ]);
    let peer = ("lease, lock, unlock, revoke", locked);
    vec![
        Row::rate(
            "etcd: rate of acquire and release to lease, lock, unlock and revoke by etcd-client",
            plain,
            peer,
            Some((1.3, "at least 1.3")),
        ),
        Row::rate("etcd: the same, with leases granted ahead", ahead, peer, Some((1.9, "at least 1.9"))),
        Row::rate("etcd: rate of a renewal to the same", renew, peer, None),
    ]
}
