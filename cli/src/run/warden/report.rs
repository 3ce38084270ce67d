//! What people and machines are told of a run.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use lease_machines::{Event, FencingToken, Loss, NotHeld, Outcome, Rejection};
use lease_machines_store::{End, ErrorKind, Occupant, Undecided};
use nix::unistd::Pid;

use super::decider::Decider;
use super::link::Link;
use super::requests::{Heard, News};
use crate::args::Wait;
use crate::duration;
use crate::exit::{self, Exit};
use crate::output::people;
use crate::run::args::RunArgs;
use crate::run::course::Why;
use crate::run::events;
use crate::run::tree::Tree;
use crate::run::wire::Note;
use crate::sys::descendants::visible;

/// Renewals are many, and all alike: an event for the first, and then one in so long.
const RENEWED_APART: Duration = Duration::from_secs(60);

/// Why a slot was not granted.
const FULL: &str = "every slot is held, closed or cooling down";

/// Says each thing once, and remembers what the exit code will depend on.
pub(crate) struct Report {
    quiet: bool,
    verbose: bool,
    holder: Option<Occupant>,
    /// The lease that this run itself runs under: resource, owner and token.
    around: Option<(String, u64, u64)>,
    nested: bool,
    released_by_another: bool,
    /// Every slot of the pool was in the way.
    full: bool,
    granted: bool,
    /// When the last event on the lease's time was written.
    told_at: Option<Duration>,
    told_renewal: bool,
    told_stop: Option<(&'static str, Option<Why>)>,
    done: Option<End>,
    error: Option<(ErrorKind, String)>,
    said_error: bool,
    said_ending: bool,
    said_leftovers: bool,
    refused: usize,
}

impl Report {
    pub(crate) fn new(args: &RunArgs) -> io::Result<Self> {
        Ok(Self {
            quiet: args.quiet,
            verbose: args.verbose,
            holder: None,
            around: around(|name| std::env::var(name).ok()),
            nested: false,
            released_by_another: false,
            granted: false,
            full: false,
            told_at: None,
            told_renewal: false,
            told_stop: None,
            done: None,
            error: None,
            said_error: false,
            said_ending: false,
            said_leftovers: false,
            refused: 0,
        })
    }

    /// A store has answered.
    pub(crate) fn heard(&mut self, heard: &Heard, args: &RunArgs, link: &mut Link, releasing: bool) {
        match &heard.news {
            Some(News::Held(occupant)) => self.held(occupant, args, link),
            Some(News::Full) => {
                if !std::mem::replace(&mut self.full, true) && waits(args) {
                    self.say(link, format!("{}: waiting: {FULL}", args.resource));
                }
            }
            Some(News::Done(end)) => self.done = Some(end.clone()),
            Some(News::Failed(error)) => {
                // Others in the way for a moment are no news, except to whoever waits for a first decision.
                let busy = error.kind() == ErrorKind::Busy && (self.granted || !waits(args));
                if !self.said_error && !releasing && !busy {
                    self.said_error = !self.quiet;
                    let again =
                        if error.undecided() == Undecided::Refused { "" } else { ", and is asked again" };
                    self.say(link, format!("{}: the store did not decide{again}: {error}", args.resource));
                }
                self.error = Some((error.kind(), error.to_string()));
            }
            Some(News::Marked(_)) => {}
            Some(News::AlreadyReleased) => self.released_by_another = true,
            Some(News::Granted(_)) => {
                self.granted = true;
                self.error = None;
            }
            None => self.error = None,
        }
    }

    fn held(&mut self, occupant: &Occupant, args: &RunArgs, link: &mut Link) {
        let news = self.holder.as_ref().is_none_or(|holder| holder.token != occupant.token);
        self.holder = Some(occupant.clone());
        let this = (args.resource.as_str(), occupant.owner.value(), occupant.token.value());
        self.nested = !occupant.retained
            && self
                .around
                .as_ref()
                .is_some_and(|(resource, owner, token)| this == (resource, *owner, *token));
        if news && waits(args) && !self.nested {
            link.tell_event(&events::Event::waiting(&args.resource, occupant));
            let (who, remaining) = (who(occupant), duration::show(occupant.remaining));
            let what = if occupant.retained {
                format!("waiting: it {}", people::held(occupant))
            } else {
                format!("waiting for {who}, whose lease ends in {remaining} unless renewed")
            };
            self.say(link, format!("{}: {what}", args.resource));
        }
    }

    /// Whether the holder in the way is the very run that this one is part of: it ends only after us.
    pub(crate) fn held_around_us(&self) -> bool {
        self.nested
    }

    /// What an answer came to.
    pub(crate) fn lease(
        &mut self,
        event: Event,
        decider: &Decider,
        args: &RunArgs,
        now: Duration,
        link: &mut Link,
    ) {
        let (Some(token), Some(deadline)) = (decider.token(), decider.deadline()) else { return };
        let word = match event {
            Event::Granted { .. } if self.told_at.is_none() => "granted",
            Event::Renewed { .. }
                if self.told_at.is_none_or(|at| now.saturating_sub(at) >= RENEWED_APART)
                    || !self.told_renewal =>
            {
                self.told_renewal = true;
                "renewed"
            }
            _ => return,
        };
        self.told_at = Some(now);
        let remaining = deadline.saturating_sub(now);
        link.tell_event(&events::Event::of_lease(word, &args.resource, token, remaining));
    }

