//! `lease revoke`, and what `lease id revoke` has in common with it.

use clap::Args;
use lease_machines::{FencingToken, Rejection};
use lease_machines_store::{
    Occupant, Rejected, ResourceName, Revoked, Store, StoreError, Vacated, slot_name,
};

use super::{Outcome, confirm, unknown_answer};
use crate::args::{self, Form, StoreOption};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, people, views::DecisionView, visible};

/// Break a lease that somebody holds
///
/// Names the token that it breaks, asks, and breaks that one alone: whoever takes the resource meanwhile is left alone.
/// Work under the broken lease may run on until its holder notices, and the next holder may begin before that: only a
/// fence keeps them apart. Exit 1 where nothing was broken.
///
/// The token after it is burnt: nobody will hold it. A fence lets the broken holder write until somebody newer has been
/// there; to refuse it at once, raise the mark to the burnt token, at each database that is protected:
///
///     lease fence advance --fence sqlite:data.db --owner 0 --token BURNT NAME
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// Which resource: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    resource: ResourceName,

    #[command(flatten)]
    breaking: Breaking,
}

impl Revoke {
    pub(crate) async fn run(self) -> Outcome {
        self.breaking.run(Broken::Resource(self.resource)).await
    }
}

/// The options of every command that breaks a lease.
#[derive(Args, Debug)]
pub(super) struct Breaking {
    /// Do not ask. Needed where nobody can be asked: standard input or standard error is no terminal
    #[arg(short, long)]
    yes: bool,

    /// Break it only if it is held under this token. By default the one that is found
    #[arg(long, value_name = "NUMBER", value_parser = args::token)]
    token: Option<FencingToken>,

    /// Why; kept in the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

/// What the lease that is to be broken is on.
#[derive(Debug)]
pub(super) enum Broken {
    Resource(ResourceName),
    Slot { pool: ResourceName, slot: u16 },
}

impl Broken {
    fn name(&self) -> Result<ResourceName, StoreError> {
        match self {
            Self::Resource(resource) => Ok(resource.clone()),
            Self::Slot { pool, slot } => slot_name(pool, *slot),
        }
    }

    async fn inspect(&self, store: &dyn Store) -> Result<(Option<Occupant>, Option<Vacated>), StoreError> {
        match self {
            Self::Resource(resource) => {
                let found = store.inspect(resource.clone()).await?;
                Ok((found.occupant, found.vacated))
            }
            Self::Slot { pool, slot } => {
                let slots = store.slots(pool.clone()).await?.slots;
                Ok((
                    slots.into_iter().find(|found| found.slot == *slot).and_then(|found| found.occupant),
                    None,
                ))
            }
        }
    }

    async fn revoke(
        &self,
        store: &dyn Store,
        token: FencingToken,
        reason: Option<String>,
    ) -> Result<Revoked, StoreError> {
        match self {
            Self::Resource(resource) => store.revoke(resource.clone(), Some(token), reason).await,
            Self::Slot { pool, slot } => store.revoke_slot(pool.clone(), *slot, Some(token), reason).await,
        }
    }

    /// What follows for whoever waits for it.
    const fn afterwards(&self) -> &'static str {
        match self {
            Self::Resource(_) => "",
            Self::Slot { .. } => {
                "; nobody else is given the machine ID before that and its cool-down are over"
            }
        }
    }
}

impl Breaking {
    pub(super) async fn run(self, broken: Broken) -> Outcome {
        confirm::possible(self.yes, "break a lease")?;
        let store = self.store.open_existing()?;
        let name = broken.name().map_err(Failure::of_look)?;
        let (occupant, vacated) = broken.inspect(store.as_ref()).await.map_err(Failure::of_look)?;
        let Some(occupant) = occupant else {
            let rejected = Rejected::new(Rejection::Vacant).with_vacated(vacated);
            return self.not_broken(&name, &rejected);
        };
        let token = self.token.unwrap_or(occupant.token);
        if token != occupant.token {
            let rejected = Rejected::new(Rejection::StaleToken).with_occupant(Some(occupant));
            return self.not_broken(&name, &rejected);
        }
        let question = format!(
            "{} {}.\nIts work may run on until it notices. Break it?",
            visible(name.as_str()),
            people::held(&occupant),
        );
        if !self.yes && !confirm::ask(&question)? {
            output::note("nothing was broken");
            return Ok(Exit::No);
        }
        let answer = broken.revoke(store.as_ref(), token, self.reason.clone()).await;
        let burnt = match answer.map_err(Failure::of_decision)? {
            Revoked::Burnt(burnt) => Some(burnt),
            Revoked::Rejected(rejected) if rejected.reason == Rejection::TokensExhausted => None,
            Revoked::Rejected(rejected) => return self.not_broken(&name, &rejected),
            _ => return Err(unknown_answer()),
        };
        self.broken(&name, &occupant, burnt)?;
        output::note(&format!(
            "work under token {token} may run on until its holder notices, for at most {}{}",
            duration::show(occupant.remaining),
            broken.afterwards(),
        ));
        Ok(Exit::Ok)
    }

    fn broken(
        &self,
        name: &ResourceName,
        occupant: &Occupant,
        burnt: Option<FencingToken>,
    ) -> Result<(), Failure> {
        let token = occupant.token;
        if self.form.json {
            let view = DecisionView::new(name, "revoked").of(occupant.owner, token).burning(burnt);
            return output::print_json(&view);
        }
        let fence = match burnt {
            Some(burnt) => {
                format!("token {burnt} is burnt: a mark that is raised to it refuses {token} at once")
            }
            None => "no greater token is left: the resource is closed for good".to_owned(),
        };
        output::print(&format!(
            "broke the lease of {} on {} under token {token}; {fence}\n",
            people::holder(occupant),
            visible(name.as_str()),
        ))
    }

    fn not_broken(&self, name: &ResourceName, rejected: &Rejected) -> Outcome {
        if self.form.json {
            output::print_json(&DecisionView::new(name, "rejected").because(rejected))?;
        }
        Err(Failure::new(
            Exit::No,
            format!("nothing was broken on {}: {}", visible(name.as_str()), people::rejected(rejected)),
        ))
    }
}
