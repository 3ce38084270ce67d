//! Decisions on PostgreSQL.

use std::sync::Arc;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{PostgresStore, Store};
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Statement};

use crate::client::{Holder, RESOURCES, name, runtime, take_and_give_back, together};
use crate::servers::pgbouncer::Pooler;
use crate::servers::postgres::Server;
use crate::table::{Row, Turns, median};

/// The peer: one row, written without reading or deciding anything.
const UPSERT: &str = "INSERT INTO bare (name, token, at) VALUES ($1, $2, $3) \
     ON CONFLICT (name) DO UPDATE SET token = excluded.token, at = excluded.at RETURNING token";

/// The peer of many renewals.
const UPDATE: &str = "UPDATE bare SET at = u.at FROM unnest($1::bytea[], $2::bigint[]) AS u (name, at) \
     WHERE bare.name = u.name";

/// A connection that programs have.
pub(crate) struct Bare {
    runtime: Runtime,
    client: Client,
    upsert: Option<Statement>,
}

impl Bare {
    /// `prepared`: not where a pooler is between.
    pub(crate) fn new(port: u16, prepared: bool) -> Self {
        let runtime = runtime();
        let (client, upsert) = runtime.block_on(async {
            let to = format!("host=127.0.0.1 port={port} user=lease dbname=postgres");
            let (client, connection) = tokio_postgres::connect(&to, NoTls).await.expect("it was started");
            tokio::spawn(connection);
            client
                .batch_execute(
                    "CREATE TABLE IF NOT EXISTS bare (name bytea PRIMARY KEY, token bigint NOT NULL, \
                     at bigint NOT NULL) WITH (fillfactor = 50)",
                )
                .await
                .expect("a table can be made");
            let upsert =
                if prepared { Some(client.prepare(UPSERT).await.expect("a plain statement")) } else { None };
            (client, upsert)
        });
        Self { runtime, client, upsert }
    }

    pub(crate) fn upsert(&self, count: usize) {
        let name = format!("resource-{:07}", count % RESOURCES).into_bytes();
        let number = count as i64;
        let rows = self.runtime.block_on(async {
            match &self.upsert {
                Some(prepared) => self.client.query(prepared, &[&name, &number, &number]).await,
                None => {
                    let typed: [(&(dyn ToSql + Sync), Type); 3] =
                        [(&name, Type::BYTEA), (&number, Type::INT8), (&number, Type::INT8)];
                    self.client.query_typed(UPSERT, &typed).await
                }
            }
        });
        assert_eq!(rows.expect("a server of one's own answers").len(), 1);
    }

    fn run(&self, statement: &Statement, parameters: &[&(dyn ToSql + Sync)]) -> u64 {
        self.runtime
            .block_on(self.client.execute(statement, parameters))
            .expect("a server of one's own answers")
    }

    fn prepare(&self, text: &str) -> Statement {
        self.runtime.block_on(self.client.prepare(text)).expect("a plain statement")
    }
}

fn open(url: &str, options: &str) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(&format!("{url}&{options}")).expect("a URL of ours"))
}

pub(crate) fn rows() -> Vec<Row> {
    // Otherwise as it comes: it waits for the disk at every commit.
    let server =
        Server::start(&["shared_buffers = 256MB", "max_wal_size = 4GB", "checkpoint_timeout = 30min"]);
    let mut rows = Vec::new();
    rows.extend(one_at_a_time(&server));
    rows.extend(behind_a_pooler(&server));
    rows.push(sixteen(&server));
    rows.push(many(&server));
    rows.push(crate::claims::row(&server));
    rows
}

