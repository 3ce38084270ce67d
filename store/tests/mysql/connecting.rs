//! What a new connection needs: that it is there in time, and a password.

use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, MysqlOptions, MysqlStore, Store};
use mysql_async::Opts;

use crate::black_hole::is_given_up_in_time;
use crate::help::{claim, granted, on_both};
use crate::rotating::{Vault, is_asked_at_each_new_connection};
use crate::servers::mysql::{Kind, Server};

#[test]
fn a_host_that_does_not_answer_is_given_up_in_the_time_for_connecting() {
    is_given_up_in_time(|port| {
        let url = format!("mysql://lease@127.0.0.1:{port}/any?timeout=60s&connect_timeout=300ms");
        MysqlStore::open(&url).unwrap()
    });
}

on_both! {
    a_password_is_asked_for_at_each_new_connection
}

/// By a URL with a password, which is not looked at, and by a driver's options.
fn a_password_is_asked_for_at_each_new_connection(kind: Kind) {
    let server = Server::shared(kind);
    for own in [false, true] {
        let (database, _) = server.fresh();
        let account = format!("rotated_{database}");
        server.sql("", &format!("CREATE USER {account}@'%' IDENTIFIED BY 's3cret-1'"));
        server.sql("", &format!("GRANT ALL ON {database}.* TO {account}@'%'"));
        let at = format!("mysql://{account}:old@127.0.0.1:{}/{database}", server.port);
        let url = format!("{at}?connections=1");
        let error = block_on(MysqlStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        let vault = Vault::with("s3cret-1");
        let store = if own {
            let options = MysqlOptions::default().connections(1).password_from(vault.asks());
            MysqlStore::from_opts(Opts::from_url(&at).unwrap(), options).unwrap()
        } else {
            MysqlStore::open_with(&url, |options| options.password_from(vault.asks())).unwrap()
        };
        is_asked_at_each_new_connection(&store, &vault, &|password| {
            server.sql("", &format!("ALTER USER {account}@'%' IDENTIFIED BY '{password}'"));
            let open = format!("SELECT id FROM information_schema.processlist WHERE user = '{account}'");
            for id in server.sql("", &open) {
                server.sql("", &format!("KILL {id}"));
            }
        });
        granted(&store, claim("job", 1));
        assert!(!format!("{store:?}").contains("s3cret"));
    }
}
