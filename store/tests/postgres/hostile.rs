//! Sessions whose defaults are not what the functions need, and clocks that are read in a time zone.

use std::time::{Duration, SystemTime};

use lease_machines::{OwnerId, Rejection};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Claimed, Ending, ErrorKind, PoolClaim, PostgresOptions, PostgresStore, Store, Unclaimed,
};
use tokio_postgres::Config;

use crate::blocked::{LOCKED, behind};
use crate::help::{claim, claim_for, granted, lease};
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

#[test]
fn a_session_in_another_zone_changes_nothing() {
    zones_change_nothing(|| Server::shared().fresh().0);
}

/// In schemas that are set up in this way.
pub fn zones_change_nothing(fresh: impl Fn() -> String) {
    let schema = fresh();
    let server = Server::shared();
    let [east, west] = [("east", "14"), ("west", "-11")].map(|(side, hours)| {
        let role = format!("{side}_{schema}");
        server
            .sql(&format!("CREATE ROLE {role} SUPERUSER LOGIN; ALTER ROLE {role} SET timezone = '{hours}'"));
        PostgresStore::open(&server.url(&schema).replace("lease@", &format!("{role}@"))).unwrap()
    });
    let is_now = |told: SystemTime| {
        let off = told.duration_since(SystemTime::now()).unwrap_or_else(|error| error.duration());
        assert!(off < Duration::from_secs(60), "{off:?} off");
    };
    for (name, owner, here, there) in [("a", 1, &west, &east), ("b", 2, &east, &west)] {
        let held = granted(here, claim_for(name, owner, HOUR));
        assert_eq!(held.ttl, HOUR);
        let answer = block_on(there.acquire(claim(name, 9))).unwrap();
        let Acquired::Rejected(why) = answer else { panic!("{name} was free at once: {answer:?}") };
        assert_eq!(why.reason, Rejection::Occupied);
        let left = why.occupant.unwrap().remaining;
        assert!(left <= HOUR && left > HOUR - Duration::from_secs(60), "{left:?}");
        let told = block_on(there.history(claim(name, owner).resource, 1)).unwrap().remove(0);
        is_now(told.granted_at);
        is_now(told.ends_at - HOUR);

        let slot = |owner: u64| {
            PoolClaim::new(claim(&format!("{name}-ids"), 1).resource, 1, OwnerId::new(owner), HOUR)
                .with_id_time()
        };
        let Claimed::Granted(held) = block_on(here.claim_slot(slot(owner))).unwrap() else {
            panic!("no slot")
        };
        is_now(SystemTime::UNIX_EPOCH + held.window.unwrap().until - HOUR);
        let answer = block_on(there.claim_slot(slot(9))).unwrap();
        let Claimed::Rejected(Unclaimed::Exhausted { .. }) = answer else {
            panic!("the slot was free at once: {answer:?}")
        };
    }
}
