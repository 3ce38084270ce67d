//! Why a command did not do what it was asked.

use std::fmt;

use lease_machines_store::{StoreError, Undecided};
use nix::sys::signal::Signal;

use crate::exit::{self, Exit};
use crate::output;
use crate::sys::signals;

/// What a command says on standard error before it ends, and the code that it ends with.
#[derive(Debug)]
pub(crate) struct Failure {
    end: End,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Code(Exit),
    Signal(Signal),
}

impl Failure {
    /// What was found, where, and what was expected.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { end: End::Code(exit), message: message.into() }
    }

    /// Nobody reads the output any more. That is no fault, and not worth a word: it ends by SIGPIPE, as any other tool
    /// in a pipeline does.
    pub(crate) fn closed_pipe() -> Self {
        Self::by_signal(Signal::SIGPIPE)
    }

    /// Asked to end by a signal: it ends by the same one, so that a script around it ends as well.
    pub(crate) fn by_signal(signal: Signal) -> Self {
        Self { end: End::Signal(signal), message: String::new() }
    }

    /// A question that only looks, and was not answered.
    pub(crate) fn of_look(error: StoreError) -> Self {
        Self::new(exit::of_store(error.kind()), error.to_string())
    }

    /// A request for a decision that brought none: says as well whether something was changed.
    pub(crate) fn of_decision(error: StoreError) -> Self {
        let mut message = error.to_string();
        message.push_str(match error.undecided() {
            Undecided::NotDone => " (nothing was changed; it may be tried again)",
            Undecided::Unknown => " (whether it was done is not known; it may be repeated)",
            Undecided::Refused => "",
        });
        Self::new(exit::of_store(error.kind()), message)
    }

    /// The same, with more to say.
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.message.push_str(more);
        self
    }

    /// The code that it stands for.
    pub(crate) fn exit(&self) -> Exit {
        match self.end {
            End::Code(exit) => exit,
            End::Signal(_) => Exit::Failed,
        }
    }

    /// Says it, and returns the code to end with; where it is to end by a signal, it returns only as the first process
    /// of a container, which signals of its own do not end.
    pub(crate) fn report(&self) -> u8 {
        match self.end {
            End::Code(exit) => {
                output::note(&self.to_string());
                exit.code()
            }
            End::Signal(signal) => {
                signals::end(signal, signals::Whom::Myself);
                exit::by_signal(signal as i32)
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
