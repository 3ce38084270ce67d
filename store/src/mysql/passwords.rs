//! Where a user and a password come from that are not in the URL: the places in which every program of MySQL's looks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, io};

use crate::StoreError;
use crate::url::wrong;

/// What an option file says.
#[derive(Default)]
pub(super) struct Found {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// The file that the URL names, else `$MYSQL_PWD` and `~/.my.cnf`. One that everybody may write to is not used, as
/// everywhere.
pub(super) fn find(named: Option<&str>) -> Result<Found, StoreError> {
    if let Some(file) = named {
        let found = read(Path::new(file));
        return found.map_err(|error| wrong(format!("option passfile: {file}: {error}")));
    }
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".my.cnf"));
    let mut found = home.and_then(|file| read(&file).ok()).unwrap_or_default();
    if let Ok(password) = env::var("MYSQL_PWD") {
        found.password = Some(password);
    }
    Ok(found)
}

fn read(file: &Path) -> io::Result<Found> {
    if fs::metadata(file)?.permissions().mode() & 0o002 != 0 {
        return Err(io::Error::other("everybody may write to it, so that it is not used"));
    }
    Ok(parse(&fs::read_to_string(file)?))
}

/// The groups that every client reads; the last of equal lines counts.
fn parse(text: &str) -> Found {
    let (mut found, mut ours) = (Found::default(), false);
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[') {
            ours = matches!(group.trim_end_matches(']'), "client" | "client-mariadb" | "client-server");
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| ours && !line.starts_with(['#', ';']))
        else {
            continue;
        };
        match name.trim() {
            "user" => found.user = Some(unquoted(value.trim())),
            "password" => found.password = Some(unquoted(value.trim())),
            _ => {}
        }
    }
    found
}

/// A value in quotes is what is between them; otherwise it ends at a `#`. Some characters are written with a backslash.
fn unquoted(value: &str) -> String {
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    let text = quoted.unwrap_or_else(|| value.split_once('#').map_or(value, |(value, _)| value.trim_end()));
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('b') => plain.push('\u{8}'),
            Some('s') => plain.push(' '),
            Some(other @ ('\\' | '"' | '\'')) => plain.push(other),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_clients_are_read() {
        let found = parse(
            "password=before\n[mysqld]\npassword=no\n[client]\n# password=no\nuser = alice\npassword=\"s\\\\e#c\"\n[other]\n\
             user=bob\n",
        );
        assert_eq!((found.user.as_deref(), found.password.as_deref()), (Some("alice"), Some("s\\e#c")));
        assert!(parse("[client]\nskip-ssl\n").password.is_none());
    }

    #[test]
    fn values_are_taken_as_they_were_meant() {
        for (value, meant) in [
            ("plain", "plain"),
            ("a # b", "a"),
            ("'a # b'", "a # b"),
            ("a\\sb", "a b"),
            ("\"x\\\"y\"", "x\"y"),
        ] {
            assert_eq!(unquoted(value), meant, "{value}");
        }
    }
}
