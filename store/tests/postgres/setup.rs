//! Setting up, rights, and what is said where something is wrong.

use std::thread;
use std::time::SystemTime;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Claimed, ErrorKind, Migration, Opening, PoolClaim, PostgresStore, Severity, Store, StoreError, Undecided,
    migrate, migration_sql,
};

use tokio_postgres::IsolationLevel;

use crate::help::{claim, granted};
use crate::servers::clock::WallClock;
use crate::servers::guard::{Guarded, free_port};
use crate::servers::pgbouncer::Pooler;
use crate::servers::postgres::{Server, fresh_name, runtime};

fn refused(url: &str) -> StoreError {
    let store = PostgresStore::open(url).unwrap();
    block_on(store.acquire(claim("job", 1))).unwrap_err()
}

#[test]
fn fifty_migrates_at_once_open_one_epoch() {
    let server = Server::shared();
    let url = server.url(&fresh_name());
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| migrate(&url).unwrap());
        }
    });
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    let epochs =
        (0..2).map(|_| block_on(PostgresStore::open(&url).unwrap().epoch()).unwrap()).collect::<Vec<_>>();
    assert_eq!(epochs[0], epochs[1]);
}

#[test]
fn a_role_with_the_rights_that_are_printed_uses_a_store_that_was_printed() {
    let server = Server::shared();
    let schema = fresh_name();
    let sql = migration_sql(&server.url(&schema)).unwrap();
    let role = format!("role_{schema}");
    let (set_up, grants) = sql.split_once("-- What a role").unwrap();
    server.sql(set_up);
    server.sql(&format!("CREATE ROLE {role} LOGIN"));
    let url = server.url(&schema).replace("lease@", &format!("{role}@"));
    let error = refused(&url);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error:?}");
    let grants: Vec<&str> = grants.lines().filter_map(|line| line.strip_prefix("-- GRANT")).collect();
    assert_eq!(grants.len(), 3);
    for grant in grants {
        server.sql(&format!("GRANT{}", grant.replace("application", &role)));
    }
    let store = PostgresStore::open(&url).unwrap();
    let held = crate::help::lease("job", 1, granted(&store, claim("job", 1)));
    assert!(block_on(store.renew(held.clone(), std::time::Duration::from_secs(70))).is_ok());
    assert!(block_on(store.release(held, Default::default())).is_ok());
    assert!(block_on(store.prune(std::time::Duration::ZERO)).is_ok());
    let (pool, owner) = (claim("ids", 1).resource, lease_machines::OwnerId::new(1));
    let slot = PoolClaim::new(pool.clone(), 4, owner, std::time::Duration::from_secs(60));
    assert!(matches!(block_on(store.claim_slot(slot)).unwrap(), Claimed::Granted(_)));
    assert!(block_on(store.withdraw_slot(pool.clone(), owner)).is_ok());
    assert!(block_on(store.resize_pool(pool, 8)).is_ok());
    let epoch = block_on(store.epoch()).unwrap();
    assert_ne!(block_on(store.open_epoch(lease_machines_store::Opening::new(epoch))).unwrap(), epoch);
    assert!(block_on(store.doctor()).is_ok());
    // It is up to date, and says so also to a role that may create nothing.
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    server.sql("DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN PASSWORD 'right'");
    let at = format!("127.0.0.1:{}", server.port);
    let cases = [
        (format!("postgres://guarded:s3cret@{at}/postgres?schema={schema}"), ErrorKind::Permission),
        (format!("postgres://lease:s3cret@{at}/missing?schema={schema}"), ErrorKind::Configuration),
        (format!("postgres://lease:s3cret@127.0.0.1:{}/postgres", free_port()), ErrorKind::Unreachable),
        ("postgres://lease:s3cret@host.invalid/postgres".to_owned(), ErrorKind::Unreachable),
        (format!("postgres://lease:s3cret@{at}/postgres?schema=never"), ErrorKind::NotSetUp),
    ];
    for (url, kind) in cases {
        let error = refused(&url);
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_ne!(error.undecided(), Undecided::Unknown, "nothing was sent: {error:?}");
        let told = format!("{error} {error:?} {:?}", PostgresStore::open(&url).unwrap());
        assert!(!told.contains("s3cret"), "{told}");
        assert!(told.contains("postgres://"), "{told}");
    }
    for wrong in [
        "bogus=1",
        "timeout=soon",
        "history=0",
        "pooler=maybe",
        "sslmode=no",
        "connections=0",
        "max_ttl=400d",
    ] {
        let error = PostgresStore::open(&format!("postgres://a:s3cret@h/d?{wrong}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
    server.sql(&format!("DELETE FROM {schema}.lease_store"));
    assert_eq!(refused(&url).kind(), ErrorKind::NotSetUp);
}

#[test]
fn tables_of_another_shape_are_told_from_a_wiped_store() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    server.sql(&format!("ALTER TABLE {schema}.lease_row RENAME COLUMN label TO tag"));
    assert_eq!(refused(&url).kind(), ErrorKind::Schema);
}

#[test]
fn a_newer_store_is_used_where_it_admits_this_program_and_refused_where_not() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let numbers = || server.sql(&format!("SELECT version || ' ' || usable_by FROM {schema}.lease_store"));
    assert_eq!(numbers(), ["1 1"]);
    let mark = |version: i32, usable_by: i32| {
        server.sql(&format!("UPDATE {schema}.lease_store SET version = {version}, usable_by = {usable_by}"));
    };
    for (version, usable_by, kind) in [
        (9, 8, ErrorKind::Schema),
        (2, 2, ErrorKind::Schema),
        (1, 0, ErrorKind::Damaged),
        (1, 2, ErrorKind::Damaged),
        (0, 0, ErrorKind::Damaged),
        (-1, -1, ErrorKind::Damaged),
    ] {
        mark(version, usable_by);
        for error in [refused(&url), migrate(&url).unwrap_err()] {
            assert_eq!((error.kind(), error.undecided()), (kind, Undecided::Refused), "{error}");
            for word in ["postgres://127.0.0.1", &format!("version {version}"), &usable_by.to_string()] {
                assert!(error.to_string().contains(word), "{error}");
            }
        }
    }
    // A later one that still admits this program.
    mark(9, 1);
    server.sql(&format!("ALTER TABLE {schema}.lease_row ADD more text"));
    assert!(granted(&PostgresStore::open(&url).unwrap(), claim("job", 1)).token.value() > 0);
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    assert_eq!(numbers(), ["9 1"]);
}

