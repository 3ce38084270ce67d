//! `lease migrate`.

use clap::Args;
use lease_machines_store::{Migration, migrate, migration_sql};
use serde::Serialize;

use super::moving::{self, Moved};
use super::{Outcome, block_on, confirm, unknown_answer};
use crate::args::{Form, StoreOption};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::store_url::ChosenStore;

/// Set a store up, or bring its tables up to date
///
/// Does nothing where there is nothing to do; any number of processes may do it at once. A store that has lost its
/// tables gets new ones only by this, never by a request that finds nothing: a wiped store must not pass for a new one.
///
/// With --from and --to another store takes over: the old one grants nothing any more for its longest ttl, what it has
/// granted is waited for, and the tokens of the new one, which is set up where it is not, are above all of the old one's.
/// Name the new store everywhere once it is done. Leases are not carried over, nor is the history; of the keys of
/// `lease run --once` each resource's last is. Marks stay where they are, and go on refusing what is older.
///
/// The slots of pools are waited for as leases are, and no ID time is given out again. Where the old store has pools, the
/// max_ttl in the URL of the new one must not be shorter. Pools begin anew there: with the size that the first claim
/// names, and without a word of who held which slot.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// Only print what would be carried out, to read or to run by hand. Nothing is opened
    #[arg(long)]
    print: bool,

    /// The store to move from
    #[arg(long, value_name = "URL", requires = "to", conflicts_with_all = ["print", "store"])]
    from: Option<String>,

    /// The store to move to, in which nothing is held, no slot either
    #[arg(long, value_name = "URL", requires = "from")]
    to: Option<String>,

    /// End the leases of the old store, those of slots among them, and wait until their time is up. Otherwise one that is
    /// held is an error, and nothing is moved
    #[arg(long, requires = "from")]
    end_leases: bool,

    /// Do not ask before moving. Needed where nobody can be asked: standard input or standard error is no terminal
    #[arg(short, long, requires = "from")]
    yes: bool,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Done { outcome: &'static str },
    Printed { sql: String },
    Moved(Moved),
}

impl Migrate {
    pub(crate) fn run(self) -> Outcome {
        let (answer, text) = if let (Some(from), Some(to)) = (&self.from, &self.to) {
            let Some(moved) = self.moved(from, to)? else { return Ok(Exit::No) };
            let text = moved.for_people();
            (Answer::Moved(moved), text)
        } else if self.print {
            let chosen = self.store.resolve()?;
            let sql =
                migration_sql(chosen.url()).map_err(|error| chosen.explained(Failure::of_look(error)))?;
            let text = if sql.ends_with('\n') { sql.clone() } else { format!("{sql}\n") };
            (Answer::Printed { sql }, text)
        } else {
            let chosen = self.store.prepare()?;
            let done =
                migrate(chosen.url()).map_err(|error| chosen.explained(Failure::of_decision(error)))?;
            let (outcome, text) = match done {
                Migration::SetUp => ("set_up", "the store is set up, in a new epoch\n"),
                Migration::Upgraded => {
                    ("upgraded", "the store was brought up to date; leases and epoch stay as they are\n")
                }
                Migration::UpToDate => ("up_to_date", "the store is up to date\n"),
                _ => return Err(unknown_answer()),
            };
            (Answer::Done { outcome }, text.to_owned())
        };
        if self.form.json {
            output::print_json(&answer)?;
        } else {
            output::print(&text)?;
        }
        Ok(Exit::Ok)
    }

    fn moved(&self, from: &str, to: &str) -> Result<Option<Moved>, Failure> {
        confirm::possible(self.yes, "move to another store")?;
        let old = ChosenStore::resolve(Some(from))?.open_existing()?;
        let chosen = ChosenStore::resolve(Some(to))?;
        chosen.prepare()?;
        migrate(chosen.url()).map_err(|error| chosen.explained(Failure::of_decision(error)))?;
        let new = chosen.open_existing()?;
        let moved = block_on(moving::carry_over(old.as_ref(), new.as_ref(), self.end_leases, self.yes))?;
        if moved.is_none() {
            output::note("nothing was moved");
        }
        Ok(moved)
    }
}
