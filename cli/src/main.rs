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
use std::process::ExitCode;

use clap::Parser;
use nix::sys::signal::Signal;

use args::{Cli, Command, usage};
use exit::Exit;

fn main() -> ExitCode {
    // Where a file may not grow, whoever writes it is to hear of an error, and not to be ended in the middle.
    sys::signals::ignore(&[Signal::SIGXFSZ]);
    // Before anything is opened: what is open now was passed on to us.
    let inherited = sys::fds::inherited();
    // The driver of MySQL takes the one of the process, which is for the program to choose; all others bring their own.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(descriptors) = run::warden::recognize(&args) {
        run::warden::main(descriptors, inherited);
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage::tell(error, &args),
    };
    let options = match cli.command {
        Command::Run(options) => options,
        Command::Other(command) => match command.as_run() {
            Some(options) => options,
            None => return ExitCode::from(commands::run(command)),
        },
    };
    if let Err(message) = options.cadence() {
        return fail(Exit::Usage, &message);
    }
    match run::run(&options, args, inherited) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(Exit::Failed, &format!("cannot start a second process: {error}")),
    }
}

fn fail(exit: Exit, message: &str) -> ExitCode {
    output::note(message);
    ExitCode::from(exit.code())
}
