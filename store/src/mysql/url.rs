//! From a URL to a server and its options.

use std::sync::Arc;

use mysql_async::OptsBuilder;

use super::link::Target;
use super::marks::MysqlMarks;
use super::options::Tls;
use super::passwords;
use super::tls;
use super::{MysqlOptions, MysqlStore};
use crate::StoreError;
use crate::limits::Limits;
use crate::open::Engine;
use crate::server::ServerUrl;
use crate::url::{flag, span, unknown_option, wrong};

pub(crate) const ENGINE: Engine = Engine {
    open: |url, _| Ok(Arc::new(MysqlStore::open(url)?)),
    migrate: MysqlStore::migrate,
    migration_sql: MysqlStore::migration_sql,
    marks: |url| Ok(Arc::new(MysqlMarks::open(url)?)),
};

const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

const SHAPE: &str = "[user[:password]@]host[:port]/database?options";

const OPTIONS: [&str; 8] = [
    "connect_timeout",
    "connections",
    "trust_failover",
    "ssl_mode",
    "ssl_ca",
    "passfile",
    "socket",
    "create",
];

/// What a URL says. Nothing of it may be shown but the place.
pub(super) fn target(url: &str) -> Result<Target, StoreError> {
    target_with(url, |options| options)
}

/// The same with other options.
pub(super) fn target_with(
    url: &str,
    change: impl FnOnce(MysqlOptions) -> MysqlOptions,
) -> Result<Target, StoreError> {
    let Parsed { server, options, passfile, socket } = parse(url)?;
    let options = change(options).checked()?;
    let (host, port) = server.host()?;
    let login = server.login;
    let found = match login.as_ref().and_then(|login| login.password.as_ref()) {
        Some(_) => passwords::Found::default(),
        None => passwords::find(passfile.as_deref())?,
    };
    let (mut user, mut password) = (found.user, found.password);
    if let Some(login) = login {
        user = Some(login.user).filter(|user| !user.is_empty()).or(user);
        password = login.password.or(password);
    }
    let port = port.unwrap_or(3306);
    let place = match &socket {
        Some(socket) => format!("{}:///{} at {socket}", server.scheme, server.path),
        None => format!("{}://{host}:{port}/{}", server.scheme, server.path),
    };
    let opts = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(user.or_else(|| std::env::var("USER").ok()))
        .pass(password)
        .db_name(Some(server.path))
        .socket(socket)
        .ssl_opts(tls::of(&options.tls)?);
    Ok(Target::new(opts, options, place))
}

pub(super) struct Parsed {
    pub(super) server: ServerUrl,
    pub(super) options: MysqlOptions,
    passfile: Option<String>,
    socket: Option<String>,
}

pub(super) fn parse(url: &str) -> Result<Parsed, StoreError> {
    let server = ServerUrl::parse(url, &SCHEMES, SHAPE)?;
    if server.path.is_empty() || server.path.contains('/') {
        return Err(wrong(format!("found a URL without a database; expected {}://{SHAPE}", server.scheme)));
    }
    let mut options = MysqlOptions::default();
    let (mut passfile, mut socket, mut authorities) = (None, None, None);
    for (name, value) in &server.options {
        if options.limits.take(name, value)? {
            continue;
        }
        // Both spellings are in use.
        let name = name.replace('-', "_");
        options = match name.as_str() {
            "connect_timeout" => options.connect_timeout(span(&name, value)?),
            "connections" => options.connections(value.parse().map_err(|_| {
                wrong(format!(
                    "option connections: found {value:?}, expected a number from 1 to {}",
                    u16::MAX
                ))
            })?),
            "trust_failover" => options.trust_failover(flag(&name, value)?),
            // A server is only ever set up by a migrate.
            "create" => {
                flag(&name, value)?;
                options
            }
            "ssl_mode" => match value.to_ascii_lowercase().as_str() {
                "disabled" => options,
                "required" => options.encrypted(),
                "verify_ca" | "verify_identity" => options.verified(None),
                // Who asks for it would be answered in plain text by whoever stands between.
                _ => {
                    return Err(wrong(format!(
                        "option ssl_mode: found {value:?}, expected disabled, required, verify_ca or verify_identity"
                    )));
                }
            },
            "ssl_ca" => {
                authorities = Some(value.into());
                options
            }
            "passfile" => {
                passfile = Some(value.clone());
                options
            }
            "socket" => {
                socket = Some(value.clone());
                options
            }
            name => {
                return Err(unknown_option(&server.scheme, name, Limits::OPTIONS.iter().chain(&OPTIONS)));
            }
        };
    }
    if authorities.is_some() {
        options.tls = Tls::Verified(authorities);
    }
    Ok(Parsed { server, options: options.checked()?, passfile, socket })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_url_is_understood_and_its_password_not_shown() {
        let target =
            target("mariadb://u%40x:s3cret@db.example:3307/app?connect_timeout=2&connections=3").unwrap();
        assert_eq!(target.place, "mariadb://db.example:3307/app");
        assert_eq!(target.options.connect_timeout, Duration::from_secs(2));
        assert_eq!(target.options.connections, 3);
        for (wrong, expected) in [
            ("mysql://u:s3cret@h", "without a database"),
            ("mysql://u:s3cret@h/a/b", "without a database"),
            ("mysql://u:s3cret@h,i/a", "2 hosts"),
            ("mysql://u:s3cret@h/a?ssl_mode=preferred", "verify_identity"),
            ("mysql://u:s3cret@h/a?schema=x", "no option \"schema\""),
            ("mysql://u:s3cret@h/a?connections=many", "1 to 65535"),
            ("mysql://u:s3cret@h/a?connections=0", "at least one connection"),
            ("mysql://u@h/a?passfile=/nowhere", "passfile: /nowhere"),
        ] {
            let error = super::target(wrong).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{wrong}: {error}");
        }
    }
}
