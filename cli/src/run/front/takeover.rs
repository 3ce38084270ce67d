//! What the front does when the warden does not do its part: it was killed, it was stopped, or it is late.

use std::time::Duration;

use nix::libc;
use nix::poll::{PollTimeout, poll};

use super::Front;
use crate::exit::Exit;
use crate::run::course::Scope;
use crate::run::events::Event;
use crate::run::tree::Tree;
use crate::sys::clock;
use crate::sys::process::{self, Waited};

/// What KILL does not end by then sleeps in the kernel, or is not ours to kill.
const GIVE_UP: Duration = Duration::from_secs(2);

impl Front {
    /// Kills everything that the command started, the warden too, and waits until nothing is left.
    pub(super) fn take_over(&mut self) -> u8 {
        let started = self.page.started() || self.page.deadline().is_some();
        let mut tree = Tree::new();
        // The number is the command's for as long as the page says so.
        if let Some(command) = self.page.command() {
            tree.plant(command);
        }
        if !self.warden_gone {
            // Its descendants first, while it is known which they are and it can start no more of them: it is stopped,
            // or late, or it is killing them itself.
            tree.kill_under(self.warden, Scope::All);
            let _ = process::signal(self.warden, libc::SIGKILL);
        }
        self.kill_all(&mut tree);
        self.ground.all_ended(true);
        if started {
            let (why, reason) = if self.warden_gone {
                ("its warden was killed", "warden_killed")
            } else {
                ("its warden did not act in time", "warden_late")
            };
            let line = Event::last("lost", &self.resource, None, Some(reason)).line();
            if let (Some(events), Some(line)) = (&mut self.events, line) {
                events.write(line);
            }
            self.voice.say(&format!("the lease is lost ({why}): the command was ended"));
            self.end(Exit::Lost.code())
        } else {
            self.voice.say("the warden ended before the command was started");
            self.end(Exit::Failed.code())
        }
    }

    /// All of them come to us, so that "no child" means "nothing left".
    fn kill_all(&mut self, tree: &mut Tree) {
        let give_up_at = clock::now().saturating_add(GIVE_UP);
        loop {
            loop {
                match process::wait() {
                    Waited::Changed(pid, _) if pid == self.warden => {}
                    Waited::Changed(pid, _) if Some(pid) == tree.group() => tree.leader_ended(),
                    Waited::Changed(..) => {}
                    Waited::Nothing => break,
                    Waited::NoChildren => return,
                }
            }
            if clock::now() >= give_up_at {
                return;
            }
            tree.kill(Scope::All);
            // A millisecond, or less if a signal comes.
            let _ = poll(&mut [], PollTimeout::from(1_u8));
        }
    }
}
