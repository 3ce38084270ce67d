//! The fence in the user's own transaction.

use std::time::{Duration, Instant};

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, MarkKey, PostgresFence,
    PostgresStore, ResourceName, Store,
};
use tokio_postgres::{Client, IsolationLevel};

use crate::help::{claim, granted, lease};
use crate::page::sql_under;
use crate::servers::postgres::{Server, runtime};

/// A schema with a store and marks, and a table to guard.
fn set_up() -> (String, PostgresStore, PostgresFence) {
    let (schema, url) = Server::shared().fresh();
    let fence = PostgresFence::new(&schema);
    runtime().block_on(async {
        let client = connect().await;
        fence.set_up(&client).await.unwrap();
        // Once more changes nothing.
        fence.set_up(&client).await.unwrap();
        client.batch_execute(&format!("CREATE TABLE {schema}.data (writer bigint)")).await.unwrap();
    });
    (schema, PostgresStore::open(&url).unwrap(), fence)
}

async fn connect() -> Client {
    Server::shared().client("postgres").await.unwrap()
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

/// A guarded transaction that writes nothing else.
async fn pass(
    fence: &PostgresFence,
    client: &mut Client,
    lease: &LeaseRef,
    mode: GuardMode,
) -> Result<GuardKind, GuardError> {
    let transaction = client.transaction().await.unwrap();
    let kind = fence.guard(&transaction, &key(), lease, mode).await?;
    transaction.commit().await.unwrap();
    Ok(kind)
}

#[test]
fn an_older_token_is_refused_and_an_equal_one_of_another_owner_is_rewound() {
    let (schema, _, fence) = set_up();
    runtime().block_on(async {
        let mut client = connect().await;
        fence.advance(&mut client, &key(), &shown(5, 5)).await.unwrap();
        assert_eq!(pass(&fence, &mut client, &shown(5, 5), GuardMode::Auto).await.unwrap(), GuardKind::Plain);
        let token = |value| FencingToken::new(value).unwrap();
        for (lease, expected) in [
            (shown(4, 4), GuardErrorKind::StaleToken { held: token(4), highest: token(5) }),
            (shown(5, 6), GuardErrorKind::Rewound { token: token(5), first: OwnerId::new(5) }),
            (shown(u64::MAX, 1), GuardErrorKind::OutOfRange { token: token(u64::MAX) }),
            (shown(i64::MAX as u64, 1), GuardErrorKind::OutOfRange { token: token(i64::MAX as u64) }),
        ] {
            let error = pass(&fence, &mut client, &lease, GuardMode::Auto).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{error}");
        }
        let transaction = client.transaction().await.unwrap();
        let error = fence.unfenced(&transaction, &key()).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Unfenced);
        drop(transaction);
        fence.reset(&mut client, &key(), Some(token(2)), "a test").await.unwrap();
        pass(&fence, &mut client, &shown(2, 9), GuardMode::Auto).await.unwrap();
        assert_eq!(fence.prune(&mut client, Duration::ZERO).await.unwrap(), 1);
        let error = pass(&fence, &mut client, &shown(1, 1), GuardMode::Auto).await.unwrap_err();
        assert!(matches!(error.kind(), GuardErrorKind::StaleToken { .. }), "below the floor: {error}");
        // A mark of its own is not subject to the floor, which another one has raised above it.
        let (kept, unseen) = (key().in_slot(1), key().in_slot(2));
        fence.advance(&mut client, &kept, &shown(3, 3)).await.unwrap();
        fence.advance(&mut client, &key(), &shown(5, 5)).await.unwrap();
        let old = format!("UPDATE {schema}.lease_fence SET at = 0 WHERE slot = 0");
        client.batch_execute(&old).await.unwrap();
        assert_eq!(fence.prune(&mut client, Duration::from_secs(3600)).await.unwrap(), 1);
        fence.advance(&mut client, &kept, &shown(3, 3)).await.unwrap();
        for forgotten in [key(), unseen] {
            let error = fence.advance(&mut client, &forgotten, &shown(4, 4)).await.unwrap_err();
            let expected = GuardErrorKind::StaleToken { held: token(4), highest: token(5) };
            assert_eq!(error.kind(), expected, "{error}");
        }
    });
}

