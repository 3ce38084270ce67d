//! What the doctors of several servers say.

use std::cmp::Reverse;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::time::SystemTime;

use crate::{Epoch, ErrorKind, Finding, Severity, StoreError};

/// Both clocks at once, in milliseconds: the server's should lie between two readings of this machine's.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn clock(server: i64, before: i64, after: i64) -> Finding {
    const MUCH: i64 = 2_000;
    let off = if server < before { server - before } else { (server - after).max(0) };
    if off.abs() < MUCH {
        return Finding::fine("clock", "this machine's and the server's agree");
    }
    Finding::new(
        Severity::Note,
        "clock",
        format!("the server's is {off} ms off this machine's: leases do not mind, times in the history do"),
        "set both by NTP",
    )
}

/// This machine's, for that.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn wall_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// What was found, the worst first, and which epoch it is. Where that could not be asked, an error among the rest may say why: a
/// standby, rights that are missing, a version. Otherwise nothing that was found matters yet, and the error is the answer.
pub(crate) fn with_epoch(
    mut findings: Vec<Finding>,
    epoch: Result<Epoch, StoreError>,
) -> Result<Vec<Finding>, StoreError> {
    findings.push(match epoch {
        Ok(epoch) => Finding::fine("epoch", epoch.to_string()),
        Err(error) if !is_explained(error.kind(), &findings) => return Err(error),
        Err(error) => {
            let found = format!("could not be asked: {error}");
            Finding::new(Severity::Error, "epoch", found, "see what else is wrong")
        }
    });
    findings.sort_by_key(|finding| Reverse(finding.severity));
    Ok(findings)
}

fn is_explained(kind: ErrorKind, findings: &[Finding]) -> bool {
    use ErrorKind::{Configuration, Permission, Storage, Unreachable};
    let stands_elsewhere = matches!(kind, Configuration | Permission | Storage | Unreachable);
    let mut errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    // Under a version that is too old nothing else means anything.
    errors.any(|finding| stands_elsewhere || finding.check == "version")
}

/// What of the rights a store's user lacks.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub(crate) fn rights(lacking: &str) -> Finding {
    if lacking.is_empty() {
        return Finding::fine("rights", "all that the store's calls need");
    }
    let mend = "grant what `lease migrate --print` lists";
    Finding::new(Severity::Error, "rights", format!("this user lacks {lacking}"), mend)
}
