//! From a URL to a file and its options.

use std::sync::Arc;

use super::{SqliteMarks, SqliteOptions, SqliteStore};
use crate::limits::Limits;
use crate::open::Engine;
use crate::url::{flag, unknown_option, wrong};
use crate::{StoreError, StoreUrl};

const OPTIONS: [&str; 3] = ["single_host", "allow_network_fs", "create"];

pub(crate) const ENGINE: Engine = Engine {
    open: |url, create| {
        let (path, options) = parse(url)?;
        // What may only look has the last word.
        let options = if create { options } else { options.create(false) };
        Ok(Arc::new(match path {
            None => SqliteStore::open_in_memory(options)?,
            Some(path) => SqliteStore::open(path, options)?,
        }))
    },
    migrate: |url| match parse(url)? {
        (Some(path), options) => SqliteStore::migrate(path, options),
        (None, _) => {
            Err(wrong("sqlite::memory: is set up when it is opened, and gone when it is closed".to_owned()))
        }
    },
    migration_sql: |url| StoreUrl::parse(url).map(|_| SqliteStore::migration_sql().to_owned()),
    // Leases and data may be in one file, and be named by one URL: what is about leases alone is taken and not used.
    marks: |url| match parse(url)? {
        (Some(path), options) => Ok(Arc::new(SqliteMarks::open(&path, &options)?)),
        (None, _) => {
            Err(wrong("the marks of a fence lie where the writes go: expected sqlite:PATH".to_owned()))
        }
    },
};

/// The path is `None` for a database in memory.
fn parse(url: &str) -> Result<(Option<String>, SqliteOptions), StoreError> {
    let url = StoreUrl::parse(url)?;
    let options = options(&url)?;
    Ok((path(&url)?.map(ToOwned::to_owned), options))
}

/// `None` for a database in memory.
fn path(url: &StoreUrl) -> Result<Option<&str>, StoreError> {
    match url.path.as_str() {
        ":memory:" => Ok(None),
        "" => Err(wrong("found sqlite: without a path, expected sqlite:PATH or sqlite::memory:".to_owned())),
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
        if options.limits.take(name, value)? {
            continue;
        }
        options = match name.as_str() {
            "single_host" => options.single_host(flag(name, value)?),
            "allow_network_fs" => options.allow_network_fs(flag(name, value)?),
            "create" => options.create(flag(name, value)?),
            _ => return Err(unknown_option("sqlite", name, Limits::OPTIONS.iter().chain(&OPTIONS))),
        };
    }
    Ok(options)
}
