//! A cluster behind TLS.

use std::path::Path;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, EtcdStore, Store, Undecided};

use crate::help::{claim, granted};
use crate::servers::certificate;
use crate::servers::etcd::{EtcdServer, namespace};
use crate::servers::guard::Guarded;

#[test]
fn a_certificate_is_looked_at() {
    let (folder, elsewhere) = (Guarded::folder("certificates"), Guarded::folder("certificates"));
    let (key, authority) = certificate::make(&folder, "localhost");
    let (_, other) = certificate::make(&elsewhere, "localhost");
    let server = EtcdServer::start_with_tls(authority.to_str().unwrap(), key.to_str().unwrap());
    let space = namespace();
    let open = |host: &str, authority: &Path| {
        let url = format!("etcd://{host}:{}/{space}?timeout=5s&cafile={}", server.port, authority.display());
        EtcdStore::open(&url).unwrap()
    };
    let store = open("localhost", &authority);
    store.migrate().unwrap();
    granted(&store, claim("job", 1));
    // Another authority; a name that is not the certificate's; no TLS at all.
    let plain = EtcdStore::open(&format!("etcd://localhost:{}/{space}?timeout=2s", server.port)).unwrap();
    for store in [open("localhost", &other), open("127.0.0.1", &authority), plain] {
        let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{error}"
        );
    }
    let missing =
        EtcdStore::open(&format!("etcd://localhost?cafile={}", folder.path().join("nothing.pem").display()));
    let error = missing.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("nothing.pem"), "{error}");
}
