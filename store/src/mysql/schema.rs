//! The tables and procedures, and how a database comes to have them.

use std::collections::HashMap;
use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Row};

use super::answer::Reading;
use super::failure::{NO_SUCH_TABLE, failed};
use super::link::{Link, Target, settings};
use crate::version::{Age, Known, Stamp};
use crate::{ErrorKind, Migration, StoreError};

/// The versions of the tables that this program writes and uses. A later version that still admits programs of this one
/// (`usable_by`) may add tables, columns with a default, and procedures with a greater number at their end.
pub(super) const KNOWN: Known = Known::alone(1);

/// Which revision of the procedures this program makes: one more whenever anything in them changes. Each has it in its comment,
/// so that a `migrate` finds those that are older. A procedure that a program of the version before could not call has a
/// greater number at the end of its name instead.
const REVISION: i64 = 1;

/// Procedures of an earlier revision are not asked: what they answer is not what this program relies on.
const LEAST_REVISION: i64 = 1;

/// What stands before the revision in a procedure's comment.
const MADE_BY: &str = "lease-machines, revision ";

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
    // Parts have parts, and these have some.
    for _ in 0..3 {
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
        .replace("{invoker}", &format!("COMMENT '{MADE_BY}{REVISION}' SQL SECURITY INVOKER"))
        .replace("{revision}", &REVISION.to_string())
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

/// Adds the tables where they are missing, and procedures where they are missing or older: a dump that was restored has none,
/// unless it was asked for them.
pub(super) async fn migrate(target: &Target) -> Result<Migration, StoreError> {
    let mut link = Link::open(target).await?;
    let found = version(target, &mut link).await?;
    if matches!(found, Some(Age::Same | Age::Newer)) && wanting(target, &mut link).await?.is_empty() {
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
    let (found, wanting) = (version(target, &mut link).await?, wanting(target, &mut link).await?);
    if matches!(found, Some(Age::Same | Age::Newer)) && wanting.is_empty() {
        return Ok(Migration::UpToDate);
    }
    check(target, &mut link).await?;
    for statement in all() {
        // Whoever calls one that is right is not to find it missing for a moment.
        if routine(&statement).is_none_or(|name| wanting.names(name)) {
            link.query(&statement).await.map_err(error)?;
        }
    }
    Ok(if found.is_some() { Migration::Upgraded } else { Migration::SetUp })
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

/// What a new connection looks at: who may use the tables, the epoch, and whether the server is the one that it was opened on.
/// No procedure is called: a later version may have others.
pub(super) fn greeting() -> String {
    format!("SELECT version, usable_by, epoch, server = {SERVER} AS here FROM lease_store WHERE id = 1")
}

/// Which revision the procedures are of. One of them says it: to read the comments in `information_schema`, MariaDB makes a table
/// on a disk, which may be full.
pub(super) const MADE_BY_WHOM: &str = "CALL lease_revision_1()";

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

/// The procedures that are not there as this program makes them.
#[derive(Default, Debug)]
pub(super) struct Wanting {
    missing: Vec<String>,
    older: Vec<String>,
}

impl Wanting {
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.older.is_empty()
    }

    fn names(&self, name: &str) -> bool {
        self.missing.iter().chain(&self.older).any(|wanting| wanting == name)
    }

    /// For people.
    pub(super) fn told(&self) -> String {
        let told = |names: &[String], what: &str| match names {
            [] => None,
            [one] => Some(format!("{one} is {what}")),
            [first, more @ ..] => Some(format!("{first} and {} more are {what}", more.len())),
        };
        let both = [told(&self.missing, "missing"), told(&self.older, "of an older program")];
        both.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Compares the procedures that are there with those of this program. One of a later revision is left alone.
pub(super) async fn wanting(target: &Target, link: &mut Link) -> Result<Wanting, StoreError> {
    const LOOK: &str = "SELECT ROUTINE_NAME, ROUTINE_COMMENT FROM information_schema.ROUTINES \
                        WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_TYPE = 'PROCEDURE'";
    let error = |error| failed(&target.place, "looking for the procedures", error).nothing_changed();
    let rows = link.query(LOOK).await.map_err(error)?;
    let found: HashMap<String, i64> = rows
        .iter()
        .filter_map(|row| {
            let comment = row.get_opt::<String, _>(1)?.unwrap_or_default();
            Some((row.get_opt(0)?.ok()?, revision(&comment)))
        })
        .collect();
    let mut wanting = Wanting::default();
    for name in all().iter().filter_map(|statement| routine(statement)) {
        match found.get(name) {
            _ if wanting.names(name) => {}
            None => wanting.missing.push(name.to_owned()),
            Some(found) if *found < REVISION => wanting.older.push(name.to_owned()),
            Some(_) => {}
        }
    }
    Ok(wanting)
}

/// The procedure that a statement creates, or takes away before.
fn routine(statement: &str) -> Option<&str> {
    let named = statement.lines().find_map(|line| {
        line.strip_prefix("CREATE PROCEDURE ").or_else(|| line.strip_prefix("DROP PROCEDURE IF EXISTS "))
    })?;
    named.split('(').next()
}

/// Of a procedure with this comment; 0 where nothing is said.
fn revision(comment: &str) -> i64 {
    comment.strip_prefix(MADE_BY).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What is said where the tables of a store are there, and procedures are not.
pub(super) fn without_procedures(place: &str, found: &dyn fmt::Display) -> StoreError {
    StoreError::new(
        ErrorKind::Schema,
        format!(
            "{place} has the tables of a store, but not all procedures of this program, as where a dump was made without \
             `--routines`: {found}. `lease migrate` puts them back; what was restored needs a new epoch besides \
             (`lease epoch open`)"
        ),
    )
}

/// Refuses procedures that are too old.
pub(super) fn check_procedures(place: &str, told: Option<&Row>) -> Result<(), StoreError> {
    let found = told.map_or(Ok(0), |row| Reading::new(row, place).some("revision"))?;
    if found >= LEAST_REVISION {
        return Ok(());
    }
    Err(StoreError::new(
        ErrorKind::Schema,
        format!(
            "{place} has procedures of an older program (revision {found}, expected {LEAST_REVISION} or later). \
             `lease migrate` brings them up to date; leases and epoch stay as they are"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::call::Call;
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

    /// A digest (FNV-1a) that anything changes which changes in them.
    #[test]
    fn whoever_changes_a_procedure_counts_the_revision_up() {
        let text = [ROUTINES, SLOTS, FENCE, FIRST].map(|text| statements(text).join(END)).concat();
        let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!((REVISION, format!("{digest:016x}")), (1, "c1c47e1ae95c2c35".to_owned()));
    }

    #[test]
    fn procedures_are_known_by_their_names_and_their_revision() {
        let names: Vec<String> =
            all().iter().filter_map(|statement| routine(statement)).map(str::to_owned).collect();
        // Each is taken away and made.
        assert!(names.len() >= 2 * 30 && names.chunks(2).all(|two| two[0] == two[1]), "{names:?}");
        let made = all().iter().filter(|statement| statement.contains("CREATE PROCEDURE")).count();
        assert_eq!(names.len(), 2 * made);
        for call in [Call::Acquire, Call::RenewNow, Call::Standing, Call::Room, Call::Epoch] {
            assert!(names.iter().any(|name| call.text().contains(&format!(" {name}("))), "{call:?}");
        }
        assert_eq!(revision(&format!("{MADE_BY}{REVISION}")), REVISION);
        assert_eq!((revision(""), revision("somebody's own"), revision(&format!("{MADE_BY}x"))), (0, 0, 0));
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
