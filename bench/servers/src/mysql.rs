//! Decisions on MariaDB and MySQL.

use std::sync::Arc;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{MysqlStore, Store};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Statement};
use tokio::runtime::Runtime;

use crate::client::{Holder, RESOURCES, name, runtime, take_and_give_back, together};
use crate::servers::mysql::{Kind, Server};
use crate::table::{Row, Turns, median};

/// The peer: one row, written without reading or deciding anything.
const UPSERT: &str = "INSERT INTO bare (name, token, at) VALUES (?, ?, ?) \
     ON DUPLICATE KEY UPDATE token = VALUES(token), at = VALUES(at)";

/// A connection that programs have.
struct Bare {
    runtime: Runtime,
    conn: Conn,
    upsert: Statement,
}

impl Bare {
    fn new(server: &Server, database: &str) -> Self {
        let runtime = runtime();
        let (conn, upsert) = runtime.block_on(async {
            let mut conn = server.client(database).await.expect("it was started");
            conn.query_drop(
                "CREATE TABLE bare (name VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL, at BIGINT NOT NULL) \
                 ENGINE = InnoDB",
            )
            .await
            .expect("a table can be made");
            let upsert = conn.prep(UPSERT).await.expect("a plain statement");
            (conn, upsert)
        });
        Self { runtime, conn, upsert }
    }

    fn upsert(&mut self, count: usize) {
        let name = format!("resource-{:07}", count % RESOURCES).into_bytes();
        let number = count as i64;
        self.runtime
            .block_on(self.conn.exec_drop(&self.upsert, (name, number, number)))
            .expect("a server of one's own answers");
    }
}

fn open(url: &str, options: &str) -> Arc<dyn Store> {
    Arc::new(MysqlStore::open(&format!("{url}?{options}")).expect("a URL of ours"))
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = one_at_a_time(Kind::MariaDb, "mariadb", (0.7, "at least 0.7"));
    rows.extend(one_at_a_time(Kind::MySql, "mysql", (0.5, "at least 0.5")));
    rows
}

fn one_at_a_time(kind: Kind, which: &str, bound: (f64, &'static str)) -> Vec<Row> {
    // Otherwise as it comes: it waits for the disk at every commit.
    let server = Server::start(kind, &[]);
    let (database, url) = server.fresh();
    let holder = |prefix: &str, options: &str| Holder::new(open(&url, options), 7, prefix, RESOURCES);
    let mut plain = holder("plain", "connections=1&history=off");
    let mut history = holder("history", "connections=1");
    let mut renewed = holder("renewed", "connections=1");
    let free = open(&url, "connections=1");
    let mut bare = Bare::new(&server, &database);
    let mut owner = 0;
    let [upsert, grant, history_grant, renew, pair] = Turns { rounds: 40, calls: 30, warm_up: 5 }.take([
        &mut |count| bare.upsert(count),
        &mut |count| plain.grant(count),
        &mut |count| history.grant(count),
        &mut |count| renewed.renew(count),
        &mut |count| {
            owner += 1;
            block_on(take_and_give_back(free.as_ref(), name(&format!("free-{}", count % RESOURCES)), owner));
        },
    ]);
    let peer = ("bare prepared upsert", upsert);
    vec![
        Row::rate(format!("{which}: rate of a grant to a bare upsert"), grant, peer, Some(bound)),
        Row::rate(format!("{which}: the same, a grant with history"), history_grant, peer, None),
        Row::rate(format!("{which}: the same, a renewal"), renew, peer, None),
        Row::rate(
            format!("{which}: rate of acquire and release, with history, to two bare upserts"),
            pair,
            ("two bare upserts", 2.0 * upsert),
            None,
        ),
        sixteen(which, &url),
    ]
}

fn sixteen(which: &str, url: &str) -> Row {
    let (one, many) = (open(url, "connections=1"), open(url, "connections=16"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        alone.push(together(&runtime, &one, 1, 200));
        shared.push(together(&runtime, &many, 16, 50));
    }
    let (alone, shared) = (median(&mut alone), median(&mut shared));
    Row::rate(
        format!("{which}: rate of 16 connections to that of one, renewals with history"),
        shared,
        ("one", alone),
        Some((1.5, "at least 1.5")),
    )
}
