//! From a URL to a server and its options.

use std::path::Path;
use std::sync::Arc;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::failure::Place;
use super::{PostgresMarks, PostgresOptions, PostgresStore};
use crate::StoreError;
use crate::limits::Limits;
use crate::open::Engine;
use crate::url::{flag, option_value, raw_options, span, unknown_option, wrong};

pub(crate) const ENGINE: Engine = Engine {
    open: |url, _| Ok(Arc::new(PostgresStore::open(url)?)),
    migrate: PostgresStore::migrate,
    migration_sql: PostgresStore::migration_sql,
    marks: |url| Ok(Arc::new(PostgresMarks::open(url)?)),
};

const OPTIONS: [&str; 11] = [
    "schema",
    "connect_timeout",
    "connections",
    "pooler",
    "trust_failover",
    "sslmode",
    "sslrootcert",
    "passfile",
    "create",
    "host",
    "and those of the driver",
];

/// Where the server's socket is on most machines, for a URL without a host.
const SOCKET_FOLDER: &str = "/var/run/postgresql";

/// What a URL says. Nothing of it may be shown but the place.
pub(super) struct Parsed {
    pub(super) config: Config,
    pub(super) options: PostgresOptions,
    pub(super) passfile: Option<String>,
}

/// Takes a URL apart. No error shows what stands before the host, nor the path as a whole.
pub(super) fn parse(url: &str) -> Result<Parsed, StoreError> {
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let mut options = PostgresOptions::default();
    let (mut rest, mut passfile) = (Vec::new(), None);
    for (name, raw) in raw_options(query)? {
        let (name, value) = (name.as_str(), option_value(&name, raw)?);
        if options.limits.take(name, &value)? {
            continue;
        }
        options = match name {
            "schema" => options.schema(value),
            "connect_timeout" => options.connect_timeout(span(name, &value)?),
            "connections" => options.connections(value.parse().map_err(|_| {
                wrong(format!(
                    "option connections: found {value:?}, expected a number from 1 to {}",
                    u16::MAX
                ))
            })?),
            "pooler" => options.pooler(flag(name, &value)?),
            "trust_failover" => options.trust_failover(flag(name, &value)?),
            // A server is only ever set up by a migrate.
            "create" => {
                flag(name, &value)?;
                options
            }
            "passfile" => {
                passfile = Some(value);
                options
            }
            "sslrootcert" => options.root_certificates(value),
            "sslmode" => {
                let (mode, verify) = match value.as_str() {
                    "disable" | "prefer" | "require" => (value.as_str(), false),
                    "allow" => ("prefer", false),
                    "verify-ca" | "verify-full" => ("require", true),
                    _ => {
                        return Err(wrong(format!(
                            "option sslmode: found {value:?}, expected disable, allow, prefer, require, verify-ca or verify-full"
                        )));
                    }
                };
                rest.push(format!("sslmode={mode}"));
                if verify { options.verify_certificate(true) } else { options }
            }
            "host"
            | "hostaddr"
            | "port"
            | "user"
            | "password"
            | "dbname"
            | "options"
            | "application_name"
            | "target_session_attrs"
            | "keepalives"
            | "keepalives_idle"
            | "keepalives_interval"
            | "keepalives_retries"
            | "tcp_user_timeout"
            | "channel_binding"
            | "sslnegotiation"
            | "load_balance_hosts" => {
                rest.push(format!("{name}={raw}"));
                options
            }
            _ => return Err(unknown_option("postgres", name, Limits::OPTIONS.iter().chain(&OPTIONS))),
        };
    }
    let driver = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    let mut config: Config = driver.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        wrong(format!("expected postgres://USER@HOST:PORT/DATABASE, found one that is wrong: {cause}"))
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        if Path::new(SOCKET_FOLDER).is_dir() {
            config.host_path(SOCKET_FOLDER);
        } else {
            config.host("localhost");
        }
    }
    if config.get_application_name().is_none() {
        config.application_name("lease-machines");
    }
    Ok(Parsed { config, options: options.checked()?, passfile })
}

/// The server and the database, for people.
pub(super) fn place(config: &Config) -> Place {
    let mut sockets = Vec::new();
    let mut hosts = Vec::new();
    for (index, host) in config.get_hosts().iter().enumerate() {
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => hosts.push(format!("{name}:{port}")),
            Host::Unix(path) => sockets.push(format!("{}/.s.PGSQL.{port}", path.display())),
        }
    }
    hosts.extend(
        config.get_hostaddrs().iter().map(ToString::to_string).filter(|_| config.get_hosts().is_empty()),
    );
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    let at = if sockets.is_empty() { String::new() } else { format!(" at {}", sockets.join(", ")) };
    Place(format!("postgres://{}/{database}{at}", hosts.join(",")).into())
}
