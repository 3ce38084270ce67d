//! The front: the process that was started. Signals, the terminal, messages, the exit code, and a second watch on the
//! deadline.

mod events;
mod ground;
mod takeover;
mod voice;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use self::events::Events;
use self::ground::{AfterStop, Ground};
use self::voice::Voice;
use super::args::RunArgs;
use super::page::{Page, Verdict};
use super::times::Times;
use super::warden;
use super::wire::{Inbox, Note, Order, Plan};
use crate::exit::{self, Exit};
use crate::sys::latency::Slice;
use crate::sys::process::{self, Change, Waited};
use crate::sys::signals::{self, Inherited, Signals, Whom};
use crate::sys::timer::BootTimer;
use crate::sys::{clock, fds, spawn};

/// What is passed on, unless it was ignored at the start.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];
/// What is heard besides.
const HEARD: [Signal; 3] = [Signal::SIGCONT, Signal::SIGWINCH, Signal::SIGCHLD];

/// A warden that is asked to give up a wait withdraws within this time, or is not waited for.
const WITHDRAW_LIMIT: Duration = Duration::from_millis(1_500);
/// Messages that nobody reads are not waited for.
const VOICE_LIMIT: Duration = Duration::from_millis(200);

/// Runs the command line `args`, which was parsed as `run`.
///
/// # Errors
///
/// Where the system gives no socket, no memory or no second process.
pub(crate) fn run(run: &RunArgs, args: Vec<OsString>, mut inherited: Vec<RawFd>) -> io::Result<u8> {
    let open = |target: &OsString| Events::open(target, &run.resource, &mut inherited);
    // Before anything is taken, and before the second process: it and the command do not get the descriptor.
    let events = match run.events.as_ref().map(open).transpose() {
        Ok(events) => events,
        Err(failure) => return Ok(failure.report()),
    };
    let found = Inherited::note();
    let ground = Ground::survey();
    // Before there is anything that could be orphaned.
    process::adopt_orphans();
    let page = Page::create()?;
    let (mut socket, theirs) = UnixStream::pair()?;
    let passed_on = PASSED_ON.into_iter().filter(|&signal| !found.ignores(signal));
    let stops = [Signal::SIGTSTP].into_iter().filter(|&signal| !found.ignores(signal));
    let signals = Signals::listen(passed_on.chain(stops).chain(HEARD))?;
    let warden = start_warden(&theirs, &page)?;
    // Not before: the warden does the same, and gives the command what it finds.
    Slice::shorten();
    drop(theirs);
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let plan = Plan { args, signals: found, group: ground.group().as_raw(), on_terminal };
    let mut bytes = Vec::new();
    Order::Plan(plan).encode(&mut bytes);
    // Where the warden has died already, its end is seen below.
    let _ = socket.write_all(&bytes);
    socket.set_nonblocking(true)?;
    let front = Front {
        times: run.times(),
        ground,
        page,
        socket,
        inbox: Inbox::default(),
        signals,
        timer: BootTimer::new()?,
        warden,
        warden_gone: false,
        warden_hung_up: false,
        inherited,
        voice: Voice::default(),
        events,
        resource: run.resource.clone(),
        taken: Vec::new(),
        give_up_at: None,
    };
    front.watch()
}

fn start_warden(socket: &UnixStream, page: &Page) -> io::Result<Pid> {
    let pass = [socket.as_raw_fd(), page.as_fd().as_raw_fd()];
    let mut command = Command::new(own_program()?);
    command
        .arg0(warden::NAME)
        .arg(warden::OF)
        .arg(std::process::id().to_string())
        .args(pass.map(|fd| fd.to_string()));
    spawn::spawn_apart(&mut command, warden::IGNORED, pass)
}

