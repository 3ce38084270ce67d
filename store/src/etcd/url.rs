//! From a URL to the members of a cluster.

use std::sync::Arc;

use super::marks::EtcdMarks;
use super::{EtcdOptions, EtcdStore};
use crate::StoreError;
use crate::limits::Limits;
use crate::open::Engine;
use crate::server::{Login, ServerUrl};
use crate::url::{flag, span, unknown_option, wrong};

pub(crate) const ENGINE: Engine = Engine {
    open: |url, _| Ok(Arc::new(EtcdStore::open(url)?)),
    migrate: |url| EtcdStore::open(url)?.migrate(),
    migration_sql: |url| EtcdStore::open(url).map(|store| store.rights()),
    marks: |url| Ok(Arc::new(EtcdMarks::open(url)?)),
};

const SHAPE: &str = "[user:password@]host[:port][,host[:port]…][/namespace]?options";

const OPTIONS: [&str; 6] =
    ["connect_timeout", "tls", "cafile", "trust_failover", "leases_ahead", "clock_skew"];

/// The members, and how to log in.
#[derive(Clone)]
pub(super) struct Members {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) login: Option<Login>,
}

pub(super) fn parse(url: &str) -> Result<(Members, EtcdOptions), StoreError> {
    parse_with(url, |options| options)
}

/// The same with other options: a user without a password may be one for whom it is asked.
pub(super) fn parse_with(
    url: &str,
    change: impl FnOnce(EtcdOptions) -> EtcdOptions,
) -> Result<(Members, EtcdOptions), StoreError> {
    const PORT: u16 = 2379;
    let url = ServerUrl::parse(url, &["etcd"], SHAPE)?;
    let mut options = EtcdOptions::default();
    if !url.path.is_empty() {
        options = options.namespace(&url.path);
    }
    for (name, value) in &url.options {
        if options.limits.take(name, value)? {
            continue;
        }
        options = match name.as_str() {
            "connect_timeout" => options.connect_timeout(span(name, value)?),
            "tls" => options.tls(flag(name, value)?),
            "cafile" => options.root_certificates(value),
            "trust_failover" => options.trust_failover(flag(name, value)?),
            "leases_ahead" => options.leases_ahead(value.parse().map_err(|_| {
                wrong(format!(
                    "option leases_ahead: found {value:?}, expected a number from 0 to {}",
                    u8::MAX
                ))
            })?),
            "clock_skew" => options.clock_skew(span(name, value)?),
            // A cluster is only ever set up by a migrate.
            "create" => {
                flag(name, value)?;
                options
            }
            _ => return Err(unknown_option("etcd", name, Limits::OPTIONS.iter().chain(&OPTIONS))),
        };
    }
    let options = change(options);
    options.check()?;
    match &url.login {
        Some(login) if login.user.is_empty() || (login.password.is_none() && options.passwords.is_none()) => {
            return Err(wrong(format!(
                "found a user without a password before the @; expected etcd://{SHAPE}"
            )));
        }
        None if options.passwords.is_some() => {
            return Err(wrong(
                "there is a password, and no user for it: expected etcd://user@host".to_owned(),
            ));
        }
        _ => {}
    }
    let hosts = url.hosts.into_iter().map(|(host, port)| (host, port.unwrap_or(PORT))).collect();
    Ok((Members { hosts, login: url.login }, options))
}

/// A host as it stands in a URL.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_options_are_understood() {
        let url = "etcd://u:s%40c@a,[::1]:9/jobs?max_ttl=1h&history=off&tls=1&clock_skew=2s";
        let (members, options) = parse(url).unwrap();
        assert_eq!(options.clock_skew.as_secs(), 2);
        assert_eq!(members.hosts, [("a".to_owned(), 2379), ("::1".to_owned(), 9)]);
        let login = members.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_deref()), ("u", Some("s@c")));
        assert_eq!((options.namespace.as_str(), options.tls), ("jobs", true));
        assert_eq!((options.limits.max_ttl.as_secs(), options.limits.history), (3600, None));
        assert_eq!(parse("etcd://h").unwrap().1.namespace, "default");
        let (_, options) = parse("etcd://h?connect_timeout=2").unwrap();
        assert_eq!(options.connect_timeout.as_secs(), 2);
    }

    #[test]
    fn a_user_without_a_password_is_one_for_whom_it_is_asked() {
        let ask =
            |options: EtcdOptions| options.password_from(|| async { Ok::<_, StoreError>("s3cret".into()) });
        let (members, options) = parse_with("etcd://app@h", ask).unwrap();
        let login = members.login.unwrap();
        assert_eq!((login.user.as_str(), login.password), ("app", None));
        assert!(!format!("{options:?}").contains("s3cret"));
        let error = parse_with("etcd://h", ask).err().unwrap();
        assert!(error.to_string().contains("no user"), "{error}");
    }

    #[test]
    fn errors_say_what_was_found_and_no_password() {
        for (url, found) in [
            ("etcd:h", "without //"),
            ("etcd://secret@h", "a user without a password"),
            ("etcd://:secret@h", "a user without a password"),
            ("etcd://u:secret@h/a b", "namespace"),
            ("etcd://u:secret@h/a/b", "namespace"),
            ("etcd://u:secret@h?schema=x", "has no option"),
            ("etcd://u:secret@h?max_ttl=400d", "max_ttl"),
            ("etcd://u:secret@h?leases_ahead=many", "0 to 255"),
            ("etcd://u:secret@h?connect_timeout=soon", "option connect_timeout"),
            ("etcd://u:secret@h?clock_skew=2h", "clock_skew is 2h, expected 0s to 1h"),
        ] {
            let error = parse(url).err().unwrap().to_string();
            assert!(error.contains(found) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
