//! From a URL to a server's address.

use std::fmt;

use redis::{ProtocolVersion, RedisConnectionInfo};

use super::RedisOptions;
use crate::url::{decode, flag, holds, unknown_option, wrong};
use crate::{StoreError, StoreUrl, parse_duration};

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

/// The beginnings of URLs that mean such a server.
const SCHEMES: [&str; 4] = ["redis", "rediss", "valkey", "valkeys"];

const OPTIONS: [&str; 6] = ["namespace", "timeout", "max_ttl", "history", "replicas", "trust_failover"];

/// Understands `redis://[[user]:password@]host[:port][/database]`, `rediss://` with TLS, `valkey://`, `valkeys://`.
pub(super) fn from_url(url: &str) -> Result<(Address, RedisOptions), StoreError> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    // The password must not be shown, whatever else is wrong.
    let shape = |what: String| {
        wrong(format!("{what}; expected {scheme}://[user:password@]host[:port][/database]?options"))
    };
    if !SCHEMES.contains(&scheme) {
        return Err(wrong(format!("found a URL that begins with none of {}", SCHEMES.join(":// ") + "://")));
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let Some(path) = path.strip_prefix("//") else {
        return Err(shape(format!("found {scheme}: without //")));
    };
    let (login, rest) = match path.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, path),
    };
    let part = |text: &str| match decode("login", text) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(_) => Err(shape("found a % before the @ that begins no escape (%25 is a % itself)".to_owned())),
    };
    let (user, password) = match login.map(|login| login.split_once(':')) {
        None => (None, None),
        Some(None) => return Err(shape("found a user without a password before the @".to_owned())),
        Some(Some((user, password))) => (part(user)?, part(password)?),
    };
    let (place, database) = match rest.split_once('/') {
        Some((place, database)) => (place, database),
        None => (rest, ""),
    };
    let database = match database {
        "" => 0,
        number => match number.parse::<u16>() {
            Ok(number) => i64::from(number),
            Err(_) => return Err(shape(format!("found the database {number:?}, which is no number"))),
        },
    };
    let (host, port) = host_and_port(place).ok_or_else(|| shape(format!("found the host {place:?}")))?;
    let tls = matches!(scheme, "rediss" | "valkeys");
    Ok((Address { host, port, tls, user, password, database }, options(scheme, query)?))
}

fn host_and_port(place: &str) -> Option<(String, u16)> {
    const PORT: u16 = 6379;
    let (host, port) = if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        }
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => PORT,
    };
    (!host.is_empty() && !host.contains(char::is_whitespace)).then(|| (host.to_owned(), port))
}

fn options(scheme: &str, query: &str) -> Result<RedisOptions, StoreError> {
    let mut options = RedisOptions::default();
    if query.is_empty() {
        return Ok(options);
    }
    for (name, value) in &StoreUrl::parse(&format!("{scheme}:?{query}"))?.options {
        let span = || parse_duration(value).map_err(|error| wrong(format!("option {name}: {error}")));
        options = match name.as_str() {
            "namespace" => options.namespace(value),
            "timeout" => options.timeout(span()?),
            "max_ttl" => options.max_ttl(span()?),
            "history" => options.history(holds(value)?),
            "replicas" => options.replicas(value.parse().map_err(|_| {
                wrong(format!("option replicas: found {value:?}, expected a number from 0 to 64"))
            })?),
            "trust_failover" => options.trust_failover(flag(name, value)?),
            _ => return Err(unknown_option(scheme, name, &OPTIONS)),
        };
    }
    Ok(options)
}

impl Address {
    pub(super) fn login(&self) -> RedisConnectionInfo {
        RedisConnectionInfo {
            db: self.database,
            username: self.user.clone(),
            password: self.password.clone(),
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
    use super::*;

    fn parse(url: &str) -> Result<(Address, RedisOptions), StoreError> {
        from_url(url)
    }

    #[test]
    fn addresses_are_understood_and_shown_without_the_password() {
        for (url, shown) in [
            ("redis://h", "redis://h:6379/0"),
            ("valkey://h:7/3", "redis://h:7/3"),
            ("rediss://:secret@h", "rediss://h:6379/0"),
            ("redis://user:sec%40ret%2F1@[::1]:9/2", "redis://[::1]:9/2"),
        ] {
            assert_eq!(parse(url).unwrap().0.to_string(), shown, "{url}");
        }
        let (address, options) =
            parse("redis://us%3Aer:s%40c%2Fr:t@h?namespace=x&history=off&replicas=2").unwrap();
        assert_eq!(address.user.as_deref(), Some("us:er"));
        assert_eq!(address.password.as_deref(), Some("s@c/r:t"));
        assert_eq!((options.namespace.as_str(), options.history, options.replicas), ("x", None, 2));
    }

    #[test]
    fn errors_say_what_was_found_and_no_password() {
        for (url, found) in [
            ("redis:h", "without //"),
            ("redis://", "the host \"\""),
            ("redis://u:secret@h/x", "the database \"x\""),
            ("redis://u:secret@h:0", "the host \"h:0\""),
            ("redis://u:secret@h:99999", "the host"),
            ("redis://secret@h", "a user without a password"),
            ("redis://u:secret%@h", "begins no escape"),
            ("redis://u:secret@h?a", "name=value"),
            ("redis://u:secret@h?history=0", "option history"),
            ("redis://u:secret@h?shard=1", "has no option"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(found) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
