//! The fence inside the user's own transaction.

mod marks;
mod refusal;
mod schema;
mod strict;

use std::marker::PhantomData;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, named_params, params};

pub(crate) use self::marks::SqliteMarks;
use self::refusal::database;
use self::schema::{GUARD, SET_UP};
use self::strict::{epoch_here, insist, look_up, refuse_former};
use super::row::{read_token, wall_time};
use crate::fence::{believed, below, out_of_range, rewound, shown};
use crate::{GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, Mark, MarkKey};

/// Checks fencing tokens in an SQLite database, on the connection and in the transaction of the write that they protect.
///
/// ```
/// # use lease_machines_store::{LeaseRef, MarkKey, ResourceName, SqliteFence, GuardMode, GuardErrorKind};
/// # use lease_machines::{FencingToken, OwnerId};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut data = rusqlite::Connection::open_in_memory()?;
/// data.execute_batch("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")?;
/// SqliteFence::set_up(&data)?;
///
/// let job = ResourceName::new("stock")?;
/// let lease = |token| LeaseRef::new(job.clone(), OwnerId::new(token), FencingToken::new(token).unwrap(), None);
/// let key = MarkKey::new(job.clone());
///
/// // The new holder says that it is there, before it reads or writes anything ...
/// SqliteFence::advance(&mut data, &key, &lease(2))?;
/// // ... and the one who overslept is refused, inside its own transaction.
/// let write = data.transaction()?;
/// let refused = SqliteFence::guard(&write, &key, &lease(1), GuardMode::Auto).unwrap_err();
/// assert!(matches!(refused.kind(), GuardErrorKind::StaleToken { .. }));
/// # Ok(())
/// # }
/// ```
///
/// The guard writes the mark, also where it does not rise, so that two guarded transactions are one after the other
/// whatever they read. SQLite refuses it where the transaction has read a state that is no longer the latest
/// ([`Serialization`](GuardErrorKind::Serialization)); run it first, in an immediate transaction, and that never happens.
///
/// Where leases and data are in one file, a guarded transaction holds up every renewal until it ends, as any other that
/// writes does: keep it short.
///
/// It waits for other writers as long as the connection's `busy_timeout` says (5 s unless it was set), and is
/// [`Busy`](GuardErrorKind::Busy) then. A busy handler of your own decides in its place.
///
/// A fence orders honest writers. It does not authenticate them: whoever may write the database may write the mark. Marks
/// and data have to be in one file; an attached database is another one.
///
/// A savepoint is no place for a guard: it could be rolled back alone, and leave writes without their guard. So
/// [`Savepoint`](rusqlite::Savepoint) is not accepted, and a transaction with one open is borrowed and cannot be passed.
/// One that was begun by SQL text (`SAVEPOINT x`) cannot be seen: do not guard inside of it.
///
/// ```compile_fail,E0308
/// # use lease_machines_store::{GuardMode, LeaseRef, MarkKey, SqliteFence};
/// # fn f(savepoint: &rusqlite::Savepoint<'_>, key: &MarkKey, lease: &LeaseRef) {
/// let _ = SqliteFence::guard(savepoint, key, lease, GuardMode::Auto);
/// # }
/// ```
///
/// ```compile_fail,E0502
/// # use lease_machines_store::{GuardMode, LeaseRef, MarkKey, SqliteFence};
/// # fn f(transaction: &mut rusqlite::Transaction<'_>, key: &MarkKey, lease: &LeaseRef) {
/// let savepoint = transaction.savepoint().unwrap();
/// let _ = SqliteFence::guard(transaction, key, lease, GuardMode::Auto);
/// savepoint.commit().unwrap();
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SqliteFence;

/// A guard has let this transaction pass.
///
/// It borrows the transaction: a savepoint in which the guard could be rolled back alone cannot be opened meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'t> {
    kind: GuardKind,
    transaction: PhantomData<&'t ()>,
}

impl Passed<'_> {
    /// Which guard it was.
    #[must_use]
    pub const fn kind(&self) -> GuardKind {
        self.kind
    }
}

impl SqliteFence {
    /// Creates the table of marks where it is missing.
    ///
    /// # Errors
    ///
    /// [`Busy`](GuardErrorKind::Busy), [`Database`](GuardErrorKind::Database).
    pub fn set_up(connection: &Connection) -> Result<(), GuardError> {
        let there: bool = connection
            .prepare("SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = 'lease_fence_pass'")
            .and_then(|mut statement| statement.exists([]))
            .map_err(|error| database("looking for the marks", error))?;
        if there {
            return Ok(());
        }
        if !connection.is_autocommit() {
            return connection
                .execute_batch(SET_UP)
                .map_err(|error| database("creating the table of marks", error));
        }
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
            .map_err(|error| database("creating the table of marks", error))?;
        transaction
            .execute_batch(SET_UP)
            .and_then(|()| transaction.commit())
            .map_err(|error| database("creating the table of marks", error))
    }

