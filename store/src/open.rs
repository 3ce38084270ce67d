//! From a URL to a store.

use std::sync::Arc;

use crate::url::unknown_scheme;
use crate::{Marks, Store, StoreError, StoreUrl};

/// Opens the store at a URL.
///
/// | URL | store |
/// | --- | --- |
/// | `sqlite:PATH` | an SQLite file of this machine; created and set up where it is missing or empty |
/// | `sqlite::memory:` | a database in memory, gone when the store is dropped |
///
/// | option of `sqlite` | meaning (default) |
/// | --- | --- |
/// | `timeout=5s` | every request ends after this long (5s) |
/// | `max_ttl=24h` | the longest ttl (24h; at most 365d) |
/// | `history=N` or `off` | how many holds of each resource are remembered (100) |
/// | `single_host=1` | no other machine ever uses the file: a restart ends every lease at once (0) |
/// | `allow_network_fs=1` | accept a network or pass-through file system, hard links, a file mounted without its folder (0) |
/// | `create=0` | refuse a file that is missing or empty, see [`open_existing`] (1) |
///
/// It reads and perhaps writes the file before it returns: call it where blocking for some milliseconds is fine.
///
/// | URL | store |
/// | --- | --- |
/// | `postgres://USER:PASSWORD@HOST:PORT/DATABASE` (or `postgresql://…`) | a PostgreSQL server, set up by [`migrate`] and in no other way; connected to when it is first asked |
/// | `redis://[[user]:password@]host[:port][/database]` | a Redis or Valkey server; `rediss://` with TLS; also `valkey://`, `valkeys://`; set up and connected to in the same way |
///
/// | option of `postgres` | meaning (default) |
/// | --- | --- |
/// | `schema=NAME` | where its tables and functions are (`lease_machines`) |
/// | `timeout=5s` | every request ends after this long (5s) |
/// | `connect_timeout=5s` | a connection is given up after this long; a number alone is in seconds (5s) |
/// | `max_ttl=24h`, `history=N` or `off` | as above |
/// | `connections=N` | how many there are at most (8) |
/// | `pooler=1` | a pooler in transaction mode is between, and no statement is given a name (found out by itself) |
/// | `trust_failover=1` | a promoted standby has all that was answered: no new epoch (0) |
/// | `sslmode=…`, `sslrootcert=FILE`, `passfile=FILE` | as everywhere with PostgreSQL; `allow` is `prefer`, `verify-ca` is `verify-full` |
/// | `host=`, `port=`, `user=`, `dbname=`, `options=`, `application_name=`, `target_session_attrs=`, … | as the driver has them |
///
/// | option of `redis` | meaning (default) |
/// | --- | --- |
/// | `namespace=NAME` | tells stores on one server apart (`default`) |
/// | `timeout=5s` | every request ends after this long, connecting included (5s) |
/// | `max_ttl=24h`, `history=N` or `off` | as above |
/// | `replicas=N` | a decision counts when this many replicas have it, else it is *unknown* (0) |
/// | `trust_failover=1` | a server that was promoted or restarted has all that was answered: no new epoch (0) |
///
/// A password for PostgreSQL comes from the URL, `$PGPASSWORD`, or the line of `passfile`, `$PGPASSFILE` or `~/.pgpass`.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a URL that is wrong: it says what was found and
/// what was expected. Otherwise what the engine's own `open` says.
pub fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    open_or_create(url, true)
}

/// Opens the store at a URL as [`open`] does, but creates none and sets none up: what looks at a store, or changes what
/// is in it, is not to make an empty one out of a mistyped path. A database in memory is always new.
///
/// # Errors
///
/// [`ErrorKind::NotSetUp`](crate::ErrorKind::NotSetUp) where there is none, otherwise as [`open`].
pub fn open_existing(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    open_or_create(url, false)
}

fn open_or_create(url: &str, create: bool) -> Result<Arc<dyn Store>, StoreError> {
    if is_postgres(url) {
        return postgres::open(url);
    }
    if is_redis(url) {
        return redis::open(url);
    }
    let url = StoreUrl::parse(url)?;
    match url.scheme.as_str() {
        "sqlite" => sqlite::open(&url, create),
        scheme => Err(unknown_scheme(scheme)),
    }
}

/// Creates or upgrades the tables of the store at a URL, whatever else is in that database. Any number of processes
/// may do it at once. It waits for a server.
///
/// # Errors
///
/// As [`open`].
pub fn migrate(url: &str) -> Result<Migration, StoreError> {
    if is_postgres(url) {
        return postgres::migrate(url);
    }
    if is_redis(url) {
        return redis::migrate(url);
    }
    let url = StoreUrl::parse(url)?;
    match url.scheme.as_str() {
        "sqlite" => sqlite::migrate(&url),
        scheme => Err(unknown_scheme(scheme)),
    }
}

