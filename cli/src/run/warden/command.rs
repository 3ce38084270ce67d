//! The command: what it is told, and how the lease ends with it.

use std::io;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lease_machines::FencingToken;
use lease_machines_store::{Claim, Ending, ResourceName, WorkResult, fresh_owner};
use nix::unistd::Pid;

use super::requests::Requests;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::label;
use crate::run::args::RunArgs;
use crate::run::wire::Plan;
use crate::sys::latency::Slice;
use crate::sys::process::Ended;
use crate::sys::spawn::{Setup, spawn_command};
use crate::sys::terminal::Terminal;

/// What the lease is asked for with: an owner drawn for this run alone.
pub(crate) fn claim(args: &RunArgs, ttl: Duration) -> Result<Claim, Failure> {
    let resource =
        ResourceName::new(&args.resource).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let owner = fresh_owner().map_err(Failure::of_look)?;
    // The number is the one that the caller of `lease run` knows.
    let label = args.label.clone().unwrap_or_else(|| label::of(parent_id()));
    let mut claim = Claim::new(resource, owner, ttl).with_label(label);
    claim.once = args.once.clone();
    Ok(claim)
}

/// How the work ended, for the record.
pub(crate) fn ending(args: &RunArgs, ended: Option<Ended>) -> Ending {
    let (result, once) = match ended {
        Some(Ended::Code(0)) => (WorkResult::Good, args.once.clone()),
        Some(_) => (WorkResult::Failed, None),
        // Nothing ran: nothing is to be held back either.
        None => return Ending::default(),
    };
    Ending::new(result).with_once(once).with_at_least(args.at_least)
}

/// The command, with what it may want to know of its lease.
pub(crate) fn build(
    args: &RunArgs,
    requests: &Requests,
    token: FencingToken,
    store: Option<&str>,
) -> Command {
    let mut words = args.command.iter();
    // The command line has at least one word; an empty name is not found.
    let mut command = Command::new(words.next().map_or_else(Default::default, Clone::clone));
    command
        .args(words)
        .env("LEASE_RESOURCE", requests.fenced().as_str())
        .env("LEASE_TOKEN", token.value().to_string())
        .env("LEASE_OWNER", requests.owner().value().to_string());
    if let Some(epoch) = requests.epoch() {
        command.env("LEASE_EPOCH", epoch.to_string());
    }
    if let Some(slot) = requests.slot() {
        command.env("MACHINE_ID", slot.to_string()).env("MACHINE_ID_TOKEN", token.value().to_string());
    }
    if let Some(store) = store {
        command.env("LEASE_STORE", store);
    }
    command
}

/// Starts it. It takes the terminal at once only if both its ends of the pipe are one: a pager behind it would be
/// stopped for good.
pub(crate) fn spawn(
    command: &mut Command,
    plan: &Plan,
    terminal: Option<&Terminal>,
    slice: Slice,
) -> io::Result<Pid> {
    let terminal =
        terminal.filter(|_| plan.on_terminal).map(|terminal| (terminal, Pid::from_raw(plan.group)));
    spawn_command(command, &Setup { signals: plan.signals, slice, terminal })
}

/// Why it could not be started.
pub(crate) fn failure(args: &RunArgs, error: &io::Error) -> (Exit, String) {
    let name = args.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match error.kind() {
        // Only a path says which file was meant.
        io::ErrorKind::NotFound if name.contains('/') && Path::new(&name).exists() => (
            Exit::CannotExecute,
            format!("{name}: cannot be executed: the interpreter that it names was not found"),
        ),
        io::ErrorKind::NotFound => (Exit::NotFound, format!("{name}: command not found")),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            (Exit::Failed, format!("{name}: could not be started: {error}"))
        }
        _ => (Exit::CannotExecute, format!("{name}: cannot be executed: {error}")),
    }
}
