//! `lease id revoke`.

use clap::Args;
use lease_machines_store::ResourceName;

use crate::commands::Outcome;
use crate::commands::revoke::{Breaking, Broken};

/// Break the lease on a machine ID that somebody holds
///
/// For a process that is to make no more IDs, and that cannot be stopped otherwise: it stops at its next renewal. Nobody
/// else is given the number before the broken lease would have ended, and its cool-down is over, so that no ID is made
/// twice; for a pool that is full this makes no room any sooner. Exit 1 where nothing was broken.
#[derive(Args, Debug)]
pub(super) struct Revoke {
    /// Which pool
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    /// The machine ID
    #[arg(value_name = "MACHINE_ID")]
    machine_id: u16,

    #[command(flatten)]
    breaking: Breaking,
}

impl Revoke {
    pub(super) async fn run(self) -> Outcome {
        self.breaking.run(Broken::Slot { pool: self.pool, slot: self.machine_id }).await
    }
}