/// What [`migrate`] would carry out there, as SQL, to read or to run by hand.
///
/// # Errors
///
/// As [`open`], for the URL alone: nothing is opened.
pub fn migration_sql(url: &str) -> Result<String, StoreError> {
    if is_postgres(url) {
        return postgres::migration_sql(url);
    }
    if is_redis(url) {
        return redis::rights(url);
    }
    let url = StoreUrl::parse(url)?;
    match url.scheme.as_str() {
        "sqlite" => sqlite::migration_sql(),
        scheme => Err(unknown_scheme(scheme)),
    }
}

/// Opens the marks at a URL: `sqlite:PATH`, `postgres://…` or `redis://…`, with the options of [`open`], of which those
/// that are about leases do not count here.
///
/// The table of marks is created where it is missing, on a server by the first mark that is raised; the file or the
/// database is not: a mark in any other than the one whose writes it guards keeps nobody out.
///
/// # Errors
///
/// As [`open`].
pub fn open_marks(url: &str) -> Result<Arc<dyn Marks>, StoreError> {
    if is_postgres(url) {
        return postgres::marks(url);
    }
    if is_redis(url) {
        return redis::marks(url);
    }
    let url = StoreUrl::parse(url)?;
    match url.scheme.as_str() {
        "sqlite" => sqlite::marks(&url),
        scheme => Err(unknown_scheme(scheme)),
    }
}

/// What a migrate did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Migration {
    /// The tables were added, and an epoch opened.
    SetUp,
    /// They were there, in a version that this program uses.
    UpToDate,
}

/// Such a URL is taken apart by the store alone: it may have a password in it, which no error may show.
fn is_postgres(url: &str) -> bool {
    ["postgres:", "postgresql:"].iter().any(|scheme| url.starts_with(scheme))
}

#[cfg(not(feature = "postgres"))]
mod postgres {
    use std::sync::Arc;

    use super::Migration;
    use crate::url::wrong;
    use crate::{Marks, Store, StoreError};

    pub(super) fn open(_: &str) -> Result<Arc<dyn Store>, StoreError> {
        Err(left_out())
    }

    pub(super) fn migrate(_: &str) -> Result<Migration, StoreError> {
        Err(left_out())
    }

    pub(super) fn migration_sql(_: &str) -> Result<String, StoreError> {
        Err(left_out())
    }

    pub(super) fn marks(_: &str) -> Result<Arc<dyn Marks>, StoreError> {
        Err(left_out())
    }

    fn left_out() -> StoreError {
        wrong("this program was built without the PostgreSQL store (its cargo feature `postgres`)".to_owned())
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::sync::Arc;

    use super::Migration;
    use crate::postgres::PostgresMarks;
    use crate::{Marks, PostgresStore, Store, StoreError};

    pub(super) fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(PostgresStore::open(url)?))
    }

    pub(super) fn migrate(url: &str) -> Result<Migration, StoreError> {
        PostgresStore::migrate(url)
    }

    pub(super) fn migration_sql(url: &str) -> Result<String, StoreError> {
        PostgresStore::migration_sql(url)
    }

    pub(super) fn marks(url: &str) -> Result<Arc<dyn Marks>, StoreError> {
        Ok(Arc::new(PostgresMarks::open(url)?))
    }
}

/// Such a URL is taken apart by the store alone: it may have a password in it, which no error may show.
fn is_redis(url: &str) -> bool {
    ["redis:", "rediss:", "valkey:", "valkeys:"].iter().any(|scheme| url.starts_with(scheme))
}

#[cfg(not(feature = "redis"))]
mod redis {
    use std::sync::Arc;

    use super::Migration;
    use crate::url::wrong;
    use crate::{Marks, Store, StoreError};

    pub(super) fn open(_: &str) -> Result<Arc<dyn Store>, StoreError> {
        Err(left_out())
    }

    pub(super) fn migrate(_: &str) -> Result<Migration, StoreError> {
        Err(left_out())
    }

    pub(super) fn rights(_: &str) -> Result<String, StoreError> {
        Err(left_out())
    }

    pub(super) fn marks(_: &str) -> Result<Arc<dyn Marks>, StoreError> {
        Err(left_out())
    }

    fn left_out() -> StoreError {
        wrong("this program was built without the Redis store (its cargo feature `redis`)".to_owned())
    }
}

#[cfg(feature = "redis")]
mod redis {
    use std::sync::Arc;

    use super::Migration;
    use crate::redis::RedisMarks;
    use crate::{Marks, RedisStore, Store, StoreError};

    pub(super) fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(RedisStore::open(url)?))
    }

    pub(super) fn migrate(url: &str) -> Result<Migration, StoreError> {
        RedisStore::open(url)?.migrate()
    }

    pub(super) fn rights(url: &str) -> Result<String, StoreError> {
        RedisStore::open(url).map(|store| store.rights())
    }

    pub(super) fn marks(url: &str) -> Result<Arc<dyn Marks>, StoreError> {
        Ok(Arc::new(RedisMarks::open(url)?))
    }
}

