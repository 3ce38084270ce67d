//! The warden: takes the lease, renews it, starts the command, parents it, kills it, releases the lease.
//!
//! A process of its own, in a group of its own and the front's session. Whatever stops or kills the front leaves it at
//! work; whatever stops or kills it is seen by the front. It never writes to standard error, which may be a full pipe:
//! what it has to say goes to the front.

mod children;
mod command;
mod decider;
mod entry;
mod lessor;
mod link;
mod patience;
mod prepare;
mod report;
mod requests;

use std::future::{Future, pending};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use lease_machines::{FencingToken, Outcome};
use lease_machines_store::GuardError;
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use self::decider::{Action, Decider};
use self::entry::Given;
use self::link::Link;
use self::prepare::Prepared;
use self::report::Report;
use self::requests::{Heard, News, Requests};
use super::args::RunArgs;
use super::course::Why;
use super::events::Event;
use super::page::{Page, Verdict};
use super::tree::{Reached, Tree};
use super::wire::{Note, Order, Plan};
use crate::exit::{self, Exit};
use crate::sys::latency::Slice;
use crate::sys::process;
use crate::sys::ready::Ready;
use crate::sys::signals::Signals;
use crate::sys::terminal::Terminal;
use crate::sys::timer::BootTimer;
use crate::sys::{clock, fds};

pub(crate) use self::entry::{IGNORED, NAME, OF, main, recognize};

/// A late grant is given back within this time, or ends by itself.
const STRAY_LIMIT: Duration = Duration::from_millis(500);

/// Whoever interrupts a release does not want to wait for it, but a store that answers does so sooner.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

struct Warden {
    args: RunArgs,
    plan: Plan,
    page: Page,
    link: Link,
    decider: Decider,
    requests: Requests,
    /// For the command's `$LEASE_STORE`.
    store: Option<String>,
    tree: Tree,
    report: Report,
    terminal: Option<Terminal>,
    /// How we were scheduled before, for the command.
    slice: Slice,
    children: Ready<Signals>,
    timer: Ready<BootTimer>,
    inherited: Vec<RawFd>,
    /// Orphans come to us, so that "no child" means "nothing left".
    adopts: bool,
    command: Option<Pid>,
    /// The last KILL or TERM met only processes that we may not signal.
    only_refused: bool,
    /// The first signal that means "end" and came before the command ran, or after it.
    interrupted: Option<i32>,
    could_not_start: Option<Exit>,
    /// The release was interrupted; its answer is not waited for beyond this.
    leave_at: Option<Duration>,
    front_gone: bool,
}

/// Something that the loop waits for.
enum Happened {
    Child,
    Time,
    Heard(Heard),
    Order(Option<Order>),
}

impl Warden {
    fn new(
        args: RunArgs,
        given: Given,
        link: Link,
        Prepared { requests, options, wait, store }: Prepared,
    ) -> io::Result<Self> {
        let Given { plan, page, adopts, inherited, slice } = given;
        let decider =
            Decider::new(options, args.times(), args.leftover, requests.owner().value(), clock::now());
        let decider = decider.with_wait(wait);
        let decider = if requests.has_marks() { decider.with_fence() } else { decider };
        Ok(Self {
            report: Report::new(&args)?,
            plan,
            page,
            link,
            decider,
            requests,
            store,
            tree: Tree::new(),
            terminal: Terminal::controlling(),
            slice,
            children: Ready::new(Signals::listen([Signal::SIGCHLD])?)?,
            timer: Ready::new(BootTimer::new()?)?,
            inherited,
            adopts,
            command: None,
            only_refused: false,
            interrupted: None,
            could_not_start: None,
            leave_at: None,
            front_gone: false,
            args,
        })
    }

