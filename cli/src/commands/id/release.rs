//! `lease id release`.

use std::time::Duration;

use clap::Args;
use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{Epoch, Released, ResourceName, SlotRef, slot_name};

use super::clocks::{CLOCKS_APART, wall};
use crate::args::{self, StoreOption};
use crate::commands::{Outcome, against, known_slot, unknown_answer};
use crate::exit::Exit;
use crate::failure::Failure;

/// Give a machine ID back that `lease id acquire` gave
///
/// Nobody else gets it before its cool-down of 30s is over.
#[derive(Args, Debug)]
pub(super) struct Release {
    /// Which pool
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    /// The machine ID
    #[arg(long, env = "MACHINE_ID", hide_env_values = true, value_name = "NUMBER")]
    machine_id: u16,

    /// The token that was printed with it
    #[arg(long, env = "MACHINE_ID_TOKEN", hide_env_values = true, value_name = "NUMBER", value_parser = args::token)]
    token: FencingToken,

    /// The owner that was printed with it
    #[arg(long, env = "MACHINE_ID_OWNER", hide_env_values = true, value_name = "NUMBER", value_parser = args::owner)]
    owner: OwnerId,

    /// The store's epoch that was printed with it
    #[arg(long, env = "MACHINE_ID_EPOCH", hide_env_values = true, value_name = "HEX", value_parser = args::epoch)]
    epoch: Option<Epoch>,

    #[command(flatten)]
    store: StoreOption,
}

impl Release {
    pub(super) async fn run(self) -> Outcome {
        let store = self.store.open_existing()?;
        let held = SlotRef::new(self.pool.clone(), self.machine_id, self.owner, self.token, self.epoch);
        let name = slot_name(&self.pool, self.machine_id).map_err(Failure::of_look)?;
        known_slot(store.as_ref(), &held, &name).await?;
        match store.release_slot(held, Some(last_used())).await.map_err(Failure::of_decision)? {
            Released::Released | Released::AlreadyReleased | Released::Retained(_) => Ok(Exit::Ok),
            Released::Rejected(rejected) => Err(against(&name, "released", &rejected)),
            _ => Err(unknown_answer()),
        }
    }
}

/// The last ID time that can have been used: nobody stamps beyond this machine's clock, and whoever stamped elsewhere had one
/// that was off by no more than machine IDs allow.
fn last_used() -> Duration {
    wall().saturating_add(CLOCKS_APART)
}
