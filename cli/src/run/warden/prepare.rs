//! What is looked at before a lease is asked for.

use std::time::Duration;

use lease_machines::KeeperOptions;
use lease_machines_store::{Store, open_marks};

use super::command;
use super::lessor::Lessor;
use super::link::Link;
use super::patience::Patience;
use super::requests::Requests;
use crate::args::Wait;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::run::args::RunArgs;
use crate::run::wire::Note;
use crate::sys::clock;

/// What a run needs before it asks for anything.
pub(super) struct Prepared {
    pub(super) requests: Requests,
    pub(super) options: KeeperOptions,
    /// How long another holder is waited for; the options have the keeper's own.
    pub(super) wait: lease_machines::Wait,
    /// For the command's `$LEASE_STORE`.
    pub(super) store: Option<String>,
}

/// Opens what is needed, and takes nothing.
///
/// # Errors
///
/// What the options or the store say against this run: the command is not to start, and nothing was asked for.
pub(super) fn prepare(args: &RunArgs, link: &mut Link) -> Result<Prepared, Failure> {
    let cadence = args.cadence().map_err(|message| Failure::new(Exit::Usage, message))?;
    let claim = command::claim(args, cadence.ttl())?;
    let chosen = args.store.resolve()?;
    if let Some(notice) = chosen.notice() {
        link.tell(&Note::Say(notice));
    }
    let store = chosen.open()?;
    fits(args, store.as_ref())?;
    // Before anything is waited for: a fence that cannot be reached is a mistake that is better told now.
    let marks = args.fence.as_deref().map(open_marks).transpose();
    let marks = marks.map_err(Failure::of_look)?;
    let now = clock::now();
    let wait = match args.wait {
        _ if args.no_wait || args.skip_if_held => lease_machines::Wait::No,
        Wait::For(Duration::ZERO) => lease_machines::Wait::No,
        Wait::For(limit) => lease_machines::Wait::Until(now.saturating_add(limit)),
        Wait::Forever => lease_machines::Wait::Forever,
    };
    let first_term = cadence.ttl().min(KeeperOptions::FIRST_TERM);
    let options = KeeperOptions::new(cadence)
        .with_wait(Patience::of_keeper(wait, first_term, now))
        .with_max_hold(args.max_hold);
    let requests = Requests::new(Lessor::new(store, args.slots.clone()), claim).with_marks(marks);
    let folder = std::env::current_dir().unwrap_or_default();
    Ok(Prepared { requests, options, wait, store: chosen.for_command(&folder) })
}

/// Whether the store can do what is asked for. What it would refuse later, at the first renewal or at the release, is
/// refused before the command starts.
fn fits(args: &RunArgs, store: &dyn Store) -> Result<(), Failure> {
    let capabilities = store.capabilities();
    if !capabilities.durable {
        let message = "the store is in the memory of this run alone, so it keeps nobody out; expected one that others \
                       can open, such as sqlite:/var/lib/jobs/leases.db";
        return Err(Failure::new(Exit::Configuration, message));
    }
    for (option, found, does) in
        [("--ttl", args.ttl, "grants"), ("--at-least", args.at_least, "holds back for")]
    {
        if found > capabilities.max_ttl {
            let (found, most) = (duration::show(found), duration::show(capabilities.max_ttl));
            let message = format!("{option} is {found}; this store {does} at most {most} (its max_ttl)");
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    Ok(())
}
