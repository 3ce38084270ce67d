//! `lease migrate`.

use clap::Args;
use lease_machines_store::{Migration, migrate, migration_sql};
use serde::Serialize;

use super::{Outcome, unknown_answer};
use crate::args::{Form, StoreOption};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// Set a store up, or bring its tables up to date
///
/// Does nothing where there is nothing to do; any number of processes may do it at once. A store that has lost its
/// tables gets new ones only by this, never by a request that finds nothing: a wiped store must not pass for a new one.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// Only print what would be carried out, to read or to run by hand. Nothing is opened
    #[arg(long)]
    print: bool,

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
}

impl Migrate {
    pub(crate) fn run(self) -> Outcome {
        let (answer, text) = if self.print {
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
}