fn one_at_a_time(server: &Server) -> Vec<Row> {
    let (_, url) = server.fresh();
    let holder = |prefix: &str, options: &str| Holder::new(open(&url, options), 7, prefix, RESOURCES);
    let mut plain = holder("plain", "connections=1&history=off");
    let mut history = holder("history", "connections=1");
    let mut renewed = holder("renewed", "connections=1");
    let free = open(&url, "connections=1");
    let bare = Bare::new(server.port, true);
    let (lock, unlock) =
        (bare.prepare("SELECT pg_advisory_lock($1)"), bare.prepare("SELECT pg_advisory_unlock($1)"));
    let mut owner = 0;
    let [upsert, grant, history_grant, renew, pair, advisory] = Turns { rounds: 60, calls: 30, warm_up: 5 }
        .take([
            &mut |count| bare.upsert(count),
            &mut |count| plain.grant(count),
            &mut |count| history.grant(count),
            &mut |count| renewed.renew(count),
            &mut |count| {
                owner += 1;
                block_on(take_and_give_back(
                    free.as_ref(),
                    name(&format!("free-{}", count % RESOURCES)),
                    owner,
                ));
            },
            &mut |count| {
                let key = (count % RESOURCES) as i64;
                bare.run(&lock, &[&key]);
                bare.run(&unlock, &[&key]);
            },
        ]);
    let peer = ("bare prepared upsert", upsert);
    vec![
        Row::rate("postgres: rate of a grant to a bare upsert", grant, peer, Some((0.8, "at least 0.8"))),
        Row::rate(
            "postgres: the same, a grant with history",
            history_grant,
            peer,
            Some((0.7, "at least 0.7")),
        ),
        Row::rate("postgres: the same, a renewal", renew, peer, None),
        Row::rate(
            "postgres: rate of acquire and release, with history, to an advisory lock and unlock, which writes nothing, \
             has no token and ends with its session",
            pair,
            ("lock and unlock", advisory),
            None,
        ),
    ]
}

fn behind_a_pooler(server: &Server) -> Vec<Row> {
    let pooler = Pooler::start(server.port, "");
    let (schema, _) = server.fresh();
    let url = format!("postgres://lease@127.0.0.1:{}/postgres?schema={schema}&sslmode=disable", pooler.port);
    let mut plain = Holder::new(open(&url, "connections=1&history=off"), 7, "plain", RESOURCES);
    let mut history = Holder::new(open(&url, "connections=1"), 7, "history", RESOURCES);
    let bare = Bare::new(pooler.port, false);
    let [upsert, grant, history_grant] = Turns { rounds: 60, calls: 30, warm_up: 5 }.take([
        &mut |count| bare.upsert(count),
        &mut |count| plain.grant(count),
        &mut |count| history.grant(count),
    ]);
    let peer = ("bare unnamed upsert", upsert);
    vec![
        Row::rate(
            "postgres: through PgBouncer, rate of a grant to a bare upsert",
            grant,
            peer,
            Some((0.8, "at least 0.8")),
        ),
        Row::rate("postgres: the same, a grant with history", history_grant, peer, None),
    ]
}

fn sixteen(server: &Server) -> Row {
    let (_, url) = server.fresh();
    let (one, many) = (open(&url, "connections=1"), open(&url, "connections=16"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        alone.push(together(&runtime, &one, 1, 200));
        shared.push(together(&runtime, &many, 16, 50));
    }
    let (alone, shared) = (median(&mut alone), median(&mut shared));
    Row::rate(
        "postgres: rate of 16 connections to that of one, renewals with history",
        shared,
        ("one", alone),
        Some((1.5, "at least 1.5")),
    )
}

fn many(server: &Server) -> Row {
    const LEASES: usize = 1_000;
    let (_, url) = server.fresh();
    let mut holder = Holder::new(open(&url, "connections=1"), 7, "many", LEASES);
    let bare = Bare::new(server.port, true);
    let update = bare.prepare(UPDATE);
    let names: Vec<Vec<u8>> = (0..LEASES).map(|index| format!("row-{index:07}").into_bytes()).collect();
    let insert = bare.prepare("INSERT INTO bare SELECT name, 0, 0 FROM unnest($1::bytea[]) AS u (name)");
    bare.run(&insert, &[&names]);
    let [renewed, updated] =
        Turns { rounds: 25, calls: 4, warm_up: 1 }.take([&mut |_| holder.renew_all(), &mut |count| {
            let instants: Vec<i64> = vec![count as i64; LEASES];
            assert_eq!(bare.run(&update, &[&names, &instants]), LEASES as u64);
        }]);
    let times = renewed / updated;
    Row {
        what: "postgres: renewing 1,000 leases to a bare update of 1,000 rows".to_owned(),
        figure: format!("{times:.2} ({renewed:.0} µs, bare update {updated:.0} µs, with history)"),
        bound: Some(("at most 2", times <= 2.0)),
    }
}
