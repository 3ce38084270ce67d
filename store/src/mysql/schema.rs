//! The tables and procedures, and how a database comes to have them.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

use super::answer::Reading;
use super::failure::{NO_SUCH_TABLE, failed};
use super::link::{Link, Target, settings};
use crate::version::{Age, Known, Stamp};
use crate::{ErrorKind, Migration, StoreError};

/// The versions of the tables that this program writes and uses. A later version that still admits programs of this one
/// (`usable_by`) may add tables, columns with a default, and procedures with a greater number at their end.
pub(super) const KNOWN: Known = Known::alone(1);

const TABLES: &str = include_str!("sql/tables.sql");
const PARTS: &str = include_str!("sql/parts.sql");
/// Pools: tables and procedures.
const SLOTS: &str = include_str!("sql/slots.sql");
const ROUTINES: &str = include_str!("sql/routines.sql");
const FIRST: &str = include_str!("sql/first.sql");
const FENCE: &str = include_str!("sql/fence.sql");
const GRANTS: &str = include_str!("sql/grants.sql");

/// What ends a statement, alone on its line: a procedure has semicolons of its own.
const END: &str = "\n//\n";

/// Nothing is cut, and assignments are made from left to right. A procedure keeps the mode that it was created under.
pub(super) const SQL_MODE: &str = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// The server as it knows itself. A replica has another id, in whatever way it came to be one. (Each kind of server reads its
/// own of these two comments.)
const SERVER: &str = "/*!80000 @@server_uuid */ /*M! CONCAT('mariadb ', @@server_id) */";

/// The time in UTC, whatever the session's zone is; in a procedure it stands still for one statement and no longer.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/// The isolation of the session.
const ISOLATION: &str = "/*!80000 @@SESSION.transaction_isolation */ /*M! @@SESSION.tx_isolation */";

/// Which of the tables of a statement is locked: MySQL wants to be told, MariaDB cannot be.
const OF_ROW: &str = "/*!80000 OF t */";

/// Puts the parts in their places, and in those what belongs there.
pub(super) fn expanded(text: &str) -> String {
    let mut text = text.to_owned();
    // Parts have parts.
    for _ in 0..2 {
        for part in PARTS.split("-- part ").skip(1) {
            if let Some((name, body)) = part.split_once('\n') {
                text = text.replace(&format!("{{{name}}}"), body.trim());
            }
        }
    }
    text.replace("{server}", SERVER)
        .replace("{clock}", CLOCK)
        .replace("{isolation}", ISOLATION)
        .replace("{of_row}", OF_ROW)
        .replace("{version}", &KNOWN.writes.version.to_string())
        .replace("{usable_by}", &KNOWN.writes.usable_by.to_string())
}

/// The statements, one after the other.
fn statements(text: &str) -> Vec<String> {
    expanded(text)
        .split(END)
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect()
}

fn all() -> Vec<String> {
    [TABLES, ROUTINES, SLOTS, FENCE, FIRST].into_iter().flat_map(statements).collect()
}

/// The marks of fences and their guard, for the command `mysql` or `mariadb`.
pub(super) fn fence() -> String {
    format!("SET SESSION {SQL_MODE};\nDELIMITER //\n{}{END}DELIMITER ;\n", statements(FENCE).join(END))
}

/// Adds them where they are missing.
pub(super) async fn set_up_fence(conn: &mut Conn) -> mysql_async::Result<()> {
    let before: Option<String> = conn.query_first("SELECT @@SESSION.sql_mode").await?;
    conn.query_drop(format!("SET SESSION {SQL_MODE}")).await?;
    let locked: Option<Option<i64>> = conn.query_first(LOCK).await?;
    if locked.flatten() != Some(1) {
        let message = "somebody else has been setting it up for a minute".to_owned();
        return Err(Error::Other(message.into()));
    }
    let mut result = Ok(());
    for statement in statements(FENCE) {
        result = conn.query_drop(statement).await;
        if result.is_err() {
            break;
        }
    }
    let _ = conn.query_drop(UNLOCK).await;
    let _ = conn.exec_drop("SET SESSION sql_mode = ?", (before.unwrap_or_default(),)).await;
    result
}

/// All that a migrate carries out, for the command `mysql` or `mariadb`, and the rights that an account needs.
pub(super) fn migration(database: &str) -> String {
    let body = all().join(END);
    let grants = GRANTS.replace("{database}", &format!("`{}`", database.replace('`', "``")));
    format!("SET SESSION {SQL_MODE};\nDELIMITER //\n{body}{END}DELIMITER ;\n\n{grants}")
}

