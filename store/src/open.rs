//! From a URL to a store.

use std::sync::Arc;

use crate::url::{unknown_scheme, wrong};
use crate::{Marks, Store, StoreError, StoreUrl};

pub(crate) type Opened = Result<Arc<dyn Store>, StoreError>;

/// What an engine does with a URL of its own. It takes the whole of it: there may be a password in it, which no error shows.
#[derive(Clone, Copy)]
pub(crate) struct Engine {
    /// Whether to create what is missing comes second; it concerns files alone.
    pub(crate) open: fn(&str, bool) -> Opened,
    pub(crate) migrate: fn(&str) -> Result<Migration, StoreError>,
    pub(crate) migration_sql: fn(&str) -> Result<String, StoreError>,
    pub(crate) marks: fn(&str) -> Result<Arc<dyn Marks>, StoreError>,
}

/// An engine, as it is known also where it was left out.
struct Entry {
    name: &'static str,
    feature: &'static str,
    schemes: &'static [&'static str],
    /// What its URLs look like, for errors.
    shape: &'static str,
    engine: Option<Engine>,
}

macro_rules! entry {
    ($name:literal, $feature:literal, $schemes:expr, $shape:literal, $module:ident) => {
        Entry {
            name: $name,
            feature: $feature,
            schemes: &$schemes,
            shape: $shape,
            #[cfg(feature = $feature)]
            engine: Some(crate::$module::ENGINE),
            #[cfg(not(feature = $feature))]
            engine: None,
        }
    };
}

/// All engines. One more is a line here, and its folder.
const ENGINES: &[Entry] = &[
    entry!("SQLite", "sqlite", ["sqlite"], "sqlite:PATH, sqlite::memory:", sqlite),
    entry!("PostgreSQL", "postgres", ["postgres", "postgresql"], "postgres://USER@HOST/DATABASE", postgres),
    entry!("MySQL", "mysql", ["mysql", "mariadb"], "mysql://USER@HOST/DATABASE", mysql),
    entry!("Redis", "redis", ["redis", "rediss", "valkey", "valkeys"], "redis://HOST", redis),
    entry!("etcd", "etcd", ["etcd"], "etcd://HOST", etcd),
];

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
/// | `mysql://USER:PASSWORD@HOST:PORT/DATABASE` (or `mariadb://…`) | a MySQL or MariaDB server; set up and connected to in the same way |
/// | `redis://[[user]:password@]host[:port][/database]` | a Redis or Valkey server; `rediss://` with TLS; also `valkey://`, `valkeys://`; set up and connected to in the same way |
/// | `etcd://[user:password@]host[:port][,host[:port]…][/namespace]` | an etcd cluster; set up and connected to in the same way |
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
/// | option of `mysql` | meaning (default) |
/// | --- | --- |
/// | `timeout=5s` | every request ends after this long; the server waits for locks in whole seconds, four fifths of it (5s) |
/// | `connect_timeout=5s` | a connection is given up after this long; a number alone is in seconds (5s) |
/// | `max_ttl=24h`, `history=N` or `off` | as above |
/// | `connections=N` | how many there are at most (8) |
/// | `trust_failover=1` | a server that took over has all that was answered: no new epoch (0) |
/// | `ssl_mode=required`, `verify_identity` or `disabled` | TLS, see the feature `mysql-tls` (`disabled`); `verify_ca` is `verify_identity` |
/// | `ssl_ca=FILE` | verifies the server's certificate by the authorities in this PEM file (the machine's) |
/// | `socket=FILE` | the server's socket on this machine, in place of host and port |
/// | `passfile=FILE` | has user and password, as an option file of MySQL's (`~/.my.cnf`) |
///
/// | option of `redis` | meaning (default) |
/// | --- | --- |
/// | `namespace=NAME` | tells stores on one server apart (`default`) |
/// | `timeout=5s` | every request ends after this long, connecting included (5s) |
/// | `connect_timeout=5s` | a connection is given up after this long; a number alone is in seconds (5s) |
/// | `max_ttl=24h`, `history=N` or `off` | as above |
/// | `replicas=N` | a decision counts when this many replicas have it, else it is *unknown* (0) |
/// | `trust_failover=1` | a server that was promoted or restarted has all that was answered: no new epoch (0) |
///
/// | option of `etcd` | meaning (default) |
/// | --- | --- |
/// | `timeout=5s` | every request ends after this long, connecting included (5s) |
/// | `connect_timeout=5s` | a member is given up after this long, or after its share of `timeout` (5s) |
/// | `max_ttl=24h`, `history=N` or `off` | as above |
/// | `tls=1` | TLS, against the machine's authorities (0) |
/// | `cafile=FILE` | TLS, against the authorities in this PEM file |
/// | `trust_failover=1` | a cluster under another identity has all that was answered: no new epoch (0) |
///
/// A password for PostgreSQL comes from the URL, `$PGPASSWORD`, or the line of `passfile`, `$PGPASSFILE` or `~/.pgpass`; one for
/// MySQL from the URL, `passfile`, `$MYSQL_PWD` or `~/.my.cnf`. The options of each engine on a server also take a function that is
/// asked for one at each new connection (`password_from`): see its store's `open_with`.
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
    (engine(url)?.open)(url, create)
}

fn engine(url: &str) -> Result<Engine, StoreError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let Some(entry) = ENGINES.iter().find(|entry| entry.schemes.contains(&scheme)) else {
        // What is no URL at all is told so.
        return Err(StoreUrl::parse(url).map_or_else(|error| error, |url| unknown_scheme(&url.scheme)));
    };
    entry.engine.ok_or_else(|| {
        wrong(format!(
            "this program was built without the {} store (its cargo feature `{}`)",
            entry.name, entry.feature
        ))
    })
}

/// What URLs look like, for errors.
pub(crate) fn shapes() -> String {
    let mut shapes: Vec<&str> = ENGINES.iter().map(|entry| entry.shape).collect();
    let last = shapes.pop().unwrap_or_default();
    format!("{} or {last}", shapes.join(", "))
}

/// Creates or upgrades the tables of the store at a URL, whatever else is in that database. Any number of processes
/// may do it at once. It waits for a server.
///
/// # Errors
///
/// As [`open`].
pub fn migrate(url: &str) -> Result<Migration, StoreError> {
    (engine(url)?.migrate)(url)
}

/// What [`migrate`] would carry out there, as SQL, to read or to run by hand.
///
/// # Errors
///
/// As [`open`], for the URL alone: nothing is opened.
pub fn migration_sql(url: &str) -> Result<String, StoreError> {
    (engine(url)?.migration_sql)(url)
}

/// Opens the marks at a URL: `sqlite:PATH`, `postgres://…`, `mysql://…`, `redis://…` or `etcd://…`, with the options of [`open`], of
/// which those that are about leases do not count here.
///
/// The table of marks is created where it is missing, on a server by the first mark that is raised; the file or the
/// database is not: a mark in any other than the one whose writes it guards keeps nobody out.
///
/// # Errors
///
/// As [`open`].
pub fn open_marks(url: &str) -> Result<Arc<dyn Marks>, StoreError> {
    (engine(url)?.marks)(url)
}

/// What a migrate did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Migration {
    /// The tables were added, and an epoch opened.
    SetUp,
    /// They were there, and what was missing or older beside them was made: procedures, on MySQL and MariaDB. Leases and epoch
    /// stay as they were.
    Upgraded,
    /// All was there, in a version that this program uses.
    UpToDate,
}