#[test]
fn the_text_alone_makes_the_database_fail_the_write() {
    let (schema, _, fence) = set_up();
    let server = Server::shared();
    let guard = |token: u64| {
        let values = format!("'', 'job', 0, {token}, 1");
        fence.guard_sql().replace("$1,$2,$3,$4,$5", &values)
    };
    server.sql(&format!("BEGIN; {}; INSERT INTO {schema}.data VALUES (7); COMMIT", guard(7)));
    let error = server
        .try_sql("postgres", &format!("BEGIN; {}; INSERT INTO {schema}.data VALUES (6); COMMIT", guard(6)));
    assert_eq!(error.unwrap_err().code().unwrap().code(), "LF002");
    assert_eq!(server.sql(&format!("SELECT writer FROM {schema}.data")), ["7"]);
    // By plain SQL, too, it belongs to no savepoint.
    let error = server.try_sql("postgres", &format!("BEGIN; SAVEPOINT part; {}; COMMIT", guard(8)));
    assert_eq!(error.unwrap_err().code().unwrap().code(), "LF004");
}

#[test]
fn the_page_says_what_the_database_does() {
    let (schema, _, _) = set_up();
    let server = Server::shared();
    server.sql(&format!("CREATE TABLE {schema}.stock AS SELECT 'bolt' AS item, 9 AS count"));
    let blocks = sql_under("PostgreSQL");
    assert_eq!(blocks.len(), 4);
    for (block, code) in blocks {
        let block = block.replace("lease_machines.", &format!("{schema}."));
        let outcome = server.try_sql("postgres", &format!("SET search_path = {schema}; {block}"));
        assert_eq!(
            outcome.err().map(|error| error.code().unwrap().code().to_owned()).as_deref(),
            code,
            "{block}"
        );
    }
    assert_eq!(server.sql(&format!("SELECT count FROM {schema}.stock")), ["8"]);
}

#[test]
fn a_guard_in_a_savepoint_is_refused() {
    let (_, _, fence) = set_up();
    runtime().block_on(async {
        let mut client = connect().await;
        let mut transaction = client.transaction().await.unwrap();
        let savepoint = transaction.transaction().await.unwrap();
        let error = fence.guard(&savepoint, &key(), &shown(5, 5), GuardMode::Auto).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::OutsideTransaction, "{error}");
    });
}

#[test]
fn guarded_transactions_follow_each_other_at_every_isolation() {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable]
    {
        let (_, _, fence) = set_up();
        runtime().block_on(async {
            let (mut old, mut new) = (connect().await, connect().await);
            fence.advance(&mut new, &key(), &shown(1, 1)).await.unwrap();
            // The old holder has begun, and has read; then the new one says that it is there.
            let begun = old.build_transaction().isolation_level(level).start().await.unwrap();
            begun.query_typed("SELECT count(*) FROM pg_class", &[]).await.unwrap();
            fence.advance(&mut new, &key(), &shown(2, 2)).await.unwrap();
            let error = fence.guard(&begun, &key(), &shown(1, 1), GuardMode::Plain).await.unwrap_err();
            let expected = match level {
                IsolationLevel::ReadCommitted => matches!(error.kind(), GuardErrorKind::StaleToken { .. }),
                _ => error.is_retryable(),
            };
            assert!(expected, "{level:?}: {error}");
        });
    }
}

