//! `lease completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Outcome;
use crate::args::Cli;
use crate::exit::Exit;
use crate::output;

/// Print what a shell needs to complete commands and options
///
/// Where they are looked for, for all users:
///
///     lease completions bash > /etc/bash_completion.d/lease
///     lease completions zsh > /usr/local/share/zsh/site-functions/_lease
///     lease completions fish > /etc/fish/completions/lease.fish
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
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
