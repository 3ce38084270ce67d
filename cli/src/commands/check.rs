//! `lease check`.

use std::time::{Duration, SystemTime};

use clap::Args;
use lease_machines_store::{Inspection, ResourceName, parse_duration};
use serde::Serialize;

use super::Outcome;
use crate::args::{Form, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, people, views, visible};

/// Ask a yes-or-no question, for monitors: exit 0 for yes, 1 for no
///
/// Without options: is the resource held? With --held-max: is it free, or held for no longer than that (no: it hangs)?
/// With --idle-max: has work under it ended well within that time (no: it fails, or does not run)? With both, both.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Which resource: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    resource: ResourceName,

    /// The longest that one holder may take: a bare number is seconds, 90m or 2h works too. Time that only --at-least
    /// adds does not count
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    held_max: Option<Duration>,

    /// The longest that may pass after work ended well: a bare number is seconds. Never having ended well is a no
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    idle_max: Option<Duration>,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

/// What was found, and what is wrong with it.
#[derive(Serialize)]
struct Answer {
    resource: String,
    ok: bool,
    problems: Vec<Problem>,
    held_for_ms: Option<u64>,
    idle_for_ms: Option<u64>,
    holder: Option<views::Holder>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Problem {
    NotHeld,
    HeldTooLong,
    IdleTooLong,
    NeverGood,
}

impl Check {
    pub(crate) async fn run(self) -> Outcome {
        let store = self.store.open_existing()?;
        let found = store.inspect(self.resource.clone()).await.map_err(Failure::of_look)?;
        let now = SystemTime::now();
        let idle = idle(&found, now);
        let problems = self.problems(&found, idle);
        if self.form.json {
            output::print_json(&Answer {
                resource: self.resource.to_string(),
                ok: problems.is_empty(),
                problems: problems.clone(),
                held_for_ms: found.occupant.as_ref().map(|occupant| views::ms(occupant.held_for)),
                idle_for_ms: idle.map(views::ms),
                holder: found.occupant.as_ref().map(|occupant| views::Holder::new(occupant, now)),
            })?;
        } else {
            output::print(&self.for_people(&found, idle, &problems))?;
        }
        Ok(if problems.is_empty() { Exit::Ok } else { Exit::No })
    }

    fn problems(&self, found: &Inspection, idle: Option<Duration>) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.held_max.is_none() && self.idle_max.is_none() && found.occupant.is_none() {
            problems.push(Problem::NotHeld);
        }
        let working = found.occupant.as_ref().filter(|occupant| !occupant.retained);
        if let (Some(most), Some(occupant)) = (self.held_max, working) {
            if occupant.held_for > most {
                problems.push(Problem::HeldTooLong);
            }
        }
        match (self.idle_max, idle) {
            (Some(most), Some(idle)) if idle > most => problems.push(Problem::IdleTooLong),
            (Some(_), None) => problems.push(Problem::NeverGood),
            _ => {}
        }
        problems
    }

    fn for_people(&self, found: &Inspection, idle: Option<Duration>, problems: &[Problem]) -> String {
        let verdict = if problems.is_empty() { "ok" } else { "no" };
        let resource = visible(self.resource.as_str());
        let stands = found.occupant.as_ref().map_or_else(|| "is not held".to_owned(), people::held);
        let mut text = format!("{verdict}: {resource} {stands}");
        let limit = |most: Option<Duration>| most.map(duration::show).unwrap_or_default();
        if problems.contains(&Problem::HeldTooLong) {
            text.push_str(&format!("; that is longer than {}", limit(self.held_max)));
        }
        if self.idle_max.is_some() {
            text.push_str(&match idle {
                Some(idle) => format!("; its work last ended well {} ago", duration::show(idle)),
                None => "; its work has never ended well".to_owned(),
            });
        }
        if problems.contains(&Problem::IdleTooLong) {
            text.push_str(&format!(", more than {}", limit(self.idle_max)));
        }
        text.push('\n');
        text
    }
}

/// How long ago work ended well. The end was written down by the store's wall clock; where this machine's is behind
/// that, it is no time at all.
fn idle(found: &Inspection, now: SystemTime) -> Option<Duration> {
    found.last_good.as_ref().map(|end| now.duration_since(end.at).unwrap_or(Duration::ZERO))
}
