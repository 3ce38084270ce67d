//! Which store is meant, and how it is opened.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use lease_machines_store::{Store, StoreError};

use crate::exit::{self, Exit};

/// A store that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Located {
    /// Its URL.
    pub(crate) url: String,
    /// Nobody asked for it by name: it keeps others on this machine out, and no one else.
    pub(crate) by_default: bool,
}

/// Why there is no store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// What to exit with.
    pub(crate) exit: Exit,
    /// What was found, where, and what was expected.
    pub(crate) message: String,
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self { exit: exit::of_store(error.kind()), message: error.to_string() }
    }
}

/// Finds the store: the option, `$LEASE_STORE`, the first line of the file that `$LEASE_STORE_FILE` names, or a file in
/// the user's state folder.
pub(crate) fn locate(option: Option<&str>) -> Result<Located, Refusal> {
    let from = |name: &str| env::var(name).ok().filter(|value: &String| !value.is_empty());
    locate_in(option, &from)
}

fn locate_in(option: Option<&str>, from: &dyn Fn(&str) -> Option<String>) -> Result<Located, Refusal> {
    if let Some(url) = option {
        return named(url, from);
    }
    if let Some(url) = from("LEASE_STORE") {
        return named(&url, from);
    }
    if let Some(file) = from("LEASE_STORE_FILE") {
        let text = fs::read_to_string(&file)
            .map_err(|error| configuration(format!("cannot read $LEASE_STORE_FILE, {file}: {error}")))?;
        let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
        let line = line.ok_or_else(|| {
            configuration(format!(
                "the first line of $LEASE_STORE_FILE, {file}, is empty: a store's URL was expected"
            ))
        })?;
        return named(line, from);
    }
    Ok(Located { by_default: true, ..named("local", from)? })
}

fn named(url: &str, from: &dyn Fn(&str) -> Option<String>) -> Result<Located, Refusal> {
    if url != "local" {
        return Ok(Located { url: url.to_owned(), by_default: false });
    }
    let state = from("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match (state, from("HOME").map(PathBuf::from).filter(|path| path.is_absolute())) {
        (Some(state), _) => state,
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(configuration(
                "no home folder for the local store: set $HOME or $XDG_STATE_HOME to an absolute path, or name a store"
                    .to_owned(),
            ));
        }
    };
    let folder = folder.join("lease-machines");
    let path = folder.join("local.db");
    let Some(path) = path.to_str() else {
        return Err(configuration(format!("the path of the local store is not UTF-8: {}", path.display())));
    };
    Ok(Located { url: format!("sqlite:{path}"), by_default: false })
}

fn configuration(message: String) -> Refusal {
    Refusal { exit: Exit::Configuration, message }
}

/// Opens it.
pub(crate) fn open(located: &Located) -> Result<Arc<dyn Store>, Refusal> {
    Ok(lease_machines_store::open(&located.url)?)
}
