//! The example, on servers that this test starts.
#![allow(dead_code, clippy::unwrap_used)]

use std::time::Duration;

use lease_machines_store::{
    Acquired, Claim, Ending, LeaseRef, MysqlStore, PostgresFence, PostgresStore, ResourceName, Store,
    fresh_owner,
};
use sqlx::{MySqlPool, PgPool};
use sqlx_fence::{sell, sell_on_mysql};

#[path = "../../../store/tests/servers/guard.rs"]
mod guard;
#[path = "../../../store/tests/servers/mysql.rs"]
mod mysql;
#[path = "../../../store/tests/servers/postgres.rs"]
mod postgres;

async fn granted(store: &dyn Store) -> LeaseRef {
    let stock = ResourceName::new("stock").unwrap();
    let owner = fresh_owner().unwrap();
    let claim = Claim::new(stock.clone(), owner, Duration::from_secs(60));
    let Acquired::Granted(grant) = store.acquire(claim).await.unwrap() else {
        panic!("somebody else has it")
    };
    LeaseRef::new(stock, owner, grant.token, Some(grant.epoch))
}

/// The SQLSTATE that a write was refused with.
fn code<T: std::fmt::Debug>(outcome: Result<T, sqlx::Error>) -> String {
    outcome.unwrap_err().as_database_error().unwrap().code().unwrap().into_owned()
}

#[test]
fn on_postgresql_whoever_was_replaced_writes_nothing() {
    let server = postgres::Server::shared();
    let (schema, url) = server.fresh();
    server.sql(&format!("CREATE TABLE {schema}.stock AS SELECT 9 AS count"));
    let store = PostgresStore::open(&url).unwrap();
    let fence = PostgresFence::new(&schema);
    postgres::runtime().block_on(async {
        // Another option than the store's own says where the tables of the program are.
        let url = url.replace("?schema=", "?options[search_path]=");
        let pool = PgPool::connect(&url).await.unwrap();
        let old = granted(&store).await;
        assert_eq!(sell(&pool, &fence, &old).await.unwrap(), 8);
        let _ = store.release(old.clone(), Ending::default()).await.unwrap();
        assert_eq!(code(sell(&pool, &fence, &old).await), "LF006");
        let new = granted(&store).await;
        assert_eq!(code(sell(&pool, &fence, &old).await), "LF002");
        assert_eq!(sell(&pool, &fence, &new).await.unwrap(), 7);
    });
}

#[test]
fn on_mariadb_whoever_was_replaced_writes_nothing() {
    let server = mysql::Server::shared(mysql::Kind::MariaDb);
    let (database, url) = server.fresh();
    server.sql(&database, "CREATE TABLE stock AS SELECT 9 AS count");
    let store = MysqlStore::open(&url).unwrap();
    mysql::runtime().block_on(async {
        let pool = MySqlPool::connect(&url).await.unwrap();
        let old = granted(&store).await;
        assert_eq!(sell_on_mysql(&pool, &old).await.unwrap(), 1);
        let _ = store.release(old.clone(), Ending::default()).await.unwrap();
        let new = granted(&store).await;
        assert_eq!(sell_on_mysql(&pool, &new).await.unwrap(), 1);
        assert_eq!(code(sell_on_mysql(&pool, &old).await), "LF002");
        assert_eq!(left(&pool).await, 7);
    });
}

async fn left(pool: &MySqlPool) -> i32 {
    sqlx::query_scalar("SELECT count FROM stock").fetch_one(pool).await.unwrap()
}
