//! Passwords that a program is asked for, and that are replaced while it runs.
#![allow(unreachable_pub)]

use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, Store, StoreError, Undecided};

use crate::help::{claim, granted};

/// Where the program has its password from.
pub struct Vault {
    word: Mutex<Option<String>>,
    asked: AtomicU32,
}

impl Vault {
    pub fn with(word: &str) -> Arc<Self> {
        Arc::new(Self { word: Mutex::new(Some(word.to_owned())), asked: AtomicU32::new(0) })
    }

    /// What a store is told to ask.
    pub fn asks(self: &Arc<Self>) -> impl Fn() -> Ready<Result<String, io::Error>> + Send + Sync + use<> {
        let vault = Arc::clone(self);
        move || {
            vault.asked.fetch_add(1, Ordering::SeqCst);
            let word = vault.word.lock().unwrap().clone();
            ready(word.ok_or_else(|| io::Error::other("the vault is sealed")))
        }
    }

    fn holds(&self, word: Option<&str>) {
        *self.word.lock().unwrap() = word.map(ToOwned::to_owned);
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A store that has one connection, and its vault, which holds `s3cret-1`. `replace` gives the account on the server another
/// password than that, and ends its connections.
pub fn is_asked_at_each_new_connection(store: &dyn Store, vault: &Arc<Vault>, replace: &dyn Fn(&str)) {
    granted(store, claim("first", 1));
    granted(store, claim("second", 1));
    assert_eq!(vault.asked(), 1, "of a connection that is there");

    replace("s3cret-2");
    let refused = comes_to(store, ErrorKind::Permission);
    assert_eq!(refused.undecided(), Undecided::Refused, "{refused}");

    vault.holds(None);
    let sealed = block_on(store.acquire(claim("third", 1))).unwrap_err();
    assert_eq!((sealed.kind(), sealed.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{sealed}");
    assert!(sealed.to_string().contains("the vault is sealed"), "{sealed}");
    assert!(sealed.source().is_some_and(|cause| cause.is::<io::Error>()), "{sealed:?}");

    let before = vault.asked();
    vault.holds(Some("s3cret-2"));
    granted(store, claim("third", 1));
    let asked = vault.asked();
    assert!(asked > before);
    granted(store, claim("fourth", 1));
    assert_eq!(vault.asked(), asked, "of a connection that is there");
    for told in [refused, sealed] {
        assert!(!format!("{told} {told:?}").contains("s3cret"), "{told:?}");
    }
}

/// A connection that was cut may show only when it is used.
fn comes_to(store: &dyn Store, kind: ErrorKind) -> StoreError {
    let begun = Instant::now();
    for owner in 2.. {
        match block_on(store.acquire(claim("cut", owner))) {
            Err(error) if error.kind() == kind => return error,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}"),
            Ok(_) => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not come to {kind:?}");
        thread::sleep(Duration::from_millis(20));
    }
    unreachable!()
}
