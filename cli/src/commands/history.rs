//! `lease history`.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use lease_machines_store::{HistoryEntry, HoldOutcome, ResourceName, WorkResult};
use serde::Serialize;

use super::Outcome;
use crate::args::{Form, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Cell, Ink, Table, people, timeline, utc, views, visible};

/// Show who held a resource, the latest first
///
/// Outcome: held · released · expired (lost: its holder was not heard of in time) · revoked (broken by an operator) ·
/// withdrawn · rotated (its owner took it again) · epoch_lost (the store lost its history). Result: what became of the
/// work, as its holder said. Times are by the store's wall clock, in UTC.
#[derive(Args, Debug)]
pub(crate) struct History {
    /// Which resource: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    resource: ResourceName,

    /// How many holds at most
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "100")]
    limit: NonZeroU32,

    /// Instead of the table, draw a timeline into this file (`-`: standard output): who held it when, with gaps, losses
    /// and breaks
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Answer {
    resource: String,
    holds: Vec<views::HoldView>,
}

impl History {
    pub(crate) async fn run(self) -> Outcome {
        let store = self.store.open_existing()?;
        let limit = usize::try_from(self.limit.get()).unwrap_or(usize::MAX);
        let holds = store.history(self.resource.clone(), limit).await.map_err(Failure::of_look)?;
        let now = SystemTime::now();
        if let Some(file) = &self.svg {
            write(file, &timeline::svg(self.resource.as_str(), &holds, now))?;
        } else if self.form.json {
            let resource = self.resource.to_string();
            output::print_json(&Answer { resource, holds: holds.iter().map(Into::into).collect() })?;
        } else if holds.is_empty() {
            let resource = visible(self.resource.as_str());
            output::print(&format!(
                "this store knows no hold of {resource}: there was none yet, or it was pruned\n"
            ))?;
        } else {
            output::print_table(&table(&holds, now))?;
        }
        Ok(Exit::Ok)
    }
}

fn write(file: &Path, svg: &str) -> Result<(), Failure> {
    if file == Path::new("-") {
        return output::print(svg);
    }
    fs::write(file, svg)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", file.display())))
}

fn table(holds: &[HistoryEntry], now: SystemTime) -> Table {
    let mut table = Table::new([
        Cell::number("TOKEN"),
        Cell::text("HOLDER"),
        Cell::text("GRANTED (UTC)"),
        Cell::number("HELD"),
        Cell::number("RENEWALS"),
        Cell::text("OUTCOME"),
        Cell::text("RESULT"),
        Cell::text("REASON"),
    ]);
    for hold in holds {
        let end = if hold.outcome == HoldOutcome::Held { now } else { hold.ends_at };
        let held = end.duration_since(hold.granted_at).unwrap_or(Duration::ZERO);
        table.row([
            Cell::number(hold.token.to_string()),
            Cell::text(people::name(hold.label.as_deref(), hold.identity.as_deref(), hold.owner)),
            Cell::text(utc(hold.granted_at)),
            Cell::number(duration::show(held)),
            Cell::number(hold.renewals.to_string()),
            Cell::text(views::outcome(hold.outcome)).ink(outcome_ink(hold.outcome)),
            Cell::text(views::result(hold.result)).ink(result_ink(hold.result)),
            hold.reason.as_deref().map_or_else(Cell::nothing, Cell::text),
        ]);
    }
    table
}

const fn outcome_ink(outcome: HoldOutcome) -> Ink {
    match outcome {
        HoldOutcome::Held => Ink::Good,
        HoldOutcome::Expired | HoldOutcome::EpochLost => Ink::Bad,
        HoldOutcome::Revoked => Ink::Warning,
        _ => Ink::Plain,
    }
}

const fn result_ink(result: WorkResult) -> Ink {
    match result {
        WorkResult::Good => Ink::Good,
        WorkResult::Failed => Ink::Bad,
        _ => Ink::Faint,
    }
}
