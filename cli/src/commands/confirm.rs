//! Questions before what cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::Exit;
use crate::failure::Failure;

/// Whether there is somebody to ask, or no need to.
///
/// # Errors
///
/// Usage: neither `--yes` nor a terminal to ask on.
pub(super) fn possible(yes: bool, what: &str) -> Result<(), Failure> {
    if yes || (io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Usage,
        format!("there is no terminal to ask on: give --yes to {what} without being asked"),
    ))
}

/// Asks on standard error, so that standard output carries the answer alone. Anything but yes is a no.
pub(super) fn ask(question: &str) -> Result<bool, Failure> {
    let failed = |error| Failure::new(Exit::Failed, format!("cannot ask on the terminal: {error}"));
    let mut terminal = io::stderr().lock();
    write!(terminal, "{question} [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    let answer = answer.trim();
    Ok(["y", "yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes)))
}
