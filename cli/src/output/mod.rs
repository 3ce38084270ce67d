//! What commands print: answers to standard output, everything else to standard error.

pub(crate) mod people;
mod style;
mod table;
mod text;
mod time;
pub(crate) mod timeline;
pub(crate) mod views;

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;

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
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::new(Exit::Failed, format!("cannot write to standard output: {error}")),
    })
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
    let _ = writeln!(io::stderr().lock(), "lease: {}", without_passwords(text));
}
