//! A server behind TLS.

use std::process::{Command, Output};

use lease_machines_store::{ErrorKind, Undecided, open};

use crate::common::{block_on, claim, granted};
use crate::servers::certificate;
use crate::servers::guard::{Guarded, free_port};
use crate::servers::redis::{FORGETFUL, RedisServer};

/// Set where the test runs a second time, with the authorities of its own: they are read from the environment.
const INSIDE: &str = "LEASE_TEST_TLS";

#[test]
fn a_certificate_is_looked_at() {
    if let Some(url) = std::env::var_os(INSIDE) {
        return inside(url.to_str().unwrap());
    }
    let folder = Guarded::folder("certificate");
    let (key, certificate) = certificate::make(&folder, "localhost");
    let port = free_port();
    let (key, certificate) = (key.to_str().unwrap(), certificate.to_str().unwrap());
    let number = port.to_string();
    let tls = [
        "--tls-port",
        &number,
        "--tls-key-file",
        key,
        "--tls-cert-file",
        certificate,
        "--tls-auth-clients",
        "no",
    ];
    let _server = RedisServer::start(&[FORGETFUL, &tls].concat());
    let inside = |host: &str, authorities: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::a_certificate_is_looked_at", "--nocapture"])
            .env(INSIDE, format!("rediss://{host}:{port}"))
            .env("SSL_CERT_FILE", authorities)
            .output()
            .unwrap()
    };
    let trusted = inside("localhost", certificate);
    ended_well(&trusted);
    assert!(String::from_utf8_lossy(&trusted.stdout).contains("granted"), "{trusted:?}");
    let other_name = inside("127.0.0.1", certificate);
    ended_well(&other_name);
    assert!(String::from_utf8_lossy(&other_name.stdout).contains("refused"), "{other_name:?}");
}

fn inside(url: &str) {
    let store = open(url).unwrap();
    if let Err(error) = lease_machines_store::migrate(url) {
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{error}"
        );
        assert!(error.to_string().contains("TLS"), "{error}");
        assert!(block_on(store.acquire(claim("job", 1))).is_err());
        println!("refused");
        return;
    }
    granted(&*store, claim("job", 1));
    println!("granted");
}

fn ended_well(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}
