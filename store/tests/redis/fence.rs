//! The fence beside the data, on the user's own connection.

use std::future::Future;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, Pipeline, Value, cmd, pipe};
use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{
    Epoch, GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, MarkKey, RedisFence, RedisOptions,
    RedisStore, Store, open_marks,
};

use crate::common::{block_on, claim, granted, lease, name};
use crate::servers::redis::{DURABLE, FORGETFUL, RedisServer};

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    client(server).get_multiplexed_async_connection().await.unwrap()
}

fn client(server: &RedisServer) -> Client {
    Client::open(server.url("").trim_end_matches('?')).unwrap()
}

fn under(owner: u64, token: u64) -> LeaseRef {
    LeaseRef::new(name("stock"), OwnerId::new(owner), FencingToken::new(token).unwrap(), None)
}

fn key() -> MarkKey {
    MarkKey::new(name("stock"))
}

fn write(value: &str) -> Pipeline {
    let mut commands = pipe();
    commands.cmd("SET").arg("stock").arg(value);
    commands.cmd("INCR").arg("writes");
    commands.cmd("GET").arg("missing");
    commands
}

async fn read(connection: &mut MultiplexedConnection, key: &str) -> Option<String> {
    cmd("GET").arg(key).query_async(connection).await.unwrap()
}

fn kind<T: std::fmt::Debug>(answer: Result<T, GuardError>) -> GuardErrorKind {
    answer.unwrap_err().kind()
}

#[test]
fn an_older_token_writes_nothing() {
    let server = RedisServer::start(FORGETFUL);
    run(async {
        let (mut connection, fence) = (connect(&server).await, RedisFence::default());
        let (old, new) = (under(1, 7), under(2, 8));
        let passed = fence.run(&mut connection, &key(), &old, GuardMode::Auto, &write("a")).await.unwrap();
        assert_eq!(passed.kind, GuardKind::Plain);
        assert_eq!(passed.replies, [Value::Okay, Value::Int(1), Value::Nil]);
        fence.advance(&mut connection, &key(), &new).await.unwrap();
        for mode in [GuardMode::Auto, GuardMode::Plain] {
            let refused = fence.run(&mut connection, &key(), &old, mode, &write("b")).await;
            assert_eq!(kind(refused), GuardErrorKind::StaleToken { held: old.token, highest: new.token });
        }
        assert_eq!(read(&mut connection, "stock").await.as_deref(), Some("a"));
        assert_eq!(read(&mut connection, "writes").await.as_deref(), Some("1"));
        fence.run(&mut connection, &key(), &new, GuardMode::Auto, &write("c")).await.unwrap();
        // The same token of another owner: the lease store lost its history.
        let other = fence.run(&mut connection, &key(), &under(3, 8), GuardMode::Auto, &write("d")).await;
        assert_eq!(kind(other), GuardErrorKind::Rewound { token: new.token, first: OwnerId::new(2) });
        let strict = fence.run(&mut connection, &key(), &new, GuardMode::Strict, &write("e")).await;
        assert_eq!(kind(strict), GuardErrorKind::NotStrict);
        let unfenced = fence.run_unfenced(&mut connection, &key(), &write("f")).await;
        assert_eq!(kind(unfenced), GuardErrorKind::Unfenced);
        fence.run_unfenced(&mut connection, &key().in_slot(1), &write("g")).await.unwrap();
        assert_eq!(read(&mut connection, "stock").await.as_deref(), Some("g"));
        let mark = fence.look(&mut connection, &key()).await.unwrap().unwrap();
        assert_eq!((mark.token, mark.owner), (new.token, OwnerId::new(2)));
    });
}

#[test]
fn tokens_are_compared_as_integers() {
    let server = RedisServer::start(FORGETFUL);
    run(async {
        let (mut connection, fence) = (connect(&server).await, RedisFence::default());
        // Doubles would take these for equal.
        let near = 1_795_977_459_097_700;
        for (owner, token) in [(1, 9), (2, 10), (3, near), (4, near + 1)] {
            fence.advance(&mut connection, &key(), &under(owner, token)).await.unwrap();
        }
        assert!(matches!(
            kind(fence.advance(&mut connection, &key(), &under(3, near)).await),
            GuardErrorKind::StaleToken { .. }
        ));
        for token in [i64::MAX as u64, i64::MAX as u64 + 1, 9_000_000_000_000_000] {
            let refused = fence.advance(&mut connection, &key(), &under(5, token)).await;
            assert_eq!(
                kind(refused),
                GuardErrorKind::OutOfRange { token: FencingToken::new(token).unwrap() }
            );
        }
        let mut elsewhere = under(5, near + 2);
        elsewhere.resource = name("other");
        assert_eq!(
            kind(fence.advance(&mut connection, &key(), &elsewhere).await),
            GuardErrorKind::OtherResource
        );
    });
}

