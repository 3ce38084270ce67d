//! `lease id acquire`.

use std::os::unix::process::parent_id;
use std::time::Duration;

use clap::Args;
use lease_machines::{OwnerId, Rejection};
use lease_machines_store::{
    Claimed, PoolClaim, ResourceName, SlotLease, Store, StoreError, Unclaimed, fresh_owner, give_back_unheard,
};
use nix::sys::signal::Signal;
use serde::Serialize;

use super::clocks::Sent;
use super::pool::PoolOptions;
use crate::args::{Form, StoreOption, Wait};
use crate::commands::asking::{self, Interruption, PAUSE, Request, WITHDRAWAL};
use crate::commands::{Outcome, unknown_answer};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::label;
use crate::output::{self, views, visible};

/// A full pool is looked at again after this long at most, since nobody tells of a slot that comes free.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

const ABOUT: &str = "\
Take a machine ID, and print what is needed to give it back

Prints MACHINE_ID=… MACHINE_ID_TOKEN=… MACHINE_ID_OWNER=… MACHINE_ID_EPOCH=…, safe to eval.

Nobody renews it and nobody stops the work when it runs out: `lease id run` does. Exit 75 where
every slot is held, 78 where this machine's clock is more than 10s from the store's.";

/// Take a machine ID, and print what is needed to give it back
#[derive(Args, Debug)]
#[command(long_about = ABOUT)]
pub(super) struct Acquire {
    /// Which pool: 1 to 249 bytes of UTF-8
    #[arg(value_name = "POOL")]
    pool: ResourceName,

    /// How long it lasts: a bare number is seconds, 8h or 1m30s works too
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, allow_hyphen_values = true)]
    ttl: Duration,

    /// How long to wait where every slot is held: a bare number is seconds, `forever` waits as long as it takes
    #[arg(short, long, value_name = "DURATION", value_parser = Wait::parse, default_value = "0s",
        allow_hyphen_values = true)]
    wait: Wait,

    /// Shown to others who ask who holds it. Default: user@host:pid, of the process that ran this one
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    #[command(flatten)]
    slots: PoolOptions,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize, Default)]
struct Answer {
    pool: String,
    outcome: &'static str,
    reason: Option<&'static str>,
    next_chance_ms: Option<u64>,
    machine_id: Option<u16>,
    owner: Option<views::Big>,
    token: Option<views::Big>,
    epoch: Option<String>,
    ttl_ms: Option<u64>,
}

/// A machine ID that others have too would be worse than none.
pub(super) fn durable(store: &dyn Store) -> Result<(), Failure> {
    if store.capabilities().durable {
        return Ok(());
    }
    let message = "the store is in the memory of this process alone, so it keeps nobody out; expected one that others can \
                   open, such as sqlite:/var/lib/jobs/leases.db";
    Err(Failure::new(Exit::Configuration, message))
}

impl Acquire {
    pub(super) async fn run(self) -> Outcome {
        let signals = Interruption::listen()?;
        let store = self.store.open()?;
        durable(store.as_ref())?;
        self.run_on(store.as_ref(), signals.arrives()).await
    }

    async fn run_on(&self, store: &dyn Store, interrupted: impl Future<Output = Signal>) -> Outcome {
        let owner = fresh_owner().map_err(Failure::of_look)?;
        let label = self.label.clone().unwrap_or_else(|| label::of(parent_id()));
        let claim = self.slots.claim(self.pool.clone(), owner, self.ttl).with_label(label);
        let request = SlotRequest { store, claim };
        let told = match asking::ask(&request, self.wait, interrupted).await {
            Ok(Claimed::Granted(granted)) => self.granted(owner, &granted),
            Ok(Claimed::Rejected(why)) => return self.refused(why),
            answer => {
                // Nobody has heard of a grant, and so nobody has made an ID under one.
                let unheard = give_back_unheard(store, self.pool.clone(), owner);
                let _ = tokio::time::timeout(WITHDRAWAL / 2, unheard).await;
                Err(answer.err().unwrap_or_else(unknown_answer))
            }
        };
        if told.is_err() {
            // Nobody knows owner and token now. What cannot be taken back ends with its ttl.
            let _ = tokio::time::timeout(WITHDRAWAL, store.withdraw_slot(self.pool.clone(), owner)).await;
        }
        told
    }

    fn granted(&self, owner: OwnerId, granted: &SlotLease) -> Outcome {
        let SlotLease { slot, token, epoch, ttl, .. } = *granted;
        if self.form.json {
            output::print_json(&Answer {
                pool: self.pool.to_string(),
                outcome: "granted",
                machine_id: Some(slot),
                owner: Some(owner.into()),
                token: Some(token.into()),
                epoch: Some(epoch.to_string()),
                ttl_ms: Some(views::ms(ttl)),
                ..Answer::default()
            })?;
        } else {
            output::print(&format!(
                "MACHINE_ID={slot} MACHINE_ID_TOKEN={token} MACHINE_ID_OWNER={owner} MACHINE_ID_EPOCH={epoch}\n"
            ))?;
        }
        Ok(Exit::Ok)
    }

