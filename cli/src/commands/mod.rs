//! One file per command: its options, and what it does.

mod acquire;
mod asking;
mod check;
mod completions;
mod confirm;
mod doctor;
mod epoch;
mod fence;
mod history;
mod id;
mod ls;
mod man;
mod migrate;
mod moving;
mod prune;
mod release;
mod renew;
mod revoke;
mod show;

#[cfg(test)]
pub(crate) use id::agreeing;
pub(crate) use id::{PoolOptions, Sent};

use std::future::Future;

use clap::Subcommand;
use lease_machines::{FencingToken, Rejection};
use lease_machines_store::{LeaseRef, Rejected, ResourceName, SlotRef, Store};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{people, visible};
use crate::run::RunArgs;

/// All commands but `lease run`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Acquire(acquire::Acquire),
    Renew(renew::Renew),
    Release(release::Release),
    Show(show::Show),
    Check(check::Check),
    Ls(ls::Ls),
    #[command(visible_alias = "break")]
    Revoke(revoke::Revoke),
    History(history::History),
    Id(id::Id),
    Prune(prune::Prune),
    Epoch(epoch::Epoch),
    Fence(fence::Fence),
    Doctor(doctor::Doctor),
    Migrate(migrate::Migrate),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    /// What is run by the two processes of `lease run`.
    pub(crate) fn as_run(&self) -> Option<RunArgs> {
        match self {
            Self::Id(id) => id.as_run(),
            _ => None,
        }
    }
}

/// What a command ends with.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Does what was asked, and returns the code to end with.
pub(crate) fn run(command: Command) -> u8 {
    let outcome = match command {
        Command::Acquire(acquire) => block_on(acquire.run()),
        Command::Renew(renew) => block_on(renew.run()),
        Command::Release(release) => block_on(release.run()),
        Command::Show(show) => block_on(show.run()),
        Command::Check(check) => block_on(check.run()),
        Command::Ls(ls) => block_on(ls.run()),
        Command::Revoke(revoke) => block_on(revoke.run()),
        Command::History(history) => block_on(history.run()),
        Command::Id(id) => block_on(id.run()),
        Command::Prune(prune) => block_on(prune.run()),
        Command::Epoch(epoch) => block_on(epoch.run()),
        Command::Fence(fence) => block_on(fence.run()),
        Command::Doctor(doctor) => block_on(doctor.run()),
        Command::Migrate(migrate) => migrate.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    match outcome {
        Ok(exit) => exit.code(),
        Err(failure) => failure.report(),
    }
}

/// A decision that went against the caller: the resource was not granted, renewed and so on.
fn against(resource: &ResourceName, what: &str, rejected: &Rejected) -> Failure {
    let exit = match rejected.reason {
        Rejection::Occupied => Exit::Held,
        Rejection::Vacant | Rejection::WrongOwner | Rejection::StaleToken | Rejection::Expired => Exit::Lost,
        Rejection::InvalidTtl | Rejection::DeadlineOverflow => Exit::Usage,
        _ => Exit::Failed,
    };
    let resource = visible(resource.as_str());
    Failure::new(exit, format!("{resource} was not {what}: {}", people::rejected(rejected)))
}

/// Looks whether the store can have granted this lease at all, before it is asked to renew or release it.
///
/// A store that is shown a token of its own epoch above all that it has issued must conclude that it was put back from a
/// backup, and opens a new epoch: every lease in it is lost. That is right for a program that keeps the names of its
/// leases, and too high a price for a person who mistypes one.
async fn known(store: &dyn Store, lease: &LeaseRef) -> Result<(), Failure> {
    let found = store.inspect(lease.resource.clone()).await.map_err(Failure::of_look)?;
    if lease.epoch == Some(found.epoch) && found.last_issued < Some(lease.token) {
        return Err(unknown(
            &lease.resource,
            lease.token,
            "either the name or the token is wrong, or it was pruned",
        ));
    }
    Ok(())
}

/// The same for a slot, whose name is the pool's with the machine ID.
async fn known_slot(store: &dyn Store, held: &SlotRef, name: &ResourceName) -> Result<(), Failure> {
    let found = store.slots(held.pool.clone()).await.map_err(Failure::of_look)?;
    let slot = found.slots.iter().find(|slot| slot.slot == held.slot);
    if held.epoch == Some(found.epoch) && slot.and_then(|slot| slot.last_issued) < Some(held.token) {
        return Err(unknown(name, held.token, "either the pool, the machine ID or the token is wrong"));
    }
    Ok(())
}

fn unknown(name: &ResourceName, token: FencingToken, what: &str) -> Failure {
    let name = visible(name.as_str());
    Failure::new(
        Exit::Lost,
        format!(
            "this store does not know token {token} of {name}, so it was not asked: {what}, or the store has lost history \
             (then see: lease epoch open --help)"
        ),
    )
}

/// The store's answers grow with it; one that is not known here is no success.
fn unknown_answer() -> Failure {
    Failure::new(Exit::Failed, "the store gave an answer that this version of lease does not know")
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    runtime.block_on(work)
}
