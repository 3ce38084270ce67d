//! Servers that answer what no PostgreSQL server with these functions does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, ErrorKind, PostgresStore, Renewed, Store, StoreError, Undecided};

use crate::help::{claim, granted, lease};
use crate::servers::postgres::Server;
use crate::servers::proxy::{Harm, Proxy};

#[test]
fn an_answer_that_breaks_off_or_is_garbled_is_unknown_and_asked_for_again() {
    let server = Server::shared();
    let (schema, _) = server.fresh();
    let proxy = Proxy::start(server.port);
    // Without a statement to prepare, there is one answer to harm.
    let store = PostgresStore::open(&format!(
        "postgres://lease@127.0.0.1:{}/postgres?schema={schema}&sslmode=disable&connections=1&pooler=1",
        proxy.port
    ))
    .unwrap();
    let _ = granted(&store, claim("warm", 1));
    for (harm, name) in [(Harm::CutMidAnswer, "cut"), (Harm::Garble, "garbled")] {
        proxy.harm(harm);
        let error = block_on(store.acquire(claim(name, 1))).unwrap_err();
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Unreachable, Undecided::Unknown),
            "{name}: {error:?}"
        );
        // Nor is there a connection to be had now, and so nothing is sent.
        let error = block_on(store.acquire(claim("unasked", 1))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::NotDone, "{name}: {error:?}");
        proxy.harm(Harm::None);
        let again = block_on(store.reacquire(claim(name, 1).with_attempt(2))).unwrap();
        let Acquired::Granted(grant) = again else { panic!("{name}: {again:?}") };
        let renewed = block_on(store.renew(lease(name, 1, grant), Duration::from_secs(70))).unwrap();
        assert!(matches!(renewed, Renewed::Renewed(_)), "{name}: {renewed:?}");
    }
}

/// Whatever listens there: it was not asked for anything, and says nothing that a password could stand in.
#[test]
fn what_is_no_postgresql_server_is_unreachable() {
    let ended = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    for answer in [b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), b"", &[0; 64], &[0xFF; 64], b"N", ended] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let _ = client.read(&mut [0; 1024]);
                let _ = client.write_all(answer);
            }
        });
        for options in ["sslmode=disable", "sslmode=prefer", "sslmode=disable&pooler=1"] {
            let url = format!("postgres://lease:s3cret@127.0.0.1:{port}/postgres?timeout=5s&{options}");
            let error = block_on(PostgresStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
            assert_eq!(
                (error.kind(), error.undecided()),
                (ErrorKind::Unreachable, Undecided::NotDone),
                "{answer:?}, {options}: {error:?}"
            );
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}

fn is_nonsense(error: &StoreError) -> bool {
    (error.kind(), error.undecided()) == (ErrorKind::Schema, Undecided::Unknown)
}

#[test]
fn what_the_functions_never_answer_decides_nothing() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let row = |json: &str| format!("jsonb_populate_record(NULL::{schema}.lease_answer_1, '{json}')");
    server.sql(&format!("DROP FUNCTION {schema}.lease_acquire_1, {schema}.lease_renew_many_1"));
    for json in [
        "{}",
        r#"{"code": "sideways", "epoch": 7}"#,
        r#"{"code": "granted", "epoch": 7}"#,
        r#"{"code": "granted", "epoch": 7, "token": -5}"#,
        r#"{"code": "granted", "epoch": 0, "token": 5, "remaining": 60000000}"#,
        r#"{"code": "granted", "token": 5, "remaining": 60000000}"#,
        r#"{"code": "new epoch", "epoch": 7}"#,
        r#"{"code": "done", "epoch": 7}"#,
        r#"{"code": "renewed", "epoch": 7, "token": 5}"#,
    ] {
        server.sql(&format!(
            "CREATE OR REPLACE FUNCTION {schema}.lease_acquire_1(bytea, bigint, bigint, bigint, bigint, text, text, text,
             boolean, integer, integer) RETURNS {schema}.lease_answer_1 LANGUAGE sql AS $$ SELECT ({}).* $$",
            row(json)
        ));
        let error = block_on(PostgresStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
        assert!(is_nonsense(&error), "{json}: {error:?}");
    }
    let renewed = row(r#"{"code": "renewed", "epoch": 7}"#);
    for answer in [
        format!("SELECT ARRAY[1]::bigint[], ARRAY[60000000]::bigint[], {renewed} WHERE false"),
        format!("SELECT ARRAY[0]::bigint[], ARRAY[60000000]::bigint[], {renewed}"),
        format!("SELECT ARRAY[99]::bigint[], ARRAY[60000000]::bigint[], {renewed}"),
        format!("SELECT ARRAY[1]::bigint[], ARRAY[1, 2]::bigint[], {renewed}"),
        format!("SELECT ARRAY[1]::bigint[], NULL::bigint[], {renewed}"),
    ] {
        server.sql(&format!(
            "CREATE OR REPLACE FUNCTION {schema}.lease_renew_many_1(bytea[], bigint[], bigint[], bigint[], bigint[], integer,
             integer) RETURNS TABLE (n bigint[], remains bigint[], answer {schema}.lease_answer_1) LANGUAGE sql
             AS $$ {answer} $$"
        ));
        let grant = lease_machines_store::Grant::new(
            lease_machines::FencingToken::new(5).unwrap(),
            Duration::from_secs(60),
            lease_machines_store::Epoch::new(7).unwrap(),
        );
        let asked = vec![(lease("job", 1, grant), Duration::from_secs(60))];
        let told = block_on(PostgresStore::open(&url).unwrap().renew_many(asked));
        let errors = told.unwrap_or_else(|error| vec![Err(error)]);
        assert_eq!(errors.len(), 1);
        for told in errors {
            assert!(told.as_ref().is_err_and(is_nonsense), "{answer}: {told:?}");
        }
    }
}
