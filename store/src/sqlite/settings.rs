//! What the threads of a store know of it, and what they look at before they decide or answer anything.

use std::time::Duration;

use rusqlite::Connection;

use super::attach::Boot;
use super::failure::Place;
use super::identity::Identity;
use super::lane::Worked;
use super::row::{Base, load_base};
use crate::{ErrorKind, StoreError};

/// What a store needs to decide.
pub(super) struct Settings {
    pub(super) place: Place,
    /// `None` for a database in memory.
    pub(super) identity: Option<Identity>,
    pub(super) boot: Boot,
    pub(super) max_ttl: Duration,
    /// How many holds a resource's history keeps; `None` for no history.
    pub(super) keep: Option<u32>,
}

impl Settings {
    /// The file is the one that was opened.
    pub(super) fn is_still_there(&self) -> Result<(), StoreError> {
        self.identity.as_ref().map_or(Ok(()), Identity::check)
    }

    /// The store as a whole, in the transaction of this connection: if the file is still the one that was opened, has
    /// not been wiped, and its clock is still this machine's.
    pub(super) fn base(&self, connection: &Connection) -> Worked<Base> {
        if let Err(error) = self.is_still_there() {
            return Ok(Err(error));
        }
        Ok(match load_base(connection)? {
            Some(base) => self.is_ours(&base).map(|()| base),
            None => Err(StoreError::new(
                ErrorKind::NotSetUp,
                format!("{} has lost its epoch: it was wiped", self.place),
            )),
        })
    }

    /// Another machine has taken the file's clock over otherwise.
    fn is_ours(&self, base: &Base) -> Result<(), StoreError> {
        if base.boot == self.boot.identity() {
            return Ok(());
        }
        Err(StoreError::new(
            ErrorKind::Configuration,
            format!(
                "{} is in use by another machine now (boot {}, this one is {}): two machines on one file would not see \
                 each other's leases",
                self.place,
                base.boot,
                self.boot.identity()
            ),
        ))
    }
}
