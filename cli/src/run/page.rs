//! What front and warden share without sending it: the deadline, the command, the verdict.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::unistd::Pid;

use crate::sys::page::SharedPage;
use crate::sys::process::Ended;

const DEADLINE: usize = 0;
const COMMAND: usize = 1;
const STARTED: usize = 2;
const VERDICT: usize = 3;

/// How a run ended, for the front to pass on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The command ran and ended, and the lease stood.
    Ended(Ended),
    /// The lease was lost.
    Lost,
    /// A code of our own.
    Own(u8),
    /// Given up because of this signal before the command was started.
    Interrupted(i32),
}

/// The typed shared page. Only the warden writes to it.
pub(crate) struct Page(SharedPage);

impl Page {
    /// A new one.
    pub(crate) fn create() -> io::Result<Self> {
        SharedPage::create().map(Self)
    }

    /// The one behind this descriptor.
    pub(crate) fn map(file: OwnedFd) -> io::Result<Self> {
        SharedPage::map(file).map(Self)
    }

    /// Until when the lease that the command runs under is good, on the boot clock; `None` while no command runs.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        Some(self.0.load(DEADLINE)).filter(|&nanos| nanos != 0).map(Duration::from_nanos)
    }

    pub(crate) fn set_deadline(&self, deadline: Option<Duration>) {
        let nanos = deadline.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.0.store(DEADLINE, nanos);
    }

    /// The command, until its end has been taken note of: so long its number, and that of its group, are its own.
    pub(crate) fn command(&self) -> Option<Pid> {
        i32::try_from(self.0.load(COMMAND)).ok().filter(|&pid| pid != 0).map(Pid::from_raw)
    }

    pub(crate) fn set_command(&self, command: Option<Pid>) {
        // Numbers of processes are positive.
        self.0.store(COMMAND, command.map_or(0, |pid| pid.as_raw().unsigned_abs().into()));
        if command.is_some() {
            self.0.store(STARTED, 1);
        }
    }

    /// Whether a command was ever started.
    pub(crate) fn started(&self) -> bool {
        self.0.load(STARTED) != 0
    }

    /// How it ended, once the warden has said so.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let word = self.0.load(VERDICT);
        let number = i32::try_from(word >> 8).ok()?;
        Some(match word & 0xff {
            1 => Verdict::Ended(Ended::Code(u8::try_from(number).ok()?)),
            2 => Verdict::Ended(Ended::Signal(number)),
            3 => Verdict::Lost,
            4 => Verdict::Own(u8::try_from(number).ok()?),
            5 => Verdict::Interrupted(number),
            _ => return None,
        })
    }

    pub(crate) fn set_verdict(&self, verdict: Verdict) {
        let (kind, number) = match verdict {
            Verdict::Ended(Ended::Code(code)) => (1, code.into()),
            Verdict::Ended(Ended::Signal(signo)) => (2, signo.unsigned_abs()),
            Verdict::Lost => (3, 0),
            Verdict::Own(code) => (4, code.into()),
            Verdict::Interrupted(signo) => (5, signo.unsigned_abs()),
        };
        self.0.store(VERDICT, u64::from(number) << 8 | kind);
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let warden = Page::create().unwrap();
        let front = Page::map(warden.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((front.deadline(), front.command(), front.started()), (None, None, false));
        assert_eq!(front.verdict(), None);

        warden.set_deadline(Some(Duration::ZERO));
        assert!(front.deadline().is_some(), "a deadline of 0 is one that has passed, not none");
        warden.set_deadline(Some(Duration::from_nanos(7)));
        warden.set_command(Some(Pid::from_raw(4_194_304)));
        assert_eq!(front.deadline(), Some(Duration::from_nanos(7)));
        assert_eq!(front.command(), Some(Pid::from_raw(4_194_304)));
        warden.set_deadline(None);
        warden.set_command(None);
        assert_eq!((front.deadline(), front.command(), front.started()), (None, None, true));

        for verdict in [
            Verdict::Ended(Ended::Code(0)),
            Verdict::Ended(Ended::Code(255)),
            Verdict::Ended(Ended::Signal(64)),
            Verdict::Lost,
            Verdict::Own(125),
            Verdict::Interrupted(2),
        ] {
            warden.set_verdict(verdict);
            assert_eq!(front.verdict(), Some(verdict));
        }
    }
}
