//! How a warden comes to be: its command line, what it is given, and the plan that it waits for.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;

use super::Warden;
use super::link::Link;
use super::prepare::prepare;
use crate::args::Cli;
use crate::exit::Exit;
use crate::run::page::{Page, Verdict};
use crate::run::wire::{Inbox, Note, Order, Plan};
use crate::sys::latency::Slice;
use crate::sys::{fds, process};

/// What a terminal or a service manager sends to everybody, and what the front passes on.
pub(crate) const IGNORED: &[Signal] = &[
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGPIPE,
    Signal::SIGWINCH,
];

/// The first argument of the warden's command line: it names neither `lease` nor `run`, so that `killall lease` and
/// `pkill -f 'lease run'` do not reach both processes at once.
pub(crate) const NAME: &str = "warden";
/// Its second.
pub(crate) const OF: &str = "--of";

/// The descriptors that the front passes on, if this is the command line of a warden.
pub(crate) fn recognize(args: &[OsString]) -> Option<[RawFd; 2]> {
    match args {
        [name, of, _front, socket, page] if name == NAME && of == OF => {
            Some([socket.to_str()?.parse().ok()?, page.to_str()?.parse().ok()?])
        }
        _ => None,
    }
}

/// The warden's `main`. It leaves no other way than by ending the process: whatever waits for a store waits in vain.
pub(crate) fn main([socket, page]: [RawFd; 2], inherited: Vec<RawFd>) -> ! {
    process::set_name(c"warden");
    // Without a front that listens, there is nobody to tell of an error.
    let code = match (fds::adopt(socket), fds::adopt(page)) {
        (Ok(socket), Ok(page)) => serve(socket, page, inherited).unwrap_or(Exit::Failed.code()),
        _ => Exit::Usage.code(),
    };
    process::leave(code)
}

fn serve(socket: OwnedFd, page: OwnedFd, inherited: Vec<RawFd>) -> io::Result<u8> {
    let page = Page::map(page)?;
    let adopts = process::adopt_orphans();
    // Before the store has threads of its own: a renewal is as urgent as a kill.
    let slice = Slice::shorten();
    let mut socket = UnixStream::from(socket);
    let mut inbox = Inbox::default();
    let plan = read_plan(&mut socket, &mut inbox)?;
    let args = Cli::parse_run(&plan.args).map_err(|error| io::Error::other(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut link = Link::new(socket, inbox, args.events.is_some())?;
        let verdict = match prepare(&args, &mut link) {
            Ok(prepared) => {
                let given = Given { plan, page, adopts, inherited, slice };
                let mut warden = Warden::new(args, given, link, prepared)?;
                let verdict = warden.run().await?;
                warden.leave(verdict)
            }
            Err(failure) => {
                link.tell(&Note::Say(failure.to_string()));
                Verdict::Own(failure.exit().code())
            }
        };
        page.set_verdict(verdict);
        Ok(0)
    })
}

fn read_plan(socket: &mut UnixStream, inbox: &mut Inbox) -> io::Result<Plan> {
    let mut buffer = [0; 4096];
    loop {
        match inbox.order() {
            Some(Order::Plan(plan)) => return Ok(plan),
            // The plan comes first.
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => {}
        }
        match socket.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => inbox.push(buffer.get(..read).unwrap_or_default()),
        }
    }
}

/// What the warden was given, or found at its start.
pub(super) struct Given {
    pub(super) plan: Plan,
    pub(super) page: Page,
    pub(super) adopts: bool,
    pub(super) inherited: Vec<RawFd>,
    pub(super) slice: Slice,
}
