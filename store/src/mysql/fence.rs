//! The fence inside the user's own transaction.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Row, Transaction, TxOpts, Value};

use super::answer::{instant, token};
use super::call::{bits, number, span, text};
use super::failure::{DEADLOCK, LOCK_WAIT, NO_SUCH_ROUTINE, NO_SUCH_TABLE};
use super::schema;
use crate::fence::{believed, below, out_of_range, rewound, shown};
use crate::{GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, Mark, MarkKey};

/// Checks fencing tokens in a MySQL or MariaDB database, on the connection and in the transaction of the write that they
/// protect. The marks are in the database that the connection is in.
///
/// The guard writes the mark, also where it does not rise, so that two guarded transactions follow each other at every
/// isolation level; run it first, before whatever the write depends on is read: under `REPEATABLE READ`, what was read
/// before stays as it was. The database fails the statement of a guard that refuses, and goes on with the transaction:
/// roll it back. It waits for another one for at most 5 s, and is [`Busy`](GuardErrorKind::Busy) then.
///
/// Outside of a transaction it is an error. Inside a savepoint it could be rolled back alone, and leave writes without their
/// guard: these servers do not show a savepoint that SQL text began, so that this is for the caller to mind.
///
/// The strict guard needs the leases in the same database, and `READ COMMITTED` set for the session: what only
/// `SET TRANSACTION` (or the driver's `TxOpts`) sets for one transaction, these servers do not show either, and under such a
/// stricter one it may look at an older state. The mark is compared with all the same.
///
/// A fence orders honest writers; it does not authenticate them.
#[derive(Clone, Copy, Debug, Default)]
pub struct MysqlFence;

impl MysqlFence {
    /// What creates the marks and their guard, for the commands `mysql` and `mariadb`, for a migration of one's own.
    #[must_use]
    pub fn set_up_sql() -> String {
        schema::fence()
    }

