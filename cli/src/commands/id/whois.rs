//! `lease id whois`.

use std::time::SystemTime;

use clap::Args;
use lease_machines_store::{HistoryEntry, HoldOutcome, ResourceName, slot_name};
use serde::Serialize;

use super::decode::{Decoded, IdOptions};
use crate::args::{Form, StoreOption};
use crate::commands::Outcome;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, people, utc, views, visible};

/// Show who had the machine ID of an ID when it was made, from the history
///
/// Exit 1 where the history does not say. A slot that was taken over from a crashed holder under an exclusive identity has IDs
/// with times up to a lease ahead: then two holds may come into question, and both are shown.
#[derive(Args, Debug)]
pub(super) struct Whois {
    /// The pool that the machine ID is of
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    #[command(flatten)]
    id: IdOptions,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    id: Decoded,
    holds: Vec<views::HoldView>,
}

impl Whois {
    pub(super) async fn run(self) -> Outcome {
        let id = self.id.decode()?;
        let slot = slot_name(&self.pool, id.parts.machine_id).map_err(Failure::of_look)?;
        let store = self.store.open_existing()?;
        let holds = store.history(slot, usize::MAX).await.map_err(Failure::of_look)?;
        let made = SystemTime::UNIX_EPOCH + id.parts.time;
        let found = holders(&holds, made);
        let exit = if found.is_empty() { Exit::No } else { Exit::Ok };
        let (number, pool) = (id.parts.machine_id, visible(self.pool.as_str()));
        if self.form.json {
            output::print_json(&Answer { holds: found.iter().copied().map(Into::into).collect(), id })?;
        } else if found.is_empty() {
            let at = utc(made);
            output::print(&format!(
                "the history of {pool} does not say who had machine ID {number} at {at}: it was not held then, or that is \
                 forgotten\n"
            ))?;
        } else {
            for hold in found {
                let who = people::name(hold.label.as_deref(), hold.identity.as_deref(), hold.owner);
                let until = match hold.outcome {
                    HoldOutcome::Held => "now".to_owned(),
                    outcome => format!("{} ({})", utc(hold.ends_at), views::outcome(outcome)),
                };
                let (token, since) = (hold.token, utc(hold.granted_at));
                output::print(&format!(
                    "{who} had machine ID {number} of {pool} under token {token} from {since} to {until}\n"
                ))?;
            }
        }
        Ok(exit)
    }
}

/// The hold that stood when the ID was made; and where that was granted upon an unfinished one, that one too: its holder
/// may not have known yet.
fn holders(holds: &[HistoryEntry], made: SystemTime) -> Vec<&HistoryEntry> {
    let stood = holds.iter().position(|hold| {
        hold.granted_at <= made && (hold.outcome == HoldOutcome::Held || made <= hold.ends_at)
    });
    let Some(at) = stood else { return Vec::new() };
    let before = holds.get(at.saturating_add(1)).filter(|before| before.outcome == HoldOutcome::Rotated);
    holds.get(at).into_iter().chain(before).collect()
}
