//! `lease show`.

use std::env;
use std::fmt::Write;
use std::time::SystemTime;

use clap::Args;
use lease_machines_store::{Inspection, LeaseRef, ResourceName};

use super::Outcome;
use crate::args::{self, Form, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Ink, Style, people, utc, views, visible};

/// Show how a resource stands
///
/// State: held · retained (the work has ended, --at-least keeps others out) · released · revoked · withdrawn (by an owner
/// that did not know whether it held it) · expired (its time was up; `lease history` says whether it was lost) · unseen
/// (this store knows nothing of it: never held, or pruned; look at the name, and at the store).
///
/// What is shown may be out of date before it is read: a store decides, a picture of it does not.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Which resource: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE", required_unless_present = "mine")]
    resource: Option<ResourceName>,

    /// Inside `lease run`: the lease that this command runs under, as LEASE_RESOURCE, LEASE_OWNER, LEASE_TOKEN and
    /// LEASE_EPOCH name it. Exit 79 where it is no longer held
    #[arg(long, conflicts_with = "resource")]
    mine: bool,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

impl Show {
    pub(crate) async fn run(self) -> Outcome {
        let mine = if self.mine { Some(from_environment()?) } else { None };
        let resource = mine.as_ref().map(|lease| lease.resource.clone()).or(self.resource);
        let resource = resource.ok_or_else(|| Failure::new(Exit::Usage, "expected a RESOURCE, or --mine"))?;
        let store = self.store.open_existing()?;
        let found = store.inspect(resource).await.map_err(Failure::of_look)?;
        if let Some(lease) = mine {
            still_held(&lease, &found)?;
        }
        let now = SystemTime::now();
        if self.form.json {
            output::print_json(&views::ResourceView::new(&found, now))?;
        } else {
            output::print(&for_people(&found, now, Style::of_stdout()))?;
        }
        Ok(Exit::Ok)
    }
}

/// The lease of the `lease run` around this process.
fn from_environment() -> Result<LeaseRef, Failure> {
    let resource = variable("LEASE_RESOURCE", ResourceName::new)?;
    let owner = variable("LEASE_OWNER", |text| args::owner(&text))?;
    let token = variable("LEASE_TOKEN", |text| args::token(&text))?;
    let epoch = variable("LEASE_EPOCH", |text| args::epoch(&text))?;
    Ok(LeaseRef::new(resource, owner, token, Some(epoch)))
}

fn variable<T, E: std::fmt::Display>(
    name: &str,
    read: impl FnOnce(String) -> Result<T, E>,
) -> Result<T, Failure> {
    let usage = |what: &dyn std::fmt::Display| {
        Failure::new(
            Exit::Usage,
            format!("--mine: ${name}: {what}; it is for commands that `lease run` has started"),
        )
    };
    match env::var(name) {
        Ok(text) => read(text).map_err(|error| usage(&error)),
        Err(error) => Err(usage(&error)),
    }
}

/// The store's picture against what the environment says.
fn still_held(lease: &LeaseRef, found: &Inspection) -> Result<(), Failure> {
    let lost = |why: String| {
        let resource = visible(lease.resource.as_str());
        Err(Failure::new(
            Exit::Lost,
            format!("the lease on {resource} under token {} is lost: {why}", lease.token),
        ))
    };
    if lease.epoch.is_some_and(|epoch| epoch != found.epoch) {
        return lost(format!("the store has a new epoch, {}", found.epoch));
    }
    match (&found.occupant, &found.vacated) {
        (Some(occupant), _) if occupant.owner == lease.owner && occupant.token == lease.token => Ok(()),
        (Some(occupant), _) => lost(format!("it {}", people::held(occupant))),
        (None, Some(vacated)) => lost(people::vacated(vacated)),
        (None, None) => lost("it has run out".to_owned()),
    }
}

fn for_people(found: &Inspection, now: SystemTime, style: Style) -> String {
    let mut text = String::new();
    let mut line = |name: &str, ink: Ink, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} {}",
            style.paint(Ink::Faint, format_args!("{name:<10}")),
            style.paint(ink, value)
        );
    };
    line("resource", Ink::Plain, &visible(found.resource.as_str()));
    line("state", super::ls::ink(found), views::state(found));
    if let Some(occupant) = &found.occupant {
        line("holder", Ink::Plain, &people::holder(occupant));
        if let (Some(_), Some(identity)) = (&occupant.label, &occupant.identity) {
            line("identity", Ink::Plain, &visible(identity));
        }
        line("owner", Ink::Plain, &occupant.owner.to_string());
        line("token", Ink::Plain, &occupant.token.to_string());
        let since = utc(views::since(occupant.held_for, now));
        line("held", Ink::Plain, &format!("for {}, since {since} UTC", duration::show(occupant.held_for)));
        let until = utc(now + occupant.remaining);
        line("remaining", Ink::Plain, &format!("{}, until {until} UTC", duration::show(occupant.remaining)));
    } else {
        if let Some(vacated) = &found.vacated {
            line("vacated", Ink::Plain, &people::vacated(vacated));
        }
        if let Some(token) = found.last_issued {
            line("last token", Ink::Plain, &token.to_string());
        }
    }
    if let Some(end) = &found.last_good {
        let who = people::name(end.label.as_deref(), None, end.owner);
        let once = end.once.as_deref().map(|key| format!(", once-key {}", visible(key))).unwrap_or_default();
        line(
            "last good",
            Ink::Plain,
            &format!("{} UTC, by {who} under token {}{once}", utc(end.at), end.token),
        );
    }
    line("epoch", Ink::Faint, &found.epoch.to_string());
    text
}
