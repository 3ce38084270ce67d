//! `lease id ls`.

use std::time::{Duration, SystemTime};

use clap::Args;
use lease_machines_store::{PoolInspection, ResourceName, SlotInspection};
use serde::Serialize;

use crate::args::{Form, StoreOption};
use crate::commands::Outcome;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Cell, Ink, Table, people, rfc3339, utc, views, visible};

/// List the slots of a pool and who holds them
///
/// Slots that nobody has ever held are counted, not listed. State: held · free (it may be cooling down).
#[derive(Args, Debug)]
pub(super) struct Ls {
    /// Which pool
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    /// Only the slots that are held
    #[arg(long)]
    held: bool,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct PoolView {
    pool: String,
    epoch: String,
    size: u32,
    held: usize,
    slots: Vec<SlotView>,
}

#[derive(Serialize)]
struct SlotView {
    slot: u16,
    state: &'static str,
    last_issued: Option<views::Big>,
    holder: Option<views::Holder>,
    identity: Option<String>,
    free_from: Option<String>,
    mark: String,
}

impl SlotView {
    fn new(found: &SlotInspection, now: SystemTime) -> Self {
        Self {
            slot: found.slot,
            state: state(found),
            last_issued: found.last_issued.map(views::Big::from),
            holder: found.occupant.as_ref().map(|occupant| views::Holder::new(occupant, now)),
            identity: found.identity.clone(),
            free_from: found.free_from.map(rfc3339),
            mark: rfc3339(at(found.mark)),
        }
    }
}

const fn state(found: &SlotInspection) -> &'static str {
    if found.occupant.is_some() { "held" } else { "free" }
}

fn at(since_origin: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(since_origin).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Ls {
    pub(super) async fn run(self) -> Outcome {
        let store = self.store.open_existing()?;
        let mut found = store.slots(self.pool.clone()).await.map_err(Failure::of_look)?;
        let held = found.holders();
        if self.held {
            found.slots.retain(|slot| slot.occupant.is_some());
        }
        let now = SystemTime::now();
        if self.form.json {
            output::print_json(&PoolView {
                pool: found.pool.to_string(),
                epoch: found.epoch.to_string(),
                size: found.size,
                held,
                slots: found.slots.iter().map(|slot| SlotView::new(slot, now)).collect(),
            })?;
            return Ok(Exit::Ok);
        }
        let pool = visible(self.pool.as_str());
        if found.size == 0 {
            output::print(&format!("this store knows no pool {pool}\n"))?;
            return Ok(Exit::Ok);
        }
        if !found.slots.is_empty() {
            output::print_table(&table(&found, now))?;
        }
        output::print(&format!("{held} of {} slots of {pool} are held\n", found.size))?;
        Ok(Exit::Ok)
    }
}

fn table(found: &PoolInspection, now: SystemTime) -> Table {
    let mut table = Table::new([
        Cell::number("SLOT"),
        Cell::text("HOLDER"),
        Cell::text("IDENTITY"),
        Cell::number("TOKEN"),
        Cell::text("HELD SINCE (UTC)"),
        Cell::number("REMAINING"),
        Cell::text("STATE"),
    ]);
    for one in &found.slots {
        let slot = Cell::number(one.slot.to_string());
        let identity = one.identity.as_deref().map_or_else(Cell::nothing, Cell::text);
        let state = Cell::text(state(one));
        match &one.occupant {
            Some(occupant) => table.row([
                slot,
                Cell::text(people::holder(occupant)),
                identity,
                Cell::number(occupant.token.to_string()),
                Cell::text(utc(views::since(occupant.held_for, now))),
                Cell::number(duration::show(occupant.remaining)),
                state.ink(Ink::Good),
            ]),
            None => table.row([
                slot,
                Cell::nothing(),
                identity,
                one.last_issued
                    .map_or_else(Cell::no_number, |token| Cell::number(token.to_string()).ink(Ink::Faint)),
                Cell::nothing(),
                Cell::no_number(),
                state.ink(Ink::Faint),
            ]),
        }
    }
    table
}
