//! What weakens the promises on this server.

use std::collections::HashMap;

use mysql_async::Error;

use super::call::Call;
use super::failure::{NO_RIGHT_TO_ROUTINE, NO_RIGHT_TO_TABLE, failed};
use super::link::{self, Link, Target};
use super::schema::{self, Wanting, is_new_enough};
use crate::server::{clock, rights, wall_millis};
use crate::{Finding, Severity, StoreError};

/// What is looked at among the settings; a server that does not know one of them leaves it out.
const SETTINGS: [&str; 13] = [
    "version",
    "innodb_flush_log_at_trx_commit",
    "innodb_doublewrite",
    "log_bin",
    "sync_binlog",
    "binlog_format",
    "read_only",
    "super_read_only",
    "wsrep_on",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
    "server_id",
    "server_uuid",
];

pub(super) async fn examine(target: &Target, link: &mut Link) -> Result<Vec<Finding>, StoreError> {
    let error = |error| failed(&target.place, "looking at the settings", error).nothing_changed();
    link.query(&link::settings(target)).await.map_err(error)?;
    let text = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{}')", SETTINGS.join("','"));
    let rows = link.query(&text).await.map_err(error)?;
    let found: HashMap<String, String> =
        rows.iter().filter_map(|row| Some((row.get(0)?, row.get(1)?))).collect();
    let mut findings = settings(&found);
    let before = wall_millis();
    // As the procedures read it.
    let now = link.query(&schema::expanded("SELECT {clock} DIV 1000")).await.map_err(error)?;
    let after = wall_millis();
    if let Some(server) = now.first().and_then(|row| row.get::<i64, _>(0)) {
        findings.push(clock(server, before, after));
    }
    findings.push(old_snapshots(link).await);
    findings.push(still_sysdate(link).await);
    let lacking = lacking(link).await;
    // Whoever may not call procedures may not see them either.
    if !lacking.contains(&"EXECUTE") {
        findings.push(procedures(&schema::wanting(target, link).await?));
    }
    findings.push(rights(&lacking.join(", ")));
    Ok(findings)
}

fn procedures(wanting: &Wanting) -> Finding {
    if wanting.is_empty() {
        return Finding::fine("procedures", "all, as this program makes them");
    }
    let mend = "run `lease migrate`; leases and epoch stay as they are";
    Finding::new(Severity::Error, "procedures", wanting.told(), mend)
}

/// Whether SYSDATE() stands still in a statement, as NOW() does. Not every server has a variable that says so.
async fn still_sysdate(link: &mut Link) -> Finding {
    const NAME: &str = "sysdate-is-now";
    let rows = link.query("SELECT SLEEP(0.01), SYSDATE(6) = NOW(6)").await;
    match rows.ok().and_then(|rows| rows.first().and_then(|row| row.get::<i64, _>(1))) {
        Some(1) => Finding::new(
            Severity::Note,
            NAME,
            "ON: SYSDATE() stands still while a statement waits. The store's procedures do not read the clock by it",
            "turn it off where other programs do",
        ),
        _ => Finding::fine(NAME, "OFF"),
    }
}

/// Each right that the store's calls need, a question that changes nothing and is refused without it, and the refusal. Where
/// something else is in the way, nothing is known of the right, and that shows elsewhere.
const RIGHTS: [(&str, &str, u16); 5] = [
    ("SELECT", "SELECT 1 FROM lease_row WHERE FALSE", NO_RIGHT_TO_TABLE),
    ("INSERT", "EXPLAIN INSERT INTO lease_floor (id, floor) VALUES (2, 0)", NO_RIGHT_TO_TABLE),
    ("UPDATE", "EXPLAIN UPDATE lease_floor SET floor = 0 WHERE FALSE", NO_RIGHT_TO_TABLE),
    ("DELETE", "EXPLAIN DELETE FROM lease_row WHERE FALSE", NO_RIGHT_TO_TABLE),
    ("EXECUTE", Call::Epoch.text(), NO_RIGHT_TO_ROUTINE),
];

async fn lacking(link: &mut Link) -> Vec<&'static str> {
    let mut lacking = Vec::new();
    for (right, question, refusal) in RIGHTS {
        if matches!(link.query(question).await, Err(Error::Server(told)) if told.code == refusal) {
            lacking.push(right);
        }
    }
    lacking
}

