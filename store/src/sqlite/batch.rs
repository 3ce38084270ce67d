//! Decisions inside one transaction.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use rusqlite::{Connection, params};

use super::attach::nanos;
use super::echoes::{Echoes, Unheard};
use super::failure::sqlite_error;
use super::history;
use super::lane::Worked;
use super::row::{self, Base};
use super::schema::clock_is_wrong;
use super::settings::Settings;
use super::slots;
use crate::codes::outcome_code;
use crate::decide::{
    self, At, Decided, EARLIEST_MICROS, Effects, Known, Reason, Row, Standing, Write, micros,
};
use crate::{
    Acquired, Claim, Ending, Epoch, HoldOutcome, LeaseRef, Opening, Released, Renewed, ResourceName, Revoked,
    StoreError, check,
};

/// Withdrawn owners are remembered for this long at least: longer than any request of theirs is on its way. By the store's
/// clock: one process whose wall clock is ahead would make all others forget.
const REMEMBER_WITHDRAWN: Duration = Duration::from_secs(3600);

/// One immediate transaction.
pub(super) struct Batch {
    connection: Rc<Connection>,
    settings: Arc<Settings>,
    echoes: Rc<Echoes>,
    base: RefCell<Base>,
}

impl Batch {
    pub(super) fn new(
        connection: Rc<Connection>,
        settings: Arc<Settings>,
        echoes: Rc<Echoes>,
        base: Base,
    ) -> Self {
        Self { connection, settings, echoes, base: RefCell::new(base) }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.base.borrow().standing.epoch
    }

    pub(super) fn standing(&self) -> Standing {
        self.base.borrow().standing.clone()
    }

    pub(super) fn floor(&self) -> u64 {
        self.base.borrow().standing.floor
    }

    /// No token at or below this is issued from now on.
    pub(super) fn raise_floor(&self, least: u64) -> rusqlite::Result<()> {
        let mut base = self.base.borrow_mut();
        if least > base.standing.floor {
            base.standing.floor = least;
            self.connection.execute("UPDATE lease_store SET floor = ?1 WHERE id = 1", [least as i64])?;
        }
        Ok(())
    }

    /// How durable this connection's commits are, as SQLite counts it.
    pub(super) fn synchronous(&self) -> rusqlite::Result<i64> {
        self.connection.query_row("PRAGMA synchronous", [], |row| row.get(0))
    }

    /// The time at which a request is decided: asked for each, since the lock is held.
    pub(super) fn now(&self) -> At {
        self.settings.boot.at(self.base.borrow().offset)
    }

    /// What is to be taken back where nobody hears of the answer is told too. That is neither an echo's grant nor one in
    /// place of a lease that its owner may be working under.
    pub(super) fn acquire(&self, claim: &Claim, again: bool) -> Worked<(Acquired, Option<Unheard>)> {
        let done = match &claim.once {
            Some(once) => row::load_done(&self.connection, &claim.resource, once)?,
            None => None,
        };
        let known = Known { done, withdrawn: self.has_withdrawn(claim.resource.as_str(), claim.owner)? };
        let mut unheard = None;
        let answer = self.decide(&claim.resource, |row, base, at| {
            let decided = decide::acquire(row, &base.standing, at, claim, again, known);
            if decided.effects.write == Write::Whole {
                let rotated =
                    decided.effects.ended.as_ref().is_some_and(|hold| hold.outcome == HoldOutcome::Rotated);
                unheard = (!rotated).then(|| self.unheard(claim.owner));
            } else if matches!(decided.answer, Ok(Acquired::Granted(_))) {
                self.heard(claim.owner);
            }
            decided
        })?;
        Ok(answer.map(|acquired| (acquired, unheard)))
    }

    /// Somebody is told of a grant to this owner by an echo.
    pub(super) fn heard(&self, owner: OwnerId) {
        self.echoes.add(owner);
    }

    /// A grant to this owner, of which nobody has heard yet.
    pub(super) fn unheard(&self, owner: OwnerId) -> Unheard {
        self.echoes.unheard(owner)
    }

    pub(super) fn is_unheard(&self, owner: OwnerId, since: Unheard) -> bool {
        self.echoes.are_silent(owner, since)
    }

    pub(super) fn renew(&self, lease: &LeaseRef, ttl: Duration) -> Worked<Renewed> {
        self.decide(&lease.resource, |row, base, at| decide::renew(row, &base.standing, at, lease, ttl))
    }

