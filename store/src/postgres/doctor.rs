//! What weakens the promises on this server.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::failed;
use super::link::{Link, Target};
use crate::server::{clock, wall_millis};
use crate::{Finding, Severity, StoreError};

/// Every setting as its own text, in this order.
const LOOK: &str = "SELECT current_setting('server_version'), current_setting('server_version_num')::integer, \
    current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), \
    current_setting('default_transaction_isolation'), pg_is_in_recovery(), \
    coalesce((SELECT extract(epoch FROM max(clock_timestamp() - a.xact_start))::bigint FROM pg_stat_activity AS a \
        WHERE a.datname = current_database() AND a.backend_xmin IS NOT NULL), 0), \
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
    current_setting('synchronous_standby_names')";

/// What of the rights that `migrate` prints the role lacks, in one line.
const RIGHTS: &str = "SELECT coalesce(string_agg(lacking.what, ', ' ORDER BY lacking.what), '') FROM ( \
    SELECT format('%s on %s', wanted.privilege, c.relname) AS what FROM pg_class AS c, \
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted (privilege) \
        WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' AND c.relname LIKE 'lease\\_%' \
        AND NOT has_table_privilege(c.oid, wanted.privilege) \
    UNION ALL SELECT format('EXECUTE on %s', p.proname) FROM pg_proc AS p \
        WHERE p.pronamespace = to_regnamespace($1) AND p.proname LIKE 'lease\\_%' \
        AND NOT has_function_privilege(p.oid, 'EXECUTE')) AS lacking";

pub(super) async fn examine(target: &Target, link: &Link) -> Result<Vec<Finding>, StoreError> {
    let error = |error| failed(&target.place, "looking at the settings", error).nothing_changed();
    let before = wall_millis();
    let rows = link.client().query_typed(LOOK, &[]).await.map_err(error)?;
    let after = wall_millis();
    let mut findings = Vec::new();
    if let Some(row) = rows.first() {
        settings(row, &mut findings).map_err(error)?;
        findings.push(clock(row.try_get(8).map_err(error)?, before, after));
    }
    let schema = target.options.quoted_schema();
    let rows = link.client().query_typed(RIGHTS, &[(&schema, Type::TEXT)]).await.map_err(error)?;
    let lacking: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0)).map_err(error)?;
    findings.push(if lacking.is_empty() {
        Finding::fine("rights", "all that the store's calls need")
    } else {
        let mend = "grant what `lease migrate --print` lists";
        Finding::new(Severity::Error, "rights", format!("the role lacks {lacking}"), mend)
    });
    findings.push(if link.is_direct() {
        Finding::fine("connection", "direct: statements are prepared")
    } else {
        Finding::new(
            Severity::Note,
            "connection",
            "through a pooler, or a connection that was lent: every statement is parsed anew",
            "a direct connection answers sooner",
        )
    });
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn settings(row: &Row, findings: &mut Vec<Finding>) -> Result<(), tokio_postgres::Error> {
    let (version, number): (String, i32) = (row.try_get(0)?, row.try_get(1)?);
    findings.push(if number >= 130_000 {
        Finding::fine("version", version)
    } else {
        Finding::new(Severity::Error, "version", version, "PostgreSQL 13 or later is needed")
    });
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
            Severity::Warning,
            "isolation",
            format!(
                "{isolation}: of two decisions at once on one resource, one fails and is asked for again"
            ),
            "ALTER ROLE … SET default_transaction_isolation = 'read committed'",
        )
    });
    if row.try_get(6)? {
        let mend = "name the primary, or add target_session_attrs=read-write";
        findings.push(Finding::new(Severity::Error, "role", "a standby: it decides nothing", mend));
    }
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
