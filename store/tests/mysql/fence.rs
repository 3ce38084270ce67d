//! The fence in the user's own transaction.

use std::time::{Duration, Instant};

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, MarkKey, MysqlFence, MysqlStore,
    ResourceName, Store,
};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, IsolationLevel, TxOpts};

use crate::help::{claim, granted, lease, on_both};
use crate::page::sql_under;
use crate::servers::mysql::{Kind, Server, runtime, say};

/// A database with a store and marks, and a table to guard.
fn set_up(kind: Kind) -> (String, MysqlStore) {
    let (database, url) = Server::shared(kind).fresh();
    runtime().block_on(async {
        let mut conn = connect(kind, &database).await;
        MysqlFence::set_up(&mut conn).await.unwrap();
        // Once more changes nothing.
        MysqlFence::set_up(&mut conn).await.unwrap();
        say(&mut conn, "CREATE TABLE data (writer BIGINT)").await.unwrap();
    });
    (database, MysqlStore::open(&url).unwrap())
}

async fn connect(kind: Kind, database: &str) -> Conn {
    let mut conn = Server::shared(kind).client(database).await.unwrap();
    say(&mut conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    conn
}

fn shown(token: u64, owner: u64) -> LeaseRef {
    LeaseRef::new(name(), OwnerId::new(owner), FencingToken::new(token).unwrap(), None)
}

fn name() -> ResourceName {
    ResourceName::new("job").unwrap()
}

fn key() -> MarkKey {
    MarkKey::new(name())
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

/// A guarded transaction that writes nothing else.
async fn pass(conn: &mut Conn, lease: &LeaseRef, mode: GuardMode) -> Result<GuardKind, GuardError> {
    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    match MysqlFence::guard(&mut transaction, &key(), lease, mode).await {
        Ok(kind) => {
            transaction.commit().await.unwrap();
            Ok(kind)
        }
        Err(error) => {
            transaction.rollback().await.unwrap();
            Err(error)
        }
    }
}

on_both! {
    an_older_token_is_refused_and_an_equal_one_of_another_owner_is_rewound
    the_text_alone_makes_the_database_fail_the_write
    the_page_says_what_the_database_does
    a_guard_outside_of_a_transaction_is_refused
    guarded_transactions_follow_each_other_at_every_isolation
    a_paused_writer_holds_the_next_one_up_for_a_while_and_no_longer
    the_strict_guard_sees_what_the_store_has_committed
    a_first_mark_refuses_a_write_without_a_lease_that_began_before_it
    a_first_mark_waits_for_a_write_that_was_let_pass_without_a_lease
}

fn an_older_token_is_refused_and_an_equal_one_of_another_owner_is_rewound(kind: Kind) {
    let (database, _) = set_up(kind);
    runtime().block_on(async {
        let mut conn = connect(kind, &database).await;
        MysqlFence::advance(&mut conn, &key(), &shown(5, 5)).await.unwrap();
        assert_eq!(pass(&mut conn, &shown(5, 5), GuardMode::Auto).await.unwrap(), GuardKind::Plain);
        for (lease, expected) in [
            (shown(4, 4), GuardErrorKind::StaleToken { held: token(4), highest: token(5) }),
            (shown(5, 6), GuardErrorKind::Rewound { token: token(5), first: OwnerId::new(5) }),
            (shown(u64::MAX, 1), GuardErrorKind::OutOfRange { token: token(u64::MAX) }),
            (shown(i64::MAX as u64, 1), GuardErrorKind::OutOfRange { token: token(i64::MAX as u64) }),
        ] {
            let error = pass(&mut conn, &lease, GuardMode::Auto).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{error}");
            let error = MysqlFence::advance(&mut conn, &key(), &lease).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{error}");
        }
        let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
        let error = MysqlFence::unfenced(&mut transaction, &key()).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Unfenced);
        MysqlFence::unfenced(&mut transaction, &key().in_slot(1)).await.unwrap();
        transaction.rollback().await.unwrap();
        MysqlFence::reset(&mut conn, &key(), Some(token(2)), "a test").await.unwrap();
        pass(&mut conn, &shown(2, 9), GuardMode::Auto).await.unwrap();
        assert_eq!(MysqlFence::look(&mut conn, &key()).await.unwrap().unwrap().owner, OwnerId::new(9));
        assert_eq!(MysqlFence::prune(&mut conn, Duration::ZERO).await.unwrap(), 1);
        let error = pass(&mut conn, &shown(1, 1), GuardMode::Auto).await.unwrap_err();
        assert!(matches!(error.kind(), GuardErrorKind::StaleToken { .. }), "below the floor: {error}");
        // A mark of its own is not subject to the floor, which another one has raised above it.
        let (kept, unseen) = (key().in_slot(1), key().in_slot(2));
        MysqlFence::advance(&mut conn, &kept, &shown(3, 3)).await.unwrap();
        MysqlFence::advance(&mut conn, &key(), &shown(5, 5)).await.unwrap();
        say(&mut conn, "UPDATE lease_fence SET at = 0 WHERE slot = 0").await.unwrap();
        assert_eq!(MysqlFence::prune(&mut conn, Duration::from_secs(3600)).await.unwrap(), 1);
        MysqlFence::advance(&mut conn, &kept, &shown(3, 3)).await.unwrap();
        for forgotten in [key(), unseen] {
            let error = MysqlFence::advance(&mut conn, &forgotten, &shown(4, 4)).await.unwrap_err();
            let expected = GuardErrorKind::StaleToken { held: token(4), highest: token(5) };
            assert_eq!(error.kind(), expected, "{error}");
        }
        // A refused guard changes nothing about how long the connection waits.
        let patience = say(&mut conn, "SELECT @@SESSION.innodb_lock_wait_timeout").await.unwrap();
        assert_eq!(patience, ["50"]);
    });
}

fn the_text_alone_makes_the_database_fail_the_write(kind: Kind) {
    let (database, _) = set_up(kind);
    let server = Server::shared(kind);
    let guard = |token: u64| {
        let values = format!("'', 'job', 0, {token}, 1");
        MysqlFence::guard_sql().replace("?,?,?,?,?", &values)
    };
    let write = |token: u64| format!("BEGIN; {}; INSERT INTO data VALUES ({token}); COMMIT", guard(token));
    server.sql(&database, &write(7));
    let Error::Server(told) = server.try_sql(&database, &write(6)).unwrap_err() else { panic!("passed") };
    assert_eq!((told.code, told.state.as_str()), (45_102, "LF002"));
    assert_eq!(server.sql(&database, "SELECT writer FROM data"), ["7"]);
}

fn the_page_says_what_the_database_does(kind: Kind) {
    let (database, _) = set_up(kind);
    let server = Server::shared(kind);
    server.sql(&database, "CREATE TABLE stock AS SELECT 'bolt' AS item, 9 AS count");
    let blocks = sql_under("MySQL and MariaDB");
    assert_eq!(blocks.len(), 4);
    for (block, code) in blocks {
        let failed = server.try_sql(&database, block).err().map(|error| match error {
            Error::Server(told) => told.state,
            other => panic!("{other}"),
        });
        assert_eq!(failed.as_deref(), code, "{block}");
    }
    assert_eq!(server.sql(&database, "SELECT count FROM stock"), ["8"]);
}

fn a_guard_outside_of_a_transaction_is_refused(kind: Kind) {
    let (database, _) = set_up(kind);
    let alone = "CALL lease_fence_pass_1('', 'job', 0, 7, 1)";
    let Error::Server(told) = Server::shared(kind).try_sql(&database, alone).unwrap_err() else {
        panic!("passed")
    };
    assert_eq!((told.code, told.state.as_str()), (45_104, "LF004"));
    assert!(Server::shared(kind).sql(&database, "SELECT 1 FROM lease_fence").is_empty());
    // A session that begins transactions by itself is in one.
    Server::shared(kind).sql(&database, &format!("SET autocommit = 0; {alone}; COMMIT"));
    assert_eq!(Server::shared(kind).sql(&database, "SELECT token FROM lease_fence"), ["7"]);
}

fn guarded_transactions_follow_each_other_at_every_isolation(kind: Kind) {
    for level in [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ] {
        let (database, _) = set_up(kind);
        runtime().block_on(async {
            let stricter = matches!(level, IsolationLevel::RepeatableRead | IsolationLevel::Serializable);
            let (mut old, mut new) = (connect(kind, &database).await, connect(kind, &database).await);
            MysqlFence::advance(&mut new, &key(), &shown(1, 1)).await.unwrap();
            // The old holder has begun, and has read; then the new one says that it is there.
            let mut begun =
                old.start_transaction(TxOpts::default().with_isolation_level(level).clone()).await.unwrap();
            let _: Vec<i64> = begun.query("SELECT writer FROM data").await.unwrap();
            let _: Vec<i64> = begun.query("SELECT floor FROM lease_floor").await.unwrap();
            MysqlFence::advance(&mut new, &key(), &shown(2, 2)).await.unwrap();
            for lease in [shown(1, 1), shown(2, 1)] {
                let error =
                    MysqlFence::guard(&mut begun, &key(), &lease, GuardMode::Plain).await.unwrap_err();
                let expected = match error.kind() {
                    GuardErrorKind::StaleToken { highest, .. } => lease == shown(1, 1) && highest == token(2),
                    GuardErrorKind::Rewound { first, .. } => lease == shown(2, 1) && first == OwnerId::new(2),
                    _ => error.is_retryable() && stricter,
                };
                assert!(expected, "{level:?}: {error}");
            }
            begun.rollback().await.unwrap();
            // What was raised and not committed is waited for, at every level.
            let mut begun =
                old.start_transaction(TxOpts::default().with_isolation_level(level).clone()).await.unwrap();
            let _: Vec<i64> = begun.query("SELECT writer FROM data").await.unwrap();
            let (raised, is_raised) = tokio::sync::oneshot::channel();
            let newer = tokio::spawn(async move {
                let mut newer = new.start_transaction(TxOpts::default()).await.unwrap();
                MysqlFence::guard(&mut newer, &key(), &shown(3, 3), GuardMode::Plain).await.unwrap();
                raised.send(()).unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
                newer.commit().await.unwrap();
            });
            is_raised.await.unwrap();
            let guarded = MysqlFence::guard(&mut begun, &key(), &shown(2, 2), GuardMode::Plain).await;
            newer.await.unwrap();
            let error = guarded.unwrap_err();
            assert!(
                matches!(error.kind(), GuardErrorKind::StaleToken { .. }) || error.is_retryable(),
                "{level:?}: {error}"
            );
            begun.rollback().await.unwrap();
        });
    }
}

fn a_paused_writer_holds_the_next_one_up_for_a_while_and_no_longer(kind: Kind) {
    let (database, _) = set_up(kind);
    runtime().block_on(async {
        let (mut old, mut new) = (connect(kind, &database).await, connect(kind, &database).await);
        let mut paused = old.start_transaction(TxOpts::default()).await.unwrap();
        MysqlFence::guard(&mut paused, &key(), &shown(1, 1), GuardMode::Plain).await.unwrap();
        let begun = Instant::now();
        let error = pass(&mut new, &shown(2, 2), GuardMode::Plain).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Busy, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(say(&mut new, "SELECT @@SESSION.innodb_lock_wait_timeout").await.unwrap(), ["50"]);
        paused.commit().await.unwrap();
        pass(&mut new, &shown(2, 2), GuardMode::Plain).await.unwrap();
    });
}

fn the_strict_guard_sees_what_the_store_has_committed(kind: Kind) {
    let (database, store) = set_up(kind);
    let first = lease("job", 1, granted(&store, claim("job", 1)));
    runtime().block_on(async {
        let mut conn = connect(kind, &database).await;
        assert_eq!(pass(&mut conn, &first, GuardMode::Auto).await.unwrap(), GuardKind::Strict);
        // It holds up no renewal.
        let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
        MysqlFence::guard(&mut transaction, &key(), &first, GuardMode::Strict).await.unwrap();
        let (store, held) = (&store, first.clone());
        let _ = std::thread::scope(|scope| {
            scope.spawn(|| block_on(store.renew(held, Duration::from_secs(70))).unwrap()).join().unwrap()
        });
        transaction.commit().await.unwrap();
        say(&mut conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        let error = pass(&mut conn, &first, GuardMode::Strict).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::NotStrict, "{error}");
        assert_eq!(pass(&mut conn, &first, GuardMode::Auto).await.unwrap(), GuardKind::Plain);
        let mut conn = connect(kind, &database).await;
        let _ = block_on(store.release(first.clone(), Ending::default())).unwrap();
        let error = pass(&mut conn, &first, GuardMode::Auto).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Lost, "{error}");
        let next = lease("job", 2, granted(store, claim("job", 2)));
        let error = pass(&mut conn, &first, GuardMode::Strict).await.unwrap_err();
        assert!(
            matches!(error.kind(), GuardErrorKind::StaleToken { .. }),
            "before the new one wrote: {error}"
        );
        assert_eq!(pass(&mut conn, &next, GuardMode::Strict).await.unwrap(), GuardKind::Strict);
        let _ = block_on(store.revoke(name(), None, None)).unwrap();
        let error = pass(&mut conn, &next, GuardMode::Auto).await.unwrap_err();
        assert!(matches!(error.kind(), GuardErrorKind::StaleToken { .. }), "revoked: {error}");
    });
}

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

