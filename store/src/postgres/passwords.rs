//! Where a password comes from that is not in the URL: the places in which every program of PostgreSQL's looks.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// `$PGPASSWORD`, else the line of `passfile`, `$PGPASSFILE` or `~/.pgpass` that fits. A file that others may read is
/// not used, as everywhere.
pub(super) fn add(config: &mut Config, passfile: Option<&str>) {
    if config.get_password().is_some() {
        return;
    }
    if let Some(password) = env::var("PGPASSWORD").ok().filter(|_| passfile.is_none()) {
        config.password(password);
        return;
    }
    let file = passfile
        .map(PathBuf::from)
        .or_else(|| env::var_os("PGPASSFILE").map(PathBuf::from))
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".pgpass")));
    let Some(file) = file else { return };
    if fs::metadata(&file).map_or(true, |found| found.permissions().mode() & 0o077 != 0) {
        return;
    }
    let Ok(text) = fs::read_to_string(&file) else { return };
    let user = config.get_user().map(ToOwned::to_owned).or_else(|| env::var("USER").ok()).unwrap_or_default();
    let database = config.get_dbname().unwrap_or(&user).to_owned();
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    if let Some(password) = text.lines().find_map(|line| fits(line, [&host, &port, &database, &user])) {
        config.password(password);
    }
}

/// The password of a line, where its four first fields are these or `*`.
fn fits(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut escaped = false;
    for character in line.chars() {
        match character {
            _ if escaped => {
                fields.last_mut()?.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            ':' if fields.len() < 5 => fields.push(String::new()),
            _ => fields.last_mut()?.push(character),
        }
    }
    let password = fields.pop()?;
    let same =
        fields.len() == 4 && fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
    same.then_some(password)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_line_fits_field_by_field() {
        let wanted = ["db", "5432", "app", "alice"];
        assert_eq!(fits("db:5432:app:alice:s:e\\\\c", wanted).as_deref(), Some("s:e\\c"));
        assert_eq!(fits("*:*:*:alice:x", wanted).as_deref(), Some("x"));
        for line in
            ["", "# db:5432:app:alice:x", "db:5432:app:bob:x", "db:5432:app:alice", "d\\:b:5432:app:alice:x"]
        {
            assert_eq!(fits(line, wanted), None, "{line}");
        }
    }
}