/// Adds the tables where they are missing.
pub(super) async fn migrate(target: &Target) -> Result<Migration, StoreError> {
    let mut link = Link::open(target).await?;
    if let Some(Age::Same | Age::Newer) = version(target, &mut link).await? {
        return Ok(Migration::UpToDate);
    }
    let error = |error| failed(&target.place, "setting up", error);
    link.query(&settings(target)).await.map_err(error)?;
    link.query("SET SESSION innodb_lock_wait_timeout = 60").await.map_err(error)?;
    // It ends with the connection.
    let rows = link.query(LOCK).await.map_err(error)?;
    let locked = rows.first().is_some_and(|row| row.get::<i64, _>(0) == Some(1));
    if !locked {
        return Err(StoreError::new(
            ErrorKind::Busy,
            format!("{}: somebody else has been setting it up for a minute", target.place),
        ));
    }
    if let Some(Age::Same | Age::Newer) = version(target, &mut link).await? {
        return Ok(Migration::UpToDate);
    }
    check(target, &mut link).await?;
    for statement in all() {
        link.query(&statement).await.map_err(error)?;
    }
    Ok(Migration::SetUp)
}

/// Of fifty who create the same at once the first does it: a lock for the database, whose name may be longer than a lock's.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('lease_machines ', LEFT(SHA2(DATABASE(), 256), 16)), 60)";
const UNLOCK: &str = "DO RELEASE_LOCK(CONCAT('lease_machines ', LEFT(SHA2(DATABASE(), 256), 16)))";

/// What every part of this stands on, and is not there in older ones.
async fn check(target: &Target, link: &mut Link) -> Result<(), StoreError> {
    let error = |error| failed(&target.place, "looking at the server", error).nothing_changed();
    let rows = link.query("SELECT VERSION()").await.map_err(error)?;
    let found = rows.first().and_then(|row| row.get::<String, _>(0)).unwrap_or_default();
    if is_new_enough(&found) {
        return Ok(());
    }
    Err(StoreError::new(
        ErrorKind::Configuration,
        format!("{} is {found}, expected MySQL 8.0.19 or later, or MariaDB 10.6 or later", target.place),
    ))
}

/// As a server says it: `8.4.2`, `10.11.6-MariaDB-1`, or, to old programs, `5.5.5-10.11.6-MariaDB`.
pub(super) fn is_new_enough(version: &str) -> bool {
    let told = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = told.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0_u32));
    let mut next = || numbers.next().unwrap_or(0);
    let found = (next(), next(), next());
    if told.contains("MariaDB") { found >= (10, 6, 0) } else { found >= (8, 0, 19) }
}

/// What a new connection looks at: who may use the tables, the epoch, and whether the server is the one that it was opened on. No
/// procedure: a later version may have others.
pub(super) fn greeting() -> String {
    format!("SELECT version, usable_by, epoch, server = {SERVER} AS here FROM lease_store WHERE id = 1")
}

/// The two numbers.
pub(super) fn stamp(row: &Reading<'_>) -> Result<Stamp, StoreError> {
    Ok(Stamp { version: row.some("version")?, usable_by: row.some("usable_by")? })
}

/// How old the tables are, if they are there and somebody opened an epoch in them.
async fn version(target: &Target, link: &mut Link) -> Result<Option<Age>, StoreError> {
    let rows = match link.query("SELECT version, usable_by FROM lease_store WHERE id = 1").await {
        Ok(rows) => rows,
        Err(Error::Server(told)) if told.code == NO_SUCH_TABLE => return Ok(None),
        Err(error) => {
            return Err(failed(&target.place, "looking for the tables", error).nothing_changed());
        }
    };
    let Some(row) = rows.first() else { return Ok(None) };
    KNOWN.admit(&target.place, stamp(&Reading::new(row, &target.place))?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_put_in_its_place() {
        let text = migration("a`b");
        assert!(!text.contains('{') && !text.contains("-- part"), "{text}");
        assert!(text.contains("ON `a``b`.*"));
        // No statement ends in the middle of another one.
        for statement in all() {
            assert!(!statement.contains("\n//"), "{statement}");
        }
    }

    #[test]
    fn versions_are_told_apart() {
        for (version, enough) in [
            ("8.0.18", false),
            ("8.0.19", true),
            ("9.7.4-2", true),
            ("5.7.44-log", false),
            ("10.5.29-MariaDB", false),
            ("10.6.0-MariaDB", true),
            ("5.5.5-10.11.6-MariaDB-0+deb12u1", true),
            ("5.5.5-10.5.1-MariaDB", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), enough, "{version}");
        }
    }
}