    /// In the order of the names, as the table is; answered in the order asked.
    pub(super) fn renew_many(
        &self,
        leases: &[(LeaseRef, Duration)],
    ) -> rusqlite::Result<Vec<Result<Renewed, StoreError>>> {
        let mut order: Vec<_> = leases.iter().enumerate().collect();
        order.sort_by_key(|(_, (lease, _))| &lease.resource);
        let mut answers = Vec::with_capacity(leases.len());
        for (asked, (lease, ttl)) in order {
            let answer = match check::ttl(*ttl, self.settings.max_ttl) {
                Ok(ttl) => self.renew(lease, ttl)?,
                Err(error) => Err(error),
            };
            answers.push((asked, answer));
        }
        answers.sort_by_key(|(asked, _)| *asked);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    pub(super) fn release(&self, lease: &LeaseRef, ending: &Ending) -> Worked<Released> {
        self.decide(&lease.resource, |row, base, at| decide::release(row, &base.standing, at, lease, ending))
    }

    pub(super) fn withdraw(&self, resource: &ResourceName, owner: OwnerId) -> Worked<Released> {
        self.decide(resource, |row, base, at| decide::withdraw(row, &base.standing, at, owner))
    }

    /// Takes back a grant that nobody was left to hear of. Its owner may have asked again since: neither is a newer
    /// grant touched, nor one that the same request was told of when it came again, nor the next request refused.
    pub(super) fn undo(
        &self,
        resource: &ResourceName,
        owner: OwnerId,
        token: FencingToken,
        unheard: Unheard,
    ) -> Worked<()> {
        if !self.is_unheard(owner, unheard) {
            return Ok(Ok(()));
        }
        let answer = self.decide(resource, |row, base, at| {
            if row.lease.as_ref().is_some_and(|held| held.owner == owner && held.token == token) {
                let mut decided = decide::withdraw(row, &base.standing, at, owner);
                decided.effects.withdrawn = None;
                decided
            } else {
                Decided { answer: Ok(Released::AlreadyReleased), effects: Effects::default() }
            }
        })?;
        Ok(answer.map(|_| ()))
    }

    pub(super) fn revoke(
        &self,
        resource: &ResourceName,
        expect: Option<FencingToken>,
        reason: Option<&str>,
    ) -> Worked<Revoked> {
        self.decide(resource, |row, base, at| {
            decide::revoke(row, &base.standing, at, expect, reason.map(str::to_owned))
        })
    }

    /// Opens a new epoch, unless somebody else has by now.
    pub(super) fn open_epoch(&self, opening: &Opening) -> Worked<Epoch> {
        if self.epoch() != opening.instead_of {
            return Ok(Ok(self.epoch()));
        }
        let at = self.now();
        if micros(at.wall) < EARLIEST_MICROS {
            return Ok(Err(clock_is_wrong(&self.settings.place, micros(at.wall))));
        }
        self.begin_epoch(&at, opening.into())
    }

    fn begin_epoch(&self, at: &At, reason: Reason) -> Worked<Epoch> {
        let epoch = match Epoch::draw() {
            Ok(epoch) => epoch,
            Err(error) => return Ok(Err(error)),
        };
        let greatest: i64 = self.connection.query_row(
            "SELECT max((SELECT coalesce(max(last_issued), 0) FROM lease_row),
                         (SELECT coalesce(max(last_issued), 0) FROM lease_slot))",
            [],
            |row| row.get(0),
        )?;
        let greatest = u64::try_from(greatest).unwrap_or(0);
        let mut base = self.base.borrow_mut();
        let standing = base.standing.in_new_epoch(epoch, reason, greatest, at, self.settings.max_ttl);
        self.connection.execute(
            "UPDATE lease_store SET epoch = ?1, floor = ?2, grants_from = ?3, stamps_above = ?4 WHERE id = 1",
            params![
                epoch.value() as i64,
                standing.floor as i64,
                nanos(standing.grants_from),
                i64::try_from(standing.stamps_above.as_micros()).unwrap_or(i64::MAX),
            ],
        )?;
        if self.settings.keep.is_some() {
            self.connection.execute(
                "INSERT OR IGNORE INTO lease_history (name, token, owner, label, identity, granted_at, renewed_at,
                     renewals, ends_at, outcome, result, reason)
                 SELECT name, token, owner, label, identity, granted_wall, renewed_wall, renewals, ?1, ?2, 0, NULL
                 FROM lease_row WHERE token IS NOT NULL AND NOT retained AND expires_at > ?3
                 UNION ALL
                 SELECT pool || '#' || slot, token, owner, label, identity, granted_wall, renewed_wall, renewals, ?1, ?2,
                     0, NULL
                 FROM lease_slot WHERE token IS NOT NULL AND free_from > ?3",
                params![micros(at.wall) as i64, outcome_code(HoldOutcome::EpochLost), nanos(at.now)],
            )?;
        }
        if reason.old_holders_are_dead {
            self.connection.execute(
                "UPDATE lease_row SET expires_at = ?1 WHERE token IS NOT NULL AND expires_at > ?1",
                [nanos(at.now)],
            )?;
            self.connection.execute(
                "UPDATE lease_slot SET free_from = ?1 WHERE token IS NOT NULL AND free_from > ?1",
                [nanos(at.now)],
            )?;
        }
        base.standing = standing;
        Ok(Ok(epoch))
    }

    #[cfg(feature = "measure")]
    pub(super) fn bare_upsert(&self, resource: &ResourceName, value: i64) -> rusqlite::Result<()> {
        const UPSERT: &str = "INSERT INTO bare VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE
             SET value = excluded.value, other = excluded.other";
        let mut upsert = match self.connection.prepare_cached(UPSERT) {
            Ok(upsert) => upsert,
            Err(_) => {
                self.connection.execute_batch(
                    "CREATE TABLE bare (name TEXT NOT NULL PRIMARY KEY, value INTEGER, other INTEGER) WITHOUT ROWID",
                )?;
                self.connection.prepare_cached(UPSERT)?
            }
        };
        upsert.execute(params![resource.as_str(), value, value]).map(drop)
    }

    /// Loads, decides, writes.
    fn decide<T>(
        &self,
        resource: &ResourceName,
        decision: impl FnOnce(&mut Row, &Base, &At) -> Decided<T>,
    ) -> Worked<T> {
        let mut row = match row::load(&self.connection, resource) {
            Ok(row) => row,
            // A row that cannot be read is nobody else's error, also where one request is for many. After some errors
            // SQLite has rolled the transaction back: then it is everybody's.
            Err(error) if !self.connection.is_autocommit() => {
                return Ok(Err(sqlite_error(&self.settings.place, "deciding", error)));
            }
            Err(error) => return Err(error),
        };
        let at = self.now();
        let decided = decision(&mut row, &self.base.borrow(), &at);
        self.carry_out(resource, &row, &at, &decided.effects)?;
        Ok(decided.answer)
    }

    fn carry_out(
        &self,
        resource: &ResourceName,
        row: &Row,
        at: &At,
        effects: &Effects,
    ) -> rusqlite::Result<()> {
        row::save(&self.connection, resource, row, at, effects)?;
        self.end_wait(at)?;
        self.add_history(resource, effects)?;
        if let Some(end) = &effects.good {
            row::save_good(&self.connection, resource, end)?;
        }
        if let Some(owner) = effects.withdrawn {
            self.remember_withdrawn(resource.as_str(), owner, at)?;
        }
        self.look_for_a_loss(effects.rewound, at)
    }

    pub(super) fn add_history(&self, name: &ResourceName, effects: &Effects) -> rusqlite::Result<()> {
        if let Some(keep) = self.settings.keep {
            for entry in effects.ended.iter().chain(&effects.burnt) {
                history::add(&self.connection, name, entry, keep)?;
            }
        }
        Ok(())
    }

    /// Opens a new epoch where a caller has shown a lease that this history does not have.
    pub(super) fn look_for_a_loss(
        &self,
        rewound: Option<(OwnerId, FencingToken)>,
        at: &At,
    ) -> rusqlite::Result<()> {
        if let Some((owner, token)) = rewound {
            if row::has_granted(&self.connection, owner, token)?
                || slots::has_granted(&self.connection, owner, token)?
            {
                return Ok(());
            }
            // Without random numbers the old epoch goes on; the caller has been told that its token is stale.
            let _ = self.begin_epoch(at, Reason::rewound(token))?;
        }
        Ok(())
    }

    /// A wait for leases that may be missing is over for good: after a reboot the file's clock may be set back before its
    /// end, since it goes on from the latest observation.
    pub(super) fn end_wait(&self, at: &At) -> rusqlite::Result<()> {
        let standing = &mut self.base.borrow_mut().standing;
        if !standing.grants_from.is_zero() && at.now >= standing.grants_from {
            standing.grants_from = Duration::ZERO;
            self.connection.execute("UPDATE lease_store SET grants_from = 0 WHERE id = 1", [])?;
        }
        Ok(())
    }

    pub(super) fn remember_withdrawn(&self, name: &str, owner: OwnerId, at: &At) -> rusqlite::Result<()> {
        self.forget_withdrawn(at)?;
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO lease_withdrawn (name, owner, at) VALUES (?1, ?2, ?3)")?
            .execute(params![name, owner.value() as i64, nanos(at.now)])?;
        Ok(())
    }

    pub(super) fn forget_withdrawn(&self, at: &At) -> rusqlite::Result<()> {
        // Written by a program that went by its wall clock, in microseconds since 1970.
        self.connection
            .prepare_cached("UPDATE lease_withdrawn SET at = ?1 WHERE at > ?1")?
            .execute([nanos(at.now)])?;
        self.connection
            .prepare_cached("DELETE FROM lease_withdrawn WHERE at < ?1")?
            .execute([nanos(at.now.saturating_sub(REMEMBER_WITHDRAWN))])?;
        Ok(())
    }

    pub(super) fn has_withdrawn(&self, name: &str, owner: OwnerId) -> rusqlite::Result<bool> {
        self.connection
            .prepare_cached("SELECT 1 FROM lease_withdrawn WHERE name = ?1 AND owner = ?2")?
            .exists(params![name, owner.value() as i64])
    }
}