    /// The plain guard as one statement for any driver: the store's name, the resource, the slot, the token, and the owner as
    /// the bits of a signed number. The database itself fails it (SQLSTATE `LF…`) where the token is stale: nobody has to
    /// look at a result, but roll the transaction back.
    #[must_use]
    pub const fn guard_sql() -> &'static str {
        "CALL lease_fence_pass_1(?,?,?,?,?)"
    }

    /// The strict half as one statement for any driver, to be sent behind [`guard_sql`](Self::guard_sql) in the same
    /// transaction of a session at `READ COMMITTED`, where the leases are in this database: the resource, the token, the owner
    /// and the epoch, as the bits of signed numbers. The database itself fails it (SQLSTATE `LF…`) where the lease is not the
    /// latest committed grant.
    #[must_use]
    pub const fn strict_sql() -> &'static str {
        "CALL lease_fence_strict_1(?,?,?,?)"
    }

    /// Creates the marks where they are missing. It commits what is open on that connection.
    ///
    /// # Errors
    ///
    /// [`Database`](GuardErrorKind::Database).
    pub async fn set_up(conn: &mut Conn) -> Result<(), GuardError> {
        schema::set_up_fence(conn).await.map_err(|error| database("creating the marks", error))
    }

    /// Refuses the transaction unless the lease is the newest that this database knows of, and raises the mark to it.
    ///
    /// Exactly: a guard that begins after a newer token has passed here, in a transaction that was committed, is refused;
    /// the strict guard also after a newer grant, a release or a revoke was committed to the lease store in this database.
    /// Neither looks at a clock: a lease that has run out passes until somebody else takes it.
    ///
    /// # Errors
    ///
    /// Each kind of [`GuardErrorKind`] but [`Unfenced`](GuardErrorKind::Unfenced) and
    /// [`Configuration`](GuardErrorKind::Configuration).
    pub async fn guard(
        transaction: &mut Transaction<'_>,
        key: &MarkKey,
        lease: &LeaseRef,
        mode: GuardMode,
    ) -> Result<GuardKind, GuardError> {
        let shown = shown(key, lease)?;
        let refused = |error| refusal(key, lease, error);
        let mut mark = named(key);
        mark.extend([number(shown), bits(lease.owner.value())]);
        transaction.exec_drop(Self::guard_sql(), mark).await.map_err(refused)?;
        let looked = || {
            vec![
                text(lease.resource.as_str()),
                number(shown),
                bits(lease.owner.value()),
                number(lease.epoch.map_or(0, |epoch| epoch.value() as i64)),
            ]
        };
        if !Self::is_strict(transaction, lease, mode, looked()).await? {
            return Ok(GuardKind::Plain);
        }
        transaction.exec_drop(Self::strict_sql(), looked()).await.map_err(refused)?;
        Ok(GuardKind::Strict)
    }

    /// Whether the strict guard is to run: always where it was insisted on, else where it can. A lease of another epoch may
    /// be another store's, unless this one knows that it was its own.
    async fn is_strict(
        transaction: &mut Transaction<'_>,
        lease: &LeaseRef,
        mode: GuardMode,
        looked: Vec<Value>,
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
        let found: Option<(i64, i64)> =
            match transaction.exec_first("CALL lease_fence_mine_1(?,?,?,?)", looked).await {
                Ok(found) => found,
                Err(Error::Server(told)) if matches!(told.code, NO_SUCH_ROUTINE | NO_SUCH_TABLE) => None,
                Err(error) => return Err(database("looking for a lease store", error)),
            };
        match found {
            Some((1, _)) if insisted => Ok(true),
            Some((1, mine)) => Ok(mine == 1),
            None if insisted => not_strict("no lease store is in this database"),
            Some(_) if insisted => not_strict("the session is not READ COMMITTED"),
            _ => Ok(false),
        }
    }

    /// For a write without a lease: lets it pass only where nobody has ever shown a token. The first mark waits for the end of
    /// the transaction then, as does another write without a lease.
    ///
    /// # Errors
    ///
    /// [`Unfenced`](GuardErrorKind::Unfenced) where there is a mark, [`Busy`](GuardErrorKind::Busy) where another transaction
    /// was in the way for 5 s, [`NotSetUp`](GuardErrorKind::NotSetUp), [`Database`](GuardErrorKind::Database).
    pub async fn unfenced(transaction: &mut Transaction<'_>, key: &MarkKey) -> Result<(), GuardError> {
        let done = transaction.exec_drop("CALL lease_fence_unfenced_1(?,?,?)", named(key)).await;
        done.map_err(|error| fenced(key, error))
    }

    /// Raises the mark in a transaction of its own: what a new holder does before it reads or writes.
    ///
    /// # Errors
    ///
    /// As [`guard`](Self::guard).
    pub async fn advance(conn: &mut Conn, key: &MarkKey, lease: &LeaseRef) -> Result<(), GuardError> {
        let begun = conn.start_transaction(TxOpts::default()).await;
        let mut transaction = begun.map_err(|error| database("beginning a transaction", error))?;
        if let Err(error) = Self::guard(&mut transaction, key, lease, GuardMode::Auto).await {
            // The driver would put it off to the next use of the connection, and the mark's lock with it.
            let _ = transaction.rollback().await;
            return Err(error);
        }
        transaction.commit().await.map_err(|error| database("committing", error))
    }

    /// The mark, if there is one.
    ///
    /// # Errors
    ///
    /// [`NotSetUp`](GuardErrorKind::NotSetUp), [`Database`](GuardErrorKind::Database).
    pub async fn look(conn: &mut impl Queryable, key: &MarkKey) -> Result<Option<Mark>, GuardError> {
        let asked = "SELECT token, owner, at FROM lease_fence WHERE store = ? AND resource = ? AND slot = ?";
        let error = |error| database("reading a mark", error);
        let row: Option<Row> = conn.exec_first(asked, named(key)).await.map_err(error)?;
        let read = |column| row.as_ref().and_then(|row| row.get::<i64, usize>(column));
        Ok(match (token(read(0)), read(1), read(2)) {
            (Some(token), Some(owner), Some(at)) => {
                Some(Mark { key: key.clone(), token, owner: OwnerId::new(owner as u64), at: instant(at) })
            }
            _ => None,
        })
    }

    /// Sets a mark back or removes it, and writes that into `lease_fence_log`. For an operator.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look); [`OutOfRange`](GuardErrorKind::OutOfRange) for a token that no store issues.
    pub async fn reset(
        conn: &mut Conn,
        key: &MarkKey,
        to: Option<FencingToken>,
        reason: &str,
    ) -> Result<(), GuardError> {
        to.map_or(Ok(()), believed)?;
        let mut asked = named(key);
        asked.extend([to.map_or(Value::NULL, |token| bits(token.value())), text(reason)]);
        let done = conn.exec_drop("CALL lease_fence_reset_1(?,?,?,?,?)", asked).await;
        done.map_err(|error| database("resetting a mark", error))
    }

    /// Forgets marks that nobody has written for so long, and that are not ahead of the clock. A floor is raised to the
    /// greatest of them first: a token below it that has no mark of its own is refused from then on. Returns how many
    /// there were.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look).
    pub async fn prune(conn: &mut Conn, older_than: Duration) -> Result<u64, GuardError> {
        let gone = conn.exec_first("CALL lease_fence_prune_1(?)", vec![span(older_than)]).await;
        Ok(gone.map_err(|error| database("pruning marks", error))?.unwrap_or(0))
    }
}

