//! A server behind TLS.

use std::path::Path;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, PostgresStore, Store, StoreError, Undecided};

use crate::help::{claim, granted};
use crate::servers::certificate;
use crate::servers::guard::Guarded;
use crate::servers::postgres::{Server, fresh_name};

fn url(server: &Server, host: &str, schema: &str, options: &str) -> String {
    format!("postgres://lease@{host}:{}/postgres?schema={schema}&application_name=tls&{options}", server.port)
}

fn refused(url: &str) -> StoreError {
    block_on(PostgresStore::open(url).unwrap().acquire(claim("job", 1))).unwrap_err()
}

#[test]
fn a_certificate_is_looked_at_where_that_is_asked_for() {
    let (folder, other) = (Guarded::folder("certificate"), Guarded::folder("certificate"));
    let (key, certificate) = certificate::make(&folder, "localhost");
    let (_, another) = certificate::make(&other, "localhost");
    let server = Server::start(&[
        "ssl = on",
        &format!("ssl_key_file = '{}'", key.display()),
        &format!("ssl_cert_file = '{}'", certificate.display()),
    ]);
    let schema = fresh_name();
    lease_machines_store::migrate(&server.url(&schema)).unwrap();
    let full = |file: &Path| format!("sslmode=verify-full&sslrootcert={}", file.display());
    let encrypted = || {
        let text = "SELECT bool_and(s.ssl) FROM pg_stat_ssl AS s JOIN pg_stat_activity AS a USING (pid) \
                    WHERE a.application_name = 'tls'";
        server.sql(text) == ["t"]
    };
    for (host, options, ssl) in [
        ("localhost", full(&certificate), true),
        // The name that a file of authorities is given alone verifies, too.
        ("localhost", format!("sslrootcert={}", certificate.display()), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        ("127.0.0.1", "sslmode=prefer".to_owned(), true),
        ("127.0.0.1", "sslmode=disable".to_owned(), false),
    ] {
        let store = PostgresStore::open(&url(&server, host, &schema, &options)).unwrap();
        let _ = granted(&store, claim(&format!("{host} {options}"), 1));
        assert_eq!(encrypted(), ssl, "{host} {options}");
        drop(store);
        while !server.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'tls'").is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    // Another name, and an authority that is not known.
    for (host, options) in [("127.0.0.1", full(&certificate)), ("localhost", full(&another))] {
        let error = refused(&url(&server, host, &schema, &options));
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{host} {options}: {error}"
        );
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    // A server without TLS, or somebody between who says that there is none.
    let plain = Server::shared();
    for options in
        ["sslmode=require".to_owned(), full(&certificate), format!("sslrootcert={}", certificate.display())]
    {
        let error = refused(&url(plain, "localhost", "none", &options));
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::NotDone),
            "{options}: {error}"
        );
        assert!(error.to_string().contains("TLS"), "{error}");
    }
}