    /// What [`set_up`](Self::set_up) carries out, for a migration of one's own.
    #[must_use]
    pub const fn set_up_sql() -> &'static str {
        SET_UP
    }

    /// The plain guard as one statement for any driver, with the parameters `:store`, `:resource`, `:slot`, `:token`
    /// and `:owner` (the bits of the owner as a signed number). The database itself fails it, with a constraint error
    /// that begins with `lease fence:`, where the token is stale: nobody has to look at a result. It must be inside
    /// the transaction of the write, which must be rolled back then, as after any failed statement.
    #[must_use]
    pub const fn guard_sql() -> &'static str {
        GUARD
    }

    /// Lets the transaction pass if the lease is the newest that this database knows of, and raises the mark to it.
    ///
    /// Exactly: a guard that begins after a newer token has passed here, in a transaction that was committed, is
    /// refused. The strict guard also after a newer grant, a release or a revoke was committed to the lease store in
    /// this database. Neither looks at a clock: a lease that has run out passes until somebody else takes it.
    ///
    /// # Errors
    ///
    /// Each kind of [`GuardErrorKind`] but [`Unfenced`](GuardErrorKind::Unfenced) and
    /// [`Configuration`](GuardErrorKind::Configuration).
    pub fn guard<'t>(
        transaction: &'t Transaction<'_>,
        key: &MarkKey,
        lease: &LeaseRef,
        mode: GuardMode,
    ) -> Result<Passed<'t>, GuardError> {
        let connection: &Connection = transaction;
        inside(connection)?;
        let shown = shown(key, lease)?;
        // First the mark: with it the transaction holds the write lock, so that nothing read from here on grows old.
        raise(connection, key, lease, shown)?;
        let strict = match mode {
            GuardMode::Plain => false,
            GuardMode::Auto => match (lease.epoch, epoch_here(connection)?) {
                (Some(believed), Some(here)) if believed != here => {
                    refuse_former(connection, lease, here)?;
                    false
                }
                (believed, here) => believed.is_some() && believed == here,
            },
            GuardMode::Strict => {
                insist(epoch_here(connection)?, lease)?;
                true
            }
        };
        if strict {
            look_up(connection, lease)?;
        }
        let kind = if strict { GuardKind::Strict } else { GuardKind::Plain };
        Ok(Passed { kind, transaction: PhantomData })
    }

    /// For a write without a lease: lets it pass only where nobody has ever shown a token.
    ///
    /// # Errors
    ///
    /// [`Unfenced`](GuardErrorKind::Unfenced) where there is a mark, [`OutsideTransaction`](GuardErrorKind::OutsideTransaction),
    /// [`NotSetUp`](GuardErrorKind::NotSetUp), [`Database`](GuardErrorKind::Database).
    pub fn unfenced(transaction: &Transaction<'_>, key: &MarkKey) -> Result<(), GuardError> {
        let connection: &Connection = transaction;
        inside(connection)?;
        match Self::look(connection, key)? {
            None => Ok(()),
            Some(mark) => Err(GuardError::new(
                GuardErrorKind::Unfenced,
                format!("{key} is fenced (token {} was seen): a write has to show its lease", mark.token),
            )),
        }
    }

    /// Raises the mark in a transaction of its own: what a new holder does before it reads or writes.
    ///
    /// # Errors
    ///
    /// As [`guard`](Self::guard).
    pub fn advance(connection: &mut Connection, key: &MarkKey, lease: &LeaseRef) -> Result<(), GuardError> {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| database("beginning a transaction", error))?;
        Self::guard(&transaction, key, lease, GuardMode::Auto)?;
        transaction.commit().map_err(|error| database("committing", error))
    }

    /// The mark, if there is one.
    ///
    /// # Errors
    ///
    /// [`NotSetUp`](GuardErrorKind::NotSetUp), [`Busy`](GuardErrorKind::Busy), [`Database`](GuardErrorKind::Database).
    pub fn look(connection: &Connection, key: &MarkKey) -> Result<Option<Mark>, GuardError> {
        connection
            .prepare_cached(
                "SELECT token, owner, at FROM lease_fence WHERE store = ?1 AND resource = ?2 AND slot = ?3",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![key.store, key.resource.as_str(), key.slot], |row| {
                        let owner: i64 = row.get(1)?;
                        let at = wall_time(row.get(2)?);
                        Ok(read_token(row, 0)?.map(|token| Mark {
                            key: key.clone(),
                            token,
                            owner: OwnerId::new(owner as u64),
                            at,
                        }))
                    })
                    .optional()
            })
            .map(Option::flatten)
            .map_err(|error| database("reading a mark", error))
    }

    /// Sets a mark back or removes it, and writes that into `lease_fence_log`. For an operator.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look); [`OutOfRange`](GuardErrorKind::OutOfRange) for a token that no store issues.
    pub fn reset(
        connection: &mut Connection,
        key: &MarkKey,
        to: Option<FencingToken>,
        reason: &str,
    ) -> Result<(), GuardError> {
        to.map_or(Ok(()), believed)?;
        let error = |error| database("resetting a mark", error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        let becomes = to.map(|token| token.value() as i64);
        let place = params![key.store, key.resource.as_str(), key.slot, becomes, reason];
        transaction
            .execute(
                "INSERT INTO lease_fence_log (at, store, resource, slot, was, becomes, reason)
                 SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000, store, resource, slot, token, ?4, ?5
                 FROM lease_fence WHERE store = ?1 AND resource = ?2 AND slot = ?3",
                place,
            )
            .map_err(error)?;
        let mark = params![key.store, key.resource.as_str(), key.slot];
        match becomes {
            None => transaction
                .execute("DELETE FROM lease_fence WHERE store = ?1 AND resource = ?2 AND slot = ?3", mark),
            Some(token) => transaction.execute(
                "UPDATE lease_fence SET token = ?4, owner = 0, resets = resets + 1
                 WHERE store = ?1 AND resource = ?2 AND slot = ?3",
                params![key.store, key.resource.as_str(), key.slot, token],
            ),
        }
        .map_err(error)?;
        transaction.commit().map_err(error)
    }

    /// Forgets marks that nobody has written for so long, and that are not ahead of the clock: those would lift the floor
    /// above honest tokens. Nothing else ever forgets a mark, least of all a prune of the leases. A floor is raised to
    /// the greatest of them first: a token below it that has no mark of its own is refused from then on, whatever its
    /// resource.
    ///
    /// Returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look).
    pub fn prune(connection: &mut Connection, older_than: Duration) -> Result<u64, GuardError> {
        let error = |error| database("pruning marks", error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        // Read once: a mark that only the second statement took for old would be gone without having raised the floor. Seconds
        // would not do either: a token of this second is not ahead.
        let now = transaction
            .query_row(
                "SELECT CAST(strftime('%s000', 'now') + substr(strftime('%f', 'now'), 4) AS INTEGER)",
                [],
                |row| row.get::<_, i64>(0),
            )
            .map_err(error)?
            .saturating_mul(1_000);
        let at_most = now.saturating_sub(i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX));
        const OLD: &str = "at <= ?1 AND token <= ?2";
        transaction
            .execute(
                &format!(
                    "INSERT INTO lease_fence_floor (store, token) SELECT store, max(token) FROM lease_fence WHERE {OLD} GROUP BY store
                     ON CONFLICT (store) DO UPDATE SET token = max(token, excluded.token)"
                ),
                [at_most, now],
            )
            .map_err(error)?;
        let gone = transaction
            .execute(&format!("DELETE FROM lease_fence WHERE {OLD}"), [at_most, now])
            .map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }
}

