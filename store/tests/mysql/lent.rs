//! A connection of the program's own: on which it may have done anything before.

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, MysqlOptions, MysqlStore, Store, Undecided};

use crate::help::{claim, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server, runtime, say};

/// A store on a connection on which something was done before.
fn lent(server: &Server, database: &str, before: &str) -> MysqlStore {
    let conn = runtime().block_on(async {
        let mut conn = server.client(database).await.unwrap();
        say(&mut conn, before).await.unwrap();
        conn
    });
    MysqlStore::from_conn(conn, MysqlOptions::default()).unwrap()
}

on_both! {
    it_is_used_whatever_was_set_or_begun_before
    it_is_kept_after_what_the_server_refuses
    it_is_looked_at_before_it_is_used
}

fn it_is_used_whatever_was_set_or_begun_before(kind: Kind) {
    let server = Server::shared(kind);
    for before in [
        "SELECT 1",
        "SET SESSION autocommit = 0, completion_type = 1, time_zone = '-11:00', sql_safe_updates = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
        "SET SESSION sql_mode = 'ANSI_QUOTES', sql_select_limit = 0; SET NAMES latin1",
        "START TRANSACTION; INSERT INTO lease_done (name, once, token, owner, at) VALUES ('own', 'own', 1, 1, 1)",
    ] {
        let (database, url) = server.fresh();
        let store = lent(server, &database, before);
        let label = "ü\u{1F980}";
        let held = granted(&store, claim("job", 1).with_label(label));
        let seen = block_on(MysqlStore::open(&url).unwrap().inspect(claim("job", 1).resource)).unwrap();
        assert_eq!(seen.last_issued, Some(held.token), "{before}: what was answered is not committed");
        assert_eq!(seen.occupant.unwrap().label.as_deref(), Some(label), "{before}");
        let _ = block_on(store.release(lease("job", 1, held), Default::default())).unwrap();
        let own = server.sql(&database, "SELECT COUNT(*) FROM lease_done WHERE name = 'own'");
        assert_eq!(own, ["0"], "{before}: what was open is rolled back");
    }
}

/// A statement that fails may leave a transaction open: what comes next begins anew.
fn it_is_kept_after_what_the_server_refuses(kind: Kind) {
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let store = lent(server, &database, "SELECT 1");
    granted(&store, claim("first", 1));
    server.sql(&database, "ALTER TABLE lease_row CHANGE label tag VARBINARY(1024)");
    let error = block_on(store.acquire(claim("second", 1))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error}");
    server.sql(&database, "ALTER TABLE lease_row CHANGE tag label VARBINARY(1024)");
    granted(&store, claim("second", 1));
    assert!(block_on(store.doctor()).is_ok());
    granted(&store, claim("third", 1));
    // Once it is closed there is no other.
    let id =
        server.sql("", &format!("SELECT id FROM information_schema.processlist WHERE db = '{database}'"));
    assert_eq!(id.len(), 1, "{id:?}");
    server.sql("", &format!("KILL {}", id[0]));
    // MariaDB says so itself first, which may also be said of a statement alone.
    for _ in 0..3 {
        let error = block_on(store.acquire(claim("fourth", 1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    }
    let error = block_on(store.acquire(claim("fourth", 1))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    assert!(error.to_string().contains("is closed"), "{error}");
}

fn it_is_looked_at_before_it_is_used(kind: Kind) {
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let store = lent(server, &database, "UPDATE lease_store SET version = 9, usable_by = 9");
    for _ in 0..2 {
        let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error}");
        assert!(error.to_string().contains("of version 9"), "{error}");
    }
    // What was mended is seen.
    server.sql(&database, "UPDATE lease_store SET version = 1, usable_by = 1");
    granted(&store, claim("job", 1));
    let empty = server.empty();
    let error = block_on(lent(server, &empty, "SELECT 1").acquire(claim("job", 1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSetUp, "{error}");
}