fn settings(found: &HashMap<String, String>) -> Vec<Finding> {
    let of = |name: &str| found.get(name).map_or("", String::as_str);
    let mut findings = Vec::new();
    let mut check = |name: &'static str, bad: Option<(Severity, &str)>| {
        findings.push(match bad {
            Some((severity, mend)) => Finding::new(severity, name, of(name), mend),
            None => Finding::fine(name, of(name)),
        });
    };
    let when = |bad: bool, severity, mend| bad.then_some((severity, mend));
    check(
        "version",
        when(
            !is_new_enough(of("version")),
            Severity::Error,
            "MySQL 8.0.19 or later, or MariaDB 10.6 or later, is needed",
        ),
    );
    check(
        "innodb_flush_log_at_trx_commit",
        when(
            of("innodb_flush_log_at_trx_commit") != "1",
            Severity::Error,
            "a crash loses grants that were answered, and may give their tokens again: set it to 1",
        ),
    );
    check(
        "innodb_doublewrite",
        when(
            of("innodb_doublewrite") == "OFF",
            Severity::Error,
            "a crash can damage the tables: set innodb_doublewrite=ON, unless the disk writes whole pages",
        ),
    );
    let logged = of("log_bin") == "ON";
    if logged {
        check(
            "sync_binlog",
            when(
                of("sync_binlog") != "1",
                Severity::Warning,
                "after a crash, replicas may have what this server has lost: set sync_binlog=1",
            ),
        );
        check(
            "binlog_format",
            when(
                of("binlog_format") == "STATEMENT",
                Severity::Error,
                "under READ COMMITTED nothing can be written: set binlog_format=ROW or MIXED",
            ),
        );
    }
    let mend = "it decides nothing: name the primary";
    check("read_only", when(!matches!(of("read_only"), "OFF" | "0" | ""), Severity::Error, mend));
    if of("wsrep_on") == "ON" {
        let mend = "nodes of a Galera cluster decide before they have heard of each other, and each counts as another \
                    server here: use one that is no cluster";
        check("wsrep_on", Some((Severity::Error, mend)));
    }
    let waits =
        ["rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"].iter().any(|name| of(name) == "ON");
    findings.push(if waits {
        Finding::fine(
            "failover",
            "commits wait for a replica (semi-synchronous replication), until its time-out",
        )
    } else {
        Finding::new(
            Severity::Note,
            "failover",
            "no replica is waited for: one that takes over may lack the last grants, and opens a new epoch",
            "use semi-synchronous replication where there is a replica",
        )
    });
    let identity = if of("server_uuid").is_empty() {
        format!("server_id {}: a replica that takes over has to have another", of("server_id"))
    } else {
        format!("server_uuid {}", of("server_uuid"))
    };
    findings.push(Finding::fine("identity", identity));
    findings
}

/// Long transactions make versions of hot rows pile up. Not every account may look.
async fn old_snapshots(link: &mut Link) -> Finding {
    const LOOK: &str = "SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) FROM information_schema.INNODB_TRX";
    let rows = link.query(LOOK).await;
    match rows.ok().and_then(|rows| rows.first().and_then(|row| row.get::<i64, _>(0))) {
        None => Finding::new(
            Severity::Note,
            "old snapshots",
            "this account may not look for long transactions, which make resources that are decided often slow",
            "GRANT PROCESS, or look at information_schema.INNODB_TRX with another account",
        ),
        Some(oldest) if oldest < 300 => Finding::fine("old snapshots", "none older than 5 minutes"),
        Some(oldest) => Finding::new(
            Severity::Warning,
            "old snapshots",
            format!("a transaction has been open for {oldest} s: resources that are decided often grow slow"),
            "end it (information_schema.INNODB_TRX)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: &str) -> Finding {
        let settings = HashMap::from([(name.to_owned(), value.to_owned())]);
        super::settings(&settings).into_iter().find(|finding| finding.check == name).unwrap()
    }

    #[test]
    fn an_old_version_is_an_error() {
        for (version, severity) in [
            ("5.7.44-log", Severity::Error),
            ("8.0.18", Severity::Error),
            ("10.5.29-MariaDB", Severity::Error),
            ("8.0.19", Severity::Fine),
            ("10.11.6-MariaDB-0+deb12u1", Severity::Fine),
        ] {
            let told = found("version", version);
            assert_eq!((told.severity, told.found.as_str()), (severity, version));
            assert!(told.mend.is_none_or(|mend| mend.contains("MariaDB 10.6 or later")));
        }
    }
}
