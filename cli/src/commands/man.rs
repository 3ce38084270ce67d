//! `lease man`.

use std::io::{self, Write};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, roman};

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

/// The page as `clap_mangen` lays it out, but for its heap of extra text: exit codes and variables stand in the sections
/// where people look for them.
fn render(command: Command, page: &mut dyn Write) -> io::Result<()> {
    let commands = command.has_subcommands();
    let man = Page::new(command).source(concat!("lease ", env!("CARGO_PKG_VERSION"))).manual("LeaseMachines");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
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

fn entry(section: &mut Roff, name: &str, meaning: &str) {
    section.control("TP", []);
    section.text([bold(name)]);
    section.text([roman(meaning)]);
}