async fn connect_at(kind: Kind, database: &str, level: &str) -> Conn {
    let mut conn = connect(kind, database).await;
    say(&mut conn, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).await.unwrap();
    conn
}

/// A transaction that began before the first mark does not see it.
fn a_first_mark_refuses_a_write_without_a_lease_that_began_before_it(kind: Kind) {
    for level in LEVELS {
        let (database, _) = set_up(kind);
        runtime().block_on(async {
            let mut old = connect_at(kind, &database, level).await;
            let mut new = connect(kind, &database).await;
            let mut begun = old.start_transaction(TxOpts::default()).await.unwrap();
            begun.query_drop("SELECT COUNT(*) FROM data").await.unwrap();
            MysqlFence::advance(&mut new, &key(), &shown(1, 1)).await.unwrap();
            let error = MysqlFence::unfenced(&mut begun, &key()).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::Unfenced, "{level}: {error}");
            assert!(error.to_string().contains("token 1 was seen"), "{error}");
            begun.rollback().await.unwrap();
        });
    }
}

/// Otherwise a holder could raise the first mark, and be overtaken by a write that was let pass before.
fn a_first_mark_waits_for_a_write_that_was_let_pass_without_a_lease(kind: Kind) {
    for level in LEVELS {
        let (database, _) = set_up(kind);
        runtime().block_on(async {
            let mut old = connect_at(kind, &database, level).await;
            let mut new = connect(kind, &database).await;
            say(&mut new, "SET SESSION innodb_lock_wait_timeout = 1").await.unwrap();
            let mut begun = old.start_transaction(TxOpts::default()).await.unwrap();
            MysqlFence::unfenced(&mut begun, &key()).await.unwrap();
            MysqlFence::unfenced(&mut begun, &key()).await.unwrap();
            let error = MysqlFence::advance(&mut new, &key(), &shown(1, 1)).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::Busy, "{level}: {error}");
            // So does another that has no lease.
            let mut other = new.start_transaction(TxOpts::default()).await.unwrap();
            let error = MysqlFence::unfenced(&mut other, &key()).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::Busy, "{level}: {error}");
            other.rollback().await.unwrap();
            // Other resources are none of its business.
            let another = MarkKey::new(ResourceName::new("another").unwrap());
            let theirs = LeaseRef::new(another.resource.clone(), OwnerId::new(1), token(1), None);
            MysqlFence::advance(&mut new, &another, &theirs).await.unwrap();
            begun.query_drop("INSERT INTO data VALUES (1)").await.unwrap();
            begun.commit().await.unwrap();
            assert_eq!(MysqlFence::look(&mut new, &key()).await.unwrap(), None, "it leaves no mark behind");
            MysqlFence::advance(&mut new, &key(), &shown(1, 1)).await.unwrap();
            let patience = say(&mut new, "SELECT @@SESSION.innodb_lock_wait_timeout").await.unwrap();
            assert_eq!(patience, ["1"]);
        });
    }
}
