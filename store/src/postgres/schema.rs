//! The tables and functions, and how a database comes to have them.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::failure::failed;
use super::link::{Link, Target};
use crate::decide::EARLIEST_MICROS;
use crate::version::{Age, Known, Stamp};
use crate::{ErrorKind, Migration, StoreError};

/// The versions of the tables that this program writes and uses. A later version that still admits programs of this one
/// (`usable_by`) may add tables, columns with a default, and functions with a greater number at their end.
pub(super) const KNOWN: Known = Known::alone(1);

const TABLES: &str = include_str!("sql/tables.sql");
/// Pools: tables and functions.
const SLOTS: &str = include_str!("sql/slots.sql");
/// What several functions say: that they see what is committed while they wait, what every slot has that a claim may get, the
/// same as of now, and how a slot is locked that the pool has.
const PARTS: [(&str, &str); 4] = [
    (
        "{level}",
        "IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'found a transaction at %, expected read committed', current_setting('transaction_isolation')
            USING ERRCODE = 'LM002';
    END IF;",
    ),
    (
        "{able}",
        "t.slot BETWEEN p_first AND p_last AND t.last_issued < 9223372036854775807
            AND (until IS NULL OR t.mark < until)",
    ),
    (
        "{able_by_now}",
        "t.slot BETWEEN p_first AND p_last AND t.last_issued < 9223372036854775807
            AND (NOT p_id_time OR t.mark < {schema}.lease_clock_1() + p_ttl)",
    ),
    (
        "{lock_slot}",
        "SELECT t.* INTO r FROM {schema}.lease_slot AS t WHERE t.pool = p_pool AND t.slot = p_slot
        AND EXISTS (SELECT FROM {schema}.lease_pool AS p WHERE p.pool = t.pool AND t.slot < p.size) FOR UPDATE;",
    ),
];
const FUNCTIONS: &str = include_str!("sql/functions.sql");
/// The marks of fences: a database may have them without a store, and a store's has them in any case.
pub(super) const MARKS: &str = include_str!("sql/fence.sql");
const FIRST: &str = include_str!("sql/first.sql");
const GRANTS: &str = include_str!("sql/grants.sql");

/// Of fifty who create the same at once the first does it. The number means nothing; other programs have others.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(5499238160278634341);\n";

/// All that a migrate carries out, as one transaction, and the rights that a role needs, as comments.
pub(super) fn migration(quoted_schema: &str) -> String {
    let script = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED;\nSET LOCAL statement_timeout = 0;\n{LOCK}\n{TABLES}\n{FUNCTIONS}\n{SLOTS}\n{MARKS}\n\
         {FIRST}\nCOMMIT;\n\n{GRANTS}"
    );
    let script = PARTS.iter().fold(script, |text, (name, part)| text.replace(name, part));
    script
        .replace("{schema}", quoted_schema)
        .replace("{version}", &KNOWN.writes.version.to_string())
        .replace("{usable_by}", &KNOWN.writes.usable_by.to_string())
        .replace("{earliest}", &EARLIEST_MICROS.to_string())
}

/// What a connection is asked that others had before: whether it is in no transaction, whose commit a decision would wait for, and
/// whether names without a schema, as the functions have them, are PostgreSQL's own. Sent as one message, of whose instant a
/// transaction has begun that nobody began before.
pub(super) const SESSION: &str = "SELECT now() = statement_timestamp(), \
    (SELECT n.name = 'pg_catalog' FROM unnest(current_schemas(true)) WITH ORDINALITY AS n (name, place) \
    WHERE left(n.name::text, 8) <> 'pg_temp_' ORDER BY n.place LIMIT 1)";

/// What a new connection looks at: its tag, who may use the tables, the epoch, and whether the server's history is the
/// one that the epoch was opened on.
pub(super) fn greeting(quoted_schema: &str) -> String {
    format!(
        "SELECT current_setting('lease_machines.tag', true), s.version, s.usable_by, s.epoch, \
         s.timeline = {quoted_schema}.lease_timeline_1() AND s.system_identifier = c.system_identifier \
         FROM {quoted_schema}.lease_store AS s, pg_control_system() AS c"
    )
}

/// A failover of which the operator said that it loses nothing.
pub(super) fn acknowledge(quoted_schema: &str) -> String {
    format!(
        "UPDATE {quoted_schema}.lease_store AS s SET timeline = {quoted_schema}.lease_timeline_1(), \
         system_identifier = c.system_identifier FROM pg_control_system() AS c"
    )
}

/// Adds the tables where they are missing.
pub(super) async fn migrate(target: &Target) -> Result<Migration, StoreError> {
    let (link, _) = Link::open(target).await?;
    let client = link.client();
    if let Some(Age::Same | Age::Newer) = version(target, client).await? {
        return Ok(Migration::UpToDate);
    }
    encoding(target, client).await?;
    let script = migration(&target.options.quoted_schema());
    client.batch_execute(&script).await.map_err(|error| failed(&target.place, "setting up", error))?;
    version(target, client).await?;
    Ok(Migration::SetUp)
}

/// The two numbers, of which the first stands in this column.
pub(super) fn stamp(row: &Row, first: usize) -> Result<Stamp, tokio_postgres::Error> {
    let number = |column| row.try_get::<_, i32>(column).map(i64::from);
    Ok(Stamp { version: number(first)?, usable_by: number(first + 1)? })
}

/// How old the tables are, if they are there.
async fn version(target: &Target, client: &Client) -> Result<Option<Age>, StoreError> {
    let schema = target.options.quoted_schema();
    let doing = "looking for the tables";
    let error = |error| failed(&target.place, doing, error).nothing_changed();
    let table = format!("{schema}.lease_store");
    let rows = client
        .query_typed("SELECT to_regclass($1) IS NOT NULL", &[(&table, Type::TEXT)])
        .await
        .map_err(error)?;
    if !rows.first().is_some_and(|row| row.try_get(0).unwrap_or(false)) {
        return Ok(None);
    }
    let rows = client
        .query_typed(&format!("SELECT version, usable_by FROM {schema}.lease_store"), &[])
        .await
        .map_err(error)?;
    let Some(row) = rows.first() else { return Ok(None) };
    KNOWN.admit(&target.place, stamp(row, 0).map_err(error)?).map(Some)
}

/// Labels are any UTF-8; a database in another encoding cannot keep them all.
async fn encoding(target: &Target, client: &Client) -> Result<(), StoreError> {
    let rows = client
        .query_typed("SELECT current_setting('server_encoding')", &[])
        .await
        .map_err(|error| failed(&target.place, "looking at the encoding", error).nothing_changed())?;
    let found: String = rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or_default();
    if matches!(found.as_str(), "UTF8" | "SQL_ASCII") {
        return Ok(());
    }
    Err(StoreError::new(
        ErrorKind::Configuration,
        format!(
            "the database of {} is in {found}, expected UTF8: labels can be in any language",
            target.place
        ),
    ))
}
