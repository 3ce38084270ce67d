//! `lease acquire`.

use std::os::unix::process::parent_id;
use std::time::Duration;

use clap::Args;
use lease_machines::{OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Claim, Grant, Occupant, Rejected, ResourceName, Store, StoreError, fresh_owner,
};
use nix::sys::signal::Signal;

use super::asking::{self, Interruption, PAUSE, Request, WITHDRAWAL};
use super::{Outcome, against, unknown_answer};
use crate::args::{Form, StoreOption, Wait};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::label;
use crate::output::{self, people, views::DecisionView, visible};

/// The description, whose lines are kept as they are.
const ABOUT: &str = "\
Take a lease, and print what is needed to renew and release it

Prints LEASE_OWNER=… LEASE_TOKEN=… LEASE_EPOCH=…, safe to eval:

    grant=$(lease acquire nightly --ttl 10m) || exit; export $grant
    …work, sending $LEASE_TOKEN with every write…
    lease release nightly

Nobody renews it and nobody stops the work when it runs out: `lease run` does. Exit 75 where another
holds it.";

/// Take a lease, and print what is needed to renew and release it
#[derive(Args, Debug)]
#[command(long_about = ABOUT)]
pub(crate) struct Acquire {
    /// What the lease is on: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    resource: ResourceName,

    /// How long it lasts unless it is renewed: a bare number is seconds, 1m30s or 500ms works too. At least 1ms, at most
    /// what the store allows (24h unless it was set up otherwise)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, allow_hyphen_values = true)]
    ttl: Duration,

    /// How long to wait where another holds it: a bare number is seconds, `forever` waits as long as it takes
    #[arg(short, long, value_name = "DURATION", value_parser = Wait::parse, default_value = "0s",
        allow_hyphen_values = true)]
    wait: Wait,

    /// Shown to others who ask who holds it. Default: user@host:pid, of the process that ran this one
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

impl Acquire {
    pub(crate) async fn run(self) -> Outcome {
        let signals = Interruption::listen()?;
        let store = self.store.open()?;
        self.run_on(store.as_ref(), signals.arrives()).await
    }

    async fn run_on(&self, store: &dyn Store, interrupted: impl Future<Output = Signal>) -> Outcome {
        let owner = fresh_owner().map_err(Failure::of_look)?;
        let request = LeaseRequest { command: self, store, owner };
        let told = match asking::ask(&request, self.wait, interrupted).await {
            Ok(Acquired::Granted(grant)) => self.granted(owner, &grant),
            Ok(Acquired::Rejected(rejected)) => return self.refused(&rejected),
            Ok(_) => Err(unknown_answer()),
            Err(failure) => Err(failure),
        };
        if told.is_err() {
            // Nobody knows owner and token now: nobody could renew or release what may have been granted. What cannot be
            // taken back ends with its ttl.
            let _ = tokio::time::timeout(WITHDRAWAL, store.withdraw(self.resource.clone(), owner)).await;
        }
        told
    }

    fn granted(&self, owner: OwnerId, grant: &Grant) -> Outcome {
        let (token, epoch) = (grant.token, grant.epoch);
        if self.form.json {
            output::print_json(
                &DecisionView::new(&self.resource, "granted")
                    .of(owner, token)
                    .in_epoch(Some(epoch))
                    .for_time(grant.ttl),
            )?;
        } else {
            output::print(&format!("LEASE_OWNER={owner} LEASE_TOKEN={token} LEASE_EPOCH={epoch}\n"))?;
        }
        Ok(Exit::Ok)
    }

    fn refused(&self, rejected: &Rejected) -> Outcome {
        if self.form.json {
            output::print_json(&DecisionView::new(&self.resource, "rejected").because(rejected))?;
        }
        Err(against(&self.resource, "granted", rejected))
    }
}

/// The lease that the command is to take, for this owner.
struct LeaseRequest<'a> {
    command: &'a Acquire,
    store: &'a dyn Store,
    owner: OwnerId,
}

impl Request for LeaseRequest<'_> {
    type Answer = Acquired;

    async fn ask(&self, attempt: u64) -> Result<Acquired, StoreError> {
        let Acquire { resource, ttl, label, .. } = self.command;
        let label = label.clone().unwrap_or_else(|| label::of(parent_id()));
        let claim = Claim::new(resource.clone(), self.owner, *ttl).with_attempt(attempt).with_label(label);
        if attempt == 1 { self.store.acquire(claim).await } else { self.store.reacquire(claim).await }
    }

    fn is_held(answer: &Acquired) -> bool {
        matches!(answer, Acquired::Rejected(rejected) if rejected.reason == Rejection::Occupied)
    }

    fn announce(&self, held: &Acquired) {
        let resource = visible(self.command.resource.as_str());
        let held =
            occupant(held).map_or_else(String::new, |occupant| format!(", which {}", people::held(occupant)));
        let limit = match self.command.wait {
            Wait::For(limit) => format!("for at most {}", duration::show(limit)),
            Wait::Forever => "for as long as it takes".to_owned(),
        };
        output::note(&format!("waiting for {resource} {limit}{held}"));
    }

    async fn pause(&self, held: &Acquired, left: Duration) {
        let remaining = occupant(held).map_or(left, |occupant| occupant.remaining);
        // A hint that fails is no reason to give up: the next try shows what is wrong.
        if self.store.wait(self.command.resource.clone(), remaining.min(left)).await.is_err() {
            tokio::time::sleep(PAUSE.min(left)).await;
        }
    }
}

fn occupant(answer: &Acquired) -> Option<&Occupant> {
    match answer {
        Acquired::Rejected(rejected) => rejected.occupant.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use clap::Parser;
    use lease_machines_store::{Fault, FaultStore, MemoryStore};

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        acquire: Acquire,
    }

    /// The command on a store behind a network with these faults, which nobody interrupts.
    fn run(faults: impl IntoIterator<Item = Fault>) -> (Arc<MemoryStore>, Result<Exit, Exit>) {
        let acquire = Only::parse_from(["lease", "r", "--ttl", "1h"]).acquire;
        let inner = Arc::new(MemoryStore::new().unwrap());
        let store = FaultStore::scripted(Arc::clone(&inner) as Arc<dyn Store>, faults);
        let outcome = super::super::block_on(async { acquire.run_on(&store, pending()).await });
        (inner, outcome.map_err(|failure| failure.exit()))
    }

    fn holds(store: &MemoryStore) -> usize {
        let name = ResourceName::new("r").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(async { store.inspect(name).await }).unwrap();
        usize::from(found.occupant.is_some())
    }

    #[test]
    fn an_answer_that_was_lost_does_not_stand_in_the_way_of_its_owner() {
        for lost in [Fault::DropReply, Fault::DropRequest] {
            let (store, outcome) = run([lost]);
            assert_eq!((outcome, holds(&store)), (Ok(Exit::Ok), 1), "{lost:?}");
        }
    }

    #[test]
    fn what_nobody_hears_of_is_taken_back() {
        let tries = asking::ATTEMPTS as usize + 1;
        let (store, outcome) = run(std::iter::repeat_n(Fault::DropReply, tries));
        assert_eq!((outcome, holds(&store)), (Err(Exit::Unreachable), 0));
    }
}
