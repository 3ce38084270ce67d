//! `lease fence`.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{GuardError, Mark, MarkKey, Marks, ResourceName, open_marks, parse_duration};
use serde::Serialize;

use super::prune::count;
use super::{Outcome, confirm};
use crate::args::{self, Form, LeaseOptions, StoreOption};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::output::{self, utc, views, visible};

/// Look at, raise, reset or forget the marks that a fence refuses older tokens by
///
/// A mark stands in the database that is protected, and is raised by each guarded write. These commands are for
/// scripts and operators; they guard no write themselves.
#[derive(Args, Debug)]
pub(crate) struct Fence {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Check(Check),
    Advance(Advance),
    Reset(Reset),
    Prune(Prune),
}

/// Where the marks stand.
#[derive(Args, Debug)]
struct Database {
    /// The database that is protected, where it is not the store itself: sqlite:PATH, postgres://…, mysql://…,
    /// redis://… or etcd://…
    #[arg(long, value_name = "URL")]
    fence: Option<String>,

    #[command(flatten)]
    store: StoreOption,
}

impl Database {
    fn open(&self) -> Result<Arc<dyn Marks>, Failure> {
        let opened = match &self.fence {
            Some(url) => open_marks(url),
            None => open_marks(self.store.choose()?.url()),
        };
        opened.map_err(Failure::of_look)
    }
}

/// Which mark.
#[derive(Args, Debug)]
struct Where {
    /// The name of the store whose tokens they are, in a database that is written under leases of several stores
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    of_store: String,

    /// Tells several protected things under one lease apart, as a number
    #[arg(long, value_name = "NUMBER", default_value = "0", allow_negative_numbers = true)]
    slot: i64,

    #[command(flatten)]
    database: Database,
}

impl Where {
    fn key(&self, resource: &ResourceName) -> MarkKey {
        MarkKey::new(resource.clone()).in_store(self.of_store.clone()).in_slot(self.slot)
    }
}

/// Show the mark, and ask whether a token would pass: exit 0 for yes, 1 for no
///
/// Without a token it only shows the mark. The answer may be out of date before it is read: to hold a write back, guard
/// it in its own transaction.
#[derive(Args, Debug)]
struct Check {
    /// The resource whose lease protects it: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    resource: ResourceName,

    /// The token to ask about
    #[arg(long, env = "LEASE_TOKEN", hide_env_values = true, value_name = "NUMBER", value_parser = args::token)]
    token: Option<FencingToken>,

    /// Whose token it is: where the mark is the same token of another owner, it would not pass
    #[arg(long, env = "LEASE_OWNER", hide_env_values = true, value_name = "NUMBER", value_parser = args::owner)]
    owner: Option<OwnerId>,

    #[command(flatten)]
    at: Where,

    #[command(flatten)]
    form: Form,
}

/// Raise the mark to a lease's token: from then on every older holder is refused
///
/// To be done before the work begins, so that the holder before it is refused even where the new one has written
/// nothing. Exit 79 where a newer holder has been there, or the token stands there under another owner.
#[derive(Args, Debug)]
struct Advance {
    #[command(flatten)]
    lease: LeaseOptions,

    #[command(flatten)]
    at: Where,

    #[command(flatten)]
    form: Form,
}

/// Set a mark back that a token has raised which was never issued
///
/// For an operator: below the mark, holders are let in that were refused. It is written down with the reason.
#[derive(Args, Debug)]
struct Reset {
    /// The resource whose lease protects it: 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    resource: ResourceName,

    /// The token that the mark is set to. Without it the mark is removed, and any token passes next
    #[arg(long, value_name = "NUMBER", value_parser = args::token)]
    to: Option<FencingToken>,

    /// Why; kept beside the mark
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// Do not ask. Needed where nobody can be asked: standard input or standard error is no terminal
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    at: Where,

    #[command(flatten)]
    form: Form,
}

/// Forget marks that no guarded write has touched for a long time
///
/// A floor is raised above them first, so that what they refused stays refused. Below it every token is refused that has no
/// mark of its own, whatever its resource: choose more than the longest time for which a lease is held before its first
/// guarded write. Not on Redis and etcd, which keep no such floor.
#[derive(Args, Debug)]
struct Prune {
    /// Forget what was written last longer ago than this: a bare number is seconds, 30d or 12h works too
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    older_than: Duration,