#[test]
fn a_paused_writer_holds_the_next_one_up_for_a_while_and_no_longer() {
    let (_, _, fence) = set_up();
    runtime().block_on(async {
        let (mut old, mut new) = (connect().await, connect().await);
        let paused = old.transaction().await.unwrap();
        fence.guard(&paused, &key(), &shown(1, 1), GuardMode::Plain).await.unwrap();
        let error = pass(&fence, &mut new, &shown(2, 2), GuardMode::Plain).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Busy, "{error}");
        paused.commit().await.unwrap();
        pass(&fence, &mut new, &shown(2, 2), GuardMode::Plain).await.unwrap();
    });
}

/// What was pruned after a transaction began is gone for its guard, which may not see the floor that was raised instead.
#[test]
fn a_mark_that_was_pruned_since_a_transaction_began_still_refuses() {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable]
    {
        // The floor of a named store is made by its first prune.
        for key in [key(), key().in_store("named")] {
            let (_, _, fence) = set_up();
            runtime().block_on(async {
                let (mut old, mut new) = (connect().await, connect().await);
                let begun = old.build_transaction().isolation_level(level).start().await.unwrap();
                begun.query_typed("SELECT count(*) FROM pg_class", &[]).await.unwrap();
                fence.advance(&mut new, &key, &shown(2, 2)).await.unwrap();
                assert_eq!(fence.prune(&mut new, Duration::ZERO).await.unwrap(), 1);
                let error = fence.guard(&begun, &key, &shown(1, 1), GuardMode::Plain).await.unwrap_err();
                let expected = match level {
                    IsolationLevel::ReadCommitted => {
                        matches!(error.kind(), GuardErrorKind::StaleToken { .. })
                    }
                    _ => error.kind() == GuardErrorKind::Serialization,
                };
                assert!(expected, "{level:?}: {error}");
                drop(begun);
                let again = old.build_transaction().isolation_level(level).start().await.unwrap();
                let error = fence.guard(&again, &key, &shown(1, 1), GuardMode::Plain).await.unwrap_err();
                assert!(matches!(error.kind(), GuardErrorKind::StaleToken { .. }), "{level:?}: {error}");
            });
        }
    }
}

/// A transaction that began before the first mark does not see it.
#[test]
fn a_first_mark_refuses_a_write_without_a_lease_that_began_before_it() {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable]
    {
        let (_, _, fence) = set_up();
        runtime().block_on(async {
            let (mut old, mut new) = (connect().await, connect().await);
            let begun = old.build_transaction().isolation_level(level).start().await.unwrap();
            begun.query_typed("SELECT count(*) FROM pg_class", &[]).await.unwrap();
            fence.advance(&mut new, &key(), &shown(1, 1)).await.unwrap();
            let error = fence.unfenced(&begun, &key()).await.unwrap_err();
            let expected = match level {
                IsolationLevel::ReadCommitted => GuardErrorKind::Unfenced,
                _ => GuardErrorKind::Serialization,
            };
            assert_eq!(error.kind(), expected, "{level:?}: {error}");
            drop(begun);
            let again = old.build_transaction().isolation_level(level).start().await.unwrap();
            let error = fence.unfenced(&again, &key()).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::Unfenced, "{level:?}: {error}");
            assert!(error.to_string().contains("token 1 was seen"), "{error}");
        });
    }
}

/// Otherwise a holder could raise the first mark, and be overtaken by a write that was let pass before.
#[test]
fn a_first_mark_waits_for_a_write_that_was_let_pass_without_a_lease() {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable]
    {
        let (_, _, fence) = set_up();
        runtime().block_on(async {
            let (mut old, mut new) = (connect().await, connect().await);
            new.batch_execute("SET lock_timeout = '50ms'").await.unwrap();
            let mut begun = old.build_transaction().isolation_level(level).start().await.unwrap();
            fence.unfenced(&begun, &key()).await.unwrap();
            fence.unfenced(&begun, &key()).await.unwrap();
            let error = fence.advance(&mut new, &key(), &shown(1, 1)).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::Busy, "{level:?}: {error}");
            // Other resources are none of its business.
            fence.advance(&mut new, &key().in_slot(1), &shown(1, 1)).await.unwrap();
            let savepoint = begun.transaction().await.unwrap();
            let error = fence.unfenced(&savepoint, &key().in_slot(2)).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::OutsideTransaction, "{level:?}: {error}");
            drop(savepoint);
            begun.commit().await.unwrap();
            assert_eq!(fence.look(&new, &key()).await.unwrap(), None, "it leaves no mark behind");
            fence.advance(&mut new, &key(), &shown(1, 1)).await.unwrap();
        });
    }
}

