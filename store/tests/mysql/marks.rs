//! Marks that are opened by their URL.

use std::time::{Duration, Instant};

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, ErrorKind, GuardErrorKind, GuardMode, LeaseRef, MarkKey, MysqlFence, MysqlStore, Store, migrate,
    open_marks,
};
use mysql_async::TxOpts;

use crate::help::{claim, granted, lease, on_both};
use crate::servers::guard::free_port;
use crate::servers::mysql::{Kind, Server, runtime};
use crate::servers::proxy::{Harm, Proxy};
use crate::setup::grant;

fn shown(token: u64, owner: u64) -> LeaseRef {
    LeaseRef::new(claim("job", 1).resource, OwnerId::new(owner), FencingToken::new(token).unwrap(), None)
}

fn key() -> MarkKey {
    MarkKey::new(claim("job", 1).resource)
}

on_both! {
    a_mark_is_raised_looked_at_and_reset_where_nothing_was_set_up
    beside_the_store_a_lease_that_was_given_back_raises_nothing
    a_guarded_write_that_pauses_is_not_waited_for_beyond_the_limit
    a_database_that_is_not_there_or_says_nothing_raises_no_mark
    an_account_raises_marks_by_the_rights_that_are_printed_and_is_told_which_it_lacks
}

fn a_mark_is_raised_looked_at_and_reset_where_nothing_was_set_up(kind: Kind) {
    let server = Server::shared(kind);
    let url = server.url(&server.empty());
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

fn beside_the_store_a_lease_that_was_given_back_raises_nothing(kind: Kind) {
    let (_, url) = Server::shared(kind).fresh();
    let store = MysqlStore::open(&url).unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let marks = open_marks(&url).unwrap();
    block_on(marks.advance(key(), held.clone())).unwrap();
    let _ = block_on(store.release(held.clone(), Ending::default())).unwrap();
    let error = block_on(marks.advance(key(), held)).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Lost, "{error}");
}

fn a_guarded_write_that_pauses_is_not_waited_for_beyond_the_limit(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let marks = open_marks(&format!("{url}?timeout=6s")).unwrap();
    runtime().block_on(async {
        let mut old = server.client(&database).await.unwrap();
        let mut paused = old.start_transaction(TxOpts::default()).await.unwrap();
        MysqlFence::guard(&mut paused, &key(), &shown(1, 1), GuardMode::Plain).await.unwrap();
        let begun = Instant::now();
        let error = marks.advance(key(), shown(2, 2)).await.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Busy, "{error}");
        assert!(error.is_retryable() && begun.elapsed() < Duration::from_secs(30), "{error}");
        paused.commit().await.unwrap();
        marks.advance(key(), shown(2, 2)).await.unwrap();
    });
}

fn a_database_that_is_not_there_or_says_nothing_raises_no_mark(kind: Kind) {
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let proxy = Proxy::to_mysql(server.port);
    let at = |port: u16| format!("mysql://guarded:right@127.0.0.1:{port}/{database}?timeout=300ms");
    proxy.harm(Harm::Swallow);
    for url in [at(free_port()), at(proxy.port)] {
        let begun = Instant::now();
        let marks = open_marks(&url).unwrap();
        let error = block_on(marks.advance(key(), shown(1, 1))).unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Database, "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        assert!(!format!("{error} {error:?}").contains("right"), "{error:?}");
        let error = block_on(marks.look(key())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

fn an_account_raises_marks_by_the_rights_that_are_printed_and_is_told_which_it_lacks(kind: Kind) {
    let server = Server::shared(kind);
    let database = server.empty();
    server.sql("", &format!("CREATE USER marks_{database}@'%' IDENTIFIED BY ''"));
    server.sql("", &format!("GRANT SELECT ON {database}.* TO marks_{database}@'%'"));
    let url = server.url(&database).replace("lease:", &format!("marks_{database}:"));
    let marks = open_marks(&url).unwrap();
    // It may not create what is missing.
    let error = block_on(marks.advance(key(), shown(1, 1))).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Permission, "{error}");
    migrate(&server.url(&database)).unwrap();
    let error = block_on(marks.advance(key(), shown(1, 1))).unwrap_err();
    assert_eq!(error.kind(), GuardErrorKind::Permission, "{error}");
    grant(server, &database, &format!("marks_{database}@'%'"));
    block_on(marks.advance(key(), shown(1, 1))).unwrap();
    assert_eq!(block_on(marks.look(key())).unwrap().unwrap().token.value(), 1);
}