    /// Do not ask. Needed with --older-than 0 where nobody can be asked: standard input or standard error is no terminal
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Forgotten {
    marks: u64,
}

#[derive(Serialize)]
struct Answer {
    resource: String,
    store: String,
    slot: String,
    passes: Option<bool>,
    mark: Option<MarkView>,
}

#[derive(Serialize)]
struct MarkView {
    token: views::Big,
    owner: views::Big,
    at: String,
}

impl Fence {
    pub(crate) async fn run(self) -> Outcome {
        match self.what {
            What::Check(check) => check.run().await,
            What::Advance(advance) => advance.run().await,
            What::Reset(reset) => reset.run().await,
            What::Prune(prune) => prune.run().await,
        }
    }
}

impl Check {
    async fn run(self) -> Outcome {
        let key = self.at.key(&self.resource);
        let mark = look(self.at.database.open()?.as_ref(), &key).await?;
        let passes = self.token.map(|token| would_pass(mark.as_ref(), token, self.owner));
        tell(&key, mark.as_ref(), passes, self.form)?;
        Ok(if passes == Some(false) { Exit::No } else { Exit::Ok })
    }
}

/// As the guard decides, without raising the mark.
fn would_pass(mark: Option<&Mark>, token: FencingToken, owner: Option<OwnerId>) -> bool {
    mark.is_none_or(|mark| {
        let theirs = owner.is_some_and(|owner| owner != mark.owner);
        token > mark.token || (token == mark.token && !theirs)
    })
}

impl Advance {
    async fn run(self) -> Outcome {
        let lease = self.lease.lease();
        let key = self.at.key(&lease.resource);
        let marks = self.at.database.open()?;
        marks.advance(key.clone(), lease).await.map_err(|error| refused(&error))?;
        if self.form.json {
            let mark = look(marks.as_ref(), &key).await?;
            tell(&key, mark.as_ref(), Some(true), self.form)?;
        }
        Ok(Exit::Ok)
    }
}

impl Reset {
    async fn run(self) -> Outcome {
        confirm::possible(self.yes, "reset a mark")?;
        let key = self.at.key(&self.resource);
        let marks = self.at.database.open()?;
        let found = look(marks.as_ref(), &key).await?;
        let after = match self.to {
            Some(token) => format!("Tokens from {token} on will pass"),
            None => "Any token will pass".to_owned(),
        };
        let question =
            format!("{}.\n{after}, also those that were refused. Reset it?", sentence(&key, found.as_ref()));
        if !self.yes && !confirm::ask(&question)? {
            output::note("nothing was reset");
            return Ok(Exit::No);
        }
        marks.reset(key.clone(), self.to, self.reason).await.map_err(Failure::of_decision)?;
        let mark = look(marks.as_ref(), &key).await?;
        tell(&key, mark.as_ref(), None, self.form)?;
        Ok(Exit::Ok)
    }
}

impl Prune {
    async fn run(self) -> Outcome {
        if self.older_than.is_zero() {
            confirm::possible(self.yes, "forget every mark")?;
        }
        let marks = self.database.open()?;
        let question = "Every mark will be forgotten, and every older token than the newest of them will be refused.\nPrune them?";
        if self.older_than.is_zero() && !self.yes && !confirm::ask(question)? {
            output::note("nothing was pruned");
            return Ok(Exit::No);
        }
        let forgotten = marks.prune(self.older_than).await.map_err(Failure::of_decision)?;
        if self.form.json {
            output::print_json(&Forgotten { marks: forgotten })?;
        } else {
            output::print(&format!("forgot {}\n", count(forgotten, "mark")))?;
        }
        Ok(Exit::Ok)
    }
}

async fn look(marks: &dyn Marks, key: &MarkKey) -> Result<Option<Mark>, Failure> {
    marks.look(key.clone()).await.map_err(Failure::of_look)
}

fn refused(error: &GuardError) -> Failure {
    Failure::new(exit::of_guard(error.kind()), format!("the mark was not raised: {error}"))
}

fn tell(key: &MarkKey, mark: Option<&Mark>, passes: Option<bool>, form: Form) -> Result<(), Failure> {
    if form.json {
        return output::print_json(&Answer {
            resource: key.resource.to_string(),
            store: key.store.clone(),
            slot: key.slot.to_string(),
            passes,
            mark: mark.map(|mark| MarkView {
                token: mark.token.into(),
                owner: mark.owner.into(),
                at: output::rfc3339(mark.at),
            }),
        });
    }
    let verdict = match passes {
        Some(true) => "ok: ",
        Some(false) => "no: ",
        None => "",
    };
    output::print(&format!("{verdict}{}\n", sentence(key, mark)))
}

fn sentence(key: &MarkKey, mark: Option<&Mark>) -> String {
    // As `Display` of the key, but for this terminal.
    let mut name = visible(key.resource.as_str());
    if !key.store.is_empty() {
        name.push_str(&format!(" of store {}", visible(&key.store)));
    }
    if key.slot != 0 {
        name.push_str(&format!(" slot {}", key.slot));
    }
    match mark {
        Some(mark) => {
            let (token, owner, at) = (mark.token, mark.owner, utc(mark.at));
            format!("the mark of {name} is token {token} of owner {owner}, last written {at} UTC")
        }
        None => format!("{name} has no mark: any token passes"),
    }
}
