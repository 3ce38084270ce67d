//! Who has the terminal, and with which modes.

use nix::libc::{SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
use nix::sys::signal::Signal;
use nix::sys::termios::Termios;
use nix::unistd::{Pid, getpgrp};

use crate::sys::process::{Ended, group_exists};
use crate::sys::signals::{self, Whom};
use crate::sys::terminal::Terminal;

/// The front's side of the terminal. Without one, nothing here does anything.
pub(crate) struct Ground {
    terminal: Option<Terminal>,
    own: Pid,
    own_modes: Option<Termios>,
    command: Option<Pid>,
    /// The command's modes while it is stopped.
    command_modes: Option<Termios>,
    /// The terminal is the command's again once we are continued in the foreground.
    owed: bool,
    /// The command had the terminal when it ended.
    had_it: bool,
}

/// What a stop of the command comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterStop {
    /// Continue the command.
    Continue,
    /// It stays stopped, or whoever continued us continues it.
    Leave,
    /// It stays stopped, and nobody can bring it the terminal it asks for.
    Stuck,
}

impl Ground {
    /// As things stand at the start.
    pub(crate) fn survey() -> Self {
        // A group in the background is stopped by giving the terminal away, and by writing under `stty tostop`.
        signals::block(Signal::SIGTTOU);
        let mut ground = Self {
            terminal: Terminal::controlling(),
            own: getpgrp(),
            own_modes: None,
            command: None,
            command_modes: None,
            owed: false,
            had_it: false,
        };
        ground.note_own_modes();
        ground
    }

    /// Our process group.
    pub(crate) fn group(&self) -> Pid {
        self.own
    }

    /// The command runs, in a group of its own.
    pub(crate) fn command_started(&mut self, command: Pid) {
        self.command = Some(command);
    }

    /// Whether the kernel sends the command what happens to the window.
    pub(crate) fn command_is_foreground(&self) -> bool {
        self.command.is_some() && self.foreground() == self.command
    }

    /// The command was stopped. It may stop us, too, and then returns when we go on.
    pub(crate) fn command_stopped(&mut self, signo: i32) -> AfterStop {
        let Some(command) = self.command else { return AfterStop::Leave };
        let (foreground, wants_it) = (self.foreground(), matches!(signo, SIGTTIN | SIGTTOU));
        // Without a terminal there is no shell that would continue us.
        let (Some(terminal), Some(foreground)) = (&self.terminal, foreground) else {
            return AfterStop::Leave;
        };
        if wants_it && foreground == self.own {
            terminal.give(command);
            return AfterStop::Continue;
        }
        let held = foreground == command;
        if held {
            self.command_modes = terminal.modes();
            self.take_back();
        }
        self.owed = held || wants_it;
        // SIGSTOP cannot be discarded where nobody would continue us: we would be stopped for ever.
        let signal = match signo {
            SIGSTOP => Signal::SIGTSTP,
            signo => Signal::try_from(signo).unwrap_or(Signal::SIGTSTP),
        };
        let whom = if held { Whom::MyGroup } else { Whom::Myself };
        if signals::stop(signal, whom) {
            // SIGCONT was among the signals that arrived, and does the rest.
            return AfterStop::Leave;
        }
        match signo {
            SIGTSTP => {
                self.give_back();
                AfterStop::Continue
            }
            _ if wants_it => AfterStop::Stuck,
            _ => AfterStop::Leave,
        }
    }

    /// We were continued, or told to continue the command.
    pub(crate) fn continued(&mut self) {
        if self.foreground() == Some(self.own) {
            self.note_own_modes();
            self.give_back();
        }
    }

    /// The command has ended.
    pub(crate) fn command_ended(&mut self, how: Ended) {
        if self.reclaim() && matches!(how, Ended::Signal(_)) {
            self.restore_modes();
        }
    }

    /// All is over: whatever group had the terminal, if it is gone the terminal is ours.
    pub(crate) fn all_ended(&mut self, by_force: bool) {
        if self.reclaim() || by_force && self.had_it {
            self.restore_modes();
        }
    }

    /// Whether the command, or what it left, had the terminal when it ended.
    pub(crate) fn command_had_it(&self) -> bool {
        self.had_it
    }

    /// Takes the terminal from the command's group, or from one that is gone. False where it was neither's.
    fn reclaim(&mut self) -> bool {
        let (Some(terminal), Some(foreground)) = (&self.terminal, self.foreground()) else { return false };
        if foreground == self.own || Some(foreground) != self.command && group_exists(foreground) {
            return false;
        }
        terminal.give(self.own);
        self.had_it = true;
        true
    }

    fn take_back(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.give(self.own);
        }
        self.restore_modes();
    }

    fn restore_modes(&self) {
        if let (Some(terminal), Some(modes)) = (&self.terminal, &self.own_modes) {
            terminal.set_modes(modes);
        }
    }

    fn give_back(&mut self) {
        if let (Some(terminal), Some(command), true) = (&self.terminal, self.command, self.owed) {
            self.owed = false;
            // Modes first: the command may go on as soon as it is in the foreground.
            if let Some(modes) = self.command_modes.take() {
                terminal.set_modes(&modes);
            }
            terminal.give(command);
        }
    }

    fn note_own_modes(&mut self) {
        if self.foreground() == Some(self.own) {
            self.own_modes = self.terminal.as_ref().and_then(Terminal::modes);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        self.terminal.as_ref().and_then(Terminal::foreground)
    }
}
