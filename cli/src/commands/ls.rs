//! `lease ls`.

use std::time::SystemTime;

use clap::Args;
use lease_machines_store::Inspection;
use serde::Serialize;

use super::Outcome;
use crate::args::{Form, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Cell, Ink, Table, people, utc, views, visible};

/// List resources and who holds them
///
/// In byte order of their names. State: held · retained (the work has ended, --at-least keeps others out) · released ·
/// revoked · withdrawn (by an owner that did not know whether it held it) · expired (its time was up; `lease history` says
/// whether it was lost).
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only resources whose name begins with this; all of them by default
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Listing {
    resources: Vec<views::ResourceView>,
}

impl Ls {
    pub(crate) async fn run(self) -> Outcome {
        let store = self.store.open_existing()?;
        let found = store.list(self.prefix.clone()).await.map_err(Failure::of_look)?;
        let now = SystemTime::now();
        if self.form.json {
            let resources = found.iter().map(|one| views::ResourceView::new(one, now)).collect();
            output::print_json(&Listing { resources })?;
        } else {
            self.print(&found, now)?;
        }
        Ok(Exit::Ok)
    }

    fn print(&self, found: &[Inspection], now: SystemTime) -> Result<(), Failure> {
        if found.is_empty() {
            return output::print(&match self.prefix.as_str() {
                "" => "this store knows no resource\n".to_owned(),
                prefix => {
                    format!("this store knows no resource whose name begins with {}\n", visible(prefix))
                }
            });
        }
        output::print_table(&table(found, now))
    }
}

/// The colour of a state.
pub(crate) fn ink(found: &Inspection) -> Ink {
    match views::state(found) {
        "held" => Ink::Good,
        "revoked" | "expired" => Ink::Warning,
        "retained" => Ink::Plain,
        _ => Ink::Faint,
    }
}

fn table(found: &[Inspection], now: SystemTime) -> Table {
    let mut table = Table::new([
        Cell::text("RESOURCE"),
        Cell::text("HOLDER"),
        Cell::number("TOKEN"),
        Cell::text("HELD SINCE (UTC)"),
        Cell::number("REMAINING"),
        Cell::text("STATE"),
    ]);
    for one in found {
        let name = Cell::text(one.resource.as_str());
        let state = Cell::text(views::state(one)).ink(ink(one));
        match &one.occupant {
            Some(occupant) => table.row([
                name,
                Cell::text(people::holder(occupant)),
                Cell::number(occupant.token.to_string()),
                Cell::text(utc(views::since(occupant.held_for, now))),
                Cell::number(duration::show(occupant.remaining)),
                state,
            ]),
            None => table.row([
                name,
                Cell::nothing(),
                one.last_issued
                    .map_or_else(Cell::no_number, |token| Cell::number(token.to_string()).ink(Ink::Faint)),
                Cell::nothing(),
                Cell::no_number(),
                state,
            ]),
        }
    }
    table
}