    fn refused(&self, why: Unclaimed) -> Outcome {
        let (exit, reason) = match why {
            Unclaimed::Busy => (Exit::Held, "busy"),
            Unclaimed::Exhausted { .. } => (Exit::Held, "exhausted"),
            Unclaimed::NoSuchSlot => (Exit::Usage, "no_such_slot"),
            Unclaimed::Invalid(reason @ (Rejection::InvalidTtl | Rejection::DeadlineOverflow)) => {
                (Exit::Usage, views::reason(reason))
            }
            Unclaimed::Invalid(reason) => (Exit::Failed, views::reason(reason)),
            _ => (Exit::Failed, "unknown"),
        };
        let next_chance = match why {
            Unclaimed::Exhausted { next_chance } => next_chance,
            _ => None,
        };
        if self.form.json {
            output::print_json(&Answer {
                pool: self.pool.to_string(),
                outcome: "rejected",
                reason: Some(reason),
                next_chance_ms: next_chance.map(views::ms),
                ..Answer::default()
            })?;
        }
        let soon = next_chance
            .map_or_else(String::new, |wait| format!("; the next may come free in {}", duration::show(wait)));
        Err(Failure::new(
            exit,
            format!("no slot of {} was granted: {why}{soon}", visible(self.pool.as_str())),
        ))
    }
}

/// What is claimed, as the owner's first attempt.
struct SlotRequest<'a> {
    store: &'a dyn Store,
    claim: PoolClaim,
}

impl Request for SlotRequest<'_> {
    type Answer = Claimed;

    async fn ask(&self, attempt: u64) -> Result<Claimed, StoreError> {
        let claim = self.claim.clone().with_attempt(attempt);
        let sent = Sent::now();
        let answer = match attempt {
            1 => self.store.claim_slot(claim).await?,
            _ => self.store.reclaim_slot(claim).await?,
        };
        sent.check(answer, self.store, &self.claim.pool, self.claim.owner).await
    }

    fn is_held(answer: &Claimed) -> bool {
        matches!(answer, Claimed::Rejected(Unclaimed::Busy | Unclaimed::Exhausted { .. }))
    }

    fn announce(&self, held: &Claimed) {
        if let Claimed::Rejected(why) = held {
            output::note(&format!("waiting for a slot of {}: {why}", visible(self.claim.pool.as_str())));
        }
    }

    async fn pause(&self, held: &Claimed, left: Duration) {
        let pause = match held {
            Claimed::Rejected(Unclaimed::Exhausted { next_chance: Some(chance) }) => {
                (*chance).clamp(PAUSE, LOOK_AGAIN)
            }
            Claimed::Rejected(Unclaimed::Exhausted { next_chance: None }) => LOOK_AGAIN,
            _ => PAUSE,
        };
        tokio::time::sleep(pause.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use clap::Parser;
    use lease_machines_store::{Fault, FaultStore, MemoryStore};

    use super::super::super::{asking::ATTEMPTS, block_on};
    use super::super::agreeing;
    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        acquire: Acquire,
    }

    /// What the command ends with on a store behind a network with these faults, and how many slots are held then. Where none
    /// is, none has a mark either: no ID was made.
    fn run(
        faults: impl IntoIterator<Item = Fault>,
        interrupted: impl Future<Output = Signal>,
    ) -> (Result<Exit, Failure>, usize) {
        run_on(agreeing(), faults, interrupted)
    }

    fn run_on(
        store: MemoryStore,
        faults: impl IntoIterator<Item = Fault>,
        interrupted: impl Future<Output = Signal>,
    ) -> (Result<Exit, Failure>, usize) {
        let acquire = Only::parse_from(["lease", "ids", "--ttl", "1h"]).acquire;
        let inner = Arc::new(store);
        let store = FaultStore::scripted(Arc::clone(&inner) as Arc<dyn Store>, faults);
        let outcome = block_on(acquire.run_on(&store, interrupted));
        let pool = ResourceName::new("ids").unwrap();
        let found = block_on(async { inner.slots(pool).await.map_err(Failure::of_look) }).unwrap();
        let reserved = found.slots.iter().filter(|slot| !slot.mark.is_zero()).count();
        assert_eq!(found.holders(), reserved, "{found:?}");
        (outcome, reserved)
    }

    #[test]
    fn an_answer_that_was_lost_does_not_take_a_second_slot() {
        for lost in [Fault::DropReply, Fault::DropRequest] {
            let (outcome, held) = run([lost], pending());
            assert_eq!((outcome.unwrap(), held), (Exit::Ok, 1), "{lost:?}");
        }
    }

    #[test]
    fn a_machine_whose_clock_is_too_far_from_the_stores_gets_none() {
        for (apart, is_refused) in [(9, false), (3_600, true)] {
            let store = agreeing();
            store.advance(Duration::from_secs(apart));
            let (outcome, held) = run_on(store, [], pending());
            if is_refused {
                let failure = outcome.unwrap_err();
                assert_eq!((failure.exit(), held), (Exit::Configuration, 0));
                assert!(failure.to_string().contains("expected at most 10s"), "{failure}");
            } else {
                assert_eq!((outcome.unwrap(), held), (Exit::Ok, 1));
            }
        }
    }

    #[test]
    fn what_nobody_hears_of_is_taken_back() {
        let tries = ATTEMPTS as usize + 1;
        let (outcome, held) = run(std::iter::repeat_n(Fault::DropReply, tries), pending());
        assert_eq!((outcome.unwrap_err().exit(), held), (Exit::Unreachable, 0));
    }

    #[test]
    fn what_was_granted_to_one_who_is_interrupted_is_taken_back() {
        // After the first request, which is granted, and before the second.
        let interrupted = async {
            tokio::task::yield_now().await;
            Signal::SIGTERM
        };
        let (outcome, held) = run([Fault::DropReply], interrupted);
        assert_eq!(
            (format!("{:?}", outcome.unwrap_err()), held),
            (format!("{:?}", Failure::by_signal(Signal::SIGTERM)), 0)
        );
    }
}