/// The program that runs here, and not the one that may have been installed in its place since it began: both processes
/// have to be of one version.
fn own_program() -> io::Result<PathBuf> {
    const OWN: &str = "/proc/self/exe";
    if !cfg!(target_os = "linux") {
        return std::env::current_exe();
    }
    match fs::read_link(OWN) {
        Ok(_) => Ok(OWN.into()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{OWN}: {error}; is /proc mounted?"))),
    }
}

struct Front {
    times: Times,
    ground: Ground,
    page: Page,
    socket: UnixStream,
    inbox: Inbox,
    signals: Signals,
    timer: BootTimer,
    warden: Pid,
    warden_gone: bool,
    /// Nothing more comes from it.
    warden_hung_up: bool,
    inherited: Vec<RawFd>,
    voice: Voice,
    events: Option<Events>,
    resource: String,
    /// Signals that were passed on.
    taken: Vec<Signal>,
    /// A wait was interrupted; the warden is not waited for beyond this.
    give_up_at: Option<(Duration, Signal)>,
}

impl Front {
    fn watch(mut self) -> io::Result<u8> {
        while !self.warden_gone {
            let now = clock::now();
            // First of all, whatever woke us: the warden was to kill before this.
            if self.is_overdue(now) {
                return Ok(self.take_over());
            }
            if let Some((at, signal)) = self.give_up_at {
                if now >= at && !self.page.started() {
                    self.say_leaving();
                    let _ = process::signal(self.warden, libc::SIGKILL);
                    return Ok(self.end_by(signal));
                }
            }
            self.sleep()?;
            while let Some(signal) = self.signals.next() {
                self.signalled(signal);
            }
            self.listen();
            self.reap();
        }
        self.listen();
        Ok(match self.page.verdict() {
            Some(verdict) => self.finish(verdict),
            None => self.take_over(),
        })
    }

    fn is_overdue(&self, now: Duration) -> bool {
        self.page.deadline().is_some_and(|deadline| now >= self.times.second_kill(deadline))
    }

    fn sleep(&self) -> io::Result<()> {
        let watch = self.page.deadline().map(|deadline| self.times.second_kill(deadline));
        let give_up = self.give_up_at.map(|(at, _)| at);
        self.timer.set(watch.into_iter().chain(give_up).min())?;
        // A socket at its end is always ready: what is waited for then is the warden's own end, by its signal.
        let fds = [self.signals.as_fd(), self.timer.as_fd(), self.socket.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let fds = if self.warden_hung_up { fds.split_at_mut(2).0 } else { &mut fds };
        match poll(fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn signalled(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => {}
            Signal::SIGWINCH => {
                if !self.ground.command_is_foreground() {
                    self.order(&Order::Signal(libc::SIGWINCH));
                }
            }
            Signal::SIGCONT => {
                self.ground.continued();
                self.order(&Order::Signal(libc::SIGCONT));
            }
            Signal::SIGTSTP if !self.page.started() => {
                self.order(&Order::Pause);
                signals::stop(Signal::SIGTSTP, Whom::Myself);
                self.order(&Order::Resume);
            }
            signal => {
                self.taken.push(signal);
                let ends = !matches!(signal, Signal::SIGTSTP | Signal::SIGUSR1 | Signal::SIGUSR2);
                if ends && !self.page.started() && self.give_up_at.is_none() {
                    self.give_up_at = Some((clock::now().saturating_add(WITHDRAW_LIMIT), signal));
                }
                self.order(&Order::Signal(signal as i32));
            }
        }
    }

    /// A warden that is stopped reads nothing; what no longer fits into the socket is lost, and a stopped warden is
    /// killed at the deadline.
    fn order(&mut self, order: &Order) {
        let mut bytes = Vec::new();
        order.encode(&mut bytes);
        let _ = self.socket.write(&bytes);
    }

    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(read @ 1..) => self.inbox.push(buffer.get(..read).unwrap_or_default()),
                // The warden left without reading an order; what it had written comes after this word.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Ok(_) => {
                    self.warden_hung_up = true;
                    break;
                }
                Err(_) => break,
            }
        }
        while let Some(note) = self.inbox.note() {
            self.noted(note);
        }
    }

    fn noted(&mut self, note: Note) {
        match note {
            Note::Started(command) => {
                self.ground.command_started(Pid::from_raw(command));
                // Failing to let go is a pipe that ends later, nothing worse.
                let _ = fds::let_go_of_pipes();
                fds::close(self.inherited.drain(..));
            }
            Note::Stopped(signo) => match self.ground.command_stopped(signo) {
                AfterStop::Continue => self.order(&Order::Signal(libc::SIGCONT)),
                AfterStop::Leave => {}
                AfterStop::Stuck => self.voice.say(
                    "the command was stopped since it wants the terminal, and no shell is there to bring it forward",
                ),
            },
            Note::Continued => {}
            Note::Ended(how) => self.ground.command_ended(how),
            Note::Say(text) => self.voice.say(&text),
            Note::Event(line) => {
                if let Some(events) = &mut self.events {
                    events.write(line);
                }
            }
            Note::Dropped(count) => {
                if let Some(events) = &mut self.events {
                    events.count(count.unsigned_abs().into());
                }
            }
        }
    }

    /// Everybody who comes to us, and not only the warden: as the first process of a container nobody else would.
    fn reap(&mut self) {
        while let Waited::Changed(pid, change) = process::wait() {
            if pid == self.warden && matches!(change, Change::Ended(_)) {
                self.warden_gone = true;
            }
        }
    }

    fn say_leaving(&mut self) {
        self.voice.say("the store does not answer: what was asked for ends by itself within its first term");
    }

    fn finish(&mut self, verdict: Verdict) -> u8 {
        self.ground.all_ended(verdict == Verdict::Lost);
        match verdict {
            Verdict::Ended(process::Ended::Code(code)) | Verdict::Own(code) => self.end(code),
            Verdict::Lost => self.end(Exit::Lost.code()),
            Verdict::Ended(process::Ended::Signal(signo)) => match Signal::try_from(signo) {
                Ok(signal @ (Signal::SIGINT | Signal::SIGQUIT)) => self.end_by(signal),
                _ => self.end(exit::by_signal(signo)),
            },
            Verdict::Interrupted(signo) => match Signal::try_from(signo) {
                Ok(signal) => self.end_by(signal),
                Err(_) => self.end(exit::by_signal(signo)),
            },
        }
    }

    /// Ends by INT and QUIT as what they were: a shell leaves its loop or its script only then. What was typed at the
    /// command in the foreground has not reached the script around us yet.
    fn end_by(&mut self, signal: Signal) -> u8 {
        let code = self.end(exit::by_signal(signal as i32));
        if matches!(signal, Signal::SIGINT | Signal::SIGQUIT) {
            let to_group = self.ground.command_had_it() && !self.taken.contains(&signal);
            signals::end(signal, if to_group { Whom::MyGroup } else { Whom::Myself });
        }
        code
    }

    fn end(&mut self, code: u8) -> u8 {
        if let Some(events) = self.events.take() {
            events.finish(VOICE_LIMIT);
        }
        self.voice.finish(VOICE_LIMIT);
        code
    }
}
