//! Servers whose defaults are not what the procedures need, and clocks that are read in a time zone.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lease_machines_store::conformance::{self, Fixture, Subject, block_on};
use lease_machines_store::{ErrorKind, MysqlStore, Store, StoreError};

use crate::conformance::check;
use crate::help::{claim, granted, on_both};
use crate::servers::mysql::{Kind, Server};
use crate::setup::grant;

/// A server where nothing is as it should be that a session can mend.
struct Hostile(Server);

struct There {
    store: Arc<dyn Store>,
    url: String,
}

impl Subject for Hostile {
    fn name(&self) -> String {
        format!("{:?} with other defaults", self.0.kind)
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        let url = self.0.url(&self.0.empty());
        lease_machines_store::migrate(&url)?;
        Ok(Box::new(There { store: Arc::new(MysqlStore::open(&url)?), url }))
    }
}

impl Fixture for There {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    fn another(&self) -> Option<Arc<dyn Store>> {
        MysqlStore::open(&self.url).ok().map(|store| Arc::new(store) as Arc<dyn Store>)
    }

    fn pass(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn is_driven(&self) -> bool {
        false
    }

    fn unit(&self) -> Duration {
        Duration::from_millis(400)
    }
}

on_both! {
    other_defaults_change_nothing
    an_hour_that_comes_twice_is_two_hours
    names_are_their_bytes
}

fn other_defaults_change_nothing(kind: Kind) {
    let mode = match kind {
        Kind::MariaDb => "--sql-mode=SIMULTANEOUS_ASSIGNMENT,PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES",
        Kind::MySql => "--sql-mode=PIPES_AS_CONCAT,ANSI_QUOTES",
    };
    let settings = [
        mode,
        "--transaction-isolation=SERIALIZABLE",
        "--completion-type=CHAIN",
        "--autocommit=0",
        "--sysdate-is-now",
        "--innodb-lock-wait-timeout=1000",
        "--character-set-server=latin1",
        "--collation-server=latin1_general_ci",
    ];
    let hostile = Hostile(Server::start_in_memory("America/New_York", kind, &settings));
    check(&conformance::run(&hostile), 95, 5);
}

fn an_hour_that_comes_twice_is_two_hours(kind: Kind) {
    // On the first of November 2026, at 5:30 and 6:30 in UTC, it is 1:30 in New York.
    const FIRST: u64 = 1_793_511_000;
    let server = Server::start_in("America/New_York", kind, &[]);
    let (database, _) = server.fresh();
    // The server's clock stands still there, for accounts that are no administrator's.
    server.sql("", "CREATE USER autumn@'%' IDENTIFIED BY ''");
    grant(&server, &database, "autumn@'%'");
    let url = server.url(&database).replace("lease:", "autumn:");
    for (owner, now) in [(1, FIRST), (2, FIRST + 3_600)] {
        server.sql("", &format!("SET GLOBAL init_connect = 'SET SESSION timestamp = {now}'"));
        let store = MysqlStore::open(&url).unwrap();
        let name = format!("job-{owner}");
        let held = granted(&store, claim(&name, owner));
        let seen = block_on(store.history(claim(&name, owner).resource, 1)).unwrap().remove(0);
        assert_eq!(seen.granted_at, UNIX_EPOCH + Duration::from_secs(now));
        assert_eq!(seen.ends_at, seen.granted_at + held.ttl);
    }
}

fn names_are_their_bytes(kind: Kind) {
    let (_, url) = Server::shared(kind).fresh();
    let store = MysqlStore::open(&url).unwrap();
    let long = "x".repeat(255);
    let names = ["a", "A", "a ", " a", "ä", "a\u{308}", "a\\", "a'", "a%", "ß", "ss", &long, &long[1..]];
    for (owner, name) in (1..).zip(names) {
        let _ = granted(&store, claim(name, owner));
    }
    assert_eq!(block_on(store.list(String::new())).unwrap().len(), names.len());
    assert_eq!(block_on(store.list("a".to_owned())).unwrap().len(), 6);
    // Labels, too, and none is cut.
    let label = "ü\u{1F980}\\'\"".repeat(100);
    let labelled = claim("labelled", 99).with_label(&label).with_identity("Ä ");
    let _ = granted(&store, labelled);
    let seen = block_on(store.inspect(claim("labelled", 99).resource)).unwrap().occupant.unwrap();
    assert_eq!((seen.label.as_deref(), seen.identity.as_deref()), (Some(label.as_str()), Some("Ä ")));
    let error = block_on(store.acquire(claim("y", 1).with_label("x".repeat(2_000)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Request);
}
