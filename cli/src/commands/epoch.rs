//! `lease epoch`.

use clap::{Args, Subcommand};
use lease_machines::FencingToken;
use lease_machines_store::{Epoch as StoreEpoch, Opening};
use serde::Serialize;

use super::{Outcome, confirm};
use crate::args::{self, Form, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// Show the store's epoch, or open a new one
///
/// An epoch is the identity of a store's history. A new one ends every lease of the old: their holders hear of it with
/// their next request, and stop.
#[derive(Args, Debug)]
pub(crate) struct Epoch {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Show(Show),
    Open(Open),
}

/// Show the epoch that the store is in
#[derive(Args, Debug)]
struct Show {
    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

/// Open a new epoch: after a backup was put back, or history was lost in another way
///
/// Every lease is lost by it. Some leases may be missing from what is there now, and their holders at work: so nothing
/// is granted until the longest ttl (24h unless the store was set up otherwise) has passed, except with --now.
#[derive(Args, Debug)]
struct Open {
    /// Grant at once. Only where no holder of the old epoch is at work any more: all of them were stopped, or are fenced
    #[arg(long)]
    now: bool,

    /// Issue only tokens above this one: the greatest that any fence has seen
    #[arg(long, value_name = "NUMBER", value_parser = args::token)]
    above: Option<FencingToken>,

    /// Open it only if the store is in this epoch, 16 hexadecimal digits. By default the one that is found
    #[arg(long, value_name = "HEX", value_parser = args::epoch)]
    instead_of: Option<StoreEpoch>,

    /// Do not ask. Needed where nobody can be asked: standard input or standard error is no terminal
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Answer {
    epoch: String,
}

impl Epoch {
    pub(crate) async fn run(self) -> Outcome {
        match self.what {
            What::Show(show) => show.run().await,
            What::Open(open) => open.run().await,
        }
    }
}

impl Show {
    async fn run(self) -> Outcome {
        let store = self.store.open_existing()?;
        let epoch = store.epoch().await.map_err(Failure::of_look)?;
        tell(epoch, self.form)
    }
}

impl Open {
    async fn run(self) -> Outcome {
        confirm::possible(self.yes, "open a new epoch")?;
        let store = self.store.open_existing()?;
        let found = store.epoch().await.map_err(Failure::of_look)?;
        let old = self.instead_of.unwrap_or(found);
        if old != found {
            let message = format!("no epoch was opened: the store is in {found}, not in {old}");
            return Err(Failure::new(Exit::No, message));
        }
        let grants = if self.now {
            "at once".to_owned()
        } else {
            let longest = duration::show(store.capabilities().max_ttl);
            format!("after the longest ttl has passed: in {longest}, or by `lease epoch open --now`")
        };
        let question = format!(
            "The store is in epoch {old}. Every lease of it will be lost, and grants begin {grants}.\nOpen a new epoch?"
        );
        if !self.yes && !confirm::ask(&question)? {
            output::note("no epoch was opened");
            return Ok(Exit::No);
        }
        let mut opening = Opening::new(old).with_tokens_above(self.above);
        if self.now {
            opening = opening.with_dead_holders();
        }
        let epoch = store.open_epoch(opening).await.map_err(Failure::of_decision)?;
        output::note(&format!("every lease of epoch {old} is lost; grants begin {grants}"));
        tell(epoch, self.form)
    }
}

fn tell(epoch: StoreEpoch, form: Form) -> Outcome {
    if form.json {
        output::print_json(&Answer { epoch: epoch.to_string() })?;
    } else {
        output::print(&format!("{epoch}\n"))?;
    }
    Ok(Exit::Ok)
}
