//! The fence inside the user's own transaction.

use std::marker::PhantomData;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Savepoint, Transaction, TransactionBehavior, named_params,
    params,
};

use super::row::{self, read_token, wall_time};
use crate::{Epoch, GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, Mark, MarkKey, VacatedHow};

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
/// It waits for other writers as long as the connection's `busy_timeout` says.
#[derive(Clone, Copy, Debug)]
pub struct SqliteFence;

/// A transaction that a guard can belong to.
///
/// The guard counts as long as what it was given does: with a savepoint that is rolled back its mark is taken back,
/// and what follows in the outer transaction is not guarded. [`Passed`] therefore borrows it.
pub trait InTransaction {
    /// The connection of the transaction.
    fn connection(&self) -> &Connection;
}

impl InTransaction for Transaction<'_> {
    fn connection(&self) -> &Connection {
        self
    }
}

impl InTransaction for Savepoint<'_> {
    fn connection(&self) -> &Connection {
        self
    }
}

/// For transactions begun with SQL. Outside one it is an error.
impl InTransaction for Connection {
    fn connection(&self) -> &Connection {
        self
    }
}

/// A guard has let this transaction pass.
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

const SET_UP: &str = "
CREATE TABLE IF NOT EXISTS lease_fence (
    store TEXT NOT NULL,
    resource TEXT NOT NULL,
    slot INTEGER NOT NULL,
    token INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    at INTEGER NOT NULL,
    writes INTEGER NOT NULL,
    resets INTEGER NOT NULL,
    PRIMARY KEY (store, resource, slot)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease_fence_floor (
    store TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease_fence_log (
    at INTEGER NOT NULL,
    store TEXT NOT NULL,
    resource TEXT NOT NULL,
    slot INTEGER NOT NULL,
    was INTEGER NOT NULL,
    becomes INTEGER,
    reason TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS lease_fence_range BEFORE INSERT ON lease_fence
WHEN NEW.token < 1 OR NEW.token > (CAST(strftime('%s', 'now') AS INTEGER) + 31536000) * 1000000
BEGIN SELECT RAISE(ABORT, 'lease fence: token out of range'); END;
CREATE TRIGGER IF NOT EXISTS lease_fence_floor_kept BEFORE INSERT ON lease_fence
WHEN NEW.token < (SELECT token FROM lease_fence_floor WHERE store = NEW.store)
    AND NOT EXISTS (SELECT 1 FROM lease_fence
        WHERE store = NEW.store AND resource = NEW.resource AND slot = NEW.slot)
BEGIN SELECT RAISE(ABORT, 'lease fence: stale token'); END;
CREATE TRIGGER IF NOT EXISTS lease_fence_stale BEFORE UPDATE ON lease_fence
WHEN NEW.token < OLD.token AND NEW.resets = OLD.resets
BEGIN SELECT RAISE(ABORT, 'lease fence: stale token'); END;
CREATE TRIGGER IF NOT EXISTS lease_fence_rewound BEFORE UPDATE ON lease_fence
WHEN NEW.token = OLD.token AND NEW.owner <> OLD.owner AND OLD.owner <> 0 AND NEW.resets = OLD.resets
BEGIN SELECT RAISE(ABORT, 'lease fence: rewound'); END;
";

const GUARD: &str = "INSERT INTO lease_fence (store, resource, slot, token, owner, at, writes, resets)
VALUES (:store, :resource, :slot, :token, :owner, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, 1, 0)
ON CONFLICT (store, resource, slot) DO UPDATE
SET token = excluded.token, owner = excluded.owner, at = excluded.at, writes = writes + 1";

impl SqliteFence {
    /// Creates the table of marks where it is missing.
    ///
    /// # Errors
    ///
    /// [`Busy`](GuardErrorKind::Busy), [`Database`](GuardErrorKind::Database).
    pub fn set_up(connection: &Connection) -> Result<(), GuardError> {
        let there: bool = connection
            .prepare("SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = 'lease_fence_rewound'")
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
    /// Each kind of [`GuardErrorKind`] but [`Unfenced`](GuardErrorKind::Unfenced).
    pub fn guard<'t>(
        transaction: &'t impl InTransaction,
        key: &MarkKey,
        lease: &LeaseRef,
        mode: GuardMode,
    ) -> Result<Passed<'t>, GuardError> {
        let connection = transaction.connection();
        inside(connection)?;
        if i64::try_from(lease.token.value()).is_err() {
            return Err(out_of_range(lease.token));
        }
        // First the mark: with it the transaction holds the write lock, so that nothing read from here on grows old.
        raise(connection, key, lease)?;
        let strict = match mode {
            GuardMode::Plain => false,
            GuardMode::Auto => epoch_here(connection)?.is_some() && epoch_here(connection)? == lease.epoch,
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
    pub fn unfenced(transaction: &impl InTransaction, key: &MarkKey) -> Result<(), GuardError> {
        let connection = transaction.connection();
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
        if let Some(token) = to.filter(|token| i64::try_from(token.value()).is_err()) {
            return Err(out_of_range(token));
        }
        let error = |error| database("resetting a mark", error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        let becomes = to.map(|token| token.value() as i64);
        let place = params![key.store, key.resource.as_str(), key.slot, becomes, reason];
        transaction
            .execute(
                "INSERT INTO lease_fence_log
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

    /// Forgets marks that nobody has written for so long. A floor is raised to the greatest of them first: a token below
    /// it that has no mark of its own is refused from then on, whatever its resource.
    ///
    /// Returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look).
    pub fn prune(connection: &mut Connection, older_than: Duration) -> Result<u64, GuardError> {
        let error = |error| database("pruning marks", error);
        let seconds = i64::try_from(older_than.as_secs()).unwrap_or(i64::MAX);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        const OLD: &str = "at <= (CAST(strftime('%s', 'now') AS INTEGER) - ?1) * 1000000";
        transaction
            .execute(
                &format!(
                    "INSERT INTO lease_fence_floor SELECT store, max(token) FROM lease_fence WHERE {OLD} GROUP BY store
                     ON CONFLICT (store) DO UPDATE SET token = max(token, excluded.token)"
                ),
                [seconds],
            )
            .map_err(error)?;
        let gone =
            transaction.execute(&format!("DELETE FROM lease_fence WHERE {OLD}"), [seconds]).map_err(error)?;
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
fn raise(connection: &Connection, key: &MarkKey, lease: &LeaseRef) -> Result<(), GuardError> {
    let written = connection.prepare_cached(GUARD).and_then(|mut guard| {
        guard.execute(named_params! {
            ":store": key.store,
            ":resource": key.resource.as_str(),
            ":slot": key.slot,
            ":token": lease.token.value() as i64,
            ":owner": lease.owner.value() as i64,
        })
    });
    let error = match written {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    // The text of the triggers above; SQLite gives no other way to tell one from the other.
    let said = error.to_string();
    if said.contains("lease fence: token out of range") {
        return Err(out_of_range(lease.token).with_source(error));
    }
    if said.contains("lease fence: stale token") {
        let highest = match SqliteFence::look(connection, key)? {
            Some(mark) => Some(mark.token),
            None => floor(connection, key)?,
        };
        return Err(stale(key, lease.token, highest.unwrap_or(lease.token)).with_source(error));
    }
    if said.contains("lease fence: rewound") {
        let first = SqliteFence::look(connection, key)?.map_or(lease.owner, |mark| mark.owner);
        let message = format!(
            "token {} of {key} was first shown by owner {first}, now by owner {}: the lease store has lost history and \
             issued it twice",
            lease.token, lease.owner
        );
        return Err(GuardError::new(GuardErrorKind::Rewound { token: lease.token, first }, message)
            .with_source(error));
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

/// The epoch of the lease store in this very database, if there is one.
fn epoch_here(connection: &Connection) -> Result<Option<Epoch>, GuardError> {
    let error = |error| database("looking for a lease store", error);
    let there = connection
        .prepare_cached("SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'lease_store'")
        .and_then(|mut statement| statement.exists([]))
        .map_err(error)?;
    if !there {
        return Ok(None);
    }
    row::load_base(connection).map(|base| base.map(|base| base.standing.epoch)).map_err(error)
}

fn insist(here: Option<Epoch>, lease: &LeaseRef) -> Result<(), GuardError> {
    let message = match (here, lease.epoch) {
        (None, _) => "no lease store is in this database".to_owned(),
        (Some(_), None) => "the lease does not say of which epoch it is".to_owned(),
        (Some(here), Some(epoch)) if here != epoch => {
            let message =
                format!("the lease is of epoch {epoch}, the store in this database is in {here}: it is lost");
            return Err(GuardError::new(GuardErrorKind::Lost, message));
        }
        _ => return Ok(()),
    };
    Err(GuardError::new(GuardErrorKind::NotStrict, format!("the strict guard cannot run: {message}")))
}

/// Refuses a lease that is not the latest grant any more. The transaction holds the write lock: no grant, release or
/// revoke can be committed beside it, and the leases' own rows are not touched.
fn look_up(connection: &Connection, lease: &LeaseRef) -> Result<(), GuardError> {
    let found =
        row::load(connection, &lease.resource).map_err(|error| database("reading the lease", error))?;
    if let Some(held) = &found.lease {
        if held.token == lease.token && held.owner == lease.owner && !held.retained {
            return Ok(());
        }
    }
    let key = MarkKey::new(lease.resource.clone());
    match found.last_issued {
        Some(last) if last > lease.token => return Err(stale(&key, lease.token, last)),
        _ => {}
    }
    let how = match found.vacated.filter(|vacated| vacated.token == lease.token).map(|vacated| vacated.how) {
        Some(VacatedHow::Released) => "was released",
        Some(VacatedHow::Revoked) => "was revoked",
        Some(VacatedHow::Withdrawn) => "was withdrawn",
        None => "is not known to the store",
    };
    let message = format!("the lease on {key} under token {} {how}", lease.token);
    Err(GuardError::new(GuardErrorKind::Lost, message))
}

fn stale(key: &MarkKey, held: FencingToken, highest: FencingToken) -> GuardError {
    GuardError::new(
        GuardErrorKind::StaleToken { held, highest },
        format!(
            "token {held} of {key} is stale: {highest} is the highest seen, a newer holder has been here"
        ),
    )
}

fn out_of_range(token: FencingToken) -> GuardError {
    GuardError::new(
        GuardErrorKind::OutOfRange { token },
        format!(
            "token {token} was not issued by a store: expected at most 2^63 - 1, and at most a year of microseconds ahead \
             of the clock"
        ),
    )
}

fn database(doing: &str, error: rusqlite::Error) -> GuardError {
    /// `SQLITE_BUSY_SNAPSHOT`: the transaction has read what is no longer the latest.
    const BUSY_SNAPSHOT: i32 = 517;
    let extended = error.sqlite_error().map(|error| error.extended_code);
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) if extended == Some(BUSY_SNAPSHOT) => GuardErrorKind::Serialization,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => GuardErrorKind::Busy,
        _ if error.to_string().contains("no such table: lease_fence") => GuardErrorKind::NotSetUp,
        _ => GuardErrorKind::Database,
    };
    let what = match kind {
        GuardErrorKind::Serialization => "the transaction has read a state that is no longer the latest",
        GuardErrorKind::Busy => "another transaction was writing for too long",
        GuardErrorKind::NotSetUp => "this database has no table of marks (SqliteFence::set_up makes it)",
        _ => "the database failed",
    };
    GuardError::new(kind, format!("{doing}: {what} ({error})")).with_source(error)
}
