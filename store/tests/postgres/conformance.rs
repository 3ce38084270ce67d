//! The suite on a real server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_machines_store::conformance::{self, Fixture, Report, Subject};
use lease_machines_store::{Clock, PostgresOptions, PostgresStore, Store, StoreError};

use crate::servers::postgres::Server;

/// On a clock that the test moves: the function that every decision reads the clock by reads a table instead.
struct Driven;

/// No time passes between a request and its answer, where the server's clock is the test's.
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn identity(&self) -> String {
        String::new()
    }
}

/// On the server's own clock.
struct RealTime;

pub struct InSchema {
    store: Arc<PostgresStore>,
    schema: String,
    driven: bool,
}

impl InSchema {
    fn fresh(driven: bool) -> Result<Box<dyn Fixture>, StoreError> {
        Self::on(Server::shared().fresh().0, driven)
    }

    /// A store that is set up there.
    pub fn on(schema: String, driven: bool) -> Result<Box<dyn Fixture>, StoreError> {
        let server = Server::shared();
        if driven {
            server.sql(&format!(
                "CREATE TABLE {schema}.test_clock AS SELECT {schema}.lease_clock_1() AS at;
                 CREATE OR REPLACE FUNCTION {schema}.lease_clock_1() RETURNS bigint LANGUAGE sql VOLATILE AS
                 'SELECT at FROM {schema}.test_clock'"
            ));
        }
        let store = Arc::new(Self::open(&schema, driven)?);
        Ok(Box::new(Self { store, schema, driven }))
    }

    /// `driven`: no time passes between a request and its answer.
    pub fn open(schema: &str, driven: bool) -> Result<PostgresStore, StoreError> {
        let options = PostgresOptions::default().schema(schema);
        let options = if driven { options.clock(Arc::new(Still)) } else { options };
        let to = format!("postgres://lease@127.0.0.1:{}/postgres", Server::shared().port);
        PostgresStore::from_config(to.parse().unwrap(), options)
    }
}

impl Subject for Driven {
    fn name(&self) -> String {
        "postgres on the test's clock".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        InSchema::fresh(true)
    }
}

impl Subject for RealTime {
    fn name(&self) -> String {
        "postgres".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        InSchema::fresh(false)
    }
}

impl Fixture for InSchema {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        Self::open(&self.schema, self.driven).ok().map(|store| Arc::new(store) as Arc<dyn Store>)
    }

    fn pass(&self, time: Duration) {
        if self.driven {
            let (schema, micros) = (&self.schema, time.as_micros());
            Server::shared().sql(&format!("UPDATE {schema}.test_clock SET at = at + {micros}"));
        } else {
            std::thread::sleep(time);
        }
    }

    fn is_driven(&self) -> bool {
        self.driven
    }

    fn unit(&self) -> Duration {
        if self.driven { Duration::from_secs(1) } else { Duration::from_millis(200) }
    }
}

/// The number of cases is written down: one that is no longer there is a failure too.
pub fn check(report: &Report, ran: usize, skipped: usize) {
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!((report.ran, report.skipped.len()), (ran, skipped), "{report}");
}

#[test]
fn passes() {
    check(&conformance::run(&RealTime), 95, 5);
}

#[test]
fn passes_on_the_clock_of_the_test() {
    check(&conformance::run(&Driven), 100, 0);
}
