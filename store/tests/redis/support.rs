//! Stores on a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lease_machines_store::{RedisOptions, RedisStore};

use crate::common::TestClock;
use crate::servers::redis::RedisServer;

/// A store that is not set up.
pub(crate) fn store(server: &RedisServer, change: impl FnOnce(RedisOptions) -> RedisOptions) -> RedisStore {
    RedisStore::open_with(&server.url("timeout=10s"), change).unwrap()
}

/// A name that no other store of this process has.
pub(crate) fn namespace() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", COUNT.fetch_add(1, Ordering::SeqCst))
}

/// A store on the test's clock.
pub(crate) fn driven(server: &RedisServer, namespace: &str, clock: &Arc<TestClock>) -> RedisStore {
    store(server, |options| {
        options.namespace(namespace).clock(Arc::clone(clock) as _).timeout(Duration::from_secs(20))
    })
}
