//! Marks that are opened by their URL.

use std::time::{Duration, Instant};

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, ErrorKind, GuardErrorKind, GuardMode, LeaseRef, MarkKey, PostgresFence, PostgresStore, Store,
    migrate, open_marks,
};

use crate::help::{claim, granted, lease};
use crate::servers::guard::free_port;
use crate::servers::pgbouncer::Pooler;
use crate::servers::postgres::{Server, fresh_name, runtime};
use crate::servers::proxy::{Harm, Proxy};

fn shown(token: u64, owner: u64) -> LeaseRef {
    LeaseRef::new(claim("job", 1).resource, OwnerId::new(owner), FencingToken::new(token).unwrap(), None)
}

fn key() -> MarkKey {
    MarkKey::new(claim("job", 1).resource)
}

#[test]
fn a_mark_is_raised_looked_at_and_reset_where_nothing_was_set_up() {
    let server = Server::shared();
    // Directly, and with a pooler between.
    let pooler = Pooler::start(server.port, "");
    for port in [server.port, pooler.port] {
        let url = format!("postgres://lease@127.0.0.1:{port}/postgres?schema={}", fresh_name());
        let marks = open_marks(&url).unwrap();
        assert_eq!(block_on(marks.look(key())).unwrap(), None);
        let error = block_on(marks.reset(key(), None, "a test".to_owned())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSetUp, "{error}");
        block_on(marks.advance(key(), shown(5, 5))).unwrap();
        block_on(marks.advance(key(), shown(5, 5))).unwrap();
        let mark = block_on(open_marks(&url).unwrap().look(key())).unwrap().unwrap();
        assert_eq!((mark.token.value(), mark.owner.value()), (5, 5));
        let older = block_on(marks.advance(key(), shown(4, 4))).unwrap_err();
        let token = |value| FencingToken::new(value).unwrap();
        assert_eq!(older.kind(), GuardErrorKind::StaleToken { held: token(4), highest: token(5) });
        let other = block_on(marks.advance(key(), shown(5, 6))).unwrap_err();
        assert_eq!(other.kind(), GuardErrorKind::Rewound { token: token(5), first: OwnerId::new(5) });
        assert_eq!(block_on(marks.look(key().in_slot(1))).unwrap(), None);
        block_on(marks.reset(key(), Some(token(2)), "a test".to_owned())).unwrap();
        block_on(marks.advance(key(), shown(3, 3))).unwrap();
        block_on(marks.reset(key(), None, "a test".to_owned())).unwrap();
        assert_eq!(block_on(marks.look(key())).unwrap(), None);
    }
}

#[test]
fn beside_the_store_a_lease_that_was_given_back_raises_nothing() {
    let (_, url) = Server::shared().fresh();
    let store = PostgresStore::open(&url).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let marks = open_marks(&url).unwrap();
    block_on(marks.advance(key(), held.clone())).unwrap();
    let _ = block_on(store.release(held.clone(), Ending::default())).unwrap();
    let error = block_on(marks.advance(key(), held)).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Lost, "{error}");
}

#[test]
fn a_guarded_write_that_pauses_is_not_waited_for_beyond_the_limit() {
    let (schema, url) = Server::shared().fresh();
    let marks = open_marks(&format!("{url}&timeout=500ms")).unwrap();
    runtime().block_on(async {
        let mut old = Server::shared().client("postgres").await.unwrap();
        let fence = PostgresFence::new(&schema);
        let paused = old.transaction().await.unwrap();
        fence.guard(&paused, &key(), &shown(1, 1), GuardMode::Plain).await.unwrap();
        let begun = Instant::now();
        let error = marks.advance(key(), shown(2, 2)).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Busy, "{error}");
        assert!(error.is_retryable() && begun.elapsed() < Duration::from_secs(5), "{error}");
        paused.commit().await.unwrap();
        marks.advance(key(), shown(2, 2)).await.unwrap();
    });
}

#[test]
fn a_database_that_is_not_there_or_says_nothing_raises_no_mark() {
    let server = Server::shared();
    let (schema, _) = server.fresh();
    let proxy = Proxy::start(server.port);
    let at = |port: u16| {
        format!("postgres://lease:s3cret@127.0.0.1:{port}/postgres?schema={schema}&timeout=300ms")
    };
    proxy.harm(Harm::Swallow);
    for url in [at(free_port()), at(proxy.port)] {
        let begun = Instant::now();
        let marks = open_marks(&url).unwrap();
        let error = block_on(marks.advance(key(), shown(1, 1))).unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Database, "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        let error = block_on(marks.look(key())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_role_raises_marks_by_the_rights_that_are_printed_and_is_told_which_it_lacks() {
    let server = Server::shared();
    let schema = fresh_name();
    let role = format!("role_{schema}");
    server.sql(&format!("CREATE ROLE {role} LOGIN"));
    let url = server.url(&schema).replace("lease@", &format!("{role}@"));
    let marks = open_marks(&url).unwrap();
    // It may not create what is missing.
    let error = block_on(marks.advance(key(), shown(1, 1))).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("has no marks"), "{error}");
    migrate(&server.url(&schema)).unwrap();
    let error = block_on(marks.advance(key(), shown(1, 1))).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Permission, "{error}");
    let error = block_on(marks.look(key())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    for grant in lease_machines_store::migration_sql(&url).unwrap().lines() {
        if let Some(grant) = grant.strip_prefix("-- GRANT") {
            server.sql(&format!("GRANT{}", grant.replace("application", &role)));
        }
    }
    block_on(marks.advance(key(), shown(1, 1))).unwrap();
    assert_eq!(block_on(marks.look(key())).unwrap().unwrap().token.value(), 1);
}