#[cfg(not(feature = "sqlite"))]
mod sqlite {
    use std::sync::Arc;

    use super::Migration;
    use crate::url::wrong;
    use crate::{Marks, Store, StoreError, StoreUrl};

    pub(super) fn open(_: &StoreUrl, _create: bool) -> Result<Arc<dyn Store>, StoreError> {
        Err(left_out())
    }

    pub(super) fn migrate(_: &StoreUrl) -> Result<Migration, StoreError> {
        Err(left_out())
    }

    pub(super) fn migration_sql() -> Result<String, StoreError> {
        Err(left_out())
    }

    pub(super) fn marks(_: &StoreUrl) -> Result<Arc<dyn Marks>, StoreError> {
        Err(left_out())
    }

    fn left_out() -> StoreError {
        wrong("this program was built without the sqlite store (its cargo feature `sqlite`)".to_owned())
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::sync::Arc;

    use super::Migration;
    use crate::sqlite::SqliteMarks;
    use crate::url::{flag, holds, unknown_option, wrong};
    use crate::{Marks, SqliteOptions, SqliteStore, Store, StoreError, StoreUrl, parse_duration};

    const OPTIONS: [&str; 6] = ["timeout", "max_ttl", "history", "single_host", "allow_network_fs", "create"];

    pub(super) fn open(url: &StoreUrl, create: bool) -> Result<Arc<dyn Store>, StoreError> {
        let mut options = options(url)?;
        if !create {
            options = options.create(false);
        }
        Ok(Arc::new(match path(url)? {
            None => SqliteStore::open_in_memory(options)?,
            Some(path) => SqliteStore::open(path, options)?,
        }))
    }

    pub(super) fn migrate(url: &StoreUrl) -> Result<Migration, StoreError> {
        let options = options(url)?;
        match path(url)? {
            Some(path) => SqliteStore::migrate(path, options),
            None => Err(wrong(
                "sqlite::memory: is set up when it is opened, and gone when it is closed".to_owned(),
            )),
        }
    }

    pub(super) fn migration_sql() -> Result<String, StoreError> {
        Ok(SqliteStore::migration_sql().to_owned())
    }

    pub(super) fn marks(url: &StoreUrl) -> Result<Arc<dyn Marks>, StoreError> {
        // Leases and data may be in one file, and be named by one URL: what is about leases alone is taken and not used.
        let options = options(url)?;
        match path(url)? {
            Some(path) => Ok(Arc::new(SqliteMarks::open(path, &options)?)),
            None => {
                Err(wrong("the marks of a fence lie where the writes go: expected sqlite:PATH".to_owned()))
            }
        }
    }

    /// `None` for a database in memory.
    fn path(url: &StoreUrl) -> Result<Option<&str>, StoreError> {
        match url.path.as_str() {
            ":memory:" => Ok(None),
            "" => {
                Err(wrong("found sqlite: without a path, expected sqlite:PATH or sqlite::memory:".to_owned()))
            }
            // SQLite takes it for a URL of its own, or for an option.
            path if path.starts_with("file:") || path.starts_with(':') => Err(wrong(format!(
                "found the path {path:?}, expected the plain path of a file (./{path} if it is really called that)"
            ))),
            // Whether the first part is a host, a folder or nothing differs from tool to tool.
            path if path.starts_with("//") && !path.starts_with("///") => Err(wrong(format!(
                "found sqlite:{path}, expected sqlite:PATH without //: sqlite:/a/b for an absolute path, sqlite:a/b for a \
                 relative one"
            ))),
            // The shell expands it at the beginning of a word alone.
            path if path == "~" || path.starts_with("~/") => {
                let rest = path.trim_start_matches('~');
                Err(wrong(format!(
                    "found sqlite:{path}: ~ is not expanded here, write \"sqlite:$HOME{rest}\" in a shell, or the whole path \
                     (sqlite:./{path} if a folder is really called that)"
                )))
            }
            path => Ok(Some(path)),
        }
    }

    fn options(url: &StoreUrl) -> Result<SqliteOptions, StoreError> {
        let mut options = SqliteOptions::default();
        for (name, value) in &url.options {
            let span = || parse_duration(value).map_err(|error| wrong(format!("option {name}: {error}")));
            options = match name.as_str() {
                "timeout" => options.timeout(span()?),
                "max_ttl" => options.max_ttl(span()?),
                "single_host" => options.single_host(flag(name, value)?),
                "allow_network_fs" => options.allow_network_fs(flag(name, value)?),
                "create" => options.create(flag(name, value)?),
                "history" => options.history(holds(value)?),
                _ => return Err(unknown_option("sqlite", name, &OPTIONS)),
            };
        }
        Ok(options)
    }
}