#[test]
fn a_poisoned_mark_is_reset_by_hand_and_that_is_written_down() {
    let server = RedisServer::start(FORGETFUL);
    let url = format!("redis://127.0.0.1:{}", server.port);
    run(async {
        let (mut connection, fence) = (connect(&server).await, RedisFence::default());
        let poison = format!("{} 1 0", i64::MAX);
        let field = "stock\0".to_owned() + "0\0";
        let _: i64 = cmd("HSET")
            .arg("{lease:default:marks}")
            .arg(field)
            .arg(poison)
            .query_async(&mut connection)
            .await
            .unwrap();
        let refused = fence.advance(&mut connection, &key(), &under(1, 7)).await;
        assert!(matches!(kind(refused), GuardErrorKind::Poisoned { .. }));
        let marks = open_marks(&url).unwrap();
        marks.reset(key(), FencingToken::new(6), "a test".to_owned()).await.unwrap();
        assert_eq!(marks.look(key()).await.unwrap().unwrap().token.value(), 6);
        marks.advance(key(), under(1, 7)).await.unwrap();
        assert!(marks.advance(key(), under(1, 6)).await.is_err());
        let log: Vec<String> = cmd("LRANGE")
            .arg("{lease:default:marks}:log")
            .arg(0)
            .arg(-1)
            .query_async(&mut connection)
            .await
            .unwrap();
        assert!(log.len() == 1 && log[0].contains("-> 6: a test"), "{log:?}");
        marks.reset(key(), None, "gone".to_owned()).await.unwrap();
        assert_eq!(marks.look(key()).await.unwrap(), None);
    });
}

#[test]
fn beside_the_leases_a_guard_is_strict() {
    let server = RedisServer::start(DURABLE);
    let store = RedisStore::from_client(client(&server), RedisOptions::default()).unwrap();
    store.migrate().unwrap();
    let held = lease("stock", 1, granted(&store, claim("stock", 1)));
    run(async {
        let (mut connection, fence) = (connect(&server).await, RedisFence::default());
        let passed = fence.run(&mut connection, &key(), &held, GuardMode::Strict, &write("a")).await.unwrap();
        assert_eq!(passed.kind, GuardKind::Strict);
        let mut unknown = held.clone();
        unknown.owner = OwnerId::new(9);
        assert!(matches!(
            kind(fence.run(&mut connection, &key().in_slot(1), &unknown, GuardMode::Auto, &write("b")).await),
            GuardErrorKind::Lost
        ));
        let mut nameless = held.clone();
        nameless.epoch = None;
        let passed =
            fence.run(&mut connection, &key(), &nameless, GuardMode::Auto, &write("c")).await.unwrap();
        assert_eq!(passed.kind, GuardKind::Plain);
        let strict = fence.run(&mut connection, &key(), &nameless, GuardMode::Strict, &write("d")).await;
        assert_eq!(kind(strict), GuardErrorKind::NotStrict);
        let mut former = held.clone();
        former.epoch = Epoch::new(7);
        for mode in [GuardMode::Auto, GuardMode::Strict] {
            let refused = fence.run(&mut connection, &key(), &former, mode, &write("e")).await;
            assert_eq!(kind(refused), GuardErrorKind::Lost);
        }
        let _ = store.release(held.clone(), Default::default()).await.unwrap();
        let released = fence.run(&mut connection, &key(), &held, GuardMode::Auto, &write("f")).await;
        assert_eq!(kind(released), GuardErrorKind::Lost);
        let next = lease("stock", 2, granted(&store, claim("stock", 2)));
        let stale =
            fence.run(&mut connection, &key().in_slot(2), &unknown, GuardMode::Auto, &write("g")).await;
        assert_eq!(kind(stale), GuardErrorKind::StaleToken { held: unknown.token, highest: next.token });
        assert_eq!(read(&mut connection, "stock").await.as_deref(), Some("c"));
    });
}

#[test]
fn a_command_that_fails_is_told_and_a_forgotten_script_sent_again() {
    let server = RedisServer::start(FORGETFUL);
    run(async {
        let (mut connection, fence) = (connect(&server).await, RedisFence::default());
        let mut commands = write("a");
        commands.cmd("LPUSH").arg("stock").arg("x");
        let failed = fence.run(&mut connection, &key(), &under(1, 7), GuardMode::Auto, &commands).await;
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), GuardErrorKind::Database);
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "+OK");
        fence.run(&mut connection, &key(), &under(1, 7), GuardMode::Auto, &write("b")).await.unwrap();
    });
    let store = RedisStore::from_client(client(&server), RedisOptions::default()).unwrap();
    assert!(block_on(store.epoch()).is_err(), "it was never set up");
}
