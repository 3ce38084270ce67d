//! What weakens the promises on this server.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::failed;
use super::link::{Link, Target};
use crate::server::{clock, rights, wall_millis};
use crate::{Finding, Severity, StoreError};

/// Every setting as its own text, in this order.
const LOOK: &str = "SELECT current_setting('server_version'), current_setting('server_version_num')::integer, \
    current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), \
    current_setting('default_transaction_isolation'), pg_is_in_recovery(), \
    coalesce((SELECT extract(epoch FROM max(clock_timestamp() - a.xact_start))::bigint FROM pg_stat_activity AS a \
        WHERE a.datname = current_database() AND a.backend_xmin IS NOT NULL), 0), \
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
    current_setting('synchronous_standby_names'), current_setting('transaction_read_only'), \
    current_setting('lease_machines.tag', true)";

/// What of the rights that `migrate` prints the role lacks, in one line.
const RIGHTS: &str = "SELECT coalesce(string_agg(lacking.what, ', ' ORDER BY lacking.what), '') FROM ( \
    SELECT format('%s on %s', wanted.privilege, c.relname) AS what FROM pg_class AS c, \
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted (privilege) \
        WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' AND c.relname LIKE 'lease\\_%' \
        AND NOT has_table_privilege(c.oid, wanted.privilege) \
    UNION ALL SELECT 'USAGE on the schema' WHERE NOT has_schema_privilege(to_regnamespace($1)::oid, 'USAGE') \
    UNION ALL SELECT format('EXECUTE on %s', p.proname) FROM pg_proc AS p \
        WHERE p.pronamespace = to_regnamespace($1) AND p.proname LIKE 'lease\\_%' \
        AND NOT has_function_privilege(p.oid, 'EXECUTE')) AS lacking";

/// Looks at a connection that was made with this tag, if with any.
pub(super) async fn examine(
    target: &Target,
    link: &Link,
    tag: Option<&str>,
) -> Result<Vec<Finding>, StoreError> {
    let error = |error| failed(&target.place, "looking at the settings", error).nothing_changed();
    let before = wall_millis();
    let rows = link.client().query_typed(LOOK, &[]).await.map_err(error)?;
    let after = wall_millis();
    let (mut findings, mut kept) = (Vec::new(), None::<String>);
    if let Some(row) = rows.first() {
        settings(row, &mut findings).map_err(error)?;
        findings.push(clock(row.try_get(8).map_err(error)?, before, after));
        kept = row.try_get(11).map_err(error)?;
    }
    let schema = target.options.quoted_schema();
    let rows = link.client().query_typed(RIGHTS, &[(&schema, Type::TEXT)]).await.map_err(error)?;
    let lacking: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0)).map_err(error)?;
    findings.push(rights(&lacking));
    findings.push(if tag.is_some() && kept.as_deref() == tag {
        Finding::fine("connection", "direct: statements are prepared")
    } else {
        Finding::new(
            Severity::Note,
            "connection",
            "through a pooler, or a connection that was lent: every statement is parsed anew",
            "a direct connection answers sooner",
        )
    });
    Ok(findings)
}

fn settings(row: &Row, findings: &mut Vec<Finding>) -> Result<(), tokio_postgres::Error> {
    findings.push(version(row.try_get(0)?, row.try_get(1)?));
    for (column, check, mend) in [
        (2, "fsync", "with fsync=off a crash of the machine loses grants that were answered: set fsync=on"),
        (3, "full_page_writes", "with full_page_writes=off a crash can damage the tables: set it on"),
    ] {
        let found: String = row.try_get(column)?;
        findings.push(if found == "on" {
            Finding::fine(check, found)
        } else {
            Finding::new(Severity::Error, check, found, mend)
        });
    }
    let commit: String = row.try_get(4)?;
    findings.push(Finding::fine(
        "synchronous_commit",
        format!("{commit}; every decision that writes is committed with at least `on`"),
    ));
    let isolation: String = row.try_get(5)?;
    findings.push(if isolation == "read committed" {
        Finding::fine("isolation", isolation)
    } else {
        Finding::new(
            Severity::Note,
            "isolation",
            format!("{isolation}: each decision is put into a transaction at read committed"),
            "ALTER ROLE … SET default_transaction_isolation = 'read committed' spares the server that",
        )
    });
    findings.push(role(row.try_get(6)?, row.try_get(10)?));
    let oldest: i64 = row.try_get(7)?;
    findings.push(if oldest < 300 {
        Finding::fine("old snapshots", "none older than 5 minutes in this database")
    } else {
        Finding::new(
            Severity::Warning,
            "old snapshots",
            format!("a transaction in this database has been open for {oldest} s: resources that are decided often grow slow"),
            "end it (pg_stat_activity, backend_xmin), or keep leases in a database of their own",
        )
    });
    let standbys: String = row.try_get(9)?;
    findings.push(if standbys.is_empty() {
        Finding::new(
            Severity::Note,
            "failover",
            "no standby is waited for: a promoted one may lack the last grants, and opens a new epoch",
            "set synchronous_standby_names where there is a standby",
        )
    } else {
        Finding::fine("failover", format!("commits wait for {standbys}"))
    });
    Ok(())
}

/// As the server says it, and as a number: 130004 is 13.4.
fn version(found: String, number: i32) -> Finding {
    if number >= 130_000 {
        return Finding::fine("version", found);
    }
    Finding::new(Severity::Error, "version", found, "PostgreSQL 13 or later is needed")
}

/// Whether it is a standby, and whether a transaction may write unless it says otherwise.
fn role(standby: bool, read_only: &str) -> Finding {
    let (found, mend) = match (standby, read_only) {
        (true, _) => ("a standby", "name the primary, or add target_session_attrs=read-write"),
        (false, "off") => return Finding::fine("role", "a primary, which may be written to"),
        (false, _) => {
            ("read-only", "name the primary, or set default_transaction_read_only=off for this role")
        }
    };
    Finding::new(Severity::Error, "role", format!("{found}: it decides nothing"), mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_version_is_an_error() {
        for (found, number, severity) in [
            ("9.6.24", 90_624, Severity::Error),
            ("12.22 (Debian 12.22-1)", 120_022, Severity::Error),
            ("13.0", 130_000, Severity::Fine),
            ("18.1", 180_001, Severity::Fine),
        ] {
            let told = version(found.to_owned(), number);
            assert_eq!((told.severity, told.found.as_str()), (severity, found));
            assert!(told.mend.is_none_or(|mend| mend.contains("13 or later")));
        }
    }
}
