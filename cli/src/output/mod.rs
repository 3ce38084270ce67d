//! What commands print: answers to standard output, everything else to standard error.

pub(crate) mod people;
mod style;
mod table;
mod text;
mod time;
pub(crate) mod timeline;
pub(crate) mod views;

use std::io::{self, Write};

use nix::errno::Errno;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::sys::{fds, terminal};

pub(crate) use style::{Ink, Style};
pub(crate) use table::{Cell, Table};
pub(crate) use text::{visible, without_passwords};
pub(crate) use time::{rfc3339, utc};

/// Prints an answer, whole.
///
/// # Errors
///
/// [`Failure::closed_pipe`] where nobody reads it any more; any other failure to write it (a full disk) is one of
/// `lease` itself.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    if fds::output_was_closed() {
        return Err(unwritten(&io::Error::from(Errno::EBADF)));
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| unwritten(&error))
}

/// What is said of an answer that could not be written.
pub(crate) fn unwritten(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::new(Exit::Failed, format!("cannot write to standard output: {error}")),
    }
}

/// Prints a table, dressed for a terminal where there is one.
///
/// # Errors
///
/// As [`print()`].
pub(crate) fn print_table(table: &Table) -> Result<(), Failure> {
    print(&table.render(Style::of_stdout(), terminal::columns(io::stdout())))
}

/// Prints an answer as one line of JSON.
///
/// # Errors
///
/// As [`print()`].
pub(crate) fn print_json(answer: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(answer)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write the answer as JSON: {error}")))?;
    line.push('\n');
    print(&line)
}

/// Says something to the person at the terminal that is no answer. Where standard error is closed or full, there is
/// nobody to say it to.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(line(text).as_bytes());
}

/// What is said, as the line that stands on standard error. Whatever it quotes (a label that another host gave, a path, a
/// URL) neither acts on the terminal nor begins a line of its own, and shows no password.
pub(crate) fn line(text: &str) -> String {
    format!("lease: {}\n", visible(&without_passwords(text)))
}
