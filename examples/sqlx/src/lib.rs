//! Writes through `sqlx` under a lease: the guard is a statement in the transaction of the write, and the database itself fails
//! it where the lease's holder was replaced. `?` is all that looks at it.

use lease_machines_store::{LeaseRef, MysqlFence, PostgresFence};
use sqlx::{MySqlPool, PgPool};

/// Takes one from the stock, and says what is left. The leases are in the same database, so that the strict half follows.
///
/// # Errors
///
/// SQLSTATE `LF002` or `LF006` where the lease is lost: stop. The transaction is rolled back as it is dropped.
pub async fn sell(pool: &PgPool, fence: &PostgresFence, lease: &LeaseRef) -> Result<i32, sqlx::Error> {
    let (resource, token, owner, epoch) = shown(lease);
    let mut transaction = pool.begin().await?;
    sqlx::query(&fence.guard_sql())
        .bind("") // the only store
        .bind(resource)
        .bind(0_i64) // the only slot
        .bind(token)
        .bind(owner)
        .execute(&mut *transaction)
        .await?;
    sqlx::query(&fence.strict_sql())
        .bind(resource)
        .bind(token)
        .bind(owner)
        .bind(epoch)
        .execute(&mut *transaction)
        .await?;
    let left = sqlx::query_scalar("UPDATE stock SET count = count - 1 RETURNING count")
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(left)
}

/// The same on MySQL and MariaDB, with the plain guard: the strict half wants READ COMMITTED set for the session.
///
/// # Errors
///
/// As [`sell`].
pub async fn sell_on_mysql(pool: &MySqlPool, lease: &LeaseRef) -> Result<u64, sqlx::Error> {
    let (resource, token, owner, _) = shown(lease);
    let mut transaction = pool.begin().await?;
    sqlx::query(MysqlFence::guard_sql())
        .bind("")
        .bind(resource)
        .bind(0_i64)
        .bind(token)
        .bind(owner)
        .execute(&mut *transaction)
        .await?;
    let sold = sqlx::query("UPDATE stock SET count = count - 1").execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(sold.rows_affected())
}

/// What a guard is shown: owners and epochs are 64 bits without a sign, and go into a signed number as they are.
fn shown(lease: &LeaseRef) -> (&[u8], i64, i64, i64) {
    let epoch = lease.epoch.map_or(0, |epoch| epoch.value() as i64);
    (lease.resource.as_str().as_bytes(), lease.token.value() as i64, lease.owner.value() as i64, epoch)
}
