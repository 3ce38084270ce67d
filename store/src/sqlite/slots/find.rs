//! Which slot a claim gets: indexed queries find it in the core's order.

use std::time::Duration;

use lease_machines::Gone;
use rusqlite::{Connection, named_params};

use super::rows::{load, stamp_micros};
use crate::decide::{self, At, Standing};
use crate::sqlite::attach::nanos;
use crate::sqlite::row::time;
use crate::{Claimed, PoolClaim, Unclaimed};

// Each of the queries below names its index, since what a planner guesses of a pool that was empty a moment ago is wrong.

/// What every candidate has: a token left, a number in the range, and, where ID time is asked for, some left. The number is
/// looked up in an index where that is ordered by it, and nowhere else (`+`).
macro_rules! able {
    () => {
        "+slot BETWEEN :first AND :last AND last_issued < 9223372036854775807 AND (:until IS NULL OR mark < :until)"
    };
}

/// The live slot of this identity that would last longest, for one that is exclusive.
const LIVE_OF_IDENTITY: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_identity WHERE pool = :pool AND identity = :identity AND free_from > :now AND token IS NOT NULL
     AND ",
    able!(),
    " ORDER BY free_from DESC, slot LIMIT 1"
);

/// The slot that this identity left last.
const OF_IDENTITY: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_identity WHERE pool = :pool AND identity = :identity AND free_from <= :now AND ",
    able!(),
    " ORDER BY free_from DESC, slot LIMIT 1"
);

const NEVER_USED: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_free WHERE pool = :pool AND free_from IS NULL AND slot BETWEEN :first AND :last AND ",
    able!(),
    " ORDER BY slot LIMIT 1"
);

/// The slot that has been free for longest, and has rested since.
const FREE_LONGEST: &str = concat!(
    "SELECT slot FROM lease_slot INDEXED BY lease_slot_free WHERE pool = :pool AND free_from <= :rested AND ",
    able!(),
    " ORDER BY free_from, slot LIMIT 1"
);

/// When the first slot of the claim's own identity comes free.
const NEXT_OF_IDENTITY: &str = concat!(
    "SELECT free_from FROM lease_slot INDEXED BY lease_slot_identity WHERE pool = :pool AND identity = :identity AND free_from > :now AND ",
    able!(),
    " ORDER BY free_from LIMIT 1"
);

/// Since when the first slot of another identity is going to be free.
const NEXT_OF_OTHERS: &str = concat!(
    "SELECT free_from FROM lease_slot INDEXED BY lease_slot_free WHERE pool = :pool AND free_from > :rested
     AND (:identity IS NULL OR identity IS NOT :identity) AND ",
    able!(),
    " ORDER BY free_from LIMIT 1"
);

