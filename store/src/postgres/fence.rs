//! The fence inside the user's own transaction.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, GenericClient, IsolationLevel, Row, Transaction};

use super::answer::{instant, token};
use super::failure::causes;
use super::schema;
use crate::fence::{believed, below, out_of_range, rewound, shown};
use crate::{GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, Mark, MarkKey};

/// Checks fencing tokens in a PostgreSQL database, on the connection and in the transaction of the write that they
/// protect.
///
/// The guard writes the mark, also where it does not rise, so that two guarded transactions follow each other at every
/// isolation level; run it first, before whatever the write depends on is read. A transaction that it refuses is aborted
/// by the database: roll it back. It waits for another one for at most 5 s, or for the transaction's own `lock_timeout` where that is
/// shorter, and is [`Busy`](GuardErrorKind::Busy) then.
///
/// Inside a savepoint it is an error: it could be rolled back alone, and leave writes without their guard. It must not be
/// sent outside of a transaction by its text alone; there it guards nothing.
///
/// The strict guard needs the leases in the same database and READ COMMITTED. No statement is given a name, so that it
/// also runs behind a pooler. A fence orders honest writers; it does not authenticate them.
#[derive(Clone, Debug)]
pub struct PostgresFence {
    schema: String,
}

impl Default for PostgresFence {
    /// In the schema `lease_machines`.
    fn default() -> Self {
        Self::new("lease_machines")
    }
}

impl PostgresFence {
    /// With its marks in this schema: that of the lease store, for the strict guard.
    #[must_use]
    pub fn new(schema: &str) -> Self {
        Self { schema: format!("\"{}\"", schema.replace('"', "\"\"")) }
    }

    /// What creates the marks and their guard, for a migration of one's own.
    #[must_use]
    pub fn set_up_sql(&self) -> String {
        schema::MARKS.replace("{schema}", &self.schema)
    }

    /// The plain guard as one statement for any driver: `$1` the store's name (text), `$2` the resource (bytea), `$3` the
    /// slot, `$4` the token and `$5` the owner, as the bits of a signed number (bigint). The database itself fails it
    /// (SQLSTATE `LF…`) where the token is stale, and the transaction with it: nobody has to look at a result.
    #[must_use]
    pub fn guard_sql(&self) -> String {
        format!("SELECT {}.lease_fence_pass_1($1,$2,$3,$4,$5)", self.schema)
    }

    /// The strict half as one statement for any driver, to be sent behind [`guard_sql`](Self::guard_sql) in the same
    /// transaction, at READ COMMITTED, where the leases are in this schema: `$1` the resource (bytea), `$2` the token, `$3` the
    /// owner and `$4` the epoch, as the bits of signed numbers (bigint). The database itself fails it (SQLSTATE `LF…`) where the
    /// lease is not the latest committed grant.
    #[must_use]
    pub fn strict_sql(&self) -> String {
        format!("SELECT {}.lease_fence_strict_1($1,$2,$3,$4)", self.schema)
    }