    async fn run(&mut self) -> io::Result<Verdict> {
        loop {
            let left = self.left();
            let now = clock::now();
            self.publish_deadline();
            match self.decider.next(left, now) {
                // Whatever there is to say comes after.
                Action::Term(scope) => {
                    let until = self.decider.course().and_then(|course| course.kill_at()).unwrap_or(now);
                    let reached = self.tree.terminate(scope, until);
                    self.report.stopped("stopping", &self.decider, &self.args, &mut self.link);
                    self.reached(reached);
                }
                Action::Kill(scope) => {
                    let reached = self.tree.kill(scope);
                    self.report.stopped("killed", &self.decider, &self.args, &mut self.link);
                    self.reached(reached);
                }
                Action::Advance(token) => self.requests.advance(token),
                Action::Start(token) => self.start(token),
                Action::Request(request) => {
                    self.requests.set_ending(command::ending(&self.args, self.decider.command_ended()));
                    self.requests.send(request, now);
                }
                Action::Warn => self.report.at_risk(&self.decider, &self.args, now, &mut self.link),
                Action::AwaitVacancy(until) => {
                    self.requests.await_vacancy(until, now);
                    self.wait(until).await?;
                }
                Action::WaitUntil(until) => {
                    if self.decider.course().is_some_and(|course| course.waits_for_leftovers()) {
                        self.report.leftovers(&self.tree, &self.args, &mut self.link);
                    }
                    if self.leave_at.is_some_and(|at| now >= at) {
                        return Ok(self.verdict(Outcome::Unconfirmed));
                    }
                    self.wait(self.leave_at.map_or(until, |at| at.min(until))).await?;
                }
                Action::Done(outcome) => {
                    self.give_back_stray().await?;
                    return Ok(self.verdict(outcome));
                }
            }
        }
    }

    /// Waits for the next thing to happen, at most until that instant.
    async fn wait(&mut self, until: Duration) -> io::Result<()> {
        self.timer.get().set(Some(until).filter(|&until| until != Duration::MAX))?;
        let happened = {
            let Self { link, requests, children, timer, front_gone, .. } = self;
            tokio::select! {
                biased;
                ready = children.wait() => { ready?; Happened::Child }
                ready = timer.wait() => { ready?; Happened::Time }
                order = unless(*front_gone, link.order()) => Happened::Order(order),
                heard = requests.answer() => Happened::Heard(heard),
            }
        };
        let now = clock::now();
        match happened {
            Happened::Child => while self.children.get().next().is_some() {},
            Happened::Time => {}
            Happened::Heard(heard) => {
                self.report.heard(&heard, &self.args, &mut self.link, self.decider.is_work_over());
                if let Some(News::Marked(result)) = &heard.news {
                    self.marked(result, now);
                }
                let event = heard.event;
                self.decider.heard(event, now);
                self.report.lease(event, &self.decider, &self.args, now, &mut self.link);
                if self.report.held_around_us() {
                    self.decider.held_around_us(now);
                }
            }
            Happened::Order(None) => {
                self.front_gone = true;
                self.decider.give_up(now);
            }
            Happened::Order(Some(order)) => self.obey(order, now),
        }
        Ok(())
    }

    fn obey(&mut self, order: Order, now: Duration) {
        match order {
            Order::Signal(signo) => {
                let ends = matches!(signo, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM);
                if let Some(course) = self.decider.course() {
                    if ends {
                        course.asked_to_end();
                    }
                    self.tree.pass_on(signo);
                } else if ends {
                    self.interrupted.get_or_insert(signo);
                    match self.command {
                        None => self.decider.give_up(now),
                        Some(_) => drop(self.leave_at.get_or_insert(now.saturating_add(RELEASE_LIMIT))),
                    }
                }
            }
            Order::Pause => self.decider.pause(true),
            Order::Resume => self.decider.pause(false),
            Order::Plan(_) => {}
        }
    }

    fn marked(&mut self, result: &Result<(), GuardError>, now: Duration) {
        match result {
            Ok(()) => self.decider.marked(),
            // The lease was lost meanwhile: nothing starts anyway, and that is told.
            Err(_) if self.decider.is_work_over() => {}
            Err(error) => {
                let resource = &self.args.resource;
                let message =
                    format!("{resource}: the command was not started: the mark was not raised: {error}");
                self.link.tell(&Note::Say(message));
                self.could_not_start = Some(exit::of_guard(error.kind()));
                self.decider.could_not_start(now);
            }
        }
    }

