//! `lease id acquire`.

use std::os::unix::process::parent_id;
use std::time::Duration;

use clap::Args;
use lease_machines::{OwnerId, Rejection};
use lease_machines_store::{
    Claimed, PoolClaim, ResourceName, SlotLease, Store, Unclaimed, Undecided, fresh_owner,
};
use serde::Serialize;

use super::pool::PoolOptions;
use crate::args::{Form, StoreOption, Wait};
use crate::commands::{Outcome, unknown_answer};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::label;
use crate::output::{self, views, visible};
use crate::sys::clock;

/// How often a claim that brought no answer is repeated before it is taken back.
const ATTEMPTS: u64 = 4;
/// Between two of them; and as often a full pool is looked at again at most.
const PAUSE: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long taking an unanswered claim back may take. What is not taken back by then ends with its ttl.
const WITHDRAWAL: Duration = Duration::from_secs(2);

const ABOUT: &str = "\
Take a machine ID, and print what is needed to give it back

Prints MACHINE_ID=… MACHINE_ID_TOKEN=… MACHINE_ID_OWNER=… MACHINE_ID_EPOCH=…, safe to eval.

Nobody renews it and nobody stops the work when it runs out: `lease id run` does. Exit 75 where every
slot is held.";

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

#[derive(Serialize)]
struct Answer {
    pool: String,
    outcome: &'static str,
    machine_id: u16,
    owner: views::Big,
    token: views::Big,
    epoch: String,
    ttl_ms: u64,
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
        let store = self.store.open()?;
        durable(store.as_ref())?;
        let owner = fresh_owner().map_err(Failure::of_look)?;
        let label = self.label.clone().unwrap_or_else(|| label::of(parent_id()));
        let claim = self.slots.claim(self.pool.clone(), owner, self.ttl).with_label(label);
        let told = match self.take(store.as_ref(), claim).await {
            Ok(Claimed::Granted(granted)) => self.granted(owner, &granted),
            Ok(Claimed::Rejected(why)) => return Err(self.refused(why)),
            Ok(_) => Err(unknown_answer()),
            Err(failure) => Err(failure),
        };
        if told.is_err() {
            // Nobody knows owner and token now. What cannot be taken back ends with its ttl.
            let _ = tokio::time::timeout(WITHDRAWAL, store.withdraw_slot(self.pool.clone(), owner)).await;
        }
        told
    }

    /// Asks until there is an answer, or the wait is over.
    async fn take(&self, store: &dyn Store, claim: PoolClaim) -> Result<Claimed, Failure> {
        let begun = clock::now();
        let (mut attempt, mut unanswered) = (0, 0);
        loop {
            attempt += 1;
            let asked = claim.clone().with_attempt(attempt);
            // From the second time on it is `reclaim`: an earlier request may have been granted without an answer.
            let answer =
                if attempt == 1 { store.claim_slot(asked).await } else { store.reclaim_slot(asked).await };
            let again = match answer {
                Ok(Claimed::Rejected(why @ (Unclaimed::Busy | Unclaimed::Exhausted { .. }))) => why,
                Ok(answer) => return Ok(answer),
                Err(error) if error.undecided() == Undecided::Refused || unanswered == ATTEMPTS => {
                    return Err(Failure::of_decision(error));
                }
                Err(_) => {
                    unanswered += 1;
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            unanswered = 0;
            let left = match self.wait {
                Wait::For(limit) => limit.saturating_sub(clock::now().saturating_sub(begun)),
                Wait::Forever => Duration::MAX,
            };
            if left.is_zero() {
                return Ok(Claimed::Rejected(again));
            }
            if attempt == 1 {
                output::note(&format!("waiting for a slot of {}: {again}", visible(self.pool.as_str())));
            }
            let pause = match again {
                Unclaimed::Exhausted { next_chance: Some(chance) } => chance.clamp(PAUSE, LOOK_AGAIN),
                Unclaimed::Exhausted { next_chance: None } => LOOK_AGAIN,
                _ => PAUSE,
            };
            tokio::time::sleep(pause.min(left)).await;
        }
    }

    fn granted(&self, owner: OwnerId, granted: &SlotLease) -> Outcome {
        let SlotLease { slot, token, epoch, ttl, .. } = *granted;
        if self.form.json {
            output::print_json(&Answer {
                pool: self.pool.to_string(),
                outcome: "granted",
                machine_id: slot,
                owner: owner.into(),
                token: token.into(),
                epoch: epoch.to_string(),
                ttl_ms: views::ms(ttl),
            })?;
        } else {
            output::print(&format!(
                "MACHINE_ID={slot} MACHINE_ID_TOKEN={token} MACHINE_ID_OWNER={owner} MACHINE_ID_EPOCH={epoch}\n"
            ))?;
        }
        Ok(Exit::Ok)
    }

    fn refused(&self, why: Unclaimed) -> Failure {
        let exit = match why {
            Unclaimed::Busy | Unclaimed::Exhausted { .. } => Exit::Held,
            Unclaimed::NoSuchSlot
            | Unclaimed::Invalid(Rejection::InvalidTtl | Rejection::DeadlineOverflow) => Exit::Usage,
            _ => Exit::Failed,
        };
        let soon = match why {
            Unclaimed::Exhausted { next_chance: Some(wait) } => {
                format!("; the next may come free in {}", duration::show(wait))
            }
            _ => String::new(),
        };
        Failure::new(exit, format!("no slot of {} was granted: {why}{soon}", visible(self.pool.as_str())))
    }
}