#[test]
fn a_writer_that_waits_for_less_than_the_guard_does_goes_on_doing_so() {
    let (_, _, fence) = set_up();
    runtime().block_on(async {
        let (mut old, mut new) = (connect().await, connect().await);
        let paused = old.transaction().await.unwrap();
        fence.guard(&paused, &key(), &shown(1, 1), GuardMode::Plain).await.unwrap();
        // It is the guard's own patience that ends after 5 s, and never one that ends sooner.
        new.batch_execute("SET lock_timeout = '50ms'").await.unwrap();
        let begun = Instant::now();
        let error = pass(&fence, &mut new, &shown(2, 2), GuardMode::Plain).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Busy, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        paused.commit().await.unwrap();
        // Behind the guard each waits as it did before.
        for own in ["50ms", "1min", "0"] {
            new.batch_execute(&format!("SET lock_timeout = '{own}'")).await.unwrap();
            let transaction = new.transaction().await.unwrap();
            fence.guard(&transaction, &key(), &shown(2, 2), GuardMode::Plain).await.unwrap();
            let shown = transaction.query_one("SHOW lock_timeout", &[]).await.unwrap();
            assert_eq!(shown.get::<_, String>(0), own);
            transaction.commit().await.unwrap();
        }
    });
}

#[test]
fn the_strict_guard_sees_what_the_store_has_committed() {
    let (_, store, fence) = set_up();
    let first = lease("job", 1, granted(&store, claim("job", 1)));
    runtime().block_on(async {
        let mut client = connect().await;
        assert_eq!(pass(&fence, &mut client, &first, GuardMode::Auto).await.unwrap(), GuardKind::Strict);
        // It holds up no renewal.
        let transaction = client.transaction().await.unwrap();
        fence.guard(&transaction, &key(), &first, GuardMode::Strict).await.unwrap();
        let (store, held) = (&store, first.clone());
        let _ = std::thread::scope(|scope| {
            scope.spawn(|| block_on(store.renew(held, Duration::from_secs(70))).unwrap()).join().unwrap()
        });
        transaction.commit().await.unwrap();
        // There it would not see what was committed since the transaction began; not even as its first statement.
        for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
            let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
            let error = fence.guard(&transaction, &key(), &first, GuardMode::Strict).await.unwrap_err();
            assert_eq!(error.kind(), GuardErrorKind::NotStrict, "{level:?}: {error}");
            drop(transaction);
            let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
            let ran = fence.guard(&transaction, &key(), &first, GuardMode::Auto).await.unwrap();
            assert_eq!(ran, GuardKind::Plain, "it says so: {level:?}");
        }
        let _ = block_on(store.release(first.clone(), Ending::default())).unwrap();
        let error = pass(&fence, &mut client, &first, GuardMode::Auto).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Lost, "{error}");
        let next = lease("job", 2, granted(store, claim("job", 2)));
        let error = pass(&fence, &mut client, &first, GuardMode::Strict).await.unwrap_err();
        assert!(
            matches!(error.kind(), GuardErrorKind::StaleToken { .. }),
            "before the new one wrote: {error}"
        );
        assert_eq!(pass(&fence, &mut client, &next, GuardMode::Strict).await.unwrap(), GuardKind::Strict);
        let _ = block_on(store.revoke(name(), None, None)).unwrap();
        let error = pass(&fence, &mut client, &next, GuardMode::Auto).await.unwrap_err();
        assert!(matches!(error.kind(), GuardErrorKind::StaleToken { .. }), "revoked: {error}");
    });
}
