//! From a URL to servers and a login, of which nothing is shown but the servers.

use crate::StoreError;
use crate::url::{decode, query, wrong};

/// `scheme://[[user]:password@]host[:port][,…][/path][?options]`, taken apart. It has no `Debug`, since it has the password.
pub(crate) struct ServerUrl {
    #[cfg_attr(not(any(feature = "redis", feature = "mysql")), allow(dead_code))]
    pub(crate) scheme: String,
    pub(crate) login: Option<Login>,
    /// At least one; without a port where the URL names none.
    pub(crate) hosts: Vec<(String, Option<u16>)>,
    /// What stands behind the first slash, decoded; empty without one.
    pub(crate) path: String,
    /// In the order written, decoded.
    pub(crate) options: Vec<(String, String)>,
}

/// What stands before the `@`.
#[derive(Clone)]
pub(crate) struct Login {
    /// Empty where the colon comes first.
    pub(crate) user: String,
    /// `None` without a colon.
    pub(crate) password: Option<String>,
}

impl ServerUrl {
    /// Takes a URL apart that begins with one of the schemes; `shape` is what errors say that the rest of it looks like.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration), never with anything that may be a part of the password.
    pub(crate) fn parse(url: &str, schemes: &[&str], shape: &str) -> Result<Self, StoreError> {
        const BEFORE: &str = "before the @";
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        if !schemes.contains(&scheme) {
            return Err(wrong(format!(
                "found a URL that begins with none of {}",
                schemes.join(":// ") + "://"
            )));
        }
        let unlike = |what: String| wrong(format!("{what}; expected {scheme}://{shape}"));
        let (authority, options) = match rest.split_once('?') {
            Some((authority, options)) => (authority, Some(options)),
            None => (rest, None),
        };
        let Some(authority) = authority.strip_prefix("//") else {
            return Err(unlike(format!("found {scheme}: without //")));
        };
        // A password with a ? in it would be taken for a host, and shown.
        if !authority.contains('@') && options.is_some_and(|options| options.contains('@')) {
            return Err(unlike("found a ? before the @ (%3F is a ? that belongs to a password)".to_owned()));
        }
        let (login, rest) = match authority.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, authority),
        };
        let part = |text: &str, place: &str| {
            decode(place, text)
                .map_err(|_| unlike(format!("found a % {place} that begins no escape (%25 is a % itself)")))
        };
        let login =
            match login.map(|login| login.split_once(':').map_or((login, None), |(u, p)| (u, Some(p)))) {
                None => None,
                Some((user, password)) => Some(Login {
                    user: part(user, BEFORE)?,
                    password: password.map(|password| part(password, BEFORE)).transpose()?,
                }),
            };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts
            .split(',')
            .map(|place| host_and_port(place).map_err(|found| unlike(format!("found {found}"))))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            scheme: scheme.to_owned(),
            login,
            hosts,
            path: part(path, "behind the host")?,
            options: query(options)?,
        })
    }

    /// The only host, for an engine whose servers are not members of one cluster.
    ///
    /// # Errors
    ///
    /// [`Configuration`](crate::ErrorKind::Configuration) where there are several.
    #[cfg(any(feature = "redis", feature = "mysql"))]
    pub(crate) fn host(&self) -> Result<(String, Option<u16>), StoreError> {
        match self.hosts.as_slice() {
            [host] => Ok(host.clone()),
            hosts => {
                Err(wrong(format!("found {} hosts in a {} URL, expected one", hosts.len(), self.scheme)))
            }
        }
    }
}

/// Checks a name that tells the stores on one server apart, and becomes a part of their keys.
///
/// # Errors
///
/// [`Configuration`](crate::ErrorKind::Configuration) where it is none.
#[cfg(any(feature = "redis", feature = "etcd"))]
pub(crate) fn check_namespace(name: &str) -> Result<(), StoreError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(());
    }
    Err(wrong(format!("option namespace: found {name:?}, expected 1 to 64 letters, digits, -, _ and .")))
}

/// Fails with what was found. What stands where a port is expected may be a password without its host.
fn host_and_port(place: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '[') {
        return Err(format!("the host {host:?}"));
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse() {
            Ok(number @ 1..) => Some(number),
            _ if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(format!("the port {port:?} of the host {host:?}"));
            }
            _ => return Err(format!("a port of the host {host:?} that is no number")),
        },
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ServerUrl, StoreError> {
        ServerUrl::parse(url, &["db", "dbs"], "[user:password@]host[:port][/database]?options")
    }

    #[test]
    fn servers_and_logins_are_understood() {
        let url = parse("db://us%3Aer:s%40c%2Fr:t@a:1,[::1]:9,c/x%20y?one=1&two=b=c").unwrap();
        let login = url.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_deref()), ("us:er", Some("s@c/r:t")));
        let hosts = [("a".to_owned(), Some(1)), ("::1".to_owned(), Some(9)), ("c".to_owned(), None)];
        assert_eq!((url.hosts.as_slice(), url.path.as_str()), (&hosts[..], "x y"));
        assert_eq!(url.options, [("one".into(), "1".into()), ("two".into(), "b=c".into())]);
        let url = parse("dbs://:p@h").unwrap();
        assert_eq!(url.hosts, [("h".to_owned(), None)]);
        let login = url.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_deref()), ("", Some("p")));
        assert!(parse("db://only@h").unwrap().login.unwrap().password.is_none());
        assert!(parse("db://h").unwrap().login.is_none());
    }

    #[test]
    fn errors_say_what_was_found_and_no_password() {
        for (url, found) in [
            ("xx://secret@h", "begins with none of"),
            ("secret", "begins with none of"),
            ("db:h", "without //"),
            ("db://", "the host \"\""),
            ("db://u:secret@a,,b", "the host \"\""),
            ("db://u:secret@h:0", "the port \"0\" of the host \"h\""),
            ("db://u:secret@h:99999", "the port"),
            ("db://u:secret", "a port of the host \"u\" that is no number"),
            ("db://u:secret@[::1:5", "the host"),
            ("db://u:secret@h h", "the host"),
            ("db://u:secret%@h", "begins no escape"),
            ("db://u:sec?ret@h", "a ? before the @"),
            ("db://u:sec?ret=secret@h", "a ? before the @"),
            ("db://u:secret@h?a", "name=value"),
            ("db://u:secret@h?a=1&a=2", "twice"),
            ("db://u:secret@h?se@cret", "name=value"),
        ] {
            let error = parse(url).err().unwrap().to_string();
            assert!(
                error.contains(found) && !error.contains("secret") && !error.contains("cret"),
                "{url}: {error}"
            );
        }
        assert_eq!(parse("db://u:secret@a,b").unwrap().hosts.len(), 2);
    }
}