    fn start(&mut self, token: FencingToken) {
        // Before the fork: should it hang, the front sees the deadline pass.
        self.page.set_deadline(self.decider.deadline());
        let mut command = command::build(&self.args, &self.requests, token, self.store.as_deref());
        match command::spawn(&mut command, &self.plan, self.terminal.as_ref(), self.slice) {
            Ok(pid) => {
                self.requests.set_started();
                self.command = Some(pid);
                self.page.set_command(Some(pid));
                self.tree.plant(pid);
                self.decider.started();
                self.report.started(token, pid, &self.args, &mut self.link);
                self.link.tell(&Note::Started(pid.as_raw()));
                self.link.tell_event(&Event::started(&self.args.resource, token, pid.as_raw()));
                // Failing to let go (there may be no /dev/null) is a pipe that ends later, nothing worse.
                let _ = fds::let_go_of_pipes().and_then(|()| fds::let_go_of_errors());
                fds::close(self.inherited.drain(..));
            }
            Err(error) => {
                let (exit, message) = command::failure(&self.args, &error);
                self.link.tell(&Note::Say(message));
                self.could_not_start = Some(exit);
                self.decider.could_not_start(clock::now());
            }
        }
    }

    fn reached(&mut self, reached: Reached) {
        self.only_refused = reached == Reached::OnlyRefused;
        self.report.ending(&self.decider, &self.args, &mut self.link);
        self.report.refused(&self.tree, &self.args, &mut self.link);
    }

    /// The front watches it while there is anything to be killed.
    fn publish_deadline(&mut self) {
        let deadline = self.decider.deadline();
        match (self.decider.course().is_some(), deadline) {
            (true, Some(deadline)) => self.page.set_deadline(Some(deadline)),
            // A lease that is lost had its deadline: the last one stays.
            (true, None) => {}
            (false, _) => self.page.set_deadline(None),
        }
    }

    async fn give_back_stray(&mut self) -> io::Result<()> {
        let limit = clock::now().saturating_add(STRAY_LIMIT);
        while self.requests.has_stray() && clock::now() < limit {
            self.wait(limit).await?;
        }
        Ok(())
    }

    fn verdict(&mut self, outcome: Outcome) -> Verdict {
        if let Some(exit) = self.could_not_start {
            let token = self.decider.token();
            self.link.tell_event(&Event::not_started(&self.args.resource, token, exit.code()));
        }
        self.report.outcome(outcome, &self.decider, &self.args, &mut self.link);
        match outcome {
            Outcome::Lost(_) => Verdict::Lost,
            Outcome::NotHeld(why) => match self.interrupted {
                Some(signo) => Verdict::Interrupted(signo),
                None => Verdict::Own(self.report.not_held(why, &self.args)),
            },
            Outcome::Stood | Outcome::Unconfirmed => {
                if let Some(exit) = self.could_not_start {
                    Verdict::Own(exit.code())
                } else if self.decider.why() == Some(Why::MaxHold) || self.decider.held_out() {
                    Verdict::Own(Exit::MaxHold.code())
                } else if let Some(how) = self.decider.command_ended() {
                    Verdict::Ended(how)
                } else {
                    // Granted, but given up before the command was started.
                    self.interrupted.map_or(Verdict::Own(Exit::Failed.code()), Verdict::Interrupted)
                }
            }
        }
    }

    /// The last things: whatever else the front learns of us, it finds the verdict in the page. Nothing is dropped: a
    /// store that is shut down in good order waits for what it is at, and the store may not answer.
    fn leave(&self, verdict: Verdict) -> ! {
        self.page.set_deadline(None);
        self.page.set_verdict(verdict);
        // A front that was stopped, by Ctrl-Z or by hand, must come and say that the lease is lost.
        if verdict == Verdict::Lost && !self.front_gone {
            let _ = process::signal(getppid(), libc::SIGCONT);
        }
        process::leave(0)
    }
}

/// The future, or never.
async fn unless<T>(not: bool, future: impl Future<Output = T>) -> T {
    if not { pending().await } else { future.await }
}