/// The slot that a claim gets: the first that it may have in the core's order, which is that of [`Pool::claim`].
///
/// [`Pool::claim`]: lease_machines::Pool::claim
pub(super) fn first(
    connection: &Connection,
    claim: &PoolClaim,
    size: u32,
    standing: &Standing,
    at: &At,
) -> rusqlite::Result<Result<u16, Unclaimed>> {
    let (first, last) = (claim.range.first(), u32::from(claim.range.last()).min(claim.size.min(size) - 1));
    if u32::from(first) > last {
        return Ok(Err(Unclaimed::NoSuchSlot));
    }
    let until = claim.id_time.then(|| decide::wall(at).saturating_add(claim.ttl));
    if until.is_some_and(|until| until <= standing.stamps_above) {
        return Ok(Err(Unclaimed::Exhausted { next_chance: None }));
    }
    let (now, until) = (nanos(at.now), until.map(stamp_micros));
    let rested = at.now.checked_sub(claim.cool_down).map_or(-1, nanos);
    let (pool, identity) = (claim.pool.as_str(), claim.identity.as_deref());
    let ask = |sql: &str, more: &[(&str, &dyn rusqlite::ToSql)]| -> rusqlite::Result<Option<i64>> {
        let mut statement = connection.prepare_cached(sql)?;
        let range = named_params! { ":pool": pool, ":first": first, ":last": last, ":until": until };
        for (name, value) in range.iter().chain(more) {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        let mut rows = statement.raw_query();
        rows.next()?.map(|row| row.get(0)).transpose()
    };
    let number = |slot: i64| u16::try_from(slot).unwrap_or(u16::MAX);
    let mine: [(&str, &dyn rusqlite::ToSql); 2] = [(":identity", &identity), (":now", &now)];
    if identity.is_some() {
        if claim.exclusive_identity {
            if let Some(slot) = ask(LIVE_OF_IDENTITY, &mine)? {
                return Ok(Ok(number(slot)));
            }
        } else if let Some(gone) = claim.gone {
            if taken_over(connection, claim, gone, standing, at)? {
                return Ok(Ok(gone.slot));
            }
        }
        if let Some(slot) = ask(OF_IDENTITY, &mine)? {
            return Ok(Ok(number(slot)));
        }
    }
    if let Some(slot) = ask(NEVER_USED, &[])? {
        return Ok(Ok(number(slot)));
    }
    if let Some(slot) = ask(FREE_LONGEST, &[(":rested", &rested)])? {
        return Ok(Ok(number(slot)));
    }
    let own = match identity {
        Some(_) => ask(NEXT_OF_IDENTITY, &mine)?,
        None => None,
    };
    let others = ask(NEXT_OF_OTHERS, &[(":identity", &identity), (":rested", &rested)])?;
    let others = others.map(|free_from| time(free_from).saturating_add(claim.cool_down));
    let next = own.map(time).into_iter().chain(others).min();
    Ok(Err(Unclaimed::Exhausted { next_chance: next.map(|free| free.saturating_sub(at.now)) }))
}

/// Whether the slot whose holder is said to be gone is taken over: where the core would, in a pool of this one.
fn taken_over(
    connection: &Connection,
    claim: &PoolClaim,
    gone: Gone,
    standing: &Standing,
    at: &At,
) -> rusqlite::Result<bool> {
    if !decide::in_range(claim, gone.slot) {
        return Ok(false);
    }
    let Some(mut slot) = load(connection, &claim.pool, gone.slot)? else { return Ok(false) };
    if slot.row.live(at.now).is_none() || slot.identity != claim.identity {
        return Ok(false);
    }
    let tried = decide::take(
        &mut slot,
        gone.slot,
        &Standing { grants_from: Duration::ZERO, ..standing.clone() },
        at,
        claim,
        false,
    );
    Ok(matches!(tried.answer, Ok(Claimed::Granted(_))))
}

#[cfg(test)]
mod tests {
    use super::super::rows::{OWN, resize};
    use super::*;
    use crate::ResourceName;
    use crate::sqlite::schema::TABLES;

    /// However many slots there are: a claim reads a handful of entries of an index, and never the whole pool.
    #[test]
    fn a_claim_looks_a_slot_up_in_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        resize(&connection, &ResourceName::new("ids").unwrap(), 1_000).unwrap();
        connection.execute_batch("ANALYZE").unwrap();
        for (sql, index) in [
            (OWN, "lease_slot_asker (pool=? AND asker=?)"),
            (LIVE_OF_IDENTITY, "lease_slot_identity (pool=? AND identity=? AND free_from>?)"),
            (OF_IDENTITY, "lease_slot_identity (pool=? AND identity=? AND free_from<?)"),
            (NEXT_OF_IDENTITY, "lease_slot_identity (pool=? AND identity=? AND free_from>?)"),
            (NEVER_USED, "lease_slot_free (pool=? AND free_from=? AND slot>? AND slot<?)"),
            (FREE_LONGEST, "lease_slot_free (pool=? AND free_from<?)"),
            (NEXT_OF_OTHERS, "lease_slot_free (pool=? AND free_from>?)"),
        ] {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps: Vec<String> =
                plan.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>().unwrap();
            assert_eq!(steps.len(), 1, "sorted, or looked for twice: {steps:?} for {sql}");
            assert!(steps[0].contains(index), "{steps:?} for {sql}");
        }
    }
}
