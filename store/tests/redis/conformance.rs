//! The suite.

use std::sync::Arc;
use std::time::Duration;

use lease_machines_store::conformance::{self, Fixture, Report, Subject};
use lease_machines_store::{RedisStore, Store, StoreError};

use crate::common::TestClock;
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};
use crate::support::{driven, namespace, store};

/// A server whose store decides by the test's clock.
struct Driven(RedisServer);

struct OnDriven {
    store: Arc<RedisStore>,
    other: Arc<RedisStore>,
    clock: Arc<TestClock>,
}

impl Subject for Driven {
    fn name(&self) -> String {
        "redis on the test's clock".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let (clock, namespace) = (TestClock::new("boot"), namespace());
        let open = || Arc::new(driven(&self.0, &namespace, &clock));
        let store = open();
        store.migrate()?;
        Ok(Box::new(OnDriven { store, other: open(), clock }))
    }
}

impl Fixture for OnDriven {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::clone(&self.other) as Arc<dyn Store>)
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

/// A server on its own clock.
struct RealTime(RedisServer, &'static str);

struct OnRealTime(Arc<RedisStore>, Arc<RedisStore>);

impl Subject for RealTime {
    fn name(&self) -> String {
        self.1.to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let namespace = namespace();
        let open = || Arc::new(store(&self.0, |options| options.namespace(&namespace)));
        let store = open();
        store.migrate()?;
        Ok(Box::new(OnRealTime(store, open())))
    }
}

impl Fixture for OnRealTime {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::clone(&self.1) as Arc<dyn Store>)
    }

    fn pass(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn is_driven(&self) -> bool {
        false
    }

    fn unit(&self) -> Duration {
        Duration::from_millis(150)
    }
}

/// The number of cases is written down: one that is no longer there is a failure too.
fn check(report: &Report, ran: usize, skipped: usize) {
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!((report.ran, report.skipped.len()), (ran, skipped), "{report}");
}

#[test]
fn redis_decides_as_the_core() {
    check(&conformance::run(&Driven(RedisServer::start(FORGETFUL))), 100, 0);
}

#[test]
fn redis_passes_in_real_time() {
    check(&conformance::run(&RealTime(RedisServer::start(DURABLE), "redis with appendfsync always")), 95, 5);
}

#[test]
fn valkey_passes_in_real_time() {
    let server = RedisServer::start_as("valkey-server", DURABLE);
    check(&conformance::run(&RealTime(server, "valkey with appendfsync always")), 95, 5);
}
