//! `lease completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Outcome;
use crate::args::Cli;
use crate::exit::Exit;
use crate::output;

/// Print what a shell needs to complete commands and options
///
/// bash: lease completions bash > /etc/bash_completion.d/lease
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "lease", &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Ok)
    }
}
