//! A connection of the program's own: on which it may have done anything before.

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, PostgresOptions, PostgresStore, Store, Undecided};

use crate::help::{claim, granted, lease};
use crate::servers::postgres::{Server, runtime};

/// A schema with a store in it, and a store on a connection on which something was done before.
fn lent(before: &str) -> (String, PostgresStore) {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let client = runtime().block_on(async {
        let client = server.client("postgres").await.unwrap();
        let told = client.batch_execute(&before.replace("{schema}", &schema)).await;
        // What fails on purpose leaves the connection as it is then.
        assert_eq!(told.is_err(), before.contains("1 / 0"), "{before}: {told:?}");
        client
    });
    let options = PostgresOptions::default().schema(schema);
    (url, PostgresStore::from_client(client, options).unwrap())
}

#[test]
fn it_is_refused_where_what_is_decided_there_would_not_count() {
    let newer = "UPDATE {schema}.lease_store SET version = 9, usable_by = 9";
    for (before, kind, word) in [
        ("BEGIN", ErrorKind::Configuration, "transaction that was begun before"),
        ("BEGIN; SELECT 1 / 0", ErrorKind::Configuration, "transaction that was begun before"),
        ("SET search_path = public, pg_catalog", ErrorKind::Configuration, "search_path"),
        (newer, ErrorKind::Schema, "of version 9"),
    ] {
        let (url, store) = lent(before);
        // Also when it is asked again.
        for _ in 0..2 {
            let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
            assert_eq!((error.kind(), error.undecided()), (kind, Undecided::Refused), "{before}: {error}");
            assert!(error.to_string().contains(word), "{before}: {error}");
        }
        if before != newer {
            let other = PostgresStore::open(&url).unwrap();
            assert!(block_on(other.inspect(claim("job", 1).resource)).unwrap().last_issued.is_none());
        }
    }
}

#[test]
fn it_decides_nothing_where_it_is_read_only() {
    let (_, store) = lent("SET default_transaction_read_only = on");
    assert!(block_on(store.inspect(claim("job", 1).resource)).unwrap().last_issued.is_none());
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn it_is_used_whatever_else_was_set() {
    for before in [
        "SET search_path = ''",
        "SET search_path = pg_catalog, public",
        "CREATE TEMP TABLE lease_row (name text); SET search_path = pg_catalog, pg_temp",
        "SET default_transaction_isolation = serializable; SET TimeZone = '14'",
        "SET standard_conforming_strings = off; SET DateStyle = 'SQL, DMY'; SET extra_float_digits = 0",
        "BEGIN; CREATE TEMP TABLE own (number int) ON COMMIT DROP; COMMIT",
    ] {
        let (url, store) = lent(before);
        let held = granted(&store, claim("job", 1));
        let seen = block_on(PostgresStore::open(&url).unwrap().inspect(claim("job", 1).resource)).unwrap();
        assert_eq!(seen.last_issued, Some(held.token), "{before}: what was answered is not committed");
        let _ = block_on(store.release(lease("job", 1, held), Default::default())).unwrap();
    }
}
