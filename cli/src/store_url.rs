//! Which store a command talks to.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lease_machines_store::{Finding, Severity, Store, StoreUrl};

use crate::exit::Exit;
use crate::failure::Failure;

/// Holds the URL itself.
pub(crate) const STORE: &str = "LEASE_STORE";

/// Names a file whose first line is the URL: for URLs with a password in them.
pub(crate) const STORE_FILE: &str = "LEASE_STORE_FILE";

/// The name of the embedded store in the user's state folder.
const LOCAL: &str = "local";

/// What a URL begins with that was understood: whatever is wrong then, `local` is not what was meant.
const ENGINES: [&str; 9] =
    ["sqlite", "postgres", "postgresql", "mysql", "mariadb", "redis", "rediss", "valkey", "valkeys"];

/// No URL is longer than this; a file whose first line is was named by mistake.
const LONGEST: u64 = 64 * 1024;

/// The store that was chosen, and by what. It may carry a password: its `Debug` shows only where it came from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ChosenStore {
    url: String,
    origin: Origin,
    local: Option<PathBuf>,
}

/// What a store was chosen by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// `--store`.
    Option,
    /// `$LEASE_STORE`.
    Variable,
    /// The file that `$LEASE_STORE_FILE` names.
    File(PathBuf),
    /// Nothing: it is `local`.
    Default,
}

impl ChosenStore {
    /// Chooses: `--store`, else `$LEASE_STORE`, else the first line of the file that `$LEASE_STORE_FILE` names, else
    /// `local`. Nothing is opened or created.
    ///
    /// # Errors
    ///
    /// Configuration: a choice that is there but empty or not readable is an error and never falls back to `local`.
    /// A job that was to be kept apart across machines would run on each of them.
    pub(crate) fn resolve(option: Option<&str>) -> Result<Self, Failure> {
        Self::resolve_in(option, |name| env::var_os(name))
    }

    fn resolve_in(
        option: Option<&str>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        let (text, origin) = if let Some(text) = option {
            (text.to_owned(), Origin::Option)
        } else if let Some(value) = variable(STORE) {
            let text = value
                .into_string()
                .map_err(|_| configuration(format!("${STORE} is not UTF-8; expected the URL of a store")))?;
            (text, Origin::Variable)
        } else if let Some(path) = variable(STORE_FILE) {
            let path = PathBuf::from(path);
            (first_line(&path)?, Origin::File(path))
        } else {
            (LOCAL.to_owned(), Origin::Default)
        };
        if text.is_empty() {
            return Err(configuration(format!(
                "{origin} is empty; expected the URL of a store (or nothing at all, for the store {LOCAL:?})"
            )));
        }
        if text != LOCAL && text.eq_ignore_ascii_case(LOCAL) {
            return Err(configuration(format!("{origin} is {text:?}: did you mean {LOCAL}")));
        }
        if text != LOCAL {
            return Ok(Self { url: text, origin, local: None });
        }
        let path = local_path(variable)?;
        let url = sqlite_url(&path)?;
        Ok(Self { url, origin, local: Some(path) })
    }

