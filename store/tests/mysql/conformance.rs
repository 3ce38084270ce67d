//! The suite on real servers, of both kinds.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_machines_store::conformance::{self, Fixture, Report, Subject};
use lease_machines_store::{Clock, MysqlOptions, MysqlStore, Store, StoreError};
use mysql_async::Opts;

use crate::servers::mysql::{Kind, Server};
use crate::setup::by_hand;

/// On a clock that the test moves: wherever the procedures read the server's, they read a table instead.
struct Driven(Kind);

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
struct RealTime(Kind);

struct InDatabase {
    store: Arc<MysqlStore>,
    server: &'static Server,
    database: String,
    driven: bool,
}

/// How the procedures read the clock.
pub const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

impl InDatabase {
    fn fresh(kind: Kind, driven: bool) -> Result<Box<dyn Fixture>, StoreError> {
        let server = Server::shared(kind);
        let database = server.empty();
        if driven {
            server.sql(&database, &format!("CREATE TABLE test_clock AS SELECT {CLOCK} AS at"));
            by_hand(server, &database, |text| text.replace(CLOCK, "(SELECT c.at FROM test_clock AS c)"));
        } else {
            lease_machines_store::migrate(&server.url(&database))?;
        }
        let store = Arc::new(Self::open(server, &database, driven)?);
        Ok(Box::new(Self { store, server, database, driven }))
    }

    fn open(server: &Server, database: &str, driven: bool) -> Result<MysqlStore, StoreError> {
        let options = MysqlOptions::default();
        let options = if driven { options.clock(Arc::new(Still)) } else { options };
        let to = server.url(database).replace("mariadb:", "mysql:");
        MysqlStore::from_opts(Opts::from_url(&to).unwrap(), options)
    }
}

impl Subject for Driven {
    fn name(&self) -> String {
        format!("{:?} on the test's clock", self.0)
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        InDatabase::fresh(self.0, true)
    }
}

impl Subject for RealTime {
    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        InDatabase::fresh(self.0, false)
    }
}

impl Fixture for InDatabase {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        let another = Self::open(self.server, &self.database, self.driven);
        another.ok().map(|store| Arc::new(store) as Arc<dyn Store>)
    }

    fn pass(&self, time: Duration) {
        if self.driven {
            let micros = time.as_micros();
            self.server.sql(&self.database, &format!("UPDATE test_clock SET at = at + {micros}"));
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
fn mariadb_passes() {
    check(&conformance::run(&RealTime(Kind::MariaDb)), 95, 5);
}

#[test]
fn mysql_passes() {
    check(&conformance::run(&RealTime(Kind::MySql)), 95, 5);
}

#[test]
fn mariadb_passes_on_the_clock_of_the_test() {
    check(&conformance::run(&Driven(Kind::MariaDb)), 100, 0);
}

#[test]
fn mysql_passes_on_the_clock_of_the_test() {
    check(&conformance::run(&Driven(Kind::MySql)), 100, 0);
}
