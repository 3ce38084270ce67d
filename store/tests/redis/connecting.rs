//! What a new connection needs: that it is there in time, and a password.

use lease_machines_store::{ErrorKind, RedisOptions, RedisStore, Store};

use crate::black_hole::is_given_up_in_time;
use crate::common::{block_on, claim, granted};
use crate::rotating::{Vault, is_asked_at_each_new_connection};
use crate::servers::redis::{FORGETFUL, RedisServer};
use crate::support::store;

#[test]
fn a_host_that_does_not_answer_is_given_up_in_the_time_for_connecting() {
    is_given_up_in_time(|port| {
        RedisStore::open(&format!("redis://127.0.0.1:{port}?timeout=60s&connect_timeout=300ms")).unwrap()
    });
}

/// A server with a user who has a password, and a store.
fn guarded() -> RedisServer {
    let server = RedisServer::start(FORGETFUL);
    store(&server, |options| options).migrate().unwrap();
    assert_eq!(server.command(&["ACL", "SETUSER", "app", "on", ">s3cret-1", "~*", "+@all"]), "+OK");
    server
}

fn replaces(server: &RedisServer) -> impl Fn(&str) + '_ {
    |password| {
        let password = format!(">{password}");
        assert_eq!(server.command(&["ACL", "SETUSER", "app", "resetpass", &password]), "+OK");
        assert!(server.command(&["CLIENT", "KILL", "USER", "app"]).starts_with(':'));
    }
}

#[test]
fn a_password_is_asked_for_at_each_new_connection() {
    let server = guarded();
    let vault = Vault::with("s3cret-1");
    let url = format!("redis://app@127.0.0.1:{}", server.port);
    let store = RedisStore::open_with(&url, |options| options.password_from(vault.asks())).unwrap();
    is_asked_at_each_new_connection(&store, &vault, &replaces(&server));
    // One in the URL is not looked at.
    let url = format!("redis://app:wrong@127.0.0.1:{}", server.port);
    let error = block_on(RedisStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    let store = RedisStore::open_with(&url, |options| options.password_from(vault.asks())).unwrap();
    granted(&store, claim("job", 1));
}

#[test]
fn a_password_is_asked_for_where_the_client_is_the_programs_own() {
    let server = guarded();
    let vault = Vault::with("s3cret-1");
    let client = redis::Client::open(format!("redis://app:old@127.0.0.1:{}", server.port)).unwrap();
    let options = RedisOptions::default().password_from(vault.asks());
    let store = RedisStore::from_client(client, options).unwrap();
    is_asked_at_each_new_connection(&store, &vault, &replaces(&server));
}
