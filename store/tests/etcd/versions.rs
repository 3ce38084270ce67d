//! Stores that programs of other versions have set up, or brought further.

use etcd_client::Client;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, EtcdStore, Migration, Opening, Store, Undecided};

use crate::help::{claim, granted};
use crate::servers::etcd::{EtcdServer, namespace};

/// A store that is set up, and the key that has the two numbers.
struct There {
    url: String,
    key: String,
}

impl There {
    fn set_up() -> Self {
        let space = namespace();
        let url = EtcdServer::shared().url(&space);
        EtcdStore::open(&url).unwrap().migrate().unwrap();
        Self { url, key: format!("/lease-machines/{space}/epoch") }
    }

    fn open(&self) -> EtcdStore {
        EtcdStore::open(&self.url).unwrap()
    }

    /// What the key holds, after something was done with it.
    fn key(&self, put: Option<String>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = format!("127.0.0.1:{}", EtcdServer::shared().port);
            let mut client = Client::connect([server], None).await.unwrap();
            if let Some(text) = put {
                client.put(self.key.as_str(), text, None).await.unwrap();
            }
            let found = client.get(self.key.as_str(), None).await.unwrap();
            found.kvs()[0].value_str().unwrap().to_owned()
        })
    }

    fn text(&self) -> String {
        self.key(None)
    }

    /// Puts other numbers there, and leaves all else as it is.
    fn mark(&self, numbers: &str) {
        let text = self.text();
        let (_, rest) = text.split_once("&epoch=").unwrap();
        self.key(Some(format!("{numbers}&epoch={rest}")));
    }
}

#[test]
fn a_store_from_before_it_said_who_may_use_it_is_used_and_a_migrate_says_it() {
    let there = There::set_up();
    let today = there.text();
    assert!(today.starts_with("version=1&usable_by=1&epoch="), "{today}");
    there.mark("version=1");
    let before = there.open();
    let held = granted(&before, claim("job", 1));
    assert!(!there.text().contains("usable_by"), "only a migrate says it, or who opens an epoch");
    assert_eq!(there.open().migrate().unwrap(), Migration::UpToDate);
    assert_eq!(there.text(), today);
    // Whoever was at work goes on.
    granted(&before, claim("other", 1));
    assert_eq!(block_on(before.epoch()).unwrap(), held.epoch);
}

#[test]
fn a_newer_store_that_admits_this_program_is_used_and_stays_what_it_is() {
    let there = There::set_up();
    there.mark("version=3&usable_by=1&more=x");
    let newer = there.open();
    let held = granted(&newer, claim("job", 1));
    assert_eq!(newer.migrate().unwrap(), Migration::UpToDate);
    assert!(there.text().starts_with("version=3&usable_by=1&more=x&"), "{}", there.text());
    let opening = Opening::new(held.epoch).with_dead_holders();
    assert_ne!(block_on(newer.open_epoch(opening)).unwrap(), held.epoch);
    assert!(there.text().starts_with("version=3&usable_by=1&epoch="), "{}", there.text());
    granted(&newer, claim("job", 2));
}

#[test]
fn a_newer_store_that_does_not_is_refused_also_to_who_was_there_before() {
    let there = There::set_up();
    let before = there.open();
    let held = granted(&before, claim("job", 1));
    there.mark("version=3&usable_by=2");
    let text = there.text();
    let opening = Opening::new(held.epoch).with_dead_holders();
    for error in [
        block_on(before.acquire(claim("job", 1).with_attempt(2))).unwrap_err(),
        block_on(before.withdraw(claim("job", 1).resource, claim("job", 1).owner)).unwrap_err(),
        block_on(before.open_epoch(opening)).unwrap_err(),
        block_on(there.open().acquire(claim("job", 1))).unwrap_err(),
        there.open().migrate().unwrap_err(),
    ] {
        let told = (error.kind(), error.undecided());
        assert_eq!(told, (ErrorKind::Schema, Undecided::Refused), "{error}");
        for word in [&*there.key, "of version 3", "version 2 or later", "knows version 1", "newer"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    assert_eq!(there.text(), text);
}

#[test]
fn numbers_that_no_program_writes_are_told_so() {
    let there = There::set_up();
    for numbers in [
        "version=1&usable_by=x",
        "version=1&usable_by=0",
        "version=1&usable_by=2",
        "version=2&usable_by=",
        "version=x&usable_by=1",
        "version=01&usable_by=1",
        "usable_by=1",
    ] {
        there.mark(numbers);
        for error in [
            block_on(there.open().acquire(claim("job", 1))).unwrap_err(),
            there.open().migrate().unwrap_err(),
        ] {
            let told = (error.kind(), error.undecided());
            assert_eq!(told, (ErrorKind::Damaged, Undecided::Refused), "{numbers}: {error}");
            assert!(error.to_string().contains("expected two numbers"), "{error}");
        }
    }
}
