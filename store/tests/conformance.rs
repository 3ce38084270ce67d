//! The suite on every store of this crate.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Folder, TestClock, options};
use lease_machines_store::conformance::{self, Fixture, Report, Subject};
use lease_machines_store::{MemoryStore, SqliteStore, Store, StoreError};

struct File;

struct OnFile {
    store: Arc<SqliteStore>,
    other: Arc<SqliteStore>,
    clock: Arc<TestClock>,
    _folder: Folder,
}

impl Subject for File {
    fn name(&self) -> String {
        "sqlite:PATH".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let (folder, clock) = (Folder::new(), TestClock::new("boot"));
        let open = || SqliteStore::open(folder.file(), options(&clock)).map(Arc::new);
        Ok(Box::new(OnFile { store: open()?, other: open()?, clock, _folder: folder }))
    }
}

impl Fixture for OnFile {
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

/// The embedded store in memory, with history left out, so that the suite is seen to skip.
struct InMemory;

struct Driven<S>(Arc<S>, Arc<TestClock>);

impl Subject for InMemory {
    fn name(&self) -> String {
        "sqlite::memory:?history=off".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let clock = TestClock::new("boot");
        let store = SqliteStore::open_in_memory(options(&clock).history(None))?;
        Ok(Box::new(Driven(Arc::new(store), clock)))
    }
}

impl<S: Store + 'static> Fixture for Driven<S> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn pass(&self, time: Duration) {
        self.1.advance(time);
    }
}

/// The embedded store on the machine's own clock, as servers will be tested.
struct RealTime;

struct OnRealTime(Arc<SqliteStore>, Folder);

impl Subject for RealTime {
    fn name(&self) -> String {
        "sqlite:PATH on the machine's clock".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let folder = Folder::new();
        let store = SqliteStore::open(folder.file(), Default::default())?;
        Ok(Box::new(OnRealTime(Arc::new(store), folder)))
    }
}

impl Fixture for OnRealTime {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        SqliteStore::open(self.1.file(), Default::default())
            .ok()
            .map(|store| Arc::new(store) as Arc<dyn Store>)
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

struct Memory;

struct OnMemory(Arc<MemoryStore>);

impl Subject for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        Ok(Box::new(OnMemory(Arc::new(MemoryStore::new()?))))
    }
}

impl Fixture for OnMemory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn pass(&self, time: Duration) {
        self.0.advance(time);
    }
}

/// The number of cases is written down: one that is no longer there is a failure too.
fn check(report: &Report, ran: usize, skipped: usize) {
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!((report.ran, report.skipped.len()), (ran, skipped), "{report}");
}

#[test]
fn the_embedded_store_passes() {
    check(&conformance::run(&File), 100, 0);
}

#[test]
fn the_embedded_store_in_memory_passes() {
    check(&conformance::run(&InMemory), 95, 5);
}

#[test]
fn the_embedded_store_passes_in_real_time() {
    check(&conformance::run(&RealTime), 95, 5);
}

#[test]
fn the_memory_store_passes() {
    check(&conformance::run(&Memory), 97, 3);
}
