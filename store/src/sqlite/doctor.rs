//! What weakens the promises of this file, here and now.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::connection::folder_of;
use super::filesystem::{is_in_memory, shared_file_system};
use super::lane::Worked;
use super::reader::Reads;
use super::row::load_base;
use super::schema::KNOWN;
use crate::check;
use crate::decide::{EARLIEST_MICROS, micros};
use crate::{Finding, Severity};

/// Less space than this is worth a warning: a write-ahead log takes some megabytes.
const LITTLE_SPACE: u64 = 64 << 20;

/// A write-ahead log of this size is not being taken back into the file.
const LARGE_LOG: u64 = 256 << 20;

impl Reads {
    /// All findings, the worst first.
    ///
    /// `synchronous` is what the connection that writes has set; `None` where it could not be asked.
    pub(super) fn doctor(&self, synchronous: Option<i64>) -> Worked<Vec<Finding>> {
        if let Err(error) = self.settings().is_still_there() {
            return Ok(Err(error));
        }
        let mut findings = vec![self.version()?, self.clock()?, self.integrity()?];
        if let Some(path) = self.settings().place.path() {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            findings.push(writers("file", &path));
            findings.push(writers("folder", folder_of(&path)));
            findings.push(self.journal(synchronous)?);
            findings.push(file_system(&path));
            findings.extend(space(&path));
            findings.push(log(&path));
        } else {
            findings.push(Finding::new(
                Severity::Note,
                "durability",
                "the database is in memory: it ends with this process",
                "open a file where leases must outlive the process",
            ));
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(Ok(findings))
    }

    fn version(&self) -> rusqlite::Result<Finding> {
        let version: i64 =
            self.connection()
                .query_row("SELECT version FROM lease_store WHERE id = 1", [], |row| row.get(0))?;
        let found = format!("tables of version {version}, SQLite {}", rusqlite::version());
        let own = KNOWN.writes.version;
        Ok(if version == own {
            Finding::fine("schema", found)
        } else {
            let mend =
                format!("this program writes version {own}; let all programs on the file be of one version");
            Finding::new(Severity::Note, "schema", found, mend)
        })
    }

    fn journal(&self, synchronous: Option<i64>) -> rusqlite::Result<Finding> {
        /// `PRAGMA synchronous`: FULL, and EXTRA above it.
        const FULL: i64 = 2;
        let mode: String = self.connection().query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        Ok(if mode == "wal" {
            match synchronous {
                Some(level) if level >= FULL => Finding::fine(
                    "durability",
                    "write-ahead log, synchronous=FULL: a commit is on the disk when it returns",
                ),
                Some(level) => Finding::new(
                    Severity::Error,
                    "durability",
                    format!(
                        "synchronous is {level}, expected {FULL}: a power cut can undo what was answered"
                    ),
                    "the SQLite library of this program was built to ignore the setting: use another",
                ),
                None => Finding::new(
                    Severity::Note,
                    "durability",
                    "write-ahead log; the connection that writes was busy and could not be asked for the rest",
                    "ask again",
                ),
            }
        } else {
            Finding::new(
                Severity::Error,
                "durability",
                format!("the journal mode is {mode:?}, expected \"wal\": another program changed it"),
                "stop every program that uses the file, open it once with this one, and keep others from it",
            )
        })
    }

    fn integrity(&self) -> rusqlite::Result<Finding> {
        let said: String = self.connection().query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(if said == "ok" {
            Finding::fine("integrity", "no damage found")
        } else {
            Finding::new(
                Severity::Error,
                "integrity",
                said,
                "put a backup back, then open a new epoch: leases granted since are not in it",
            )
        })
    }

    fn clock(&self) -> rusqlite::Result<Finding> {
        let boot = &self.settings().boot;
        let wall = micros(boot.wall());
        if wall < EARLIEST_MICROS {
            return Ok(Finding::new(
                Severity::Warning,
                "clock",
                format!("the wall clock stands {} days after 1970-01-01", wall / 86_400_000_000),
                "set it: leases are not decided by it, but the first tokens of resources are",
            ));
        }
        let Some(base) = load_base(self.connection())? else {
            return Ok(Finding::new(
                Severity::Error,
                "epoch",
                "the store has lost its epoch",
                "it was wiped: put a backup back, then open a new epoch",
            ));
        };
        let at = boot.at(base.offset);
        let held_back = base.standing.grants_from.saturating_sub(at.now);
        Ok(if held_back > Duration::ZERO {
            Finding::new(
                Severity::Warning,
                "epoch",
                format!(
                    "epoch {} was opened after a loss: nothing is granted for another {}",
                    base.standing.epoch,
                    check::left(held_back)
                ),
                "where no old holder can still be at work: `lease epoch open --now`",
            )
        } else {
            Finding::fine("epoch", format!("{}, boot {}", base.standing.epoch, boot.identity()))
        })
    }
}

fn file_system(path: &Path) -> Finding {
    match shared_file_system(path) {
        None if is_in_memory(path) => Finding::new(
            Severity::Warning,
            "file system",
            "the file lies in memory: it is gone when the machine starts anew, and with it what was done once",
            "move the file to a disk, unless nothing relies on --once and the history",
        ),
        None => Finding::fine("file system", "local"),
        Some(name) => Finding::new(
            Severity::Error,
            "file system",
            format!("the file lies on {name}: locks and shared memory do not reach other machines"),
            "move the file to a local disk, or use a store with a server",
        ),
    }
}

fn space(path: &Path) -> Option<Finding> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let found = format!("{} MiB free", free >> 20);
    Some(if free >= LITTLE_SPACE {
        Finding::fine("space", found)
    } else {
        let mend = "make room: with a full disk nothing is granted or renewed";
        Finding::new(Severity::Warning, "space", found, mend)
    })
}

/// It lies beside the file itself, wherever the link to it lies.
fn log(path: &Path) -> Finding {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let size = fs::metadata(log).map_or(0, |log| log.len());
    let found = format!("{} KiB", size >> 10);
    if size < LARGE_LOG {
        Finding::fine("write-ahead log", found)
    } else {
        let mend = "some program keeps a read transaction open on the file: end it";
        Finding::new(Severity::Warning, "write-ahead log", found, mend)
    }
}

/// Who else may write there: they can take, end and forge any lease.
fn writers(check: &'static str, path: &Path) -> Finding {
    let Ok(metadata) = fs::metadata(path) else {
        let found = format!("{} cannot be looked at", path.display());
        return Finding::new(Severity::Warning, check, found, "let this user read the folder");
    };
    let mode = metadata.mode() & 0o7777;
    let found = format!("{}, mode {mode:04o}, of user {}", path.display(), metadata.uid());
    let (writers, mend) = match (mode & 0o020 != 0, mode & 0o002 != 0) {
        (false, false) => return Finding::fine(check, found),
        (true, false) => ("its group", "chmod g-w"),
        (_, true) => ("everybody", "chmod go-w"),
    };
    let found = format!("{found}: {writers} may write it, and do anything with its leases");
    let mend = format!("unless that is meant, {mend} {}", path.display());
    Finding::new(Severity::Warning, check, found, mend)
}
