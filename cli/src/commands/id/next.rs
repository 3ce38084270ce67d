//! `lease id next`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lease_machines_id::{AcquireError, Id, Manager, Options, PoolLease, StartError};
use lease_machines_store::{ResourceName, parse_duration};

use super::layout::{AnyLayout, LayoutOptions, Written};
use super::pool::PoolOptions;
use crate::args::StoreOption;
use crate::commands::Outcome;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::label;
use crate::output;
use std::os::unix::process::parent_id;

/// Make unique IDs: take a machine ID, print as many as asked for, one a line, and give it back
#[derive(Args, Debug)]
pub(super) struct Next {
    /// Which pool
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    /// How many IDs
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,

    /// `sortable`: the time of making is in front. `counter`: the fastest, whose times lag behind in a burst
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    kind: Kind,

    /// How they are written
    #[arg(long, value_name = "NOTATION", value_enum, default_value = "decimal")]
    notation: Written,

    #[command(flatten)]
    layout: LayoutOptions,

    #[command(flatten)]
    slots: PoolOptions,

    /// For how long to wait for a machine ID
    #[arg(short, long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    wait: Duration,

    #[command(flatten)]
    store: StoreOption,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    Sortable,
    Counter,
}

/// The lease is given back in the end; this is for how long it stays after a kill.
const LEASE: Duration = Duration::from_secs(60);

impl Next {
    pub(super) fn run(self) -> Outcome {
        let layout = self.layout.layout()?;
        let store = self.store.open()?;
        super::acquire::durable(store.as_ref())?;
        let mut pool = PoolLease::new(store, self.pool.clone(), self.slots.size)
            .with_range(self.slots.range())
            .with_label(label::of(parent_id()));
        match self.slots.identity() {
            Some(identity) if self.slots.exclusive() => pool = pool.with_exclusive_identity(identity),
            Some(identity) => pool = pool.with_identity(identity),
            None => {}
        }
        // A wait of nothing is one try.
        let wait = self.wait.max(Duration::from_millis(1));
        let options =
            Options::new().lease_duration(LEASE).renew_interval(LEASE / 2).acquire_timeout(Some(wait));
        let options = match layout {
            AnyLayout::Of64(layout) => options.layout64(layout),
            AnyLayout::Of96(layout) => options.layout96(layout),
            AnyLayout::Of128(layout) => options.layout128(layout),
        };
        let manager = Manager::start(pool, options).map_err(|error| not_started(&error))?;
        let made = match layout {
            AnyLayout::Of64(_) => self.make::<lease_machines_id::Id64>(&manager),
            AnyLayout::Of96(_) => self.make::<lease_machines_id::Id96>(&manager),
            AnyLayout::Of128(_) => self.make::<lease_machines_id::Id128>(&manager),
        };
        let printed = made.and_then(|text| output::print(&text));
        manager.stop();
        printed.map(|()| Exit::Ok)
    }

    fn make<I: Id>(&self, manager: &Manager) -> Result<String, Failure> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let made = match self.kind {
            Kind::Sortable => manager.sortable::<I>().next_batch(count),
            Kind::Counter => manager.counter::<I>().next_batch(count),
        };
        let made = made.map_err(|error| Failure::new(Exit::Lost, format!("no ID was made: {error}")))?;
        let mut text = String::new();
        for id in made {
            let written = self.notation.notation().write(id).ok_or_else(|| {
                Failure::new(Exit::Usage, "an ID of this layout has no UUID: its lowest bits are in use")
            })?;
            text.push_str(&written);
            text.push('\n');
        }
        Ok(text)
    }
}

fn not_started(error: &StartError) -> Failure {
    let exit = match error {
        StartError::Acquire(AcquireError::Exhausted(_) | AcquireError::Busy(_)) => Exit::Held,
        StartError::Acquire(AcquireError::Unreachable(_)) => Exit::Unreachable,
        StartError::Acquire(AcquireError::Refused(_) | AcquireError::Misconfigured(_))
        | StartError::ClockSkew { .. } => Exit::Configuration,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_too_far_from_the_stores_is_told_by_its_exit_code() {
        let (found, most) = (Duration::from_secs(11), Duration::from_secs(10));
        assert_eq!(not_started(&StartError::ClockSkew { found, most }).exit(), Exit::Configuration);
    }
}
