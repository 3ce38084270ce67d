//! docs/cli.md against the program's own help.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use clap::{Command, CommandFactory};

use super::Cli;

/// Set to anything, the test writes the document instead of comparing it.
const WRITE: &str = "LEASE_WRITE_DOCS";

#[test]
fn the_reference_is_what_help_prints() {
    let mut lease = Cli::command().term_width(100);
    lease.build();
    let mut text = String::from(
        "# The command `lease`\n\nWhat `lease COMMAND --help` prints, for every command. A test compares it with the \
         program;\n`LEASE_WRITE_DOCS=1 cargo test -p lease-machines-cli reference` writes it anew.\n",
    );
    describe(&lease, "lease", &mut text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    if env::var_os(WRITE).is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/cli.md differs from --help; {WRITE}=1 writes it anew. Expected:\n{text}");
}

#[test]
fn every_option_says_what_it_is_for() {
    fn look(command: &Command, path: &str) {
        assert!(command.get_about().is_some(), "{path} has no description");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
        }
        for inner in command.get_subcommands() {
            look(inner, &format!("{path} {}", inner.get_name()));
        }
    }
    let mut lease = Cli::command();
    lease.build();
    look(&lease, "lease");
}

fn describe(command: &Command, path: &str, text: &mut String) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing to a string cannot fail.
    let _ = write!(text, "\n## {path}\n\n```text\n{}\n```\n", lines.join("\n").trim());
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        describe(inner, &format!("{path} {}", inner.get_name()), text);
    }
}
