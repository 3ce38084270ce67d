//! `lease revoke`.

use clap::Args;
use lease_machines::{FencingToken, Rejection};
use lease_machines_store::{Occupant, Rejected, ResourceName, Revoked};

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

impl Revoke {
    pub(crate) async fn run(self) -> Outcome {
        confirm::possible(self.yes, "break a lease")?;
        let store = self.store.open_existing()?;
        let found = store.inspect(self.resource.clone()).await.map_err(Failure::of_look)?;
        let Some(occupant) = found.occupant else {
            let rejected = Rejected::new(Rejection::Vacant).with_vacated(found.vacated);
            return self.not_broken(&rejected);
        };
        let token = self.token.unwrap_or(occupant.token);
        if token != occupant.token {
            let rejected = Rejected::new(Rejection::StaleToken).with_occupant(Some(occupant));
            return self.not_broken(&rejected);
        }
        let question = format!(
            "{} {}.\nIts work may run on until it notices. Break it?",
            visible(self.resource.as_str()),
            people::held(&occupant),
        );
        if !self.yes && !confirm::ask(&question)? {
            output::note("nothing was broken");
            return Ok(Exit::No);
        }
        let answer = store
            .revoke(self.resource.clone(), Some(token), self.reason.clone())
            .await
            .map_err(Failure::of_decision)?;
        match answer {
            Revoked::Burnt(burnt) => self.broken(&occupant, Some(burnt)),
            Revoked::Rejected(rejected) if rejected.reason == Rejection::TokensExhausted => {
                self.broken(&occupant, None)
            }
            Revoked::Rejected(rejected) => self.not_broken(&rejected),
            _ => Err(unknown_answer()),
        }
    }

    fn broken(&self, occupant: &Occupant, burnt: Option<FencingToken>) -> Outcome {
        let token = occupant.token;
        if self.form.json {
            output::print_json(
                &DecisionView::new(&self.resource, "revoked").of(occupant.owner, token).burning(burnt),
            )?;
        } else {
            let fence = match burnt {
                Some(burnt) => {
                    format!("token {burnt} is burnt: a mark that is raised to it refuses {token} at once")
                }
                None => "no greater token is left: the resource is closed for good".to_owned(),
            };
            output::print(&format!(
                "broke the lease of {} on {} under token {token}; {fence}\n",
                people::holder(occupant),
                visible(self.resource.as_str()),
            ))?;
        }
        output::note(&format!(
            "work under token {token} may run on until its holder notices, for at most {}",
            duration::show(occupant.remaining),
        ));
        Ok(Exit::Ok)
    }

    fn not_broken(&self, rejected: &Rejected) -> Outcome {
        if self.form.json {
            output::print_json(&DecisionView::new(&self.resource, "rejected").because(rejected))?;
        }
        let resource = visible(self.resource.as_str());
        Err(Failure::new(
            Exit::No,
            format!("nothing was broken on {resource}: {}", people::rejected(rejected)),
        ))
    }
}
