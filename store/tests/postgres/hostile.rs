//! Sessions whose defaults are not what the functions need.

use std::time::Duration;

use lease_machines::OwnerId;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, Ending, ErrorKind, PoolClaim, PostgresOptions, PostgresStore, Store};
use tokio_postgres::Config;

use crate::blocked::{LOCKED, behind};
use crate::help::{claim, granted, lease};
use crate::servers::postgres::{Server, runtime};

const HOUR: Duration = Duration::from_secs(3_600);

/// Stores on sessions that nobody has asked for another level: one as a pooler hands it out, and one that was lent.
fn strict(schema: &str) -> [PostgresStore; 2] {
    let server = Server::shared();
    let options = || PostgresOptions::default().schema(schema).pooler(true);
    let mut config: Config = format!("postgres://lease@127.0.0.1:{}/postgres", server.port).parse().unwrap();
    config.options("-c default_transaction_isolation=serializable");
    let client = runtime().block_on(async {
        let client = server.client("postgres").await.unwrap();
        client.batch_execute("SET default_transaction_isolation = 'repeatable read'").await.unwrap();
        client
    });
    [
        PostgresStore::from_config(config, options()).unwrap(),
        PostgresStore::from_client(client, options()).unwrap(),
    ]
}

#[test]
fn what_is_committed_during_the_wait_counts_at_any_level() {
    for which in 0..2 {
        withdrawal_during_the_wait_counts(which, || Server::shared().fresh().0);

        let (schema, url) = Server::shared().fresh();
        vacated(&PostgresStore::open(&url).unwrap());
        let store = &strict(&schema)[which];
        let opened = format!(
            "SELECT {schema}.lease_open_epoch_1((SELECT epoch FROM {schema}.lease_store), 7, 0, true, 1, 1000); COMMIT"
        );
        let held =
            behind(Duration::ZERO, &schema, LOCKED, &opened, || block_on(store.acquire(claim("job", 1))));
        let Acquired::Granted(held) = held.unwrap() else { panic!("it is free") };
        assert_eq!(held.epoch.value(), 7, "granted in an epoch that was over");

        let (schema, _) = Server::shared().fresh();
        let store = &strict(&schema)[which];
        let slot = || PoolClaim::new(claim("ids", 1).resource, 4, OwnerId::new(1), HOUR);
        assert!(block_on(store.resize_pool(slot().pool, 4)).is_ok());
        let alone = "LOCK TABLE {schema}.lease_pool IN EXCLUSIVE MODE";
        let withdrawn = format!("INSERT INTO {schema}.lease_withdrawn VALUES ('ids#', 1, 0); COMMIT");
        let answer =
            behind(Duration::ZERO, &schema, alone, &withdrawn, || block_on(store.claim_slot(slot())));
        assert_eq!(answer.expect_err("a slot for a withdrawn owner").kind(), ErrorKind::Superseded);
    }
}

/// Leaves a row that nobody holds.
fn vacated(store: &dyn Store) {
    let held = lease("job", 9, granted(store, claim("job", 9)));
    let _ = block_on(store.release(held, Ending::default())).unwrap();
}

/// In schemas that are set up in this way: a withdrawal that finds nothing to release has locked the row all the same.
pub fn withdrawal_during_the_wait_counts(which: usize, fresh: impl Fn() -> String) {
    let schema = fresh();
    let store = &strict(&schema)[which];
    vacated(store);
    let withdrawn = format!("INSERT INTO {schema}.lease_withdrawn VALUES ('job', 1, 0); COMMIT");
    let answer =
        behind(Duration::ZERO, &schema, LOCKED, &withdrawn, || block_on(store.acquire(claim("job", 1))));
    let Err(error) = answer else { panic!("granted to an owner that has withdrawn: {answer:?}") };
    assert_eq!(error.kind(), ErrorKind::Superseded, "{error:?}");
}

#[test]
fn each_function_that_decides_refuses_what_is_stricter() {
    let server = Server::shared();
    let (schema, _) = server.fresh();
    let calls = server.sql(&format!(
        "SELECT format('SELECT {schema}.%s(%s)', proname, array_to_string(array_fill('NULL'::text, ARRAY[pronargs::integer]), ','))
         FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace AND 'p_wait' = ANY (proargnames)"
    ));
    assert_eq!(calls.len(), 14, "{calls:?}");
    for call in calls {
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            let error = server.try_sql("postgres", &format!("BEGIN ISOLATION LEVEL {level}; {call}"));
            let error = error.expect_err(&call);
            assert_eq!(error.code().map(|code| code.code()), Some("LM002"), "{call}: {error:?}");
            let told = error.as_db_error().unwrap().message();
            assert!(told.contains(&level.to_lowercase()) && told.contains("read committed"), "{told}");
        }
    }
}
