//! What is said where a command line asks for help, or is wrong.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::exit::Exit;
use crate::output;

/// Help and version are what was asked for; everything else is a wrong command line.
pub(crate) fn tell(error: clap::Error, args: &[OsString]) -> ExitCode {
    let error = with_other_names(error);
    if !error.use_stderr() {
        return ExitCode::from(help(&error));
    }
    let plain = error.to_string();
    let told = told(&plain, args);
    // A closed pipe is quiet.
    let _ = if told == plain { error.print() } else { write!(io::stderr(), "{told}") };
    if error.kind() == ErrorKind::UnknownArgument && lacks_dashes(args) {
        let _ = writeln!(
            io::stderr(),
            "\n  tip: write -- before the command: lease run [OPTIONS] RESOURCE -- COMMAND [ARG]..."
        );
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && plain.contains("--owner <") {
        let _ = writeln!(
            io::stderr(),
            "\n  tip: `lease acquire` prints them, to be exported: grant=$(lease acquire --ttl 10m NAME) && export $grant"
        );
    }
    ExitCode::from(Exit::Usage.code())
}

/// What people look for under another name.
const OTHER_NAMES: [(&str, &[&str]); 7] = [
    ("status", &["show", "ls"]),
    ("list", &["ls"]),
    ("info", &["show"]),
    ("lock", &["run", "acquire"]),
    ("unlock", &["release", "revoke"]),
    ("exec", &["run"]),
    ("log", &["history"]),
];

/// The error with the commands that may have been meant, where letters alone do not tell.
fn with_other_names(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if let Some((_, meant)) = OTHER_NAMES.iter().find(|(name, _)| name == found) {
        let meant = meant.iter().map(|&name| name.to_owned()).collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
    }
    error
}

fn help(text: &clap::Error) -> u8 {
    match text.print().and_then(|()| io::stdout().flush()) {
        // A closed pipe is quiet.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => output::unwritten(&error).report(),
        _ => Exit::Ok.code(),
    }
}

/// What is told of a wrong command line: without the passwords in it, and without what would act on the terminal. For the
/// latter it is looked at again as it would be shown; where that is no error, the words were not quoted in the first.
fn told(plain: &str, args: &[OsString]) -> String {
    let shown: Vec<OsString> =
        args.iter().map(|word| output::visible(&word.to_string_lossy()).into()).collect();
    let again = if shown == args { None } else { Cli::try_parse_from(shown).err() };
    let text = again.map_or_else(|| plain.to_owned(), |error| error.to_string());
    output::without_passwords(&text).into_owned()
}

/// Whether this is `lease run` with its command not set apart.
fn lacks_dashes(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word == "run") && !args.iter().any(|word| word == "--")
}
