//! A server behind TLS.

use std::path::Path;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, MysqlStore, Store, StoreError, Undecided};

use crate::help::{claim, granted};
use crate::servers::guard::Guarded;
use crate::servers::mysql::{Kind, Server};
use crate::setup::grant;

fn refused(url: &str) -> StoreError {
    block_on(MysqlStore::open(url).unwrap().acquire(claim("job", 9))).unwrap_err()
}

/// A key, and a certificate for `localhost` that is its own authority.
fn certificate(folder: &Guarded, name: &str) -> (String, String) {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    folder.run(
        Path::new("openssl"),
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ],
    );
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    (path(&key), path(&certificate))
}

/// One test, since the provider is the whole process's.
#[test]
fn a_connection_is_encrypted_and_the_certificate_looked_at() {
    let folder = Guarded::folder("certificates");
    let (key, own) = certificate(&folder, "own");
    let (_, other) = certificate(&folder, "other");
    // It is for the program to choose one, and nothing here does it instead.
    let error = MysqlStore::open("mysql://u:s3cret@localhost/d?ssl_mode=required").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("install_default"), "{error}");
    rustls::crypto::ring::default_provider().install_default().unwrap();
    for kind in Kind::BOTH {
        let (key, certificate) = (format!("--ssl-key={key}"), format!("--ssl-cert={own}"));
        let server = Server::start(kind, &[&Server::LAX[..], &[&key, &certificate]].concat());
        let (database, _) = server.fresh();
        server.sql("", "CREATE USER tls@'%' IDENTIFIED BY '' REQUIRE SSL");
        grant(&server, &database, "tls@'%'");
        let at =
            |host: &str, options: &str| format!("mysql://tls:@{host}:{}/{database}?{options}", server.port);
        let plain = refused(&at("localhost", "ssl_mode=disabled"));
        assert_eq!(plain.kind(), ErrorKind::Permission, "{plain}");
        for (owner, options) in [(1, "ssl_mode=required".to_owned()), (2, format!("ssl_ca={own}"))] {
            let store = MysqlStore::open(&at("localhost", &options)).unwrap();
            assert!(granted(&store, claim(&options, owner)).token.value() > 0);
        }
        for url in [at("127.0.0.1", &format!("ssl_ca={own}")), at("localhost", &format!("ssl_ca={other}"))] {
            let error = refused(&url);
            assert_eq!(
                (error.kind(), error.undecided()),
                (ErrorKind::Unreachable, Undecided::NotDone),
                "{kind:?} {url}: {error}"
            );
            assert!(error.to_string().contains("certificate"), "{error}");
        }
    }
    // Whoever asks for it is not answered in plain text.
    let (_, url) = Server::shared(Kind::MariaDb).fresh();
    let error = refused(&format!("{url}?ssl_mode=required"));
    assert_eq!(error.undecided(), Undecided::NotDone, "{error}");
    let empty = folder.path().join("empty.pem");
    folder.write("empty.pem", "");
    let error = MysqlStore::open(&format!("{url}?ssl_ca={}", empty.display())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}
