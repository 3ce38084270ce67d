//! What the doctors of several servers say.

use std::time::SystemTime;

use crate::{Epoch, Finding, Severity, StoreError};

/// Both clocks at once, in milliseconds: the server's should lie between two readings of this machine's.
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
pub(crate) fn wall_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Which epoch it is. Whoever has none is told how to mend that by every call.
pub(crate) fn epoch(found: Result<Epoch, StoreError>) -> Finding {
    match found {
        Ok(epoch) => Finding::fine("epoch", epoch.to_string()),
        Err(error) => Finding::new(
            Severity::Error,
            "epoch",
            format!("could not be asked: {error}"),
            "every other call needs it, too: see what that error says",
        ),
    }
}
