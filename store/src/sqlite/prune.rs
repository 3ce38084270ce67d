//! Forgetting, without any token ever going down.

use std::time::Duration;

use rusqlite::params;

use super::attach::nanos;
use super::batch::Batch;
use crate::Pruned;
use crate::decide::micros;

/// Resources of one transaction: a writer waits for no more than these.
const AT_ONCE: i64 = 2_000;

impl Batch {
    /// Forgets some of the resources that nobody has held for so long, and, with the last of them, history as old.
    /// Says whether there are more.
    ///
    /// The floor is raised to the greatest token among them in the same transaction, so that a name that is used again
    /// starts above all its old ones. The last good ends are in a table of their own and stay.
    pub(super) fn prune(&self, older_than: Duration) -> rusqlite::Result<(Pruned, bool)> {
        let at = self.now();
        let mut pruned = Pruned::default();
        let before = at.now.checked_sub(older_than).map(nanos);
        let mut more = false;
        if let Some(before) = before {
            let names: Vec<(String, i64)> = self
                .connection()
                .prepare_cached(
                    "SELECT name, last_issued FROM lease_row
                     WHERE observed <= ?1 AND (token IS NULL OR expires_at <= ?1) LIMIT ?2",
                )?
                .query_map(params![before, AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let floor = names.iter().map(|(_, token)| *token).max().unwrap_or(0);
            self.raise_floor(u64::try_from(floor).unwrap_or(0))?;
            // The rows also say when this boot last wrote.
            self.connection()
                .execute("UPDATE lease_store SET wall = max(wall, ?1)", [micros(at.wall) as i64])?;
            let mut delete = self.connection().prepare_cached("DELETE FROM lease_row WHERE name = ?1")?;
            for (name, _) in &names {
                delete.execute([name])?;
            }
            pruned.resources = u64::try_from(names.len()).unwrap_or(0);
            more = i64::try_from(names.len()).is_ok_and(|count| count == AT_ONCE);
        }
        if !more {
            let span = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
            let before = (micros(at.wall) as i64).saturating_sub(span);
            let gone = self.connection().execute(
                "DELETE FROM lease_history WHERE (name, token) IN (
                    SELECT name, token FROM lease_history WHERE ends_at <= ?1 LIMIT ?2)",
                params![before, AT_ONCE],
            )?;
            pruned.history = u64::try_from(gone).unwrap_or(0);
            more = i64::try_from(gone).is_ok_and(|count| count == AT_ONCE);
            self.connection().execute(
                "DELETE FROM lease_done WHERE at <= ?1 AND NOT EXISTS (SELECT 1 FROM lease_good
                    WHERE lease_good.name = lease_done.name AND lease_good.once = lease_done.once)",
                [before],
            )?;
        }
        self.forget_withdrawn(&at)?;
        pruned.floor = self.floor();
        Ok((pruned, more))
    }
}
