//! What people and machines are told of a run.

use std::collections::BTreeMap;
use std::io;

use lease_machines::{FencingToken, Loss, NotHeld, Outcome, Rejection};
use lease_machines_store::{End, ErrorKind, Occupant};
use nix::unistd::Pid;

use super::core::Core;
use super::link::Link;
use super::requests::{Heard, News};
use crate::duration;
use crate::exit::{self, Exit};
use crate::run::args::RunArgs;
use crate::run::course::Why;
use crate::run::tree::Tree;
use crate::run::wire::Note;

/// Says each thing once, and remembers what the exit code will depend on.
pub(crate) struct Report {
    quiet: bool,
    verbose: bool,
    holder: Option<Occupant>,
    done: Option<End>,
    error: Option<(ErrorKind, String)>,
    said_error: bool,
    said_ending: bool,
    leftovers: BTreeMap<Pid, String>,
    refused: usize,
}

impl Report {
    pub(crate) fn new(args: &RunArgs) -> io::Result<Self> {
        Ok(Self {
            quiet: args.quiet,
            verbose: args.verbose,
            holder: None,
            done: None,
            error: None,
            said_error: false,
            said_ending: false,
            leftovers: BTreeMap::new(),
            refused: 0,
        })
    }

    /// A store has answered.
    pub(crate) fn heard(&mut self, heard: &Heard, args: &RunArgs, link: &mut Link, releasing: bool) {
        match &heard.news {
            Some(News::Held(occupant)) => self.held(occupant, args, link),
            Some(News::Done(end)) => self.done = Some(end.clone()),
            Some(News::Failed(error)) => {
                if !self.said_error && !releasing && error.kind() != ErrorKind::Busy {
                    self.said_error = true;
                    self.say(link, format!("{}: the store did not decide: {error}", args.resource));
                }
                self.error = Some((error.kind(), error.to_string()));
            }
            Some(News::Marked(_)) => {}
            Some(News::Granted(_)) | None => self.error = None,
        }
    }

    fn held(&mut self, occupant: &Occupant, args: &RunArgs, link: &mut Link) {
        let news = self.holder.as_ref().is_none_or(|holder| holder.token != occupant.token);
        self.holder = Some(occupant.clone());
        if news && !args.no_wait && !args.skip_if_held {
            let (who, remaining) = (who(occupant), duration::show(occupant.remaining));
            self.say(
                link,
                format!(
                    "{}: waiting for {who}, whose lease ends in {remaining} unless renewed",
                    args.resource
                ),
            );
        }
    }

    /// The command runs.
    pub(crate) fn started(&mut self, token: FencingToken, pid: Pid, link: &mut Link) {
        if self.verbose {
            self.say(link, format!("held under token {}; started process {pid}", token.value()));
        }
    }

    /// The warning deadline has passed.
    pub(crate) fn at_risk(&mut self, core: &Core, args: &RunArgs, link: &mut Link) {
        if core.command_ended().is_none() && core.why().is_none() {
            self.say(link, format!("{}: the lease could not be renewed yet, and is at risk", args.resource));
        }
    }

    /// TERM or KILL is about to be sent.
    pub(crate) fn ending(&mut self, core: &Core, args: &RunArgs, link: &mut Link) {
        if self.said_ending {
            return;
        }
        self.said_ending = true;
        let resource = &args.resource;
        match core.why() {
            Some(Why::Lost) => {
                let how = core.loss().map_or("it ran out", lost);
                self.always(link, format!("{resource}: the lease is lost ({how}): ending the command"));
            }
            Some(Why::MaxHold) => {
                self.always(
                    link,
                    format!("{resource}: held for as long as --max-hold allows: ending the command"),
                );
            }
            Some(Why::LeftBehind | Why::FrontGone) | None => self.said_ending = false,
        }
    }

    /// The command has ended, and others of its session have not.
    pub(crate) fn leftovers(&mut self, tree: &Tree, args: &RunArgs, link: &mut Link) {
        let here = tree.look().here;
        if here.is_empty() || !self.leftovers.is_empty() {
            return;
        }
        let names = list(&here);
        self.leftovers = here;
        self.say(
            link,
            format!("{}: the command has ended; waiting for what it left behind: {names}", args.resource),
        );
    }

    /// Somebody could not be signalled.
    pub(crate) fn refused(&mut self, tree: &Tree, args: &RunArgs, link: &mut Link) {
        let refused = tree.refused();
        if refused.len() > self.refused {
            self.refused = refused.len();
            let names = list(refused);
            self.always(
                link,
                format!(
                    "{}: not permitted to signal {names}: it runs as another user. The other way round works: \
                     sudo lease run … -- COMMAND",
                    args.resource
                ),
            );
        }
    }

