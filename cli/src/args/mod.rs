//! The command line: what every command has in common. Each command's own options stand with the command.

#[cfg(test)]
mod reference;
pub(crate) mod usage;
mod values;

use std::ffi::OsString;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{Epoch, LeaseRef, ResourceName, Store};

use crate::commands;
use crate::exit;
use crate::failure::Failure;
use crate::output;
use crate::run::RunArgs;
use crate::store_url::ChosenStore;

pub(crate) use values::{Wait, epoch, owner, token};

/// Leases across processes and machines, with fencing tokens: only one may act, and the one who overslept is refused.
#[derive(Parser, Debug)]
#[command(
    name = "lease",
    version,
    propagate_version = true,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = epilogue()
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The options of a command line that is `lease run`'s.
    pub(crate) fn parse_run(args: &[OsString]) -> Result<RunArgs, clap::Error> {
        let command = Self::try_parse_from(args)?.command;
        command.as_run().ok_or_else(|| clap::Error::new(ErrorKind::InvalidSubcommand))
    }
}

/// The variables that are read, and what they are for.
pub(crate) const ENVIRONMENT: [(&str, &str); 10] = [
    ("LEASE_STORE", "the store, where --store is not given; lease run --store sets it for its command"),
    ("LEASE_STORE_FILE", "a file whose first line is the store, where LEASE_STORE is not set either"),
    ("XDG_STATE_HOME", "where the store `local` is kept (lease-machines/local.db); else ~/.local/state"),
    ("LEASE_RESOURCE", "set by lease run, for its command: what the lease is on"),
    ("LEASE_OWNER", "the same: the owner; --owner wins"),
    ("LEASE_TOKEN", "the same: the fencing token, to be sent with every write; --token wins"),
    ("LEASE_EPOCH", "the same: the epoch of the store; --epoch wins"),
    ("MACHINE_ID", "set by lease id run, for its command: the machine ID"),
    ("MACHINE_ID_TOKEN", "the same: its fencing token, to be sent with every write"),
    ("NO_COLOR", "set and not empty: no colours, on a terminal either"),
];

/// What follows the commands and options of `lease --help`.
fn epilogue() -> String {
    let mut text = String::from("Exit codes, of all commands:\n");
    for (code, meaning) in exit::rows() {
        text.push_str(&format!("  {code:<6} {meaning}\n"));
    }
    text.push_str("\nVariables:\n");
    for (name, meaning) in ENVIRONMENT {
        text.push_str(&format!("  {name:<17} {meaning}\n"));
    }
    text
}

/// Everything that `lease` does.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(RunArgs),
    #[command(flatten)]
    Other(commands::Command),
}

impl Command {
    /// What is run by the two processes of `lease run`.
    pub(crate) fn as_run(&self) -> Option<RunArgs> {
        match self {
            Self::Run(options) => Some(options.clone()),
            Self::Other(command) => command.as_run(),
        }
    }
}

/// Which store.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreOption {
    /// The store, such as sqlite:/var/lib/jobs/leases.db
    ///
    /// Default: $LEASE_STORE; else the first line of the file that $LEASE_STORE_FILE names; else `local`, an embedded
    /// file in the user's state folder, which keeps out only what this user runs on this machine.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

impl StoreOption {
    /// The choice, without opening anything.
    pub(crate) fn resolve(&self) -> Result<ChosenStore, Failure> {
        ChosenStore::resolve(self.store.as_deref())
    }

    /// The same; says so where nobody chose.
    pub(crate) fn choose(&self) -> Result<ChosenStore, Failure> {
        let chosen = self.resolve()?;
        if let Some(notice) = chosen.notice() {
            output::note(&notice);
        }
        Ok(chosen)
    }

    /// Chooses, and makes the folder of `local`.
    pub(crate) fn prepare(&self) -> Result<ChosenStore, Failure> {
        let chosen = self.choose()?;
        chosen.prepare()?;
        Ok(chosen)
    }

    /// Chooses and opens it, or creates it.
    pub(crate) fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        self.choose()?.open()
    }

    /// Chooses and opens one that is there.
    pub(crate) fn open_existing(&self) -> Result<Arc<dyn Store>, Failure> {
        self.choose()?.open_existing()
    }
}

/// In which form.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Print the answer as one line of JSON (its shape: docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}

/// A lease that `lease acquire` printed.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseOptions {
    /// What the lease is on: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: ResourceName,

    /// The owner that was printed with the grant, as a decimal number
    #[arg(long, env = "LEASE_OWNER", hide_env_values = true, value_name = "NUMBER", value_parser = owner)]
    owner: OwnerId,

    /// The fencing token that was printed with the grant
    #[arg(long, env = "LEASE_TOKEN", hide_env_values = true, value_name = "NUMBER", value_parser = token)]
    token: FencingToken,

    /// The store's epoch that was printed with the grant, 16 hexadecimal digits. Without it a store that was wiped and
    /// set up again since then is not noticed
    #[arg(long, env = "LEASE_EPOCH", hide_env_values = true, value_name = "HEX", value_parser = epoch)]
    epoch: Option<Epoch>,
}

impl LeaseOptions {
    /// What the store is asked about.
    pub(crate) fn lease(&self) -> LeaseRef {
        LeaseRef::new(self.resource.clone(), self.owner, self.token, self.epoch)
    }
}
