//! `lease id`: machine IDs, and the IDs that are made with them.

mod acquire;
mod clocks;
mod decode;
mod layout;
mod ls;
mod next;
mod pool;
mod release;
mod revoke;
mod run;
mod whois;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::run::RunArgs;

pub(crate) use clocks::Sent;
#[cfg(test)]
pub(crate) use clocks::tests::agreeing;
pub(crate) use pool::PoolOptions;

/// Machine IDs from a pool, and the unique IDs that are made with them
///
/// A pool has N slots, each held by one process at a time; the number of a slot is the machine ID.
#[derive(Args, Debug)]
pub(crate) struct Id {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Acquire(acquire::Acquire),
    Release(release::Release),
    Run(Box<run::Run>),
    Ls(ls::Ls),
    Revoke(revoke::Revoke),
    Next(next::Next),
    Decode(decode::Decode),
    Whois(whois::Whois),
}

impl Id {
    /// `lease id run` is `lease run` for a slot.
    pub(crate) fn as_run(&self) -> Option<RunArgs> {
        match &self.what {
            What::Run(run) => Some(run.as_run()),
            _ => None,
        }
    }

    pub(crate) async fn run(self) -> Outcome {
        match self.what {
            What::Acquire(acquire) => acquire.run().await,
            What::Release(release) => release.run().await,
            // See `as_run`.
            What::Run(_) => Err(Failure::new(Exit::Failed, "this is no command that runs here")),
            What::Ls(ls) => ls.run().await,
            What::Revoke(revoke) => revoke.run().await,
            What::Next(next) => next.run(),
            What::Decode(decode) => decode.run(),
            What::Whois(whois) => whois.run().await,
        }
    }
}
