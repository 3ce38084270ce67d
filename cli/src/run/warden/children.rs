//! What happened to the warden's children, and what is left of the command.

use nix::libc;

use super::Warden;
use crate::run::course::{Left, Why};
use crate::run::events::Event;
use crate::run::wire::Note;
use crate::sys::descendants::visible;
use crate::sys::process::{self, Change, Ended, Waited};

impl Warden {
    /// What is left of the command.
    pub(super) fn left(&mut self) -> Left {
        /// A chain of forks can outrun a look many times in a row; it is looked at again later.
        const LOOKS: u32 = 8;
        let (_, none) = self.reap();
        let why = self.decider.why();
        let Some(course) = self.decider.course() else { return Left::Nothing };
        if none && self.adopts {
            return Left::Nothing;
        }
        let some = if self.only_refused { Left::Untouchable } else { Left::Here };
        if course.ended().is_none() || why.is_some_and(|why| why != Why::LeftBehind) && self.adopts {
            return some;
        }
        // Where nobody can be looked at (no /proc, or that of another pid namespace), the group is all that is known.
        if !self.adopts || !visible() {
            return match (self.tree.group_lives(), self.adopts) {
                (true, _) => some,
                (false, true) => Left::Elsewhere,
                (false, false) => Left::Nothing,
            };
        }
        // Somebody lives, and it matters where. Two equal looks with nobody gone in between are an answer.
        for _ in 0..LOOKS {
            let first = self.tree.look();
            if !first.here.is_empty() {
                return some;
            }
            match self.reap() {
                (_, true) => return Left::Nothing,
                (false, false) if self.tree.look() == first && !self.reap().0 => return Left::Elsewhere,
                _ => {}
            }
        }
        some
    }

    /// Takes note of what happened to children: whether anything did, and whether none is left.
    fn reap(&mut self) -> (bool, bool) {
        let mut any = false;
        loop {
            match process::wait() {
                Waited::Changed(pid, change) => {
                    any = true;
                    if Some(pid) == self.command {
                        self.command_changed(change);
                    }
                }
                Waited::Nothing => return (any, false),
                Waited::NoChildren => return (any, true),
            }
        }
    }

    fn command_changed(&mut self, change: Change) {
        match change {
            Change::Ended(how) => {
                self.page.set_command(None);
                self.tree.leader_ended();
                if let Some(course) = self.decider.course() {
                    course.command_ended(how);
                    // The keyboard's signals go to the command's group past the front: whoever typed them wants an end.
                    if matches!(how, Ended::Signal(libc::SIGINT | libc::SIGQUIT)) {
                        course.asked_to_end();
                    }
                }
                self.link.tell(&Note::Ended(how));
                self.link.tell_event(&Event::ended(&self.args.resource, self.decider.token(), how));
            }
            Change::Stopped(signo) => self.link.tell(&Note::Stopped(signo)),
            Change::Continued => self.link.tell(&Note::Continued),
        }
    }
}