fn inside(connection: &Connection) -> Result<(), GuardError> {
    if connection.is_autocommit() {
        return Err(GuardError::new(
            GuardErrorKind::OutsideTransaction,
            "a guard belongs into the transaction of the write that it protects; there is none on this connection",
        ));
    }
    Ok(())
}

/// Writes the mark, or says why not.
fn raise(connection: &Connection, key: &MarkKey, lease: &LeaseRef, shown: i64) -> Result<(), GuardError> {
    let written = connection.prepare_cached(GUARD).and_then(|mut guard| {
        guard.execute(named_params! {
            ":store": key.store,
            ":resource": key.resource.as_str(),
            ":slot": key.slot,
            ":token": shown,
            ":owner": lease.owner.value() as i64,
        })
    });
    let error = match written {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    // The text of the triggers in `schema`; SQLite gives no other way to tell one from the other.
    let said = error.to_string();
    if said.contains("lease fence: token out of range") {
        return Err(out_of_range(lease.token).with_source(error));
    }
    if said.contains("lease fence: stale token") {
        let highest = match SqliteFence::look(connection, key)? {
            Some(mark) => Some(mark.token),
            None => floor(connection, key)?,
        };
        return Err(below(key, lease.token, highest.unwrap_or(lease.token)).with_source(error));
    }
    if said.contains("lease fence: rewound") {
        let first = SqliteFence::look(connection, key)?.map_or(lease.owner, |mark| mark.owner);
        return Err(rewound(key, lease, first).with_source(error));
    }
    Err(database("writing a mark", error))
}

fn floor(connection: &Connection, key: &MarkKey) -> Result<Option<FencingToken>, GuardError> {
    connection
        .query_row("SELECT token FROM lease_fence_floor WHERE store = ?1", [&key.store], |row| {
            read_token(row, 0)
        })
        .optional()
        .map(Option::flatten)
        .map_err(|error| database("reading the floor of the marks", error))
}
