//! `lease renew`.

use std::time::Duration;

use clap::Args;
use lease_machines_store::Renewed;

use super::{Outcome, against, known, unknown_answer};
use crate::args::{Form, LeaseOptions, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, views::DecisionView};

/// Extend a lease that `lease acquire` gave
///
/// It goes on under the same token, and is never shortened. A lease that is over is not revived: exit 79.
#[derive(Args, Debug)]
pub(crate) struct Renew {
    #[command(flatten)]
    lease: LeaseOptions,

    /// How long it goes on from now: a bare number is seconds, 1m30s or 500ms works too. At least 1ms, at most what the
    /// store allows (24h unless it was set up otherwise)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, allow_hyphen_values = true)]
    ttl: Duration,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

impl Renew {
    pub(crate) async fn run(self) -> Outcome {
        let lease = self.lease.lease();
        let view = |outcome| {
            DecisionView::new(&lease.resource, outcome).of(lease.owner, lease.token).in_epoch(lease.epoch)
        };
        let store = self.store.open_existing()?;
        known(store.as_ref(), &lease).await?;
        match store.renew(lease.clone(), self.ttl).await.map_err(Failure::of_decision)? {
            Renewed::Renewed(grant) => {
                if self.form.json {
                    output::print_json(&view("renewed").in_epoch(Some(grant.epoch)).for_time(grant.ttl))?;
                }
                Ok(Exit::Ok)
            }
            Renewed::Rejected(rejected) => {
                if self.form.json {
                    output::print_json(&view("rejected").because(&rejected))?;
                }
                Err(against(&lease.resource, &format!("renewed under token {}", lease.token), &rejected))
            }
            _ => Err(unknown_answer()),
        }
    }
}