fn named(key: &MarkKey) -> Vec<Value> {
    vec![text(&key.store), text(key.resource.as_str()), number(key.slot)]
}

/// What the procedures in the database refused, by its number.
fn refusal(key: &MarkKey, lease: &LeaseRef, error: Error) -> GuardError {
    let Error::Server(told) = &error else { return database("guarding", error) };
    let held = lease.token;
    let last = told.message.rsplit(' ').next().and_then(|word| word.parse::<i64>().ok());
    let refused = match told.code {
        45101 => out_of_range(held),
        45102 => below(key, held, token(last).unwrap_or(held)),
        45103 => rewound(key, lease, OwnerId::new(last.unwrap_or(0) as u64)),
        45104 => outside(),
        45105 => GuardError::new(
            GuardErrorKind::NotStrict,
            "the strict guard cannot run: the session is not READ COMMITTED",
        ),
        45106 => GuardError::new(
            GuardErrorKind::Lost,
            format!("the lease on {key} under token {held} is lost: {}", told.message),
        ),
        _ => return database("guarding", error),
    };
    refused.with_source(error)
}

/// The same, of a write without a lease.
fn fenced(key: &MarkKey, error: Error) -> GuardError {
    let Error::Server(told) = &error else { return database("looking for a mark", error) };
    let refused = match told.code {
        45104 => outside(),
        45107 => GuardError::new(
            GuardErrorKind::Unfenced,
            format!(
                "{key} is fenced (token {} was seen): a write has to show its lease",
                told.message.rsplit(' ').next().unwrap_or_default()
            ),
        ),
        _ => return database("looking for a mark", error),
    };
    refused.with_source(error)
}

fn outside() -> GuardError {
    GuardError::new(
        GuardErrorKind::OutsideTransaction,
        "a guard belongs into the transaction of the write itself; none is open on this connection",
    )
}

fn database(doing: &str, error: Error) -> GuardError {
    /// A row that was written since the transaction began to read, as MariaDB may be set to say.
    const CHANGED_SINCE: u16 = 1020;
    let code = match &error {
        Error::Server(told) => told.code,
        _ => 0,
    };
    let (kind, what) = match code {
        LOCK_WAIT | DEADLOCK => (GuardErrorKind::Busy, "another transaction was in the way"),
        CHANGED_SINCE => {
            (GuardErrorKind::Serialization, "the transaction has read a state that is no longer the latest")
        }
        NO_SUCH_TABLE | NO_SUCH_ROUTINE => {
            (GuardErrorKind::NotSetUp, "this database has no marks (MysqlFence::set_up makes them)")
        }
        1142 | 1143 | 1227 | 1370 => (
            GuardErrorKind::Permission,
            "this account has no right to it (`lease migrate --print` has the GRANT)",
        ),
        _ => (GuardErrorKind::Database, "the database failed"),
    };
    GuardError::new(kind, format!("{doing}: {what} ({error})")).with_source(error)
}