    /// TERM or KILL was sent: an event each time the reason is another.
    pub(crate) fn stopped(&mut self, word: &'static str, decider: &Decider, args: &RunArgs, link: &mut Link) {
        let what = (word, decider.why());
        if self.told_stop != Some(what) {
            self.told_stop = Some(what);
            link.tell_event(&events::Event::ending(word, &args.resource, decider.token(), decider.why()));
        }
    }

    /// The command runs.
    pub(crate) fn started(&mut self, token: FencingToken, pid: Pid, args: &RunArgs, link: &mut Link) {
        if self.verbose {
            let resource = &args.resource;
            self.say(link, format!("{resource}: held under token {}; started process {pid}", token.value()));
        }
    }

    /// The warning deadline has passed.
    pub(crate) fn at_risk(&mut self, decider: &Decider, args: &RunArgs, now: Duration, link: &mut Link) {
        if let (Some(token), Some(deadline)) = (decider.token(), decider.deadline()) {
            let remaining = deadline.saturating_sub(now);
            link.tell_event(&events::Event::of_lease("at_risk", &args.resource, token, remaining));
        }
        if decider.command_ended().is_none() && decider.why().is_none() {
            self.say(link, format!("{}: the lease could not be renewed yet, and is at risk", args.resource));
        }
    }

    /// TERM or KILL is about to be sent.
    pub(crate) fn ending(&mut self, decider: &Decider, args: &RunArgs, link: &mut Link) {
        if self.said_ending {
            return;
        }
        self.said_ending = true;
        let resource = &args.resource;
        match decider.why() {
            Some(Why::Lost) => {
                let how = decider.loss().map_or("it ran out", lost);
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
        if self.said_leftovers || here.is_empty() && visible() {
            return;
        }
        self.said_leftovers = true;
        let names = if here.is_empty() { String::new() } else { format!(": {}", list(&here)) };
        self.say(
            link,
            format!("{}: the command has ended; waiting for what it left behind{names}", args.resource),
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
    pub(crate) fn outcome(&mut self, outcome: Outcome, decider: &Decider, args: &RunArgs, link: &mut Link) {
        let resource = &args.resource;
        let (word, reason) = match outcome {
            Outcome::Stood => ("released", None),
            Outcome::Unconfirmed => ("unconfirmed", None),
            Outcome::Lost(Loss::Vacated) if self.released_by_another => ("lost", Some("released_by_another")),
            Outcome::Lost(loss) => ("lost", Some(events::lost(loss))),
            Outcome::NotHeld(why) => ("not_held", Some(events::not_held(why))),
        };
        link.tell_event(&events::Event::last(word, resource, decider.token(), reason));
        match outcome {
            Outcome::Lost(loss) if decider.loss().is_none() => {
                let how = if self.released_by_another && loss == Loss::Vacated {
                    "it had been released already, and not by this run: by the command, or by hand"
                } else {
                    lost(loss)
                };
                let started = decider.command_ended().is_some();
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
            Outcome::Stood if decider.held_out() => {
                let text =
                    "held for as long as --max-hold allows before the command was started: it was not run";
                self.always(link, format!("{resource}: {text}"));
            }
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
            NotHeld::Occupied if self.full => {
                let text = format!("{resource}: {FULL}");
                match args.skip_if_held {
                    true if !io::stderr().is_terminal() => {}
                    true => self.say(link, text),
                    false => self.always(link, text),
                }
            }
            NotHeld::Occupied => {
                let Some(holder) = self.holder.take() else { return };
                let (who, held) = (who(&holder), duration::show(holder.held_for));
                let text = if self.nested {
                    let token = holder.token.value();
                    format!(
                        "{resource}: this command already runs under the lease (token {token}), and would wait for itself"
                    )
                } else if holder.retained {
                    format!("{resource}: it {}", people::held(&holder))
                } else {
                    format!("{resource}: held by {who} for {held}")
                };
                // What only --at-least holds back does not hang.
                let too_long =
                    !holder.retained && args.max_hold.is_some_and(|max_hold| holder.held_for > max_hold);
                match args.skip_if_held {
                    true if too_long => self.always(link, format!("{text}, which is longer than --max-hold")),
                    // A scheduler sends a mail for every word.
                    true if !io::stderr().is_terminal() => {}
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
                if self.said_error {
                    return;
                }
                // It stays: the exit code depends on its kind.
                let error = self.error.as_ref().map_or("the store did not answer", |(_, error)| error);
                self.always(link, format!("{resource}: {error}"));
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

fn waits(args: &RunArgs) -> bool {
    !args.no_wait && !args.skip_if_held && args.wait != Wait::For(Duration::ZERO)
}

/// The lease that `lease run` around this one has told its command of.
fn around(variable: impl Fn(&str) -> Option<String>) -> Option<(String, u64, u64)> {
    let number = |name| variable(name)?.parse().ok();
    Some((variable("LEASE_RESOURCE")?, number("LEASE_OWNER")?, number("LEASE_TOKEN")?))
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
        Loss::Vacated => "it was revoked, or released by another",
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
