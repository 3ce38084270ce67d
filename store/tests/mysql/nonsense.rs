//! Servers that answer what no MySQL or MariaDB server with these procedures does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use lease_machines::FencingToken;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Ending, Epoch, ErrorKind, Grant, MysqlStore, Renewed, Store, StoreError, Undecided,
};

use crate::help::{claim, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server};
use crate::servers::proxy::{Harm, Proxy};

const LONG: Duration = Duration::from_secs(70);

on_both! {
    an_answer_that_breaks_off_or_is_garbled_is_unknown_and_asked_for_again
    what_the_procedures_never_answer_decides_nothing
}

fn an_answer_that_breaks_off_or_is_garbled_is_unknown_and_asked_for_again(kind: Kind) {
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let proxy = Proxy::to_mysql(server.port);
    let url = format!("mysql://lease:@127.0.0.1:{}/{database}?connections=1&timeout=2s", proxy.port);
    let store = MysqlStore::open(&url).unwrap();
    for (owner, harm) in [(1, Harm::CutMidAnswer), (2, Harm::Garble)] {
        let name = format!("job-{owner}");
        // On a connection on which nothing is to be prepared any more, there is one answer to harm.
        let warm = lease("warm", owner, granted(&store, claim("warm", owner)));
        let _ = block_on(store.release(warm, Ending::default())).unwrap();
        proxy.harm(harm);
        let error = block_on(store.acquire(claim(&name, owner))).unwrap_err();
        let told = (error.kind(), error.undecided());
        assert_eq!(told, (ErrorKind::Unreachable, Undecided::Unknown), "{name}: {error:?}");
        // Nor is there a connection to be had now, and so nothing is sent.
        let error = block_on(store.acquire(claim("unasked", owner))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::NotDone, "{name}: {error:?}");
        proxy.harm(Harm::None);
        // It was done all the same: the retry has it at once.
        let again = block_on(store.reacquire(claim(&name, owner).with_attempt(2))).unwrap();
        let Acquired::Granted(grant) = again else { panic!("{name}: {again:?}") };
        let renewed = block_on(store.renew(lease(&name, owner, grant), LONG)).unwrap();
        assert!(matches!(renewed, Renewed::Renewed(_)), "{name}: {renewed:?}");
    }
}

/// Whatever listens there: it was not asked for anything, and says nothing that a password could stand in.
#[test]
fn what_is_no_mysql_server_is_unreachable() {
    let no_greeting = b"\x05\0\0\0\x09nope";
    for answer in [b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), b"", &[0; 64], &[0xFF; 64], no_greeting] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let _ = client.write_all(answer);
                // It says no more, and waits for a word.
                let _ = client.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = client.read(&mut [0; 1024]);
            }
        });
        let url = format!("mysql://lease:s3cret@127.0.0.1:{port}/any?timeout=2s");
        let error = block_on(MysqlStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
        assert_eq!(error.undecided(), Undecided::NotDone, "{answer:?}: {error:?}");
        assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Busy), "{answer:?}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

fn is_nonsense(error: &StoreError) -> bool {
    (error.kind(), error.undecided()) == (ErrorKind::Schema, Undecided::Unknown)
}

fn what_the_procedures_never_answer_decides_nothing(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    for answer in [
        "SELECT 1",
        "SELECT 'sideways' AS code, 7 AS epoch",
        "SELECT 'granted' AS code, 7 AS epoch",
        "SELECT 'granted' AS code, 7 AS epoch, -5 AS token, 60000000 AS remaining",
        "SELECT 'granted' AS code, 0 AS epoch, 5 AS token, 60000000 AS remaining",
        "SELECT 'granted' AS code, 5 AS token, 60000000 AS remaining",
        "SELECT 'granted' AS code, 7 AS epoch, 'many' AS token, 60000000 AS remaining",
        "SELECT 'new epoch' AS code, 7 AS epoch",
        "SELECT 'done' AS code, 7 AS epoch",
        "SELECT 'renewed' AS code, 7 AS epoch, 5 AS token",
        "SELECT 7 AS code FROM lease_store WHERE FALSE",
    ] {
        server.sql(
            &database,
            &format!(
                "DROP PROCEDURE IF EXISTS lease_acquire_1; CREATE PROCEDURE lease_acquire_1(a TEXT, b BIGINT, c BIGINT, \
                 d BIGINT, e BIGINT, f TEXT, g TEXT, h TEXT, i INT, j INT) {answer}"
            ),
        );
        let error = block_on(MysqlStore::open(&url).unwrap().acquire(claim("job", 1))).unwrap_err();
        assert!(is_nonsense(&error), "{answer}: {error:?}");
    }
    for answer in [
        "SELECT 7 AS epoch, '1:60000000' AS renewed WHERE FALSE",
        "SELECT 7 AS epoch, '0:60000000' AS renewed",
        "SELECT 7 AS epoch, '99:60000000' AS renewed",
        "SELECT 7 AS epoch, '1' AS renewed",
        "SELECT 7 AS epoch, 'x:y' AS renewed",
        "SELECT 0 AS epoch, '1:60000000' AS renewed",
    ] {
        let text = format!(
            "DROP PROCEDURE IF EXISTS lease_renew_many_1; CREATE PROCEDURE lease_renew_many_1(a TEXT) {answer}"
        );
        server.sql(&database, &text);
        let grant =
            Grant::new(FencingToken::new(5).unwrap(), Duration::from_secs(60), Epoch::new(7).unwrap());
        let asked = vec![(lease("job", 1, grant), Duration::from_secs(60))];
        let told = block_on(MysqlStore::open(&url).unwrap().renew_many(asked));
        let errors = told.unwrap_or_else(|error| vec![Err(error)]);
        assert_eq!(errors.len(), 1);
        for told in errors {
            assert!(told.as_ref().is_err_and(is_nonsense), "{answer}: {told:?}");
        }
    }
}
