//! `lease man`.

use std::io::{self, Write};

use clap::{Arg, Args, Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::Outcome;
use crate::args::{Cli, ENVIRONMENT};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::output;

/// Print the manual page
///
/// Read it with: lease man | man -l -
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The page of this command, such as `acquire` or `epoch open`; of `lease` itself by default
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Man {
    pub(crate) fn run(self) -> Outcome {
        let mut lease = Cli::command();
        lease.build();
        let mut command = &lease;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| unknown(name, command))?;
        }
        let mut page = Vec::new();
        render(command.clone(), &mut page)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot write the manual page: {error}")))?;
        output::print(&String::from_utf8_lossy(&page))?;
        Ok(Exit::Ok)
    }
}

fn unknown(name: &str, within: &Command) -> Failure {
    let known: Vec<&str> = within.get_subcommands().map(Command::get_name).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(" ") };
    let within = within.get_bin_name().unwrap_or("lease");
    Failure::new(Exit::Usage, format!("{within} has no command {name:?}; there are: {known}"))
}

/// The page as `clap_mangen` lays it out, but for its synopsis, and for its heap of extra text: exit codes and variables
/// stand in the sections where people look for them.
fn render(command: Command, page: &mut dyn Write) -> io::Result<()> {
    let (commands, synopsis) = (command.has_subcommands(), synopsis(&command));
    let man = Page::new(command).source(concat!("lease ", env!("CARGO_PKG_VERSION"))).manual("LeaseMachines");
    man.render_title(page)?;
    man.render_name_section(page)?;
    synopsis.to_writer(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if commands {
        man.render_subcommands_section(page)?;
    }
    let mut rest = Roff::new();
    rest.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit::rows() {
        entry(&mut rest, &code, meaning);
    }
    rest.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in ENVIRONMENT {
        entry(&mut rest, name, meaning);
    }
    rest.to_writer(page)?;
    man.render_version_section(page)
}

/// What `clap_mangen` leaves out: the values of options, which of them must be given, and the `--` before a command.
fn synopsis(command: &Command) -> Roff {
    let mut words = vec![bold(command.get_bin_name().unwrap_or("lease"))];
    let (positionals, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    for arg in options.into_iter().chain(positionals) {
        let (before, after) = if arg.is_required_set() { (" ", "") } else { (" [", "]") };
        words.push(roman(before));
        if arg.is_last_set() {
            words.extend([bold("--"), roman(" ")]);
        }
        let short = arg.get_short().map(|short| format!("-{short}"));
        let names: Vec<String> =
            short.into_iter().chain(arg.get_long().map(|long| format!("--{long}"))).collect();
        for (at, name) in names.iter().enumerate() {
            words.extend([roman(if at == 0 { "" } else { "|" }), bold(name)]);
        }
        if arg.get_action().takes_values() {
            let values = arg.get_value_names().unwrap_or_default().join(" ");
            let many = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
            words.push(roman(if names.is_empty() { "" } else { " " }));
            words.extend([italic(values), roman(if many { "..." } else { "" })]);
        }
        words.push(roman(after));
    }
    if command.has_subcommands() {
        words.extend([roman(" "), italic("COMMAND")]);
    }
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    section.text(words);
    section
}

fn entry(section: &mut Roff, name: &str, meaning: &str) {
    section.control("TP", []);
    section.text([bold(name)]);
    section.text([roman(meaning)]);
}
