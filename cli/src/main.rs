//! `lease`: runs commands under durable, fenced leases.

mod args;
mod commands;
mod duration;
mod exit;
mod failure;
mod label;
mod output;
mod run;
mod store_url;
mod sys;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use exit::Exit;
use run::RunArgs;

fn main() -> ExitCode {
    // Before anything is opened: what is open now was passed on to us.
    let inherited = sys::fds::inherited();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(descriptors) = run::warden::recognize(&args) {
        run::warden::main(descriptors, inherited);
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &args),
    };
    match cli.command {
        Command::Run(options) => {
            if let Err(message) = options.cadence() {
                return fail(Exit::Usage, &message);
            }
            match run::run(&options, args, inherited) {
                Ok(code) => ExitCode::from(code),
                Err(error) => fail(Exit::Failed, &format!("cannot start a second process: {error}")),
            }
        }
        Command::Other(command) => ExitCode::from(commands::run(command)),
    }
}

/// The options of a command line that is `lease run`'s.
fn parse_run(args: &[OsString]) -> Result<RunArgs, clap::Error> {
    match Cli::try_parse_from(args)?.command {
        Command::Run(options) => Ok(options),
        Command::Other(_) => Err(clap::Error::new(ErrorKind::InvalidSubcommand)),
    }
}

/// Help and version are what was asked for; everything else is a wrong command line.
fn usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let text = error.to_string();
    let shown = output::without_passwords(&text);
    // A closed pipe is quiet.
    let _ = if shown == text { error.print() } else { write!(std::io::stderr(), "{shown}") };
    if error.kind() == ErrorKind::UnknownArgument && lacks_dashes(args) {
        let _ = writeln!(
            std::io::stderr(),
            "\n  tip: write -- before the command: lease run [OPTIONS] RESOURCE -- COMMAND [ARG]..."
        );
    }
    if error.use_stderr() { ExitCode::from(Exit::Usage.code()) } else { ExitCode::SUCCESS }
}

/// Whether this is `lease run` with its command not set apart.
fn lacks_dashes(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word == "run") && !args.iter().any(|word| word == "--")
}

fn fail(exit: Exit, message: &str) -> ExitCode {
    output::note(message);
    ExitCode::from(exit.code())
}
