//! The suite.

use std::sync::Arc;
use std::time::Duration;

use lease_machines_store::conformance::{self, Fixture, Subject};
use lease_machines_store::{EtcdStore, Store, StoreError};

use crate::servers::etcd::{EtcdServer, namespace};

/// A server on its own clock, and the options of its stores.
struct RealTime(EtcdServer, &'static str);

struct Fresh(Arc<EtcdStore>, Arc<EtcdStore>);

impl Subject for RealTime {
    fn name(&self) -> String {
        format!("etcd in real time{}", self.1)
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let url = format!("{}{}", self.0.url(&namespace()), self.1);
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
    // All clients are on one machine, and so on one clock.
    let report = conformance::run(&RealTime(EtcdServer::start(), "?clock_skew=0s"));
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!((report.ran, report.skipped.len()), (95, 5), "{report}");
}

/// Leases last longer then than was asked for, which other cases measure: these are about whose they are.
#[test]
fn etcd_decides_the_same_with_leases_granted_ahead() {
    let cases = [
        "16 clients on one resource see one history",
        "16 clients on four resources see one history of each",
        "16 clients on a bad network see one history",
        "a doubled acquire is one grant",
        "16 clients of one pool see one history",
        "8 doubles of one claim at once take one slot",
        "a revoke breaks the lease that was meant, and no other",
        "only the owner, under its token, renews and releases",
        "withdraw vacates without a token, once for all",
    ];
    let report =
        conformance::run_only(&RealTime(EtcdServer::start(), "?leases_ahead=8&clock_skew=0s"), &cases);
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!(report.ran, cases.len(), "{report}");
}