/// The first tokens are above the clock: by one that stands at its beginning they would lie below those of the store that
/// this one replaces.
#[test]
fn no_epoch_is_opened_by_a_clock_that_nobody_has_set() {
    let guarded = Guarded::folder("postgres");
    let time = WallClock::new(guarded.path().join("clock")).unwrap();
    let server = Server::start_in(guarded.with(&time.variables()), &[]);
    let url = server.url(&fresh_name());
    let since_2026 =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - 1_767_225_600;
    let unset = -i64::try_from(since_2026).unwrap() - 60;
    let too_early = |error: StoreError| {
        assert_eq!(
            (error.kind(), error.undecided()),
            (ErrorKind::Configuration, Undecided::Refused),
            "{error:?}"
        );
        assert!(error.to_string().contains("stands before 2026"), "{error}");
    };
    time.set(unset);
    too_early(migrate(&url).unwrap_err());
    assert_eq!(refused(&url).kind(), ErrorKind::NotSetUp);
    time.set(0);
    assert_eq!(migrate(&url).unwrap(), Migration::SetUp);
    let store = PostgresStore::open(&url).unwrap();
    let opening = || Opening::new(block_on(store.epoch()).unwrap()).with_dead_holders();
    time.set(unset);
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    too_early(block_on(store.open_epoch(opening())).unwrap_err());
    time.set(0);
    assert!(block_on(store.open_epoch(opening())).is_ok());
}

#[test]
fn a_database_that_asks_for_serializable_changes_nothing() {
    let server = Server::shared();
    server.sql("DROP ROLE IF EXISTS strict; CREATE ROLE strict SUPERUSER LOGIN");
    server.sql("ALTER ROLE strict SET default_transaction_isolation = 'serializable'");
    server.sql("ALTER ROLE strict SET synchronous_commit = off");
    let (_, url) = server.fresh();
    let url = url.replace("lease@", "strict@");
    let store = PostgresStore::open(&url).unwrap();
    thread::scope(|scope| {
        for owner in 1..=8 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..20 {
                    let claim = claim("job", owner * 100 + round);
                    let withdrawn = (claim.resource.clone(), claim.owner);
                    let _ = block_on(store.acquire(claim)).unwrap();
                    let _ = block_on(store.withdraw(withdrawn.0, withdrawn.1)).unwrap();
                }
            });
        }
    });
}

#[test]
fn the_doctor_names_what_weakens_a_server() {
    let server = Server::start(&["fsync = off", "full_page_writes = off"]);
    let (schema, url) = server.fresh();
    let role = "careful";
    server.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    ));
    let store = PostgresStore::open(&url.replace("lease@", &format!("{role}@"))).unwrap();
    let found = |check: &str| {
        let findings = block_on(store.doctor()).unwrap();
        let finding = findings.iter().find(|finding| finding.check == check);
        finding.map(|finding| (finding.severity, finding.found.clone())).unwrap()
    };
    for check in ["fsync", "full_page_writes"] {
        assert_eq!(found(check), (Severity::Error, "off".to_owned()));
    }
    let (severity, lacking) = found("rights");
    assert_eq!(severity, Severity::Error);
    assert!(lacking.contains("DELETE on lease_row") && !lacking.contains("INSERT"), "{lacking}");
    server.sql(&format!("GRANT DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"));
    assert_eq!(found("rights").0, Severity::Fine);
    for check in ["clock", "old snapshots", "isolation", "version"] {
        assert_eq!(found(check).0, Severity::Fine, "{check}");
    }
    assert_eq!(found("failover").0, Severity::Note, "no standby is waited for");
}

