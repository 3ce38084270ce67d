//! `lease prune`.

use std::time::Duration;

use clap::Args;
use lease_machines_store::parse_duration;
use serde::Serialize;

use super::{Outcome, confirm};
use crate::args::{Form, StoreOption};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, views::Big};

/// Forget resources that nobody has held for a long time, and history that old
///
/// Tokens never go down by it: a resource that comes back gets a token above all it ever had. The last good end of each
/// resource is kept. The keys of `lease run --once` that are older than that are forgotten, but for each resource's
/// last: a command that ended well under such a key runs again if it is asked for. Choose more than the longest time
/// after which a key may be used again.
#[derive(Args, Debug)]
pub(crate) struct Prune {
    /// Forget what ended longer ago than this: a bare number is seconds, 30d or 12h works too
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    older_than: Duration,

    /// Do not ask. Needed with --older-than 0 where nobody can be asked: standard input or standard error is no terminal
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Answer {
    resources: u64,
    history: u64,
    floor: Big,
}

impl Prune {
    pub(crate) async fn run(self) -> Outcome {
        if self.older_than.is_zero() {
            confirm::possible(self.yes, "prune all that is not held")?;
        }
        let store = self.store.open_existing()?;
        let question =
            "Everything that is not held will be forgotten: its history, and the keys of --once.\nPrune it?";
        if self.older_than.is_zero() && !self.yes && !confirm::ask(question)? {
            output::note("nothing was pruned");
            return Ok(Exit::No);
        }
        let pruned = store.prune(self.older_than).await.map_err(Failure::of_decision)?;
        if self.form.json {
            let floor = Big(pruned.floor);
            output::print_json(&Answer { resources: pruned.resources, history: pruned.history, floor })?;
        } else {
            let floor = match pruned.floor {
                // Nothing was ever forgotten here.
                0 => String::new(),
                floor => format!("; every token from now on is greater than {floor}"),
            };
            let (resources, rows) = (count(pruned.resources, "resource"), count(pruned.history, "row"));
            output::print(&format!("forgot {resources} and {rows} of history{floor}\n"))?;
        }
        Ok(Exit::Ok)
    }
}

/// `1 resource`, `2 resources`.
pub(super) fn count(number: u64, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}