    /// Creates the marks where they are missing.
    ///
    /// # Errors
    ///
    /// [`Database`](GuardErrorKind::Database).
    pub async fn set_up(&self, client: &Client) -> Result<(), GuardError> {
        // Two that create the same at once would fail each other.
        let script = format!("BEGIN; {}{} COMMIT;", schema::LOCK, self.set_up_sql());
        match client.batch_execute(&script).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = client.batch_execute("ROLLBACK").await;
                Err(database("creating the marks", error))
            }
        }
    }

    /// Lets the transaction pass if the lease is the newest that this database knows of, and raises the mark to it.
    ///
    /// Exactly: a guard that begins after a newer token has passed here, in a transaction that was committed, is refused;
    /// the strict guard also after a newer grant, a release or a revoke was committed to the lease store in this schema.
    /// Neither looks at a clock: a lease that has run out passes until somebody else takes it.
    ///
    /// # Errors
    ///
    /// Each kind of [`GuardErrorKind`] but [`Unfenced`](GuardErrorKind::Unfenced) and
    /// [`Configuration`](GuardErrorKind::Configuration).
    pub async fn guard(
        &self,
        transaction: &Transaction<'_>,
        key: &MarkKey,
        lease: &LeaseRef,
        mode: GuardMode,
    ) -> Result<GuardKind, GuardError> {
        let shown = shown(key, lease)?;
        let (resource, owner) = (lease.resource.as_str().as_bytes(), lease.owner.value() as i64);
        let refused = |error| refusal(key, lease, error);
        let mark: [(&(dyn ToSql + Sync), Type); 5] = [
            (&key.store, Type::TEXT),
            (&resource, Type::BYTEA),
            (&key.slot, Type::INT8),
            (&shown, Type::INT8),
            (&owner, Type::INT8),
        ];
        transaction.query_typed(&self.guard_sql(), &mark).await.map_err(refused)?;
        if !self.is_strict(transaction, lease, mode).await? {
            return Ok(GuardKind::Plain);
        }
        let believed = lease.epoch.map_or(0, |epoch| epoch.value() as i64);
        let looked: [(&(dyn ToSql + Sync), Type); 4] =
            [(&resource, Type::BYTEA), (&shown, Type::INT8), (&owner, Type::INT8), (&believed, Type::INT8)];
        transaction.query_typed(&self.strict_sql(), &looked).await.map_err(refused)?;
        Ok(GuardKind::Strict)
    }

    /// Whether the strict guard is to run: always where it was insisted on, else where it can.
    async fn is_strict(
        &self,
        transaction: &Transaction<'_>,
        lease: &LeaseRef,
        mode: GuardMode,
    ) -> Result<bool, GuardError> {
        if mode == GuardMode::Plain {
            return Ok(false);
        }
        let not_strict = |why: &str| {
            let message = format!("the strict guard cannot run: {why}");
            Err(GuardError::new(GuardErrorKind::NotStrict, message))
        };
        let insisted = mode == GuardMode::Strict;
        if lease.epoch.is_none() {
            return if insisted {
                not_strict("the lease does not say of which epoch it is")
            } else {
                Ok(false)
            };
        }
        let table = format!("{}.lease_store", self.schema);
        let rows = transaction
            .query_typed(
                "SELECT to_regclass($1) IS NOT NULL, current_setting('transaction_isolation') = 'read committed'",
                &[(&table, Type::TEXT)],
            )
            .await
            .map_err(|error| database("looking for a lease store", error))?;
        let answer = |column| rows.first().is_some_and(|row| row.try_get(column).unwrap_or(false));
        match (answer(0), answer(1)) {
            (true, true) if insisted => Ok(true),
            (true, true) => self.is_of_this_store(transaction, lease).await,
            (false, _) if insisted => not_strict("no lease store is in this schema"),
            (true, false) if insisted => not_strict("the transaction is not READ COMMITTED"),
            _ => Ok(false),
        }
    }

    /// A lease of another epoch may be another store's, unless this one knows that it was its own.
    async fn is_of_this_store(
        &self,
        transaction: &Transaction<'_>,
        lease: &LeaseRef,
    ) -> Result<bool, GuardError> {
        let text = format!(
            "SELECT s.epoch = $4 OR EXISTS (SELECT FROM {schema}.lease_row AS t WHERE t.name = $1 AND \
             ((t.token = $2 AND t.owner = $3) OR (t.vacated_token = $2 AND t.vacated_owner = $3))) OR EXISTS \
             (SELECT FROM {schema}.lease_history AS h WHERE h.name = $1 AND h.token = $2 AND h.owner = $3) \
             FROM {schema}.lease_store AS s",
            schema = self.schema
        );
        let (resource, shown) = (lease.resource.as_str().as_bytes(), lease.token.value() as i64);
        let (owner, believed) =
            (lease.owner.value() as i64, lease.epoch.map_or(0, |epoch| epoch.value() as i64));
        let asked: [(&(dyn ToSql + Sync), Type); 4] =
            [(&resource, Type::BYTEA), (&shown, Type::INT8), (&owner, Type::INT8), (&believed, Type::INT8)];
        let rows = transaction
            .query_typed(&text, &asked)
            .await
            .map_err(|error| database("looking for the lease", error))?;
        Ok(rows.first().is_some_and(|row| row.try_get(0).unwrap_or(false)))
    }

    /// For a write without a lease: lets it pass only where nobody has ever shown a token. Whoever is to show the first one
    /// waits until this transaction ends, at every isolation level, and so does another write without a lease. Run it first, as
    /// [`guard`](Self::guard).
    ///
    /// # Errors
    ///
    /// [`Unfenced`](GuardErrorKind::Unfenced) where there is a mark, [`Serialization`](GuardErrorKind::Serialization) where it
    /// was made since this transaction began, [`Busy`](GuardErrorKind::Busy) and
    /// [`OutsideTransaction`](GuardErrorKind::OutsideTransaction) as a guard, [`NotSetUp`](GuardErrorKind::NotSetUp),
    /// [`Permission`](GuardErrorKind::Permission), [`Database`](GuardErrorKind::Database).
    pub async fn unfenced(&self, transaction: &Transaction<'_>, key: &MarkKey) -> Result<(), GuardError> {
        let text = format!("SELECT {}.lease_fence_unfenced_1($1,$2,$3)", self.schema);
        let resource = key.resource.as_str().as_bytes();
        let asked: [(&(dyn ToSql + Sync), Type); 3] =
            [(&key.store, Type::TEXT), (&resource, Type::BYTEA), (&key.slot, Type::INT8)];
        let refused = |error: Error| match code_and_detail(&error) {
            Some(("LF007", seen)) => GuardError::new(
                GuardErrorKind::Unfenced,
                format!(
                    "{key} is fenced (token {} was seen): a write has to show its lease",
                    seen.unwrap_or_default()
                ),
            )
            .with_source(error),
            Some(("LF004", _)) => in_savepoint().with_source(error),
            _ => database("looking for a mark", error),
        };
        transaction.query_typed(&text, &asked).await.map(drop).map_err(refused)
    }

    /// Raises the mark in a transaction of its own: what a new holder does before it reads or writes.
    ///
    /// # Errors
    ///
    /// As [`guard`](Self::guard).
    pub async fn advance(
        &self,
        client: &mut Client,
        key: &MarkKey,
        lease: &LeaseRef,
    ) -> Result<(), GuardError> {
        self.advance_within(client, key, lease, None).await
    }

    /// The same, with a limit for each of its statements, which the server keeps.
    pub(super) async fn advance_within(
        &self,
        client: &mut Client,
        key: &MarkKey,
        lease: &LeaseRef,
        limit: Option<Duration>,
    ) -> Result<(), GuardError> {
        let error = |error| database("beginning a transaction", error);
        // Nothing is read in it that could be older than the mark: no stricter level is of use.
        let level = IsolationLevel::ReadCommitted;
        let transaction = client.build_transaction().isolation_level(level).start().await.map_err(error)?;
        let limit = limit.map_or_else(String::new, |limit| {
            format!("; SET LOCAL statement_timeout = {}", limit.as_millis().max(1))
        });
        // That a standby was not waited for is said by a warning alone.
        let settings =
            format!("SET LOCAL synchronous_commit = on; SET LOCAL client_min_messages = warning{limit}");
        transaction.batch_execute(&settings).await.map_err(error)?;
        self.guard(&transaction, key, lease, GuardMode::Auto).await?;
        transaction.commit().await.map_err(|error| database("committing", error))
    }

    /// The mark, if there is one.
    ///
    /// # Errors
    ///
    /// [`NotSetUp`](GuardErrorKind::NotSetUp), [`Database`](GuardErrorKind::Database).
    pub async fn look(&self, client: &impl GenericClient, key: &MarkKey) -> Result<Option<Mark>, GuardError> {
        let text = format!(
            "SELECT token, owner, at FROM {}.lease_fence WHERE store = $1 AND resource = $2 AND slot = $3",
            self.schema
        );
        let resource = key.resource.as_str().as_bytes();
        let asked: [(&(dyn ToSql + Sync), Type); 3] =
            [(&key.store, Type::TEXT), (&resource, Type::BYTEA), (&key.slot, Type::INT8)];
        let read = |row: &Row| -> Result<Option<Mark>, Error> {
            let (owner, at): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
            let found = token(row.try_get(0)?);
            Ok(found.map(|token| Mark {
                key: key.clone(),
                token,
                owner: OwnerId::new(owner as u64),
                at: instant(at),
            }))
        };
        let error = |error| database("reading a mark", error);
        let rows = client.query_typed(&text, &asked).await.map_err(error)?;
        rows.first().map_or(Ok(None), |row| read(row).map_err(error))
    }

    /// Sets a mark back or removes it, and writes that into `lease_fence_log`. For an operator.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look); [`OutOfRange`](GuardErrorKind::OutOfRange) for a token that no store issues.
    pub async fn reset(
        &self,
        client: &mut Client,
        key: &MarkKey,
        to: Option<FencingToken>,
        reason: &str,
    ) -> Result<(), GuardError> {
        to.map_or(Ok(()), believed)?;
        let changed = if to.is_some() {
            "UPDATE {schema}.lease_fence AS m SET token = $4, owner = 0 FROM old WHERE m.store = old.store \
             AND m.resource = old.resource AND m.slot = old.slot"
        } else {
            "DELETE FROM {schema}.lease_fence AS m USING old WHERE m.store = old.store AND m.resource = old.resource \
             AND m.slot = old.slot"
        };
        let text = format!(
            "WITH old AS (SELECT * FROM {{schema}}.lease_fence WHERE store = $1 AND resource = $2 AND slot = $3 FOR UPDATE), \
             changed AS ({changed}) INSERT INTO {{schema}}.lease_fence_log SELECT \
             (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, store, resource, slot, token, $4, $5 FROM old"
        )
        .replace("{schema}", &self.schema);
        let (resource, becomes) = (key.resource.as_str().as_bytes(), to.map(|token| token.value() as i64));
        let asked: [(&(dyn ToSql + Sync), Type); 5] = [
            (&key.store, Type::TEXT),
            (&resource, Type::BYTEA),
            (&key.slot, Type::INT8),
            (&becomes, Type::INT8),
            (&reason, Type::TEXT),
        ];
        client.query_typed(&text, &asked).await.map(drop).map_err(|error| database("resetting a mark", error))
    }

    /// Forgets marks that nobody has written for so long, and that are not ahead of the clock. A floor is raised to the
    /// greatest of them first: a token below it that has no mark of its own is refused from then on. Returns how many
    /// there were.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look); [`Busy`](GuardErrorKind::Busy) where a guarded transaction was in the way for 5 s.
    pub async fn prune(&self, client: &mut Client, older_than: Duration) -> Result<u64, GuardError> {
        let text = "WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now), \
             old AS (SELECT m.store, m.resource, m.slot, m.token FROM {schema}.lease_fence AS m, clock \
                WHERE m.at <= clock.now - $1 AND m.token <= clock.now FOR UPDATE OF m), \
             raised AS (INSERT INTO {schema}.lease_fence_floor AS f SELECT old.store, max(old.token) FROM old GROUP BY 1 \
                ON CONFLICT (store) DO UPDATE SET token = greatest(f.token, excluded.token)), \
             gone AS (DELETE FROM {schema}.lease_fence AS m USING old WHERE m.store = old.store \
                AND m.resource = old.resource AND m.slot = old.slot RETURNING 1) SELECT count(*) FROM gone"
            .replace("{schema}", &self.schema);
        let span = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
        let error = |error| database("pruning marks", error);
        // Guards of transactions that see only what they began with lock the floor to their end. Whoever waits for one of
        // them holds up the guards of all marks that are to go, so not for long.
        let level = IsolationLevel::ReadCommitted;
        let transaction = client.build_transaction().isolation_level(level).start().await.map_err(error)?;
        transaction.batch_execute("SET LOCAL lock_timeout = '5s'").await.map_err(error)?;
        let rows = transaction.query_typed(&text, &[(&span, Type::INT8)]).await.map_err(error)?;
        transaction.commit().await.map_err(error)?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(error)?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// What the function in the database refused, by its code.
fn refusal(key: &MarkKey, lease: &LeaseRef, error: Error) -> GuardError {
    let Some((code, detail)) = code_and_detail(&error) else { return database("guarding", error) };
    let held = lease.token;
    let refused = match code {
        "LF001" => out_of_range(held),
        "LF002" => below(key, held, token(detail).unwrap_or(held)),
        "LF003" => rewound(key, lease, OwnerId::new(detail.unwrap_or(0) as u64)),
        "LF004" => in_savepoint(),
        "LF005" => GuardError::new(
            GuardErrorKind::NotStrict,
            "the strict guard cannot run: the transaction is not READ COMMITTED",
        ),
        "LF006" => GuardError::new(
            GuardErrorKind::Lost,
            format!("the lease on {key} under token {held} is lost: {}", told(&error)),
        ),
        _ => return database("guarding", error),
    };
    refused.with_source(error)
}

fn database(doing: &str, error: Error) -> GuardError {
    let (kind, what) = match error.code() {
        Some(
            &SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::QUERY_CANCELED,
        ) => (GuardErrorKind::Busy, "another transaction was in the way"),
        Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
            (GuardErrorKind::Serialization, "the transaction has read a state that is no longer the latest")
        }
        Some(&SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_FUNCTION | &SqlState::INVALID_SCHEMA_NAME) => {
            (GuardErrorKind::NotSetUp, "this database has no marks (PostgresFence::set_up makes them)")
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => (
            GuardErrorKind::Permission,
            "this role has no right to it (`lease migrate --print` lists the rights)",
        ),
        _ => (GuardErrorKind::Database, "the database failed"),
    };
    GuardError::new(kind, format!("{doing}: {what} ({})", told(&error))).with_source(error)
}

/// What the server says. The driver's own text names only the kind of what it keeps as the cause.
fn told(error: &Error) -> String {
    error.as_db_error().map_or_else(|| causes(error), |told| told.message().to_owned())
}

/// An error's code, and the number that a function of the marks gives with it.
fn code_and_detail(error: &Error) -> Option<(&str, Option<i64>)> {
    let told = error.as_db_error()?;
    Some((told.code().code(), told.detail().and_then(|detail| detail.parse().ok())))
}

fn in_savepoint() -> GuardError {
    GuardError::new(
        GuardErrorKind::OutsideTransaction,
        "a guard belongs into the transaction of the write itself; this one is in a savepoint, which could be rolled back alone",
    )
}
