//! From a URL to a server's address.

use std::fmt;
use std::sync::Arc;

use redis::{ProtocolVersion, RedisConnectionInfo};

use super::{RedisMarks, RedisOptions, RedisStore};
use crate::StoreError;
use crate::limits::Limits;
use crate::open::Engine;
use crate::server::{Login, ServerUrl};
use crate::url::{flag, span, unknown_option, wrong};

/// Where a server listens, and how to log in. Shown without the password.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

pub(crate) const ENGINE: Engine = Engine {
    open: |url, _| Ok(Arc::new(RedisStore::open(url)?)),
    migrate: |url| RedisStore::open(url)?.migrate(),
    migration_sql: |url| RedisStore::open(url).map(|store| store.rights()),
    marks: |url| Ok(Arc::new(RedisMarks::open(url)?)),
};

/// The beginnings of URLs that mean such a server.
const SCHEMES: [&str; 4] = ["redis", "rediss", "valkey", "valkeys"];

const SHAPE: &str = "[user:password@]host[:port][/database]?options";

const OPTIONS: [&str; 4] = ["connect_timeout", "namespace", "replicas", "trust_failover"];

/// Understands `redis://[[user]:password@]host[:port][/database]`, `rediss://` with TLS, `valkey://`, `valkeys://`.
pub(super) fn from_url(url: &str) -> Result<(Address, RedisOptions), StoreError> {
    from_url_with(url, |options| options)
}

/// The same with other options: a user without a password may be one for whom it is asked.
pub(super) fn from_url_with(
    url: &str,
    change: impl FnOnce(RedisOptions) -> RedisOptions,
) -> Result<(Address, RedisOptions), StoreError> {
    const PORT: u16 = 6379;
    let url = ServerUrl::parse(url, &SCHEMES, SHAPE)?;
    let shape = |what: &str| wrong(format!("found {what}; expected {}://{SHAPE}", url.scheme));
    let options = change(options(&url)?);
    let (user, password) = match &url.login {
        None => (None, None),
        Some(Login { user, password: None }) if options.passwords.is_some() => (Some(user.clone()), None),
        Some(Login { password: None, .. }) => return Err(shape("a user without a password before the @")),
        Some(Login { user, password }) => (Some(user.clone()), password.clone()),
    };
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let database = match url.path.as_str() {
        "" => 0,
        number => match number.parse::<u16>() {
            Ok(number) => i64::from(number),
            Err(_) => return Err(shape(&format!("the database {number:?}, which is no number"))),
        },
    };
    let (host, port) = url.host()?;
    let (user, password) = (some(user), some(password));
    let (port, tls) = (port.unwrap_or(PORT), matches!(url.scheme.as_str(), "rediss" | "valkeys"));
    Ok((Address { host, port, tls, user, password, database }, options))
}

fn options(url: &ServerUrl) -> Result<RedisOptions, StoreError> {
    let mut options = RedisOptions::default();
    for (name, value) in &url.options {
        if options.limits.take(name, value)? {
            continue;
        }
        options = match name.as_str() {
            "namespace" => options.namespace(value),
            "connect_timeout" => options.connect_timeout(span(name, value)?),
            "replicas" => options.replicas(value.parse().map_err(|_| {
                wrong(format!("option replicas: found {value:?}, expected a number from 0 to 64"))
            })?),
            "trust_failover" => options.trust_failover(flag(name, value)?),
            _ => return Err(unknown_option(&url.scheme, name, Limits::OPTIONS.iter().chain(&OPTIONS))),
        };
    }
    Ok(options)
}

impl Address {
    /// How to log in, by the password that somebody was asked for where there is one.
    pub(super) fn login(&self, asked: Option<String>) -> RedisConnectionInfo {
        RedisConnectionInfo {
            db: self.database,
            username: self.user.clone(),
            password: asked.or_else(|| self.password.clone()),
            protocol: ProtocolVersion::RESP2,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}://{host}:{}/{}", self.port, self.database)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn addresses_are_understood_and_shown_without_the_password() {
        for (url, shown) in [
            ("redis://h", "redis://h:6379/0"),
            ("valkey://h:7/3", "redis://h:7/3"),
            ("rediss://:secret@h", "rediss://h:6379/0"),
            ("redis://user:sec%40ret%2F1@[::1]:9/2", "redis://[::1]:9/2"),
        ] {
            assert_eq!(from_url(url).unwrap().0.to_string(), shown, "{url}");
        }
        let (address, options) = from_url("redis://u:secret@h?namespace=x&history=off&replicas=2").unwrap();
        assert_eq!((address.user.as_deref(), address.password.as_deref()), (Some("u"), Some("secret")));
        assert_eq!((options.namespace.as_str(), options.limits.history, options.replicas), ("x", None, 2));
        let (_, options) = from_url("redis://h?connect_timeout=2").unwrap();
        assert_eq!(options.connect_timeout, Duration::from_secs(2));
        let (_, options) = from_url("redis://h?connect_timeout=300ms").unwrap();
        assert_eq!(options.connect_timeout, Duration::from_millis(300));
    }

    #[test]
    fn a_user_without_a_password_is_one_for_whom_it_is_asked() {
        let ask =
            |options: RedisOptions| options.password_from(|| async { Ok::<_, StoreError>("s3cret".into()) });
        let (address, options) = from_url_with("redis://app@h", ask).unwrap();
        assert_eq!((address.user.as_deref(), address.password.as_deref()), (Some("app"), None));
        assert_eq!(address.login(Some("s3cret".into())).password.as_deref(), Some("s3cret"));
        assert!(!format!("{options:?}").contains("s3cret"));
        assert!(from_url("redis://app@h").is_err());
    }

    #[test]
    fn errors_say_what_was_found_and_no_password() {
        for (url, found) in [
            ("redis://u:secret@h/x", "the database \"x\""),
            ("redis://secret@h", "a user without a password"),
            ("redis://u:secret@h,i", "2 hosts"),
            ("redis://u:secret@h?history=0", "option history"),
            ("redis://u:secret@h?connect_timeout=soon", "option connect_timeout"),
            ("redis://u:secret@h?shard=1", "has no option"),
        ] {
            let error = from_url(url).unwrap_err().to_string();
            assert!(error.contains(found) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
