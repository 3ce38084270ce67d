//! What a new connection needs: that it is there in time, and a password.

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, PostgresOptions, PostgresStore, Store};

use crate::black_hole::is_given_up_in_time;
use crate::help::{claim, granted};
use crate::rotating::{Vault, is_asked_at_each_new_connection};
use crate::servers::postgres::Server;

#[test]
fn a_host_that_does_not_answer_is_given_up_in_the_time_for_connecting() {
    is_given_up_in_time(|port| {
        let url = format!("postgres://lease@127.0.0.1:{port}/postgres?timeout=60s&connect_timeout=300ms");
        PostgresStore::open(&url).unwrap()
    });
}

/// By a URL with a password, which is not looked at, and by a driver's configuration.
#[test]
fn a_password_is_asked_for_at_each_new_connection() {
    let server = Server::start(&[]);
    for own in [false, true] {
        server.sql("DROP ROLE IF EXISTS guarded; CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 's3cret-1'");
        let (schema, _) = server.fresh();
        let at = format!("postgres://guarded:old@127.0.0.1:{}/postgres", server.port);
        let url = format!("{at}?schema={schema}&connections=1");
        let error = block_on(PostgresStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        let vault = Vault::with("s3cret-1");
        let store = if own {
            let options = PostgresOptions::default().schema(&*schema).connections(1);
            PostgresStore::from_config(at.parse().unwrap(), options.password_from(vault.asks())).unwrap()
        } else {
            PostgresStore::open_with(&url, |options| options.password_from(vault.asks())).unwrap()
        };
        is_asked_at_each_new_connection(&store, &vault, &|password| {
            server.sql(&format!("ALTER ROLE guarded PASSWORD '{password}'"));
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'");
        });
        granted(&store, claim("job", 1));
        assert!(!format!("{store:?}").contains("s3cret"));
    }
}