    /// Opens it; the folder of `local` is created where it is missing. Says nothing: see [`notice`](Self::notice).
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare), and what the store's own `open` says.
    pub(crate) fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        self.prepare()?;
        lease_machines_store::open(&self.url).map_err(|error| self.explained(Failure::of_look(error)))
    }

    /// Opens it where it is there, and creates nothing: a mistyped path is not to become a store in which nothing is
    /// ever held.
    ///
    /// # Errors
    ///
    /// What the store's own `open_existing` says.
    pub(crate) fn open_existing(&self) -> Result<Arc<dyn Store>, Failure> {
        lease_machines_store::open_existing(&self.url)
            .map_err(|error| self.explained(Failure::of_look(error)))
    }

    /// What is said where there was no store to ask. The library that takes the URL does not know of `local`.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        let engine = self.url.split_once(':').map_or("", |(engine, _)| engine);
        if self.local.is_none() && !ENGINES.contains(&engine) {
            return failure.and(&format!(" (or {LOCAL}: a file in this user's state folder)"));
        }
        failure
    }

    /// The URL, which may carry a password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What a command that is started here has to find in `$LEASE_STORE`, so that `lease` in it finds this store in
    /// whatever folder it works; `None` where it does anyway.
    pub(crate) fn for_command(&self, folder: &Path) -> Option<String> {
        let absolute = from_folder(&self.url, folder);
        match self.origin {
            Origin::Option => Some(absolute.unwrap_or_else(|| self.url.clone())),
            Origin::Variable | Origin::File(_) => absolute,
            Origin::Default => None,
        }
    }

    /// How it was chosen, for `lease doctor`.
    pub(crate) fn finding(&self) -> Finding {
        const CHECK: &str = "store";
        match (&self.local, &self.origin) {
            (Some(path), Origin::Default) => Finding::new(
                Severity::Warning,
                CHECK,
                format!(
                    "no store was named, so it is {}: only what this user runs on this machine is kept out",
                    path.display()
                ),
                format!("name one with --store or ${STORE}, or ask for this one with --store {LOCAL}"),
            ),
            (Some(path), origin) => {
                Finding::fine(CHECK, format!("{} ({LOCAL}, by {origin})", path.display()))
            }
            (None, origin) => match StoreUrl::parse(&self.url) {
                // A path holds no password; other URLs may.
                Ok(url) if url.scheme == "sqlite" => {
                    Finding::fine(CHECK, format!("sqlite:{}, named by {origin}", url.path))
                }
                _ => Finding::fine(CHECK, format!("named by {origin}")),
            },
        }
    }

    /// What stderr says each time where nobody chose a store: without it, two machines would each run the job that
    /// was meant to run once, and nothing would look wrong.
    pub(crate) fn notice(&self) -> Option<String> {
        self.local.as_ref().filter(|_| self.origin == Origin::Default)?;
        Some(format!(
            "no store named: keeps out only this user's jobs on this machine (--store {LOCAL} accepts that)"
        ))
    }

    /// Creates the folder of `local`, readable for its user alone. Other stores need nothing.
    ///
    /// # Errors
    ///
    /// Refused or configuration, naming the folder.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let Some(folder) = self.local.as_deref().and_then(Path::parent) else { return Ok(()) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
            let exit = match error.kind() {
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => Exit::Denied,
                _ => Exit::Configuration,
            };
            Failure::new(exit, format!("cannot create {} for the store {LOCAL:?}: {error}", folder.display()))
        })
    }
}

impl fmt::Debug for ChosenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChosenStore")
            .field("origin", &self.origin)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option => f.write_str("--store"),
            Self::Variable => write!(f, "${STORE}"),
            Self::File(path) => write!(f, "the first line of {} (${STORE_FILE})", path.display()),
            Self::Default => f.write_str("the default"),
        }
    }
}

fn configuration(message: String) -> Failure {
    Failure::new(Exit::Configuration, message)
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let fail = |what: &dyn fmt::Display| {
        configuration(format!(
            "{} (${STORE_FILE}): {what}; expected a file whose first line is the URL of a store",
            path.display()
        ))
    };
    if path.as_os_str().is_empty() {
        return Err(configuration(format!("${STORE_FILE} is empty; expected the path of a file")));
    }
    let file = fs::File::open(path).map_err(|error| fail(&error))?;
    let mut line = Vec::new();
    BufReader::new(file.take(LONGEST)).read_until(b'\n', &mut line).map_err(|error| fail(&error))?;
    let line = String::from_utf8(line).map_err(|_| fail(&"its first line is not UTF-8"))?;
    Ok(line.trim().to_owned())
}

/// `$XDG_STATE_HOME`, else `~/.local/state`, then `lease-machines/local.db`.
fn local_path(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    // The base directory specification tells to ignore a relative path there. So do we with a relative home: the store
    // would depend on the folder that the command is started in.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    match state {
        Some(state) => Ok(state.join("lease-machines").join("local.db")),
        None => Err(configuration(format!(
            "there is no folder for the store {LOCAL:?}: neither $XDG_STATE_HOME nor $HOME is an absolute path; \
             set one of them, or name a store with --store or ${STORE}"
        ))),
    }
}

/// The URL with its path made absolute, where it is one of a file and relative. A folder that is not absolute was not
/// found out: from there the relative path is as good as it can be.
fn from_folder(url: &str, folder: &Path) -> Option<String> {
    if !folder.is_absolute() {
        return None;
    }
    let path = url.strip_prefix("sqlite:").filter(|path| !path.starts_with(['/', ':', '?']))?;
    let folder = escaped(folder.to_str()?);
    Some(format!("sqlite:{}/{path}", folder.trim_end_matches('/')))
}

fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3F")
}

