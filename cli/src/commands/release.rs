//! `lease release`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lease_machines_store::{Ending, Released, WorkResult, parse_duration};

use super::{Outcome, against, known, unknown_answer};
use crate::args::{Form, LeaseOptions, StoreOption};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, views::DecisionView};

/// Give a lease back that `lease acquire` gave
///
/// The resource is free at once. Releasing the same token again changes nothing and is no error; a lease that was gone
/// before is: exit 79, since another may have worked meanwhile.
#[derive(Args, Debug)]
pub(crate) struct Release {
    #[command(flatten)]
    lease: LeaseOptions,

    /// What became of the work; recorded in the history, and what `lease check --idle-max` goes by
    #[arg(long, value_enum, default_value_t = WorkEnded::Unknown)]
    result: WorkEnded,

    /// Keep others out until this long after the grant, where it is not over yet: a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true, default_value = "0s")]
    at_least: Duration,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

/// What became of the work.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum WorkEnded {
    /// It reached its purpose
    Good,
    /// It ran and failed
    Failed,
    /// Nobody says
    Unknown,
}

impl From<WorkEnded> for WorkResult {
    fn from(ended: WorkEnded) -> Self {
        match ended {
            WorkEnded::Good => Self::Good,
            WorkEnded::Failed => Self::Failed,
            WorkEnded::Unknown => Self::Unknown,
        }
    }
}

impl Release {
    pub(crate) async fn run(self) -> Outcome {
        let lease = self.lease.lease();
        let view = |outcome| {
            DecisionView::new(&lease.resource, outcome).of(lease.owner, lease.token).in_epoch(lease.epoch)
        };
        let ending = Ending::new(self.result.into()).with_at_least(self.at_least);
        let store = self.store.open_existing()?;
        known(store.as_ref(), &lease).await?;
        let answer = store.release(lease.clone(), ending).await.map_err(Failure::of_decision)?;
        let view = match &answer {
            Released::Released => view("released"),
            Released::Retained(left) => view("retained").for_time(*left),
            Released::AlreadyReleased => view("already_released"),
            Released::Rejected(rejected) => view("rejected").because(rejected),
            _ => return Err(unknown_answer()),
        };
        if self.form.json {
            output::print_json(&view)?;
        }
        match answer {
            Released::Rejected(rejected) => {
                Err(against(&lease.resource, &format!("released under token {}", lease.token), &rejected))
            }
            _ => Ok(Exit::Ok),
        }
    }
}