/// What a call comes to only when it is made is told beforehand: each right by its name.
#[test]
fn the_doctor_names_the_rights_that_a_role_lacks() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let role = format!("limited_{schema}");
    server.sql(&format!("CREATE ROLE {role} LOGIN"));
    server.sql(&format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC"));
    let url = url.replace("lease@", &format!("{role}@"));
    let lacking = || {
        let findings = block_on(PostgresStore::open(&url).unwrap().doctor()).unwrap();
        let told = findings.into_iter().find(|finding| finding.check == "rights").unwrap();
        (told.severity, told.found)
    };
    for (right, sign) in [
        (format!("USAGE ON SCHEMA {schema}"), "USAGE on the schema"),
        (format!("SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema}"), "SELECT on lease_store"),
        (format!("EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema}"), "EXECUTE on lease_acquire_1"),
        (format!("INSERT ON ALL TABLES IN SCHEMA {schema}"), "INSERT on lease_row"),
    ] {
        let (severity, found) = lacking();
        assert_eq!(severity, Severity::Error, "{found}");
        assert!(found.contains(sign), "{found}");
        server.sql(&format!("GRANT {right} TO {role}"));
    }
    assert_eq!(lacking().0, Severity::Fine);
}

#[test]
fn the_doctor_sees_a_standby_a_level_of_its_own_an_old_snapshot_and_another_time() {
    let guarded = Guarded::folder("postgres");
    let time = WallClock::new(guarded.path().join("clock")).unwrap();
    let server = Server::start_in(guarded.with(&time.variables()), &["wal_level = replica"]);
    let (_, url) = server.fresh();
    let found = |url: &str, check: &str| {
        let findings = block_on(PostgresStore::open(url).unwrap().doctor()).unwrap();
        let finding = findings.into_iter().find(|finding| finding.check == check);
        finding.unwrap_or_else(|| panic!("nothing is said of {check:?}"))
    };
    let epoch = block_on(PostgresStore::open(&url).unwrap().epoch()).unwrap();
    assert_eq!(found(&url, "epoch").found, epoch.to_string());

    // A transaction that is left open keeps old versions of rows from going.
    let mut writer = runtime().block_on(server.client("postgres")).unwrap();
    let open = runtime().block_on(async {
        let level = IsolationLevel::RepeatableRead;
        let transaction = writer.build_transaction().isolation_level(level).start().await.unwrap();
        transaction.query("SELECT count(*) FROM pg_class", &[]).await.unwrap();
        transaction
    });
    assert_eq!(found(&url, "old snapshots").severity, Severity::Fine);
    time.set(3_600);
    let told = found(&url, "old snapshots");
    assert_eq!(told.severity, Severity::Warning, "{told:?}");
    assert!(told.found.contains("has been open for 36"), "{told:?}");
    let told = found(&url, "clock");
    assert_eq!(told.severity, Severity::Note, "{told:?}");
    assert!(told.found.contains("is 3600") || told.found.contains("is 3599"), "{told:?}");
    runtime().block_on(open.rollback()).unwrap();
    assert_eq!(found(&url, "old snapshots").severity, Severity::Fine);
    time.set(-3_600);
    assert!(found(&url, "clock").found.contains("is -3"), "{:?}", found(&url, "clock"));
    time.set(0);
    assert_eq!(found(&url, "clock").severity, Severity::Fine);

    let standby = Server::standby_of(&server);
    let behind = url.replace(&server.port.to_string(), &standby.port.to_string());
    let told = found(&behind, "role");
    assert_eq!((told.severity, told.found.as_str()), (Severity::Error, "a standby: it decides nothing"));
    let told = found(&behind, "epoch");
    assert_eq!(told.severity, Severity::Error, "{told:?}");
    assert!(told.found.contains("a standby or read-only, expected the primary"), "{told:?}");
    let error = refused(&behind);
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");

    // So does a primary on which nobody writes.
    assert_eq!(found(&url, "role").severity, Severity::Fine);
    server.sql("CREATE ROLE reader SUPERUSER LOGIN");
    server.sql("ALTER ROLE reader SET default_transaction_read_only = on");
    let told = found(&url.replace("lease@", "reader@"), "role");
    assert_eq!((told.severity, told.found.as_str()), (Severity::Error, "read-only: it decides nothing"));

    // A connection of the store's own asks for the level that it needs. Behind a pooler it has what the role is given.
    server.sql("ALTER ROLE lease SET default_transaction_isolation = 'serializable'");
    assert_eq!(found(&url, "isolation").severity, Severity::Fine);
    let pooler = Pooler::start(server.port, "");
    let told = found(&url.replace(&server.port.to_string(), &pooler.port.to_string()), "isolation");
    assert_eq!(told.severity, Severity::Note, "{told:?}");
    assert!(told.found.starts_with("serializable"), "{told:?}");
}