/// The path as a URL: what would end it, or begin an escape, is escaped.
fn sqlite_url(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().ok_or_else(|| {
        configuration(format!(
            "the path of the store {LOCAL:?}, {}, is not UTF-8; expected one that is",
            path.display()
        ))
    })?;
    Ok(format!("sqlite:{}", escaped(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(option: Option<&str>, variables: &[(&str, &str)]) -> Result<ChosenStore, Failure> {
        ChosenStore::resolve_in(option, |wanted| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| OsString::from(value))
        })
    }

    const HOME: (&str, &str) = ("HOME", "/home/a");

    #[test]
    fn the_option_wins_over_the_variable_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store");
        fs::write(&file, "sqlite:/file.db\r\nsecond line\n").unwrap();
        let file = file.to_str().unwrap();
        let all = [HOME, (STORE, "sqlite:/variable.db"), (STORE_FILE, file)];
        assert_eq!(resolve(Some("sqlite:/option.db"), &all).unwrap().url(), "sqlite:/option.db");
        assert_eq!(resolve(None, &all).unwrap().url(), "sqlite:/variable.db");
        let by_file = resolve(None, &[HOME, (STORE_FILE, file)]).unwrap();
        assert_eq!((by_file.url(), by_file.notice()), ("sqlite:/file.db", None));
    }

    #[test]
    fn local_lies_in_the_state_folder_and_is_announced_unless_asked_for() {
        let chosen = resolve(None, &[HOME]).unwrap();
        assert_eq!(chosen.url(), "sqlite:/home/a/.local/state/lease-machines/local.db");
        assert!(chosen.notice().unwrap().contains("only this user's jobs on this machine"));
        let state = ("XDG_STATE_HOME", "/state 100%?");
        let chosen = resolve(None, &[HOME, state]).unwrap();
        assert_eq!(chosen.url(), "sqlite:/state 100%25%3F/lease-machines/local.db");
        for chosen in [resolve(Some("local"), &[HOME]), resolve(None, &[HOME, (STORE, "local")])] {
            let chosen = chosen.unwrap();
            assert_eq!(chosen.url(), "sqlite:/home/a/.local/state/lease-machines/local.db");
            assert_eq!(chosen.notice(), None);
        }
    }

    #[test]
    fn local_is_written_small() {
        for word in ["Local", "LOCAL"] {
            let failure = resolve(Some(word), &[HOME]).unwrap_err();
            assert_eq!(failure.exit(), Exit::Configuration);
            assert!(failure.to_string().contains("did you mean local"), "{failure}");
        }
    }

    #[test]
    fn nothing_is_guessed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (blank, binary) = (path("blank", b"\nsqlite:/x.db\n"), path("binary", b"\xff\xfe"));
        for (variables, found) in [
            (vec![], "neither $XDG_STATE_HOME nor $HOME"),
            (vec![("HOME", ""), ("XDG_STATE_HOME", "relative")], "neither $XDG_STATE_HOME nor $HOME"),
            (vec![HOME, (STORE, "")], "$LEASE_STORE is empty"),
            (vec![HOME, (STORE_FILE, "")], "$LEASE_STORE_FILE is empty"),
            (
                vec![HOME, (STORE_FILE, "/nonexistent/store")],
                "/nonexistent/store ($LEASE_STORE_FILE): No such file",
            ),
            (vec![HOME, (STORE_FILE, "/")], "/ ($LEASE_STORE_FILE): Is a directory"),
            (vec![HOME, (STORE_FILE, &blank)], "blank ($LEASE_STORE_FILE) is empty"),
            (vec![HOME, (STORE_FILE, &binary)], "its first line is not UTF-8"),
        ] {
            let failure = resolve(None, &variables).unwrap_err();
            assert_eq!(failure.exit(), Exit::Configuration);
            assert!(failure.to_string().contains(found), "{variables:?}: {failure}");
        }
        let failure = resolve(Some(""), &[HOME]).unwrap_err();
        assert!(failure.to_string().contains("--store is empty"), "{failure}");
    }

    #[test]
    fn a_command_finds_the_same_file_from_another_folder() {
        let folder = Path::new("/a b/100%");
        let option = |url: &str| resolve(Some(url), &[HOME]).unwrap().for_command(folder).unwrap();
        assert_eq!(option("sqlite:x/y.db?timeout=1s"), "sqlite:/a b/100%25/x/y.db?timeout=1s");
        assert_eq!(option("sqlite:/x.db"), "sqlite:/x.db");
        assert_eq!(option("local"), "sqlite:/home/a/.local/state/lease-machines/local.db");
        let variable = |url: &str| resolve(None, &[HOME, (STORE, url)]).unwrap().for_command(folder);
        assert_eq!(variable("sqlite:x.db").as_deref(), Some("sqlite:/a b/100%25/x.db"));
        assert_eq!(variable("sqlite:/x.db"), None);
        let nowhere = resolve(Some("sqlite:x.db"), &[HOME]).unwrap().for_command(Path::new(""));
        assert_eq!(nowhere.as_deref(), Some("sqlite:x.db"), "and not one at the root");
        assert_eq!(resolve(None, &[HOME]).unwrap().for_command(folder), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let chosen = resolve(Some("postgres://user:secret@host/db"), &[HOME]).unwrap();
        assert!(!format!("{chosen:?}").contains("secret"));
        assert!(!chosen.finding().found.contains("secret"));
    }
}
