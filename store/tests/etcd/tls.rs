//! A cluster behind TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, EtcdStore, Store, Undecided};

use crate::help::{claim, granted};
use crate::servers::etcd::{EtcdServer, namespace};
use crate::servers::guard::Guarded;

#[test]
fn a_certificate_is_looked_at() {
    let folder = Guarded::folder("certificates");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["one", "other"] {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &path(&format!("{name}.key")), "-out", &path(&format!("{name}.pem"))])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    // The server runs as another user where the test is root.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(path("one.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let server = EtcdServer::start_with_tls(&path("one.pem"), &path("one.key"));
    let space = namespace();
    let open = |host: &str, authority: &str| {
        let url = format!("etcd://{host}:{}/{space}?timeout=5s&cafile={authority}", server.port);
        EtcdStore::open(&url).unwrap()
    };
    let store = open("localhost", &path("one.pem"));
    store.migrate().unwrap();
    granted(&store, claim("job", 1));
    // Another authority; a name that is not the certificate's; no TLS at all.
    let plain = EtcdStore::open(&format!("etcd://localhost:{}/{space}?timeout=2s", server.port)).unwrap();
    for store in [open("localhost", &path("other.pem")), open("127.0.0.1", &path("one.pem")), plain] {
        let error = block_on(store.acquire(claim("job", 2))).unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{error}"
        );
    }
    let missing = EtcdStore::open(&format!("etcd://localhost?cafile={}", path("nothing.pem")));
    let error = missing.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("nothing.pem"), "{error}");
}
