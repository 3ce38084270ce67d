//! The real program, with a store and an environment of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a store in it, and nothing of the environment that the tests run in.
pub(crate) struct World {
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With a store that is set up.
    pub(crate) fn set_up() -> Self {
        let world = Self::new();
        world.lease("migrate").ok();
        world
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The URL of the store.
    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path("leases.db").display())
    }

    /// `lease`, on the store, without home and terminal.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.bare(args);
        command.env("LEASE_STORE", self.url());
        command
    }

    /// `lease` without a store.
    pub(crate) fn bare<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
        command.args(args).env_clear().current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs words that are separated by single blanks.
    pub(crate) fn lease(&self, words: &str) -> Answer {
        Answer::of(&mut self.command(words.split(' ')))
    }

    /// The same with `--json`, which succeeds.
    pub(crate) fn json(&self, words: &str) -> Value {
        self.lease(&format!("{words} --json")).ok().json()
    }

    /// Takes a lease; it may have to wait for it.
    pub(crate) fn acquire(&self, words: &str) -> Grant {
        Grant::of(&self.lease(&format!("acquire {words}")))
    }
}

/// What `lease acquire` printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) owner: String,
    pub(crate) token: String,
    pub(crate) epoch: String,
}

impl Grant {
    /// What `lease acquire` answered.
    #[track_caller]
    pub(crate) fn of(answer: &Answer) -> Self {
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let value = |name: &str| {
            let part = answer.out.split_whitespace().find_map(|part| part.strip_prefix(name));
            part.unwrap_or_else(|| panic!("no {name} in {:?}", answer.out)).to_owned()
        };
        Self { owner: value("LEASE_OWNER="), token: value("LEASE_TOKEN="), epoch: value("LEASE_EPOCH=") }
    }

    /// As options of `renew` and `release`.
    pub(crate) fn options(&self) -> String {
        format!("--owner {} --token {} --epoch {}", self.owner, self.token, self.epoch)
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.parse().unwrap()
    }
}

/// What a command ended with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// It went well, and had nothing to say about it.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        self
    }

    /// It ended with this code, and an error with these words in it.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.matches('\n').count(), 1, "one line: {self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Reads a file of the repository.
pub(crate) fn repository(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
