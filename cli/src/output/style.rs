//! Colours, on a terminal only.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};

/// Whether an output is coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// With escape sequences.
    Coloured,
}

impl Style {
    /// For standard output: coloured on a terminal that can do it, unless `NO_COLOR` is set to anything but nothing
    /// (no-color.org).
    pub(crate) fn of_stdout() -> Self {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if io::stdout().is_terminal() && !dumb && !set("NO_COLOR") { Self::Coloured } else { Self::Plain }
    }

    /// The text in this colour.
    pub(crate) fn paint<T: fmt::Display>(self, ink: Ink, text: T) -> Painted<T> {
        Painted { style: self, ink, text }
    }
}

/// What a text means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ink {
    /// Nothing in particular.
    Plain,
    /// The head of a table.
    Head,
    /// As it should be.
    Good,
    /// Worth a look.
    Warning,
    /// Not as it should be.
    Bad,
    /// Beside the point.
    Faint,
}

impl Ink {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Head => Some("1"),
            Self::Good => Some("32"),
            Self::Warning => Some("33"),
            Self::Bad => Some("31"),
            Self::Faint => Some("2"),
        }
    }
}

/// A text and its colour.
pub(crate) struct Painted<T> {
    style: Style,
    ink: Ink,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.style, self.ink.code()) {
            (Style::Coloured, Some(code)) => write!(f, "\x1b[{code}m{}\x1b[0m", self.text),
            _ => self.text.fmt(f),
        }
    }
}