    /// It is over.
    pub(crate) fn outcome(&mut self, outcome: Outcome, core: &Core, args: &RunArgs, link: &mut Link) {
        let resource = &args.resource;
        match outcome {
            Outcome::Lost(loss) if core.loss().is_none() => {
                let how = lost(loss);
                let started = core.command_ended().is_some();
                let when =
                    if started { "when it was to be released" } else { "before the command was started" };
                self.always(link, format!("{resource}: the lease was lost {when} ({how})"));
            }
            Outcome::Unconfirmed => {
                self.always(
                    link,
                    format!("{resource}: no answer to the release: the lease may last until it ends"),
                );
            }
            Outcome::NotHeld(why) => self.say_not_held(why, args, link),
            Outcome::Lost(_) | Outcome::Stood => {}
        }
    }

    /// What a lease that was never held exits with.
    pub(crate) fn not_held(&self, why: NotHeld, args: &RunArgs) -> u8 {
        match why {
            NotHeld::Occupied if args.skip_if_held => Exit::Ok.code(),
            NotHeld::Occupied => args.conflict_exit_code.unwrap_or(Exit::Held.code()),
            NotHeld::AlreadyDone => Exit::Ok.code(),
            NotHeld::Refused => {
                self.error.as_ref().map_or(Exit::Configuration, |(kind, _)| exit::of_store(*kind)).code()
            }
            NotHeld::Invalid(Rejection::InvalidTtl | Rejection::DeadlineOverflow) => Exit::Usage.code(),
            NotHeld::Invalid(_) => Exit::Configuration.code(),
            NotHeld::Stopped => Exit::Failed.code(),
            _ => Exit::Unreachable.code(),
        }
    }

    fn say_not_held(&mut self, why: NotHeld, args: &RunArgs, link: &mut Link) {
        let resource = &args.resource;
        match why {
            NotHeld::Occupied => {
                let Some(holder) = self.holder.take() else { return };
                let (who, held) = (who(&holder), duration::show(holder.held_for));
                let text = format!("{resource}: held by {who} for {held}");
                let too_long = args.max_hold.is_some_and(|max_hold| holder.held_for > max_hold);
                match args.skip_if_held {
                    true if too_long => self.always(link, format!("{text}, which is longer than --max-hold")),
                    true => self.say(link, text),
                    false => self.always(link, text),
                }
            }
            NotHeld::AlreadyDone => {
                let Some(end) = self.done.take() else { return };
                let who = end.label.as_deref().unwrap_or("somebody");
                let ago = end.at.elapsed().map(duration::show).unwrap_or_else(|_| "0s".to_owned());
                let key = args.once.as_deref().unwrap_or_default();
                self.say(link, format!("{resource}: done under {key:?} already, by {who}, {ago} ago"));
            }
            NotHeld::Refused | NotHeld::Unreachable => {
                if let (Some((_, error)), false) = (self.error.take(), self.said_error) {
                    self.always(link, format!("{resource}: {error}"));
                } else if !self.said_error {
                    self.always(link, format!("{resource}: the store did not answer"));
                }
            }
            NotHeld::Invalid(reason) => self.always(link, format!("{resource}: {reason}")),
            _ => {}
        }
    }

    fn say(&self, link: &mut Link, text: String) {
        if !self.quiet {
            self.always(link, text);
        }
    }

    fn always(&self, link: &mut Link, text: String) {
        link.tell(&Note::Say(text));
    }
}

fn who(occupant: &Occupant) -> String {
    let token = occupant.token.value();
    match occupant.label.as_deref() {
        Some(label) => format!("{label} (token {token})"),
        None => format!("owner {} (token {token})", occupant.owner.value()),
    }
}

const fn lost(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => "it ran out",
        Loss::Unreachable => "the store did not answer in time",
        Loss::Taken => "another holds it",
        Loss::Vacated => "it was revoked",
        Loss::NewEpoch => "the store has begun a new epoch",
        Loss::Fenced => "the resource refused its token",
        _ => "it is gone",
    }
}

/// `sleep (123), make (124)`, and how many more.
fn list(processes: &BTreeMap<Pid, String>) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> =
        processes.iter().take(SHOWN).map(|(pid, name)| format!("{name} ({pid})")).collect();
    match processes.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
