//! The suite.

use std::sync::Arc;
use std::time::Duration;

use lease_machines_store::conformance::{self, Fixture, Subject};
use lease_machines_store::{EtcdStore, Store, StoreError};

use crate::servers::etcd::{EtcdServer, namespace};

/// A server on its own clock.
struct RealTime(EtcdServer);

struct Fresh(Arc<EtcdStore>, Arc<EtcdStore>);

impl Subject for RealTime {
    fn name(&self) -> String {
        "etcd in real time".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let url = self.0.url(&namespace());
        let store = EtcdStore::open(&url)?;
        store.migrate()?;
        Ok(Box::new(Fresh(Arc::new(store), Arc::new(EtcdStore::open(&url)?))))
    }
}

impl Fixture for Fresh {
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

    /// Ttls are whole seconds.
    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// The number of cases is written down: one that is no longer there is a failure too.
#[test]
fn etcd_passes_in_real_time() {
    let report = conformance::run(&RealTime(EtcdServer::start()));
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!((report.ran, report.skipped.len()), (59, 40), "{report}");
}
