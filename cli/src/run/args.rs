//! The options of `lease run`, and what they must fulfil.

use std::ffi::OsString;
use std::time::Duration;

use lease_machines::Cadence;
use lease_machines_store::parse_duration;

use super::course::Leftover;
use super::times::Times;
use crate::args::{StoreOption, Wait};
use crate::commands::PoolOptions;
use crate::duration;

const LEAST_TTL: Duration = Duration::from_secs(1);

/// Run a command while holding a lease
///
/// The command runs once the lease is held, and is made to end before the lease does if it cannot be kept.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) store: StoreOption,

    /// How long the lease is, at least 1s; it is renewed while the command runs
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) ttl: Duration,

    /// Do not wait for a lease that another holds; a store that does not answer is asked again for up to 30s
    #[arg(short = 'n', long)]
    pub(crate) no_wait: bool,

    /// Wait for another holder, or for a store that does not answer, for at most this long, or `forever`; 0 is as
    /// --no-wait
    #[arg(short, long, value_name = "DURATION", default_value = "forever", value_parser = Wait::parse,
        conflicts_with = "no_wait", allow_hyphen_values = true)]
    pub(crate) wait: Wait,

    /// Do not wait, and exit with 0 if another holds the lease; says nothing of it where standard error is no terminal,
    /// unless the holder is older than --max-hold
    #[arg(long, conflicts_with_all = ["wait", "conflict_exit_code"])]
    pub(crate) skip_if_held: bool,

    /// Exit with this code instead of 75 if another holds the lease
    #[arg(short = 'E', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: Option<u8>,

    /// Nobody else gets the lease sooner than this after it was granted
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration,
        hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) at_least: Duration,

    /// End the command after this long (exit code 124)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,

    /// Do nothing if a command has ended well under this key before
    ///
    /// Before means as long as the key is known: `lease prune` forgets those that are older than it is told, but for
    /// the last of each resource.
    #[arg(long, value_name = "KEY", value_parser = once_key)]
    pub(crate) once: Option<String>,

    /// How long before its end the lease is at risk (default: a third of the ttl)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) warn_before: Option<Duration>,

    /// How often the lease is renewed (default: a third of the ttl)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) renew_every: Option<Duration>,

    /// From TERM to KILL; shortened where the ttl leaves less
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) kill_after: Duration,

    /// Background processes that the command leaves in its session are waited for, or ended
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(crate) leftover: Leftover,

    /// Raise the mark of the resource in this database, which the command writes to, before the command starts: from
    /// then on the guarded writes of every older holder are refused there
    #[arg(long, value_name = "URL")]
    pub(crate) fence: Option<String>,

    /// Shown to others who ask who holds the lease (default: user@host:pid)
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Append what happens, as lines of JSON, to this file, or write it to this open descriptor (their shape:
    /// docs/json.md). Nobody waits for a reader: what a full pipe does not take is dropped, and counted
    #[arg(long, value_name = "FILE|fd:N")]
    pub(crate) events: Option<OsString>,

    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Set where the lease is on a slot of a pool of that name.
    #[arg(skip)]
    pub(crate) slots: Option<PoolOptions>,

    /// What the lease is on: any name of 1 to 255 bytes of UTF-8
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,

    /// What to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// An empty key is that of a variable which was not set: all jobs that forgot it would be one.
fn once_key(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected a key of at least one byte".to_owned()) } else { Ok(text.to_owned()) }
}

impl RunArgs {
    /// When the lease is renewed and when it is at risk.
    ///
    /// # Errors
    ///
    /// A sentence that says which options do not go together.
    pub(crate) fn cadence(&self) -> Result<Cadence, String> {
        if self.ttl < LEAST_TTL {
            let (found, least) = (duration::show(self.ttl), duration::show(LEAST_TTL));
            return Err(format!("--ttl is {found}, and must be at least {least}"));
        }
        let renew_every = self.renew_every.unwrap_or(self.ttl / 3);
        let warn_before = self.warn_before.unwrap_or(self.ttl / 3);
        for (option, found) in [("--renew-every", renew_every), ("--warn-before", warn_before)] {
            if found.is_zero() || found >= self.ttl {
                let (found, ttl) = (duration::show(found), duration::show(self.ttl));
                return Err(format!(
                    "{option} is {found}, and must be more than 0 and less than the ttl, {ttl}"
                ));
            }
        }
        if self.slots.is_some() && (self.once.is_some() || !self.at_least.is_zero()) {
            return Err("--once and --at-least are for leases on resources, not for machine IDs".to_owned());
        }
        Cadence::new(self.ttl, renew_every, warn_before).ok_or_else(|| "the ttl is out of range".to_owned())
    }

    /// When the command is told and made to end.
    pub(crate) fn times(&self) -> Times {
        Times::new(self.ttl, self.kill_after)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: RunArgs,
    }

    fn parse(line: &str) -> Result<RunArgs, clap::error::ErrorKind> {
        let words = std::iter::once("run").chain(line.split(' '));
        Only::try_parse_from(words).map(|only| only.args).map_err(|error| error.kind())
    }

    #[test]
    fn options_come_before_and_everything_after_the_dashes_is_the_commands() {
        let args = parse("--ttl 3s -w 5 -E 0 r -- sh -c -n --ttl").unwrap();
        assert_eq!((args.ttl, args.wait), (Duration::from_secs(3), Wait::For(Duration::from_secs(5))));
        assert_eq!(args.conflict_exit_code, Some(0));
        assert_eq!(args.command, ["sh", "-c", "-n", "--ttl"]);
        let args = parse("r -- true").unwrap();
        assert_eq!(
            (args.wait, args.leftover, args.at_least),
            (Wait::Forever, Leftover::Wait, Duration::ZERO)
        );
        assert_eq!((args.ttl, args.kill_after), (Duration::from_secs(60), Duration::from_secs(5)));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        use clap::error::ErrorKind::*;
        assert_eq!(parse("r").unwrap_err(), MissingRequiredArgument);
        assert_eq!(parse("r true").unwrap_err(), UnknownArgument);
        assert_eq!(parse("-n -w 3 r -- true").unwrap_err(), ArgumentConflict);
        assert_eq!(parse("-q -v r -- true").unwrap_err(), ArgumentConflict);
        assert_eq!(parse("--skip-if-held -E 3 r -- true").unwrap_err(), ArgumentConflict);
        assert_eq!(parse("--ttl never r -- true").unwrap_err(), ValueValidation);
        assert_eq!(parse("-E 256 r -- true").unwrap_err(), ValueValidation);
    }

    #[test]
    fn times_that_make_no_sense_are_named() {
        for (line, named) in [
            ("--ttl 999ms r -- true", "--ttl is 999ms"),
            ("--ttl 3 --renew-every 3 r -- true", "--renew-every is 3s"),
            ("--ttl 3 --renew-every 0 r -- true", "--renew-every is 0ms"),
            ("--ttl 3 --warn-before 4 r -- true", "--warn-before is 4s"),
        ] {
            let error = parse(line).unwrap().cadence().unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        let cadence = parse("--ttl 3 r -- true").unwrap().cadence().unwrap();
        assert_eq!(
            (cadence.renew_every(), cadence.warn_before()),
            (Duration::from_secs(1), Duration::from_secs(1))
        );
    }
}
